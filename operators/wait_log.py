"""What the log of a waiting task says: where its wait is shown, and what resumed it, after which times."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ..conditions.explanation.wording import about, counted, moment, some
from ..engine.records.firing_trace import decided_ns
from ..events.attributes import parse_timestamp

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.records import FiringRecord

TAB: Final = "interlock-wait"  # `url_route` of the tab Wait at a task instance
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


def tab_address(context: Context) -> str:
    """Returns the address of the task instance's tab Wait: a path, if `[api] base_url` is not set."""
    from airflow.sdk.configuration import conf

    ti: Any = context["ti"]
    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    mapped = [] if ti.map_index is None or ti.map_index < 0 else ["mapped", str(ti.map_index)]
    parts = ["dags", ti.dag_id, "runs", ti.run_id, "tasks", ti.task_id, *mapped, "plugin", TAB]
    return f"{base}/{'/'.join(quote(part, safe='') for part in parts)}"


def firing_line(firing: FiringRecord, resumed: datetime) -> str:
    """Returns what resumed a task: the firing with its labels, and how long each step took until `resumed`.

    The times are those of several clocks: a step that seems to end before it began took 0s. What the firing
    does not tell is left out.
    """
    labels = [
        label if len(together) == 1 else f"{label} ({counted(len(together), 'event', 'events')})"
        for label, together in firing.events.items()
    ]
    by = f" by {some(tuple(labels), len(labels))}" if labels and firing.outcome == "met" else ""
    text = f"Firing {firing.id}: {firing.outcome}{by}."
    decided = decided_ns(firing)
    if decided is None:
        return text
    decided_ms = decided // 1_000_000
    begun = _begun(firing)
    if begun is None:
        text += f" It was decided at {moment(decided_ms)}"
    else:
        text += f" {begun[0]}; it was decided {_took(begun[1], decided_ms)} later"
    return f"{text}, and resumed this task {_took(decided_ms, (resumed - _EPOCH) // _MS)} after that."


def _begun(firing: FiringRecord) -> tuple[str, int] | None:
    """What made the condition met or expired, and when; None if the firing does not tell."""
    if firing.timer_ms is not None:
        return f"It was due at {moment(firing.timer_ms)}", firing.timer_ms
    last = max(_recorded(firing), key=lambda found: found[0], default=None)
    if last is None:
        return None
    recorded_ms, label, time = last
    text = f"Its last event, {label}, was recorded at {moment(recorded_ms)}"
    with suppress(TypeError, ValueError):  # an event without a time, or reduced to its reference
        text += f", {_took((parse_timestamp(time) - _EPOCH) // _MS, recorded_ms)} after its time"
    return text, recorded_ms


def _recorded(firing: FiringRecord) -> list[tuple[int, str, Any]]:
    """When each event was recorded, its label, and its own time."""
    return [
        (origin["timestamp_ms"], label, form.get("time"))
        for label, together in firing.events.items()
        for form, origin in zip(together, firing.origins.get(label, ()), strict=False)
        if isinstance(origin.get("timestamp_ms"), int)
    ]


def _took(from_ms: int, to_ms: int) -> str:
    return about(max(0, to_ms - from_ms))
