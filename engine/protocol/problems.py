"""Problems of partitions. The owner writes them to the registry for all engines.

Every process must know them: a wait and the partition on which it depends may be in different processes.
"""

from __future__ import annotations

from typing import Final

from ..bus import TopicPartition
from ..records import ProblemRecord, encode_json, registry_key
from .context import EngineContext
from .lookback.gaps import Gaps
from .outputs import Outputs
from .partitions.ownership import Ownership
from .timers.cut import Cuts

WRITE_S: Final = 5.0
MOST_CHARS: Final = 4000


class Problems:
    """The problems of one engine and, from its registry, those of the others."""

    def __init__(self, context: EngineContext, ownership: Ownership, gaps: Gaps, cuts: Cuts) -> None:
        self._config, self._registry, self._monotonic = context.config, context.registry, context.monotonic
        self._ownership, self._listed, self._gaps, self._cuts = ownership, ownership.listed, gaps, cuts
        self._written_at = self._monotonic() - WRITE_S

    def all(self) -> list[str]:
        """All problems of this engine; none of them ends it."""
        timers = [] if self.timers is None else [self.timers]
        return [*self.unread(), *timers, *self._gaps.problems().values(), *self.full_waits()]

    def unread(self) -> list[str]:
        """The listed topics and the partitions of this engine that are not read, with the reason.

        Each engine checks all listed topics, because a topic that does not exist has no owner.
        """
        unread, unreadable = self._ownership.unread, self._listed.unreadable
        blocked = [] if (text := self._ownership.blocked) is None else [text]
        own = (unread[tp] for tp in sorted(unread) if tp.topic not in unreadable)
        return [*self._listed.problems(), *own, *blocked]

    def look_backs(self) -> list[str]:
        """The partitions of this engine on which look-backs miss records."""
        return list(self._gaps.problems().values())

    def full_waits(self) -> list[str]:
        """The waits on this engine's partitions that have no room for new keys."""
        return [text for texts in self._full().values() for text in texts]

    def _full(self) -> dict[TopicPartition, list[str]]:
        triggers = self._ownership.triggers
        return {tp: texts for tp in sorted(triggers) if (texts := triggers[tp].full_waits())}

    @property
    def timers(self) -> str | None:
        """What the timers of this engine wait for; None if they have not waited for long."""
        waits_for = self._cuts.waits_for
        return None if waits_for is None else f"Timers are waiting for {waits_for}."

    def elsewhere(self) -> list[str]:
        """What other engines wrote about their partitions."""
        written, topics = self._registry.problems, self._topics() - self._listed.unreadable.keys()
        return [written[tp] for tp in sorted(written) if tp.topic in topics and not self._is_ours(tp)]

    def write(self, outputs: Outputs) -> None:
        """Write the problems of this engine's partitions for the others, and remove those that have ended.

        An engine without open partitions writes nothing, because the offsets of open partitions fence the
        transaction.
        """
        written = self._registry.problems
        if not (written or self._ownership.unread or self._gaps or self._full()):
            return
        now = self._monotonic()
        if now - self._written_at < WRITE_S or not self._ownership.tasks():
            return
        current = self._current()
        before = {tp: text for tp, text in written.items() if self._is_ours(tp)}
        if current == before:
            return
        self._written_at = now
        for tp in sorted(current.keys() | before.keys()):
            text = current.get(tp)
            if text != before.get(tp):
                record = None if text is None else encode_json(ProblemRecord(v=outputs.version, text=text))
                outputs.write("subscription", 0, registry_key("problem", tp.topic, tp.partition), record)

    def _current(self) -> dict[TopicPartition, str]:
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
