"""Holding back a partition whose record cannot be written to the dead-letter topic; the others go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...bus import TopicPartition
from ...log import log
from ..context import EngineContext
from ..outputs import Outputs
from ..partitions.ownership import Ownership

AGAIN_S: Final = 5.0
# The first abort may have any reason; the records to set aside are suspected of the second one in a row.
MOST_ABORTS: Final = 2


class SettingAside:
    """Knows whether dead letters can be written, and which partitions wait until they can."""

    def __init__(self, context: EngineContext, ownership: Ownership) -> None:
        self._bus, self._ownership, self._monotonic = context.bus, ownership, context.monotonic
        self._config, self._topic = context.config, context.config.topic("dead-letter")
        self._held: set[TopicPartition] = set()
        self._looked = self._monotonic()

    def refusal(self, outputs: Outputs) -> str:
        """Why the transaction cannot be committed with its dead letters; "" where it can, or has none.

        A producer would wait for its whole timeout for a topic that is not there.
        """
        if not outputs.set_aside or self._is_there():
            return ""
        return f"Topic {self._topic!r} is not there. Run: {self._config.command('topics create')}."

    def hold(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Read these no more, until it can be tried again."""
        self._looked = self._monotonic()
        for tp in partitions:
            self._held.add(tp)
            self._ownership.pause(
                tp,
                f"it has a record that cannot be processed and cannot be set aside. {reason} Nothing is "
                "skipped; it goes on by itself.",
            )

    def may_try_again(self) -> bool:
        """Whether partitions that are held back should be opened again now."""
        self._held &= self._ownership.unread.keys()  # an assignment opens all
        if not self._held or self._monotonic() - self._looked < AGAIN_S:
            return False
        self._looked = self._monotonic()
        if not self._is_there():
            return False
        log.info("%s: setting records aside is tried again.", ", ".join(map(str, sorted(self._held))))
        self._held.clear()
        return True

    def _is_there(self) -> bool:
        return self._bus.topics([self._topic])[self._topic] is not None
