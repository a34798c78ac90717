"""Registrations as they were in force, and the matches that they must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from interlock.conditions import Condition, canonical_key
from interlock.engine.bus import TopicPartition
from interlock.engine.records import Registration
from interlock.events.event import Event


@dataclass(eq=False)
class Instance:
    """A registration from its first record to its removal; the same incarnation may be registered again."""

    registration: Registration
    condition: Condition
    offset: int
    timestamp_ms: int
    gone_at: int | None = None

    @property
    def in_force(self) -> bool:
        return self.gone_at is None

    @property
    def runs_from_registration(self) -> bool:
        """Whether its timers run from its registration: its key is known (docs/use/conditions.md B2)."""
        plan = self.condition.plan
        return plan.watches_from_the_start or (plan.expires and not plan.expires_by_event)

    @property
    def single_key(self) -> str | None:
        if self.registration.key is not None:
            return canonical_key(self.registration.key)
        return None if self.condition.keyed else ""

    def targets(self, event: Event, timestamp_ms: int) -> dict[str, tuple[int, ...]]:
        """{key: matchers that accept the event}; `fresh` ones only if it is newer than the registration."""
        own = self.registration.key
        found: dict[str, tuple[int, ...]] = {}
        for number, matcher in enumerate(self.condition.matchers):
            if number in self.registration.fresh and timestamp_ms < self.timestamp_ms:
                continue
            if not matcher.accepts(event):
                continue
            if matcher.by is None:
                key = "" if own is None else canonical_key(own)
            else:
                read = matcher.key_of(event)
                if read is None or (own is not None and read != canonical_key(own)):
                    continue
                key = read
            found[key] = (*found.get(key, ()), number)
        return found

    def __str__(self) -> str:
        registration = self.registration
        return f"{registration.kind} {registration.subscription} {registration.incarnation[:6]}@{self.offset}"


class Place(NamedTuple):
    """Registration, event and key: the trigger topic has one match for each."""

    instance: Instance
    source: TopicPartition
    topic_id: str
    offset: int
    key: str

    def __str__(self) -> str:
        return f"{self.instance} and {self.source}@{self.offset}, key {self.key!r}"
