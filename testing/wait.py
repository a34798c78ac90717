"""`wait_of`: a DAG's wait without Kafka: renders it for a run, and shows how given events end it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from ..conditions import Condition, Explanation, from_json
from ..conditions.explanation.explain import moment_of
from ..conditions.recipes.fail_on import is_failure
from ..conditions.rehearsal import Given, Moment, played, recorded
from ..engine.records import Registration
from ..events.attributes import kind
from ..events.plain_text import takes_plain_text
from ..operators.wait import EventSensor
from ..operators.wait_arguments import bound_arguments
from ..triggers.argument_checks import ArgumentChecks
from ..triggers.payload import Payload
from .condition import Tried
from .events import json_of
from .firing import action_of_rehearsed, as_datetime, as_ms
from .task_context import check_dag, context_of

if TYPE_CHECKING:
    from airflow.sdk import DAG, Context

Outcome = Literal["met", "expired", "timeout", "fail_on"]

_NOWHERE = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "testing.invalid:9092"}})


@dataclass(frozen=True)
class WaitResult:
    """The state of a wait after the events of a test; `str()` is a report.

    state: the task's state, "deferred" while it waits. outcome: why the task was resumed. at: when that was
    decided. output: what the task returns. error: what it raises instead. explanations: what is met and what
    is missing, if the condition was not met. description: the wait in a sentence. too_late: after a timeout,
    how many of the events were recorded later.
    """

    state: Literal["success", "skipped", "failed", "deferred"]
    description: str
    outcome: Outcome | None = None
    at: datetime | None = None
    output: dict[str, Any] | None = None
    error: Exception | None = None
    explanations: tuple[Explanation, ...] = ()
    too_late: int = 0

    def __str__(self) -> str:
        ended = "" if self.at is None else f", {self.outcome} at {_text(self.at)}"
        lines = [f"{self.description}: {self.state}{ended}"]
        if self.error is not None:
            lines.append(f"{type(self.error).__name__}: {self.error}")
        if self.too_late:
            lines.append(f"events after the wait ended, which do not count: {self.too_late}")
        for label, events in (self.output or {}).get("events", {}).items():
            lines += (f"- {label} by {each.get('id')!r} from {each.get('source')}" for each in events)
        return "\n".join([*lines, *map(str, self.explanations)])


@dataclass(frozen=True, repr=False)
class WaitingTask:
    """A deferred task in one DAG run.

    condition, fail_on: as in the DAG file, with the values of their parameters. whole: both combined, as
    registered. key: in canonical form. since: events count from this record timestamp on. start: when the
    wait started. timeout_at: when the task times out. task: rendered, as when it deferred.
    """

    subscription: str
    condition: Condition
    fail_on: Condition | None
    whole: Condition
    key: str | None
    since: datetime
    start: datetime
    timeout_at: datetime
    task: EventSensor
    context: Context

    def __str__(self) -> str:
        key = "" if self.key is None else f" with key {self.key!r}"
        failing = "" if self.fail_on is None else f", fails on {self.fail_on}"
        return (
            f"{self.subscription} waits for {self.condition}{failing}{key} from {_text(self.start)} to "
            f"{_text(self.timeout_at)}, events since {_text(self.since)}"
        )

    def given(self, events: Iterable[Given], *, until: Moment | None = None) -> WaitResult:
        """Returns the state of the wait at the time `until`, after these events.

        events: the record timestamp of each is its `time`; give (event, moment) for another timestamp.
        until: default: just after the start and the last event. Errors: as `rehearse`.
        """
        seen = tuple(recorded("given", events))
        latest = max([as_ms(self.start), *(each.timestamp_ms or 0 for each in seen)]) + 1
        until_ms = latest if until is None else moment_of("given(until=", until)
        timeout_ms = as_ms(self.timeout_at)
        moments: dict[str, Any] = {
            # A wait for any key does not know its keys when it starts.
            "start": None if self.whole.keyed and self.key is None else self.start,
            "since": self.since,
            "until": as_datetime(min(until_ms, timeout_ms)),
        }
        firings = played("given", self.whole, seen, self.key, moments).firings
        if firings:
            first, at = firings[0], max(firings[0].fired_at, self.start)
            failed = first.outcome == "met" and is_failure(part.label for part in first.taking_part)
            registration = Registration.of(self.subscription, self.whole, self.key, as_ms(self.since))
            action = action_of_rehearsed(registration, self.whole, first, at)
            payload = Payload.of_firing(action, ())
            return self._resumed("fail_on" if failed else first.outcome, at, payload, ())
        key = self.key if self.condition.keyed else None
        explanations = Tried(self.condition, seen, key, **moments, firings=()).explanations
        if until_ms >= timeout_ms:
            result = self._resumed("timeout", self.timeout_at, Payload(outcome="timeout"), explanations)
            return replace(result, too_late=sum((each.timestamp_ms or 0) >= timeout_ms for each in seen))
        return WaitResult("deferred", str(self), explanations=explanations)

    def _resumed(
        self,
        outcome: Outcome,
        at: datetime,
        payload: Payload,
        explanations: tuple[Explanation, ...],
    ) -> WaitResult:
        """Runs the resumed task's own code, except for the calls that need the bus."""
        task = self.task.prepare_for_execution()
        for needs_the_bus in ("_acknowledge", "_log_near_misses"):
            task.__dict__[needs_the_bus] = lambda *_: None
        text, output = str(self), None
        try:
            event = payload.to_json()
            output = _run(
                task, lambda: task.resume_execution("execute_complete", {"event": event}, self.context)
            )
        except AirflowSkipException as error:
            return WaitResult("skipped", text, outcome, at, error=error, explanations=explanations)
        except Exception as error:  # noqa: BLE001  # whatever the task raises is its result
            return WaitResult("failed", text, outcome, at, error=error, explanations=explanations)
        return WaitResult("success", text, outcome, at, output, explanations=explanations)


