"""Every public callable with every kind of value for every argument: accepted, or refused by a sentence.

Reports: arguments that a DAG file may have by mistake (a tuple for a text, a list for a mapping, NaN, ints of
400 digits) were accepted and then failed or waited for ever, or ended in errors of Interlock's own code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import interlock
import pytest
from airflow.sdk import DAG
from interlock import absent, at_least, conditions, count, dag_run, event, param, sequence
from interlock.conditions import AllOf, Condition
from interlock.operators import EmitEventOperator, EventSensor, deliver_dag, dispatch_dag, relay_dag
from interlock.triggers.asset import ConditionTrigger

from tests.kit.arguments import Argument, PublicCallable, cases, check_argument
from tests.unit.triggers.relaying import Once

A, B = event("a"), event("b")
KEYED = event("a", by="data.day")


def _in_a_dag(operator: Any) -> Callable[..., Any]:
    def made(**arguments: Any) -> Any:
        with DAG("d", schedule=None):
            return operator(task_id="t", **arguments)

    return made


_ARG = Argument
_CONNECTION = {"kafka_conn_id": _ARG("connection"), "bus": _ARG("bus", none=True)}
_LIMITS = {"max_keys": _ARG("count"), "at_limit": _ARG("choice")}
_RUN = {
    "state": _ARG("choice"),
    "by": _ARG("choice", none=True),  # a member of its events
    "offset": _ARG("duration or zero", "backwards", none=True),
    "dates": _ARG("nothing", none=True),
    "deployment": _ARG("text", none=True),
    "label": _ARG("text", none=True),
}
_LINEAGE = {name: _RUN[name] for name in ("by", "offset", "label")}
_DISTINCT = {"distinct": _ARG("path", none=True)}

CALLABLES = [
    PublicCallable(
        "event",
        event,
        {"type": "a"},
        {
            "type": _ARG("attribute"),
            "source": _ARG("attribute", none=True),
            "subject": _ARG("attribute", none=True),
            "tenant": _ARG("attribute"),
            "by": _ARG("path", none=True),
            "label": _ARG("text", none=True),
            "where": _ARG("nothing", none=True),
            "filters": _ARG("nothing", "nothing", none=True),
            "keep": _ARG("choice", none=True),
            "limit": _ARG("nothing", none=True),
        },
    ),
    PublicCallable("param", param, {"name": "x"}, {"name": _ARG("nothing", "text")}),
    PublicCallable("dag_run", dag_run, {"dag_id": "a"}, {"dag_id": _ARG("dag id"), **_RUN}, ("dag_id",)),
    PublicCallable(
        "task_instance",
        interlock.task_instance,
        {"dag_id": "a", "task_id": "b"},
        {"dag_id": _ARG("dag id"), "task_id": _ARG("dag id"), **_RUN},
        ("dag_id", "task_id"),
    ),
    PublicCallable(
        "spark_application",
        interlock.spark_application,
        {"name": "a", "by": "data.day"},
        {
            "name": _ARG("text"),
            **{name: kind for name, kind in _RUN.items() if name not in ("dates", "deployment")},
            "application": _ARG("text", none=True),
        },
        ("name",),
    ),
    PublicCallable(
        "openlineage_run",
        interlock.openlineage_run,
        {"job": "a", "by": "data.day"},
        {"job": _ARG("text"), "namespace": _ARG("text", none=True), **_LINEAGE, "state": _ARG("choice")},
        ("job",),
    ),
    PublicCallable(
        "dataset_written",
        interlock.dataset_written,
        {"namespace": "a", "name": "b", "by": "data.day"},
        {"namespace": _ARG("text"), "name": _ARG("text"), "measured": _ARG("flag"), **_LINEAGE},
        ("namespace", "name"),
    ),
    PublicCallable(
        "count",
        count,
        {"matcher": A, "n": 2},
        {"matcher": _ARG("matcher or parameters"), "n": _ARG("count"), **_DISTINCT},
    ),
    PublicCallable(
        "every_nth",
        interlock.every_nth,
        {"matcher": A, "n": 2},
        {"matcher": _ARG("matcher or parameters"), "n": _ARG("count"), **_DISTINCT},
    ),
    PublicCallable(
        "burst",
        interlock.burst,
        {"matcher": A, "n": 2, "within": "1h"},
        {
            "matcher": _ARG("matcher or parameters"),
            "n": _ARG("whole number"),
            "within": _ARG("duration"),
            **_DISTINCT,
        },
    ),
    PublicCallable(
        "at_least",
        at_least,
        {"n": 2, "first": A, "second": B},
        {"n": _ARG("nothing", "one"), "second": _ARG("condition or parameters"), **_DISTINCT},
        ("n", "first", "second"),
    ),
    PublicCallable(
        "sequence",
        sequence,
        {"first": A, "second": B},
        {"second": _ARG("condition or parameters"), "ordered": _ARG("flag")},
        ("first", "second"),
    ),
    PublicCallable(
        "absent",
        absent,
        {"condition": A, "duration": "1h"},
        {
            "condition": _ARG("matcher or parameters"),
            "duration": _ARG("duration"),
            "armed_by": _ARG("choice"),
        },
    ),
    PublicCallable(
        "all_of",
        interlock.all_of,
        {"first": A, "second": B},
        {"second": _ARG("condition or parameters"), "within": _ARG("duration", none=True)},
        ("first", "second"),
    ),
    PublicCallable(
        "any_of",
        interlock.any_of,
        {"first": A, "second": B},
        {"second": _ARG("condition or parameters")},
        ("first", "second"),
    ),
    PublicCallable(
        "daily",
        interlock.daily,
        {"first": A, "second": B},
        {"second": _ARG("condition or parameters"), "timezone": _ARG("choice")},
        ("first", "second"),
    ),
    PublicCallable(
        "debounce",
        interlock.debounce,
        {"condition": A, "duration": "1h"},
        {"condition": _ARG("condition or parameters"), "duration": _ARG("duration")},
    ),
    PublicCallable(
        "heartbeat",
        interlock.heartbeat,
        {"matcher": A, "every": "1h"},
        {"matcher": _ARG("matcher or parameters"), "every": _ARG("duration"), "armed_by": _ARG("choice")},
    ),
    PublicCallable(
        "not_followed_by",
        interlock.not_followed_by,
        {"condition": A, "unwanted": B, "within": "1h"},
        {
            "condition": _ARG("condition or parameters"),
            "unwanted": _ARG("matcher or parameters"),
            "within": _ARG("duration"),
        },
    ),
    PublicCallable(
        "within",
        (A & B).within,
        {"duration": "1h"},
        {"duration": _ARG("duration"), "lateness": _ARG("duration or zero", none=True)},
    ),
    PublicCallable(
        "resets",
        (A & B).resets,
        {"cron": "@daily"},
        {
            "cron": _ARG("nothing"),
            "timezone": _ARG("choice"),
            "lateness": _ARG("duration or zero", none=True),
        },
    ),
    PublicCallable("quiet", A.quiet, {"duration": "1h"}, {"duration": _ARG("duration")}),
    PublicCallable(
        "expires",
        A.expires,
        {"after": "1h"},
        {"after": _ARG("duration"), "at": _ARG("moment", none=True), "armed_by": _ARG("choice")},
    ),
    PublicCallable(
        "keep", A.keep, {"which": "all"}, {"which": _ARG("choice"), "limit": _ARG("count", none=True)}
    ),
    PublicCallable(
        "parse",
        Condition.parse,
        {"text": "event('a')", "names": {"a": A}},
        {
            "text": _ARG("nothing"),
            "names": _ARG("nothing", "dict", "dict of nan", "dict of objects", none=True),
        },
    ),
    PublicCallable("$", Condition.from_json, {"obj": A.to_json()}, {"obj": _ARG("nothing")}),
    PublicCallable(
        "parameter",
        event("a", subject=param("x")).bind,
        {"x": "y"},
        {"x": _ARG("template", "open template", "True", "zero", "one", "five", "minus")},
    ),
    *(
        PublicCallable(
            name,
            getattr(interlock, name),
            {"of": "data.x"},
            {
                "of": Argument("template", "open template", "long"),
                "tz": Argument("nothing", none=True),
                "unit": Argument("choice", none=True),
                "offset": Argument("whole number", "zero", "one", "minus"),
            },
        )
        for name in ("day", "hour", "week", "month")
    ),
    PublicCallable(
        "EventSensor 't'",
        _in_a_dag(EventSensor),
        {"condition": KEYED, "key": "k"},
        {
            "condition": _ARG("nothing"),
            "fail_on": _ARG("condition", none=True),
            "param_values": _ARG("nothing", none=True),
            "key": _ARG(
                "template", "True", "zero", "one", "five", "minus", "half", "huge", "day", "moment", "first"
            ),
            "since": _ARG("moment", none=True),
            "lookback": _ARG("timedelta or zero", none=True),
            "on_expired": _ARG("choice"),
            "deferrable": _ARG("flag"),
            "timeout": _ARG("timeout", none=True),
            **_CONNECTION,
        },
    ),
    PublicCallable(
        "dispatch_dag",
        dispatch_dag,
        {"dag_id": "d", "condition": KEYED, "trigger_dag_id": "t"},
        {
            "dag_id": _ARG("dag id"),
            "condition": _ARG("condition"),
            "param_values": _ARG("nothing", none=True),
            "trigger_dag_id": _ARG("dag id"),
            "conf": _ARG("nothing", "dict", none=True),
            "logical_date": _ARG("nothing", "template", none=True),
            "note": _ARG("text", "template", "empty", none=True),
            "partition_key": _ARG("nothing", none=True),
            "since": _ARG("moment", none=True),
            "max_runs_in_flight": _ARG("count"),
            "renew_after": _ARG("timedelta"),
            **_LIMITS,
            **_CONNECTION,
        },
    ),
    PublicCallable(
        "deliver_dag",
        deliver_dag,
        {"dag_id": "d", "condition": KEYED, "conn_id": "crm"},
        {
            "dag_id": _ARG("dag id"),
            "condition": _ARG("condition"),
            "param_values": _ARG("nothing", none=True),
            "conn_id": _ARG("connection"),
            "path": _ARG("nothing", "empty"),
            "send": _ARG("choice", none=True),
            "format": _ARG("choice"),
            "order": _ARG("choice"),
            "max_in_flight": _ARG("count"),
            "replies": _ARG("flag"),
            "retry": _ARG("nothing", none=True),
            "since": _ARG("moment", none=True),
            "renew_after": _ARG("timedelta"),
            **_LIMITS,
            **_CONNECTION,
        },
    ),
    PublicCallable(
        "relay_dag",
        relay_dag,
        {"dag_id": "d", "trigger": Once(), "type": "a"},
        {
            "dag_id": _ARG("dag id"),
            "trigger": _ARG("nothing"),
            "type": _ARG("text"),
            "source": _ARG("text", none=True),
            "subject": _ARG("text", none=True),
            "id": _ARG("nothing", none=True),
            "event": _ARG("nothing", none=True),
            "acknowledge": _ARG("nothing", none=True),
            "at_invalid": _ARG("choice"),
            "renew_after": _ARG("timedelta"),
            **_CONNECTION,
        },
    ),
    PublicCallable(
        "ConditionTrigger",
        ConditionTrigger,
        {"name": "n", "condition": A},
        {
            "name": _ARG("dag id"),
            "condition": _ARG("condition"),
            "since": _ARG("moment", none=True),
            "deployment": _ARG("bus", none=True),
            **_LIMITS,
            **_CONNECTION,
        },
    ),
    PublicCallable(
        "EmitEventOperator 't'",
        _in_a_dag(EmitEventOperator),
        {"type": "a"},
        {
            "type": _ARG("template", "long"),
            "source": _ARG("template", "long", "empty", none=True),
            "subject": _ARG("template", "long", none=True),
            "data": _ARG("anything as JSON", none=True),
            "extensions": _ARG("nothing", "dict", "template", none=True),
            "delivery_timeout": _ARG("seconds"),
            **_CONNECTION,
        },
    ),
    PublicCallable(
        "emit()",
        interlock.operators.emit,
        {"type": "a"},
        {
            "type": _ARG("template", "open template", "long"),
            "source": _ARG("long text", "empty", none=True),
            "subject": _ARG("template", "open template", "long", none=True),
            "data": _ARG("anything as JSON", "open template", none=True),
            "extensions": _ARG("nothing", "dict", none=True),
            "ordinal": _ARG("text", "zero", "one", "five", "minus", none=True),
            "delivery_timeout": _ARG("seconds"),
            **_CONNECTION,
        },
        afterwards="outside of a running task",
    ),
    PublicCallable(
        "fetch()",
        interlock.fetch,
        {"event": {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}},
        {"event": _ARG("nothing"), **_CONNECTION},
    ),
]


@pytest.mark.parametrize(("tried", "argument"), list(cases(CALLABLES)))
def test_a_wrong_argument_is_refused_by_a_sentence_that_names_callable_and_argument(
    tried: PublicCallable, argument: str
) -> None:
    check_argument(tried, argument)


def test_every_public_function_is_walked_with_every_argument() -> None:
    walked = {each.name.split(" ")[0].removesuffix("()"): each for each in CALLABLES}
    public = {name: getattr(interlock, name) for name in interlock.__all__}
    for name in ("EventSensor", "deliver_dag", "dispatch_dag", "emit"):
        public[name] = getattr(interlock.operators, name)
    for name, value in public.items():
        if isinstance(value, type) and not issubclass(value, EventSensor):
            continue  # Condition's methods are in the table; Event and the errors take no authors' arguments
        assert name in walked, f"{name} is public and not walked"
        signature = inspect.signature(value.__init__ if isinstance(value, type) else value)
        for parameter in signature.parameters.values():
            variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            known = {"self", *walked[name].kinds, *walked[name].given}
            assert variable or parameter.name in known, f"{name}({parameter.name}=) is not walked"


PRESETS = (
    "all_of any_of burst daily dataset_written debounce every_nth heartbeat not_followed_by openlineage_run"
    " param"
)


@pytest.mark.parametrize("name", PRESETS.split())
def test_presets_are_importable_from_interlock(name: str) -> None:
    assert getattr(interlock, name) is getattr(conditions, name)
    assert name in dir(interlock)
    assert AllOf is conditions.AllOf
