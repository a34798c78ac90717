"""Why a wait that is over was not met: its condition, played through with the last events of the bus."""

from __future__ import annotations

from typing import Final

from ...conditions import Condition, Expires, explain_rehearsal
from ...conditions.nodes.timers import moment_text
from ..config import BusConfig
from ..kafka.admin import Admin
from ..kafka.clients import ClientErrors
from ..kafka.topics import read_registry
from ..reading.sources import last_events

EVENTS: Final = 5000


def hindsight(config: BusConfig, condition: Condition, key: str | None, since_ms: int, until_ms: int) -> str:
    """What was there, what was missing and what nearly matched, of about the last EVENTS events.

    key: where matchers read one. EngineError when they cannot be read.
    """
    since_ms = max(1, since_ms)
    Admin(config, ClientErrors()).close()  # a cluster that does not answer says so sooner than the reader
    events, _ = last_events(config, read_registry(config), EVENTS)
    waited = condition.of if isinstance(condition, Expires) else condition  # whose own time is up
    explained = explain_rehearsal(
        waited,
        events,
        key=key if waited.keyed else None,  # fail_on may be what reads it
        start=moment_text(since_ms) if waited.plan.watches_from_the_start else None,
        since=moment_text(since_ms),
        until=moment_text(until_ms),
    )
    return f"By the last {len(events)} events of {config.describe()}: {explained}"
