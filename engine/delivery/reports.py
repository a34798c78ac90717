"""Logs what changes at the sinks of a deliverer: where they are, pauses, and firings that are given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..log import log
from .firings import OpenFiring
from .shown_path import shown_path
from .sinks import SinkRecord

# In this time the log gets at most one such line about a sink. The next line counts those that were left out.
GIVEN_UP_EVERY_S: Final = 30.0
FAILED_EVERY_S: Final = 60.0


@dataclass
class _Counted:
    """When the last line was logged, and how many were left out since."""

    logged_at: float
    more: int = 0


class SinkReports:
    """One line for each change. monotonic: seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._changed: dict[str, SinkRecord | None] = {}
        self._sinks: dict[str, SinkRecord] = {}
        self._paused: dict[str, str] = {}
        self._given_up: dict[str, _Counted] = {}
        self._failed: dict[str, _Counted] = {}

    def change(self, subscription: str, record: SinkRecord | None) -> None:
        """Note that a sink has another record now (None: it was removed). `log_changes` logs it."""
        self._changed[subscription] = record

    def log_changes(self) -> None:
        """Log what has changed.

        Call it once the registry is read to its end: earlier records may be outdated.
        """
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        for subscription, record in changed.items():
            before = self._sinks.pop(subscription, None)
            if record is None:
                if before is not None:
                    log.info("Sink %s was removed.", subscription)
                continue
            self._sinks[subscription] = record
            if record != before:
                log.info(
                    "Sink %s: connection %s, path %r, order %s, at most %d at a time.",
                    subscription,
                    record.connection,
                    shown_path(record.path),
                    record.order,
                    record.max_in_flight,
                )

    def pause(self, subscription: str, reason: str) -> None:
        """A sink is paused for this reason; "": it is not."""
        before = self._paused.get(subscription, "")
        if reason == before:
            return
        if reason:
            self._paused[subscription] = reason
            log.warning("Sink %s is paused; one delivery at a time tries it: %s", subscription, reason)
        else:
            del self._paused[subscription]
            log.info("Sink %s takes deliveries again.", subscription)

    def fail(self, subscription: str, reason: str) -> None:
        """A delivery failed, and may be made again. Pauses and dead letters have lines of their own."""
        now, state = self._monotonic(), self._failed.get(subscription)
        if subscription in self._paused:
            return
        if state is not None and now - state.logged_at < FAILED_EVERY_S:
            state.more += 1
            return
        more = f" So did {state.more} others before it." if state is not None and state.more else ""
        self._failed[subscription] = _Counted(now)
        log.warning("A delivery to sink %s failed: %s.%s", subscription, reason, more)

    def give_up(self, firing: OpenFiring, reason: str) -> None:
        """A firing becomes a dead letter."""
        subscription = firing.subscription
        now, state = self._monotonic(), self._given_up.get(subscription)
        if state is not None and now - state.logged_at < GIVEN_UP_EVERY_S:
            state.more += 1
            return
        more = f" So did {state.more} others before it." if state is not None and state.more else ""
        self._given_up[subscription] = _Counted(now)
        name = firing.key.partition(b"\0")[2].decode("utf-8", "replace")
        log.warning("Firing %s of %s becomes a dead letter: %s.%s", name, subscription, reason, more)