@takes_plain_text
def wait_of(
    dag: DAG,
    task_id: str,
    *,
    logical_date: Moment | None = None,
    run_after: Moment | None = None,
    start: Moment | None = None,
    run_id: str = "testing",
    conf: Mapping[str, Any] | None = None,
    partition_key: str | None = None,
    upstream: Mapping[str, Any] | None = None,
    map_index: int = -1,
) -> WaitingTask:
    """Returns the wait of a task, an EventSensor, in a DAG run. Runs the task's own code until it defers.

    logical_date: None for a run without one, such as manual and asset-triggered runs; `run_after` is required
        then. run_after: default: the logical date. start: when the wait starts; default: run_after.
    upstream: {task_id: its result}, for XComs in templates. map_index: of a mapped task.
    Templates read variables and connections from the environment (AIRFLOW_VAR_...).

    Raises what rendering or the task raises, and ValueError if the task is not an EventSensor.
    """
    checks = ArgumentChecks("wait_of()")
    check_dag(checks, dag)
    if not isinstance(task_id, str) or task_id not in dag.task_ids:
        checks.fail("task_id", task_id, f"a task of {dag.dag_id!r}: {', '.join(sorted(dag.task_ids)[:20])}")
    checks.text("run_id", run_id, "the run's id")
    checks.text("partition_key", partition_key, "the run's partition key", none=True)
    checks.whole_number("map_index", map_index, -1, 2**31 - 1)
    for name, mapping in (("conf", conf), ("upstream", upstream)):
        if not isinstance(mapping, (Mapping, NoneType)) or not all(
            isinstance(each, str) for each in mapping or ()
        ):
            checks.fail(name, mapping, "a dict with texts as names")
    json_of("wait_of(): conf", conf)
    if run_after is None and logical_date is None:
        raise ValueError("wait_of() needs run_after= for a run without a logical date")
    logical = None if logical_date is None else as_datetime(moment_of("wait_of(logical_date=", logical_date))
    after = logical if run_after is None else as_datetime(moment_of("wait_of(run_after=", run_after))
    assert after is not None  # noqa: S101  # one of the two was given
    begins = after if start is None else as_datetime(moment_of("wait_of(start=", start))
    original: Any = dag.get_task(task_id)
    context = context_of(
        original.prepare_for_execution(),
        logical_date=logical,
        run_after=after,
        run_id=run_id,
        conf=conf,
        partition_key=partition_key,
        upstream=upstream,
        map_index=map_index,
    )
    context["task"].render_template_fields(context)
    task: Any = context["task"]  # rendered; of a mapped task, the operator of this map index
    if not isinstance(task, EventSensor):
        raise ValueError(f"{dag.dag_id}.{task_id} is {kind(task)}: give an EventSensor")
    try:
        _run(task, lambda: task.execute(context))
    except TaskDeferred as deferred:
        waits_for = deferred.trigger.serialize()[1]
    condition, fail_on = bound_arguments(task.condition, task.fail_on, task.param_values)
    return WaitingTask(
        subscription=waits_for["subscription"],
        condition=condition,
        fail_on=fail_on,
        whole=from_json(waits_for["condition"]),
        key=waits_for["key"],
        since=as_datetime(waits_for["since_ms"]),
        start=begins,
        timeout_at=begins + timedelta(seconds=task.timeout),
        task=task,
        context=context,
    )


def _run(task: EventSensor, call: Callable[[], Any]) -> Any:
    """Calls the task's code as Airflow's task runner does."""
    with _connection(task.kafka_conn_id):
        copied = copy_context()
        copied.run(ExecutorSafeguard.tracker.set, task)
        return copied.run(call)


@contextmanager
def _connection(conn_id: str) -> Iterator[None]:
    """Sets an unreachable Kafka connection in the environment, unless the connection is set."""
    name = f"AIRFLOW_CONN_{conn_id.upper()}"
    missing = name not in os.environ
    if missing:
        os.environ[name] = _NOWHERE
    try:
        yield
    finally:
        if missing:
            del os.environ[name]


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
