"""The span of a firing. Each process that passes the firing on records it, always with the same ids."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ...events.tracing import Carrier, Ids, Tracing, Value, carrier_in
from .firing_form import AnyFiring

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_ID: Final = re.compile(r"[0-9a-f]{32}")
_SPAN: Final = 2**64 - 1
_LAST_NS: Final = 2**63 - 1


def firing_ids(firing_id: str) -> Ids:
    """The ids of a firing's span: the trace has the firing's id, the span its last 16 digits."""
    # Only tests have ids of another form.
    number = int(firing_id, 16) if _ID.fullmatch(firing_id) else zlib.crc32(firing_id.encode())
    return Ids(number or 1, number & _SPAN or 1)


def firing_attributes(subscription: str, firing: AnyFiring) -> dict[str, Value]:
    """The attributes of a firing's span, and of the spans for what follows from the firing."""
    return {
        "interlock.subscription": subscription,
        "interlock.firing_id": firing.id,
        "interlock.outcome": firing.outcome,
        "interlock.key": firing.key,
    }


def start_firing_span(
    tracing: Tracing, subscription: str, firing: AnyFiring, traces: Sequence[Carrier]
) -> Span:
    """Starts the span of a firing, from its first event to the decision; `end_firing_span` ends it.

    traces: those of its events (see `traces_of`). If all its events have the same trace, the span continues
    that. Otherwise it begins a trace and links to theirs; if none of theirs is sampled, nor is the span.
    """
    ids = firing_ids(firing.id)
    distinct = [*{tuple(each.items()): each for each in traces if each}.values()]
    shared = distinct[0] if len(distinct) == 1 and all(traces) else {}
    if distinct and not shared and not any(tracing.context(each).trace_flags.sampled for each in distinct):
        return tracing.unsampled(ids)
    end_ns = decided_ns(firing)
    return tracing.start(
        f"fire {subscription}",
        "internal",
        firing_attributes(subscription, firing),
        parent=shared,
        links=() if shared else distinct,
        start_ns=min(_recorded_ns(firing, end_ns or 0), default=end_ns),
        ids=ids,
    )


def end_firing_span(span: Span, firing: AnyFiring) -> None:
    """Ends the span at the time of the decision: then it is recorded."""
    span.end(decided_ns(firing))


def decided_ns(firing: AnyFiring) -> int | None:
    """When the firing was decided, in ns since the epoch; None if a span cannot have that time."""
    try:
        found = int(datetime.fromisoformat(firing.fired_at).timestamp() * 1000) * 1_000_000
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found <= _LAST_NS else None


def traces_of(events: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Carrier]:
    """The trace of each event of a firing; an empty one for an event without a trace."""
    return [carrier_in(each) for together in events.values() for each in together]


def _recorded_ns(firing: AnyFiring, end_ns: int) -> Iterable[int]:
    """When its events were recorded, without times after the decision: a producer may set any time."""
    for together in firing.origins.values():
        for origin in together:
            stamp = origin.get("timestamp_ms")
            if isinstance(stamp, int) and 0 < stamp * 1_000_000 <= end_ns:
                yield stamp * 1_000_000
