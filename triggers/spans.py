"""Spans of what follows from a firing in Airflow: a resumed task, a run. Does nothing without a tracer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..engine.records.firing_trace import (
    decided_ns,
    end_firing_span,
    firing_attributes,
    start_firing_span,
    traces_of,
)
from ..events.tracing import TRACE, Tracing, Value, process_tracing

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.records import ActionRecord


def record_firing(action: ActionRecord) -> str:
    """Records the firing's span; returns its `traceparent`, "" without a tracer.

    For the process that has the whole firing: a firing in a payload may have lost its events' traces.
    """
    tracing = process_tracing()
    return "" if tracing is None else _recorded(tracing, action)


def record_resumed(traceparent: str, action: ActionRecord, context: Context) -> None:
    """Records that the firing with this `traceparent` resumes the task, from the decision until now.

    The task's own span, which Airflow began, gets a link to the firing.
    """
    tracing = process_tracing()
    if tracing is None or not traceparent:
        return
    ti: Any = context["ti"]
    tracing.current().add_link(tracing.context({TRACE[0]: traceparent}))
    attributes = {
        "airflow.dag_id": ti.dag_id,
        "airflow.task_id": ti.task_id,
        "airflow.dag_run.run_id": ti.run_id,
        "airflow.task_instance.map_index": ti.map_index,
        "airflow.task_instance.try_number": ti.try_number,
    }
    _follow(tracing, f"resume {ti.task_id}", traceparent, action, attributes)


def record_run(action: ActionRecord, dag_id: str, run_id: str) -> None:
    """Records the firing, and that this run was created for it, from the decision until now."""
    tracing = process_tracing()
    if tracing is not None:
        run = {"airflow.dag_id": dag_id, "airflow.dag_run.run_id": run_id}
        _follow(tracing, f"run {dag_id}", _recorded(tracing, action), action, run)


def _recorded(tracing: Tracing, action: ActionRecord) -> str:
    firing = action.firing
    span = start_firing_span(tracing, action.subscription, firing, traces_of(firing.events))
    end_firing_span(span, firing)
    return tracing.carrier(span).get(TRACE[0], "")


def _follow(
    tracing: Tracing, name: str, traceparent: str, action: ActionRecord, attributes: Mapping[str, Value]
) -> None:
    """Records a span as a child of the firing's, with a link to the current one, the calling task's."""
    now_ns = time.time_ns()
    span = tracing.start(
        name,
        "consumer",
        {**firing_attributes(action.subscription, action.firing), **attributes},
        parent={TRACE[0]: traceparent},
        links=[tracing.carrier(tracing.current())],
        start_ns=min(decided_ns(action.firing) or now_ns, now_ns),
    )
    span.end(now_ns)
