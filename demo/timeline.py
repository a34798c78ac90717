"""The timeline of the waits: events stored, condition met, task resumed, and the milliseconds between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from .check import EndedWait


def lines(waits: Sequence[EndedWait]) -> Iterator[str]:
    """Yields lines. stored: the event's append time. met: the firing's. resumed: from the task's log."""
    for wait in waits:
        yield f"{wait.date}"
        for label, event in wait.parts:
            last = event is wait.parts[-1][1]
            yield _line(event.at_ms, f"{label} stored in {event.record.place}", "completes" if last else "")
        yield _line(wait.fired_ms, "condition met", f"+{wait.fired_ms - wait.completed_ms} ms")
        yield _line(wait.resumed_ms, "task resumed", f"+{wait.resumed_ms - wait.fired_ms} ms")
        yield f"    {'':12}  resume_ms {wait.resume_ms}"


def _line(at_ms: int, what: str, remark: str) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"    {moment:%H:%M:%S}.{moment.microsecond // 1000:03d}  {what:44} {remark}".rstrip()
