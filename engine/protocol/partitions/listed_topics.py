"""Listed topics: which of them cannot be read now, and why. The engine reads the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...bus import Topic
from ...config import KINDS, BusConfig
from ...errors import NotReadable
from ...log import log
from ..context import EngineContext

CHECK_S: Final = 30.0
RECHECK_S: Final = 5.0  # while one of them cannot be read
# A topic that fails although its description is fine is tried again after this time, then each time after
# twice as long.
FAILED_S: Final = 5.0
MOST_FAILED_S: Final = 1200.0


class ListedTopics:
    """The listed topics of the bus. `unreadable`: those that cannot be read now, with the reason."""

    def __init__(self, context: EngineContext) -> None:
        self._bus, self._config, self._registry = context.bus, context.config, context.registry
        self._monotonic = context.monotonic
        self.unreadable: dict[str, str] = {}
        self._checked_at: float | None = None
        self._failed: dict[str, tuple[float, float]] = {}  # {topic: (end of its pause, length of its pause)}

    def problems(self) -> list[str]:
        """A sentence for each topic that is not read."""
        return [topic_not_read(name, self.unreadable[name]) for name in sorted(self.unreadable)]

    def check_soon(self) -> None:
        """Let the next `check` ask at once: one of these topics may have changed."""
        self._checked_at = None

    def check(self) -> set[str]:
        """Describe the topics, if that is due. Returns those that became readable or unreadable."""
        now = self._monotonic()
        interval_s = RECHECK_S if self.unreadable else CHECK_S
        if self._checked_at is not None and now - self._checked_at < interval_s:
            return set()
        self._checked_at = now
        names = self._names()
        for gone in (self.unreadable.keys() | self._failed.keys()) - set(names):
            self.unreadable.pop(gone, None)
            self._failed.pop(gone, None)
        return self.update(self._bus.topics(names)) if names else set()

    def update(self, found: Mapping[str, Topic | None]) -> set[str]:
        """Update from descriptions of topics, listed or not. Returns the same as `check`."""
        changed = set()
        for name in self._names():
            if name not in found:
                continue
            reason = why_unreadable(self._config, name, found[name])
            if reason is not None:
                if name not in self.unreadable:
                    changed.add(name)
                self._failed.pop(name, None)
                self._set(name, reason)
            elif self._monotonic() < self._failed.get(name, (0.0, 0.0))[0]:
                continue
            elif self.unreadable.pop(name, None) is not None:
                log.info("Topic %r can be read again.", name)
                changed.add(name)
        return changed

    def set_unreadable(self, error: NotReadable) -> bool:
        """Do not read this topic until `check` finds it readable; False for a topic of the bus itself."""
        if error.topic in {self._config.topic(kind) for kind in KINDS}:
            return False
        self._checked_at = self._monotonic()
        self.update(self._bus.topics([error.topic]))
        if error.topic not in self.unreadable:  # brokers may disagree, or not say what they allow
            until, pause = self._failed.get(error.topic, (0.0, 0.0))
            lately = self._checked_at < until + MOST_FAILED_S
            pause = min(2 * pause, MOST_FAILED_S) if pause and lately else FAILED_S
            self._failed[error.topic] = self._checked_at + pause, pause
            self._set(error.topic, f"{error} It is tried again.")
        return True

    def _set(self, name: str, reason: str) -> None:
        if self.unreadable.get(name) != reason:
            log.error("%s", topic_not_read(name, reason))
        self.unreadable[name] = reason

    def _names(self) -> tuple[str, ...]:
        bus = self._registry.bus
        return () if bus is None else bus.topics


def topic_not_read(name: str, reason: str) -> str:
    return f"Topic {name!r} is not read: {reason}"


def why_unreadable(config: BusConfig, name: str, topic: Topic | None) -> str | None:
    """Why a listed topic cannot be read, and what to do; None if it can."""
    remove = f"remove it from the bus: {config.command(f'topics remove {name}')}"
    if topic is None:
        return f"the topic does not exist. Create it again, or {remove}"
    if topic.refused:
        return (
            f"the brokers refuse {topic.refused} on the topic to this user. Allow Read, Describe and "
            f"DescribeConfigs, and the engine reads it again; or {remove}"
        )
    if topic.leaderless:
        numbers = ", ".join(map(str, topic.leaderless))
        return (
            f"no broker leads its partitions {numbers}. The engine reads it again when a broker does; or "
            f"{remove}"
        )
    return None
