"""Problems: what is wrong with partitions, which their owner tells all engines by way of the registry.

A wait runs in any process of the pool, and the partition that it waits for may be owned by another.
"""

from __future__ import annotations

from typing import Final

from ..bus import TopicPartition
from ..records import ProblemRecord, encode_json, place_key
from .context import EngineContext
from .lookback.gaps import Gaps
from .outputs import Outputs
from .partitions.ownership import Ownership
from .timers.cut import Cuts

WRITE_S: Final = 5.0
MOST_CHARS: Final = 4000


class Problems:
    """Of one engine and, by its registry, of the others."""

    def __init__(self, context: EngineContext, ownership: Ownership, gaps: Gaps, cuts: Cuts) -> None:
        self._config, self._registry, self._monotonic = context.config, context.registry, context.monotonic
        self._ownership, self._listed, self._gaps, self._cuts = ownership, ownership.listed, gaps, cuts
        self._written = self._monotonic() - WRITE_S

    def all(self) -> list[str]:
        """What an administrator must know of this engine while it goes on."""
        timers = [] if self.timers is None else [self.timers]
        return [*self.stopped(), *timers, *self._gaps.problems().values(), *self.full_waits()]

    def stopped(self) -> list[str]:
        """Why partitions of this engine are not read, or not yet, and which of the listed topics are not.

        Each engine looks at those by itself: a topic that is not there has no owner.
        """
        stopped, shut = self._ownership.unread, self._listed.shut
        held_back = [] if (text := self._ownership.blocked) is None else [text]
        own = (stopped[tp] for tp in sorted(stopped) if tp.topic not in shut)
        return [*self._listed.problems(), *own, *held_back]

    def look_backs(self) -> list[str]:
        """On which partitions of this engine look-backs miss records."""
        return list(self._gaps.problems().values())

    def full_waits(self) -> list[str]:
        """Which waits on partitions of this engine have no room for new keys."""
        return [text for texts in self._full().values() for text in texts]

    def _full(self) -> dict[TopicPartition, list[str]]:
        triggers = self._ownership.triggers
        return {tp: texts for tp in sorted(triggers) if (texts := triggers[tp].full_waits())}

    @property
    def timers(self) -> str | None:
        """What the timers of this engine wait for, if they wait for long."""
        waits_for = self._cuts.waits_for
        return None if waits_for is None else f"Timers are waiting for {waits_for}."

    def elsewhere(self) -> list[str]:
        """What other engines have told of the partitions that are theirs."""
        told, topics = self._registry.problems, self._topics() - self._listed.shut.keys()
        return [told[tp] for tp in sorted(told) if tp.topic in topics and not self._is_ours(tp)]

    def write(self, outputs: Outputs) -> None:
        """Tell the others what is wrong with the partitions of this engine, and what is well again.

        With the transaction of other partitions, whose offsets fence it: an engine that has no open one
        tells nothing.
        """
        told = self._registry.problems
        if not (told or self._ownership.unread or self._gaps or self._full()):
            return
        now = self._monotonic()
        if now - self._written < WRITE_S or not self._ownership.tasks():
            return
        own = self._own()
        ours = {tp: text for tp, text in told.items() if self._is_ours(tp)}
        if own == ours:
            return
        self._written = now
        for tp in sorted(own.keys() | ours.keys()):
            text = own.get(tp)
            if text != ours.get(tp):
                record = None if text is None else encode_json(ProblemRecord(v=outputs.version, text=text))
                outputs.write("subscription", 0, place_key("problem", tp.topic, tp.partition), record)

    def _own(self) -> dict[TopicPartition, str]:
        texts: dict[TopicPartition, str] = self._gaps.problems()
        for tp, text in self._ownership.unread.items():
            texts[tp] = f"{text} {texts[tp]}" if tp in texts else text
        texts.update({tp: " ".join(full) for tp, full in self._full().items()})  # of trigger partitions
        return {tp: text[:MOST_CHARS] for tp, text in texts.items()}

    def _is_ours(self, tp: TopicPartition) -> bool:
        owned = self._ownership
        return tp in owned.sources or tp in owned.triggers or tp in owned.unread

    def _topics(self) -> set[str]:
        bus = self._registry.bus
        listed = () if bus is None else bus.topics
        return {self._config.topic("event"), self._config.topic("trigger"), *listed}
