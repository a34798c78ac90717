"""The span of a firing. Whoever uses the firing records it, and all give it the same ids."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...events.tracing import Carrier, Ids, Tracing, Value, carrier_in

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN: Final = 2**64 - 1
_LAST_NS: Final = 2**63 - 1


class Firing(Protocol):
    """What its span is made of: `FiringRecord`, or one whose events are still encoded."""

    @property
    def id(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def key(self) -> str | None: ...
    @property
    def fired_at(self) -> str: ...
    @property
    def origins(self) -> Mapping[str, Sequence[Mapping[str, Any]]]: ...


def firing_ids(firing_id: str) -> Ids:
    """The ids of a firing's span: the trace has the firing's id, the span its last 16 digits."""
    # Ids of another form are those of tests.
    found = int(firing_id, 16) if _ID.fullmatch(firing_id) else zlib.crc32(firing_id.encode())
    return Ids(found or 1, found & _SPAN or 1)


def describe_firing(subscription: str, firing: Firing) -> dict[str, Value]:
    """The attributes of a firing's span, and of those for what follows from it."""
    return {
        "interlock.subscription": subscription,
        "interlock.firing_id": firing.id,
        "interlock.outcome": firing.outcome,
        "interlock.key": firing.key,
    }


def start_firing(tracing: Tracing, subscription: str, firing: Firing, traces: Sequence[Carrier]) -> Span:
    """The span of a firing, with the time from its first event to the decision; `end_firing` ends it.

    traces: those of its events; an empty one of an event without. If all its events have the same, the span
    continues it. Otherwise it begins a trace and links to theirs; if none of theirs is recorded, nor is it.
    """
    ids = firing_ids(firing.id)
    linked = [*{tuple(each.items()): each for each in traces if each}.values()]
    shared = linked[0] if len(linked) == 1 and all(traces) else {}
    if linked and not shared and not any(tracing.context(each).trace_flags.sampled for each in linked):
        return tracing.unsampled(ids)
    end_ns = decided_ns(firing)
    return tracing.start(
        f"fire {subscription}",
        "internal",
        describe_firing(subscription, firing),
        parent=shared,
        links=() if shared else linked,
        start_ns=min(_recorded_ns(firing, end_ns or 0), default=end_ns),
        ids=ids,
    )


def end_firing(span: Span, firing: Firing) -> None:
    """Records the span."""
    span.end(decided_ns(firing))


def decided_ns(firing: Firing) -> int | None:
    """When it was decided, ns since the epoch; None if a span cannot have that time."""
    try:
        found = int(datetime.fromisoformat(firing.fired_at).timestamp() * 1000) * 1_000_000
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= _LAST_NS else None


def traces_of(events: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Carrier]:
    """The trace of each event of a firing."""
    return [carrier_in(each) for together in events.values() for each in together]


def _recorded_ns(firing: Firing, end_ns: int) -> Iterable[int]:
    """When its events were recorded, but for times after the decision: a producer may set any."""
    for together in firing.origins.values():
        for origin in together:
            stamp = origin.get("timestamp_ms")
            if isinstance(stamp, int) and 0 < stamp * 1_000_000 <= end_ns:
                yield stamp * 1_000_000
