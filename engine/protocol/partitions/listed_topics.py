"""Topics of others that the bus lists: one that cannot be read now is told, and the rest goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...bus import Topic
from ...config import KINDS, BusConfig
from ...errors import NotReadable
from ...log import log
from ..context import EngineContext

LOOK_S: Final = 30.0
AGAIN_S: Final = 5.0  # while one of them cannot be read
# For so long one is left alone whose questions fail while its description is well, then for twice as long.
FAILED_S: Final = 5.0
MOST_FAILED_S: Final = 1200.0


class ListedTopics:
    """The topics that the registry lists. `shut`: why some of them are not read now, by name."""

    def __init__(self, context: EngineContext) -> None:
        self._bus, self._config, self._registry = context.bus, context.config, context.registry
        self._monotonic = context.monotonic
        self.shut: dict[str, str] = {}
        self._looked: float | None = None
        self._failed: dict[str, tuple[float, float]] = {}  # until when, and for how long

    def problems(self) -> list[str]:
        """A sentence for each topic that is not read."""
        return [not_read(name, self.shut[name]) for name in sorted(self.shut)]

    def look_soon(self) -> None:
        """What the group reads has changed, and may have for one of these."""
        self._looked = None

    def look(self) -> set[str]:
        """Ask, where it is due; the topics that can be read again, or cannot any more."""
        now = self._monotonic()
        if self._looked is not None and now - self._looked < (AGAIN_S if self.shut else LOOK_S):
            return set()
        self._looked = now
        names = self._names()
        for gone in (self.shut.keys() | self._failed.keys()) - set(names):
            self.shut.pop(gone, None)
            self._failed.pop(gone, None)
        return self.note(self._bus.topics(names)) if names else set()

    def note(self, found: Mapping[str, Topic | None]) -> set[str]:
        """What was found of topics, others than these among them; gives what `look` does."""
        changed = set()
        for name in self._names():
            if name not in found:
                continue
            reason = why_not(self._config, name, found[name])
            if reason is not None:
                if name not in self.shut:
                    changed.add(name)
                self._failed.pop(name, None)
                self._shut(name, reason)
            elif self._monotonic() < self._failed.get(name, (0.0, 0.0))[0]:
                continue
            elif self.shut.pop(name, None) is not None:
                log.info("Topic %r can be read again.", name)
                changed.add(name)
        return changed

    def shut_by(self, error: NotReadable) -> bool:
        """Read this topic no more until `look` says otherwise; False where it is one of the bus's own."""
        if error.topic in {self._config.topic(kind) for kind in KINDS}:
            return False
        self._looked = self._monotonic()
        self.note(self._bus.topics([error.topic]))
        if error.topic not in self.shut:  # brokers differ for a moment, or do not tell what they allow
            until, pause = self._failed.get(error.topic, (0.0, 0.0))
            lately = self._looked < until + MOST_FAILED_S
            pause = min(2 * pause, MOST_FAILED_S) if pause and lately else FAILED_S
            self._failed[error.topic] = self._looked + pause, pause
            self._shut(error.topic, f"{error} It is tried again.")
        return True

    def _shut(self, name: str, reason: str) -> None:
        if self.shut.get(name) != reason:
            log.error("%s", not_read(name, reason))
        self.shut[name] = reason

    def _names(self) -> tuple[str, ...]:
        bus = self._registry.bus
        return () if bus is None else bus.topics


def not_read(name: str, reason: str) -> str:
    return f"Topic {name!r} is not read: {reason}"


def why_not(config: BusConfig, name: str, topic: Topic | None) -> str | None:
    """Why a listed topic is not read, and what to do; None for one that can be."""
    remove = f"take it out of the bus: {config.command(f'topics remove {name}')}"
    if topic is None:
        return f"the topic is not there. Make it again, or {remove}"
    if topic.refused:
        return (
            f"the brokers refuse {topic.refused} on the topic to this user. Allow Read, Describe and "
            f"DescribeConfigs, and it goes on by itself; or {remove}"
        )
    if topic.leaderless:
        numbers = ", ".join(map(str, topic.leaderless))
        return (
            f"no broker leads its partitions {numbers}. It goes on by itself when their brokers are back; or "
            f"{remove}"
        )
    return None
