"""Reads the subscription topic into the registry and the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ...bus import End, Record, TopicPartition
from ...errors import EngineError, RecordError
from ...registry.first_read import FirstRead
from ...registry.registry import Change
from ..context import EngineContext
from .missing_records import REGISTRATIONS, require_whole

TAKE_TIMEOUT_S: Final = 0.1
ASK_S: Final = 1.0  # then ask for the registry's end: the position may be beyond it
STALL_S: Final = 30.0  # without a record for this long, the reader will not reach the position


class RegistryReader:
    """Keeps the registry and the index up to date.

    Calls `changed` for a removal, another bus record, and a resume record.

    All methods that read raise EngineError if the registry was not read for hours (see `ReadPause`), or has
    lost its end: a new engine must read it from its start. They raise UnknownVersion like
    `Registry.require_known`: the engine must end.
    """

    def __init__(self, context: EngineContext) -> None:
        self._bus, self.registry, self._index = context.bus, context.registry, context.index
        self._monotonic, self._records = context.monotonic, context.limits.registry_records
        self.topic = TopicPartition(context.config.topic("subscription"), 0)
        self._pause = context.parts.read_pause(self.topic, context.wall, context.monotonic)
        self._reader = self._bus.reader()
        self._reader.read({self.topic: 0})
        self._first: FirstRead | None = None
        self.changed: Callable[[Change], None] = lambda _: None

    def read_whole(self) -> None:
        """Read the registry from its start to its present end, before the engine evaluates anything.

        Raises TopicsError if its first records were removed.
        """
        require_whole(self._bus, [self.topic], REGISTRATIONS)
        self._first = FirstRead(self.registry)
        self.read_to_end()
        self._first.finish()
        self._first = None
        self.registry.require_known()
        for registered in self.registry.between(0, self.registry.position):
            self._index.add(registered, registered.condition, registered.registration.key)

    def read_to_end(self) -> None:
        """Read up to the present end."""
        self.catch_up(self._bus.end_offsets([self.topic])[self.topic])

    def read_new(self) -> None:
        """Read what has arrived, without waiting."""
        self._apply(self._take(0))

    def catch_up(self, position: int) -> None:
        """Read at least up to `position`. Raises EngineError after 30 s without a record.

        The error is a RecordError if the registry ends before `position`: then the record that names the
        position is wrong, because no engine can have read that far.
        """
        began = moved_at = self._monotonic()
        asked = False
        while (before := self.registry.position) < position:
            self._apply(self._take(TAKE_TIMEOUT_S))
            now = self._monotonic()
            if not asked and now - began >= ASK_S:
                asked = True  # once is enough: each record brings a position that exists closer
                self._require_end(position)
            if self.registry.position > before:
                moved_at = now
            elif now - moved_at > STALL_S:
                self._require_end(position)
                raise EngineError(
                    f"{self.topic} could not be read up to offset {position}: no record came for "
                    f"{STALL_S:.0f} s after offset {self.registry.position}."
                )

    def _require_end(self, position: int) -> None:
        end = self._bus.end_offsets([self.topic])[self.topic]
        if end < position:
            raise RecordError(f"Offset {position - 1} of {self.topic} is needed; it ends at {end}.")

    def _take(self, timeout_s: float) -> list[Record | End]:
        items = self._reader.take(self._records, timeout_s)
        self._pause.check()
        return items

    def _apply(self, items: Iterable[Record | End]) -> None:
        for item in items:
            if self._first is not None:
                self._first.take(item)
                continue
            self._require_order(item)
            change = self.registry.apply(item)
            for gone in change.removed:
                self._index.remove(gone)
            for added in change.added:
                self._index.add(added, added.condition, added.registration.key)
            if change.removed or change.bus or change.resumed:
                self.changed(change)
        if self._first is None:
            self.registry.require_known()

    def _require_order(self, item: Record | End) -> None:
        # A client whose position is beyond the end begins at the start again, without an error. What later
        # records remove or replace would be in force until they are read again.
        if isinstance(item, Record) and item.offset < self.registry.position:
            raise EngineError(
                f"{self.topic} gave offset {item.offset} after {self.registry.position - 1}: its last "
                "records were lost (an unclean leader election, or a disk that was restored). The engine "
                "ends; the next one reads it from its start."
            )

    def close(self) -> None:
        self._reader.close()
