"""The sink of a backtest: from JSON, or from a DAG of `deliver_dag`. Sent to executors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal

import msgspec

from .....conditions import Condition, ConditionError
from .....engine.delivery.firings import Order, subscription_of
from .....engine.delivery.retry import MOST_TRIES, Retry
from .....engine.delivery.sinks import Send, SinkRecord, default_send, is_connection, is_path
from .....engine.errors import EngineError
from .....engine.records import Registration
from .....engine.sending.expected import expected_path
from .....events.attributes import shown
from ..question import Question, named

_TASK: Final = "deliver"  # of a `deliver_dag`, as operators.deliver has it
_NAME: Final = re.compile(r"[\w.-]{1,250}")  # as Airflow's dag ids
_RETRY: Final = frozenset(Retry.__struct_fields__)


class _Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `deliver_dag` that concern the sink."""

    dag_id: str
    conn_id: str
    path: str = ""
    send: Send | None = None
    format: Literal["binary", "json"] = "binary"
    order: Order = "key"
    max_in_flight: int = 32
    replies: bool = False
    retry: dict[str, Any] | None = None
    deployment: str = "airflow"


@dataclass(frozen=True)
class SinkQuestion:
    """The sink of a question about deliveries. Checked: ConditionError if question and sink do not fit.

    sink: JSON of the sink's record. partitions: of the bus's own topics; None if unknown. outage_ms: how long
    the sink is away; None: not asked. answer_ms: how long it takes to answer; None: unknown.
    """

    question: Question
    sink: str
    partitions: int | None = None
    outage_ms: int | None = None
    answer_ms: int | None = None

    def __post_init__(self) -> None:
        if self.question.once:
            raise ConditionError(
                "a sink gets all firings of each key, as a dispatcher does: leave out --once and --key"
            )
        try:
            expected_path(self.record)
        except EngineError as e:
            raise ConditionError(f"the sink's path: {e}") from None
        timeout_s = self.record.retry.timeout_s
        if self.answer_ms is not None and self.answer_ms > timeout_s * 1000:
            raise ConditionError(
                f"--answer-time is longer than timeout_s of the sink's retry, {timeout_s:g} s: each delivery"
                " would fail. Give a shorter time, or a longer timeout_s in retry"
            )

    @cached_property
    def record(self) -> SinkRecord:
        return msgspec.json.decode(self.sink, type=SinkRecord)

    @cached_property
    def registration(self) -> Registration:
        """The registration, as it is on the bus if its `since` is that of the question."""
        question = self.question
        return Registration.of(
            self.record.subscription, question.condition, None, question.since_ms or 0, kind="durable"
        )


def sink_of(text: str, condition: Condition) -> str:
    """JSON of the sink record, from JSON of arguments of `deliver_dag`. ConditionError says what is wrong."""
    try:
        given = msgspec.json.decode(text, type=_Given)
        unknown = sorted(set(given.retry or ()) - _RETRY)
        if unknown:
            raise ConditionError(
                f"--deliver: retry has no {unknown[0]!r}: give any of {', '.join(Retry.__struct_fields__)}"
            )
        form = msgspec.structs.asdict(given)
        dag_id, deployment = form.pop("dag_id"), form.pop("deployment")
        record = {
            **form,
            "subscription": subscription_of(deployment, dag_id),
            "connection": form.pop("conn_id"),
            "send": given.send or default_send(condition),
            "retry": given.retry or {},
        }
        sink = msgspec.convert(record, SinkRecord)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as e:
        raise ConditionError(f"--deliver is no JSON object with the arguments of deliver_dag: {e}") from None
    _check(given, sink.retry)
    return _json_of(sink)


def _check(given: _Given, retry: Retry) -> None:
    """Raises ConditionError for what `deliver_dag` refuses: no firing would ever go to such a sink."""
    tries = max(retry.tries or 1, retry.least_tries)
    for name, value, is_right, give in (
        ("dag_id", given.dag_id, _NAME.fullmatch(given.dag_id), "the id of a DAG"),
        ("deployment", given.deployment, _NAME.fullmatch(given.deployment), "the name of a deployment"),
        ("conn_id", given.conn_id, is_connection(given.conn_id), "the id of an Airflow connection"),
        ("path", given.path, is_path(given.path), 'a path such as "/events", percent-encoded'),
        ("retry's tries", tries, tries <= MOST_TRIES, f"at most {MOST_TRIES}"),
        ("retry's delay_s", retry.delay_s, retry.delay_s <= retry.most_delay_s, "at most most_delay_s"),
    ):
        if not is_right:
            raise ConditionError(f"--deliver: {name} is {shown(value)}: give {give}")


def sink_in(path: str) -> tuple[Condition, str, int | None]:
    """(condition, JSON of the sink record, since in ms) of the DAG at `path` (MODULE:NAME)."""
    option = f"--deliver-from {path!r}"
    dag = named(path, "deliver-from")
    tasks = getattr(dag, "task_dict", None)
    task = tasks.get(_TASK) if isinstance(tasks, Mapping) else None
    backtested: Callable[[], tuple[Condition, SinkRecord, datetime | None]] | None = getattr(
        task, "backtested", None
    )
    if backtested is None:
        raise ConditionError(
            f"{option} is of type {type(dag).__name__}: name a DAG made by deliver_dag, such as"
            ' ship = deliver_dag("ship_orders", ...)'
        )
    condition, sink, since = backtested()
    return condition, _json_of(sink), None if since is None else int(since.timestamp() * 1000)


def _json_of(sink: SinkRecord) -> str:
    return msgspec.json.encode(sink).decode()
