"""Filters, methods of conditions, emitter, Spark hooks and tools for tests, with every kind of value.

Reports: a wrong argument ended in an error of Interlock's own code, or was accepted and meant something else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import interlock.spark
import interlock.testing
import pytest
from airflow.sdk import DAG
from interlock import Event, event
from interlock.conditions import explain_rehearsal, filters, rehearse
from interlock.conditions.filters import Exact, filter_from_json
from interlock.events import Emitter
from interlock.operators import EventSensor, SparkSubmitEventOperator, deliver_dag, dispatch_dag, relay_dag

from tests.kit.arguments import ROOT, VALUES, Argument, PublicCallable, cases, check_argument
from tests.unit.triggers.relaying import Once

A, B = event("a"), event("b")
KEYED = event("a", by="data.day")
AT = "2026-11-19T06:00:00Z"
SENT = Event.of("a", "/s", id="1", time=AT, data={"day": "2026-11-20"})
_ARG = Argument


class _Session:
    """What a Spark session looks like before it is used."""

    conf: dict[str, str] = {}  # noqa: RUF012


def _keyword(call: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """The callable with one argument as keyword, which filters and durations name."""
    return lambda **given: call(**more, **given)


def _submit(**given: Any) -> None:
    with DAG("d", schedule=None):
        SparkSubmitEventOperator(task_id="t", **given)


def _emitting(method: str) -> Callable[..., Any]:
    """A method of an emitter whose client refuses its properties, so that nothing connects."""
    return getattr(Emitter({"bootstrap.servers": "a:1", "no.such": "x"}, "t"), method)


def _dispatcher() -> DAG:
    return dispatch_dag("d", condition=KEYED, trigger_dag_id="t")


def _waiting() -> DAG:
    with DAG("w", schedule=None) as dag:
        EventSensor(task_id="ready", condition=KEYED, key="{{ ds }}")
    return dag


WAITING = _waiting()
FILTER_VALUES = _ARG("text", "template", "open template", "NUL")
UNITS = _ARG("nothing", "one", "five", "half")
REFUSES = "refuses its properties"
NAME = _ARG("text", "template", "open template", "long")
DATA = _ARG("nothing", "dict", none=True)
COMPLETION = {"data": DATA, "required": _ARG("flag"), "until": _ARG("choice", none=True)}
MOMENT = _ARG("moment", none=True)
KEY = _ARG(
    "template",
    "open template",
    "True",
    "zero",
    "one",
    "five",
    "minus",
    "half",
    "huge",
    "day",
    "moment",
    "first",
    none=True,
)
EVENTS = _ARG("nothing", "nothing")
# A relay takes what a trigger fires, whatever it is, if it can be written as JSON.
FIRED = _ARG(
    "nothing",
    *VALUES.keys()
    - {"object", "function", "class", "dict of objects", "dict by numbers", "surrogate"}
    - {"nan", "infinite", "dict of nan"},
)
RUN = {
    "at": _ARG("moment"),
    "logical_date": MOMENT,
    "partition_key": _ARG("text", none=True),
    "run_id": _ARG("text", none=True),
    "run_type": _ARG("text", none=True),
    "clear_number": _ARG("count", "zero"),
    "deployment": _ARG("bus"),
}

CALLABLES = [
    *(
        PublicCallable(name, _keyword(getattr(filters, name)), {"subject": "a"}, {"subject": FILTER_VALUES})
        for name in ("Exact", "Prefix", "Suffix")
    ),
    *(
        PublicCallable(
            name,
            getattr(filters, name),
            {"attributes": {"a": "b"}},
            {"attributes": _ARG("nothing", "dict")},
            ("attributes",),
        )
        for name in ("Exact", "Prefix", "Suffix")
    ),
    *(
        PublicCallable(
            name, getattr(filters, name), {"filter": Exact(a="b")}, {"filter": _ARG("nothing")}, ("filter",)
        )
        for name in ("All", "Any", "Not")
    ),
    PublicCallable(
        "Sql",
        filters.Sql,
        {"expression": "a = 'b'"},
        {"expression": _ARG("nothing", "text", "2h")},
        ("expression",),
    ),
    PublicCallable("where", filters.Where, {"source": "data.a"}, {"source": _ARG("nothing")}, ("source",)),
    PublicCallable("$", filter_from_json, {"obj": {"exact": {"a": "b"}}}, {"obj": _ARG("nothing")}),
    PublicCallable(
        "side of &", lambda other: Exact(a="b") & other, {"other": Exact(a="c")}, {"other": _ARG("nothing")}
    ),
    PublicCallable(
        "side of |", lambda other: Exact(a="b") | other, {"other": Exact(a="c")}, {"other": _ARG("nothing")}
    ),
    PublicCallable(
        "right side of &", lambda other: A & other, {"other": B}, {"other": _ARG("condition or parameters")}
    ),
    PublicCallable(
        "right side of |", lambda other: A | other, {"other": B}, {"other": _ARG("condition or parameters")}
    ),
    PublicCallable("within()", (A & B).within, {"hours": 1}, {"hours": UNITS}),
    PublicCallable("quiet()", A.quiet, {"hours": 1}, {"hours": UNITS}),
    PublicCallable("check_key", KEYED.check_key, {"key_given": True}, {"key_given": _ARG("flag")}),
    PublicCallable(
        "Emitter",
        Emitter,
        {"client": {"bootstrap.servers": "a:1"}, "topic": "t"},
        {"client": _ARG("nothing"), "topic": _ARG("bus"), "logger": _ARG("nothing")},
    ),
    PublicCallable(
        "Emitter.connect()", _emitting("connect"), {}, {"timeout_s": _ARG("seconds")}, afterwards=REFUSES
    ),
    PublicCallable(
        "Emitter.emit()",
        _emitting("emit"),
        {"event": SENT},
        {"event": _ARG("nothing"), "timeout_s": _ARG("seconds")},
        afterwards=REFUSES,
    ),
    PublicCallable(
        "Emitter.emit_all()",
        _emitting("emit_all"),
        {"events": [SENT]},
        {"events": EVENTS, "timeout_s": _ARG("seconds")},
        afterwards=REFUSES,
    ),
    PublicCallable(
        "completion_event()",
        interlock.spark.completion_event,
        {"spark": _Session(), "name": "orders"},
        {"spark": _ARG("nothing"), "name": NAME, **COMPLETION},
    ),
    PublicCallable(
        "with_completion_event()",
        interlock.spark.with_completion_event,
        {"name": "orders"},
        {"name": NAME, **COMPLETION},
    ),
    PublicCallable(
        "with_completion_event()",
        interlock.spark.with_completion_event("orders"),
        {"function": print},
        {"function": _ARG("nothing", "function", "class")},
    ),
    PublicCallable(
        "SparkSubmitEventOperator 't'",
        _submit,
        {"application": "job.py"},
        {
            "application": _ARG("template", "long"),
            "name": _ARG("template", "long"),
            "conf": _ARG("nothing", "template", "dict", "dict of nan", "dict of objects", none=True),
            "application_args": _ARG("nothing", "template", "list", "nothing", "tuple", none=True),
            "completion": _ARG("template", none=True),
            "completion_data": _ARG("nothing", "template", "dict", none=True),
            "events": _ARG("nothing", "empty"),
            "started": _ARG("flag"),
            "wrap": _ARG("flag"),
            "required": _ARG("flag"),
            "kafka_conn_id": _ARG("connection"),
            "bus": _ARG("bus", none=True),
            "delivery_timeout": _ARG("seconds"),
        },
    ),
    PublicCallable(
        "record",
        interlock.testing.record,
        {"topic": "t", "value": {}, "at": AT},
        {
            "topic": _ARG("bus"),
            "value": _ARG("anything as JSON", "open template", none=True),
            "at": _ARG("moment"),
            "key": _ARG("text", "empty", "template", "open template", "NUL", "long", none=True),
            "partition": _ARG("count", "zero"),
            "offset": _ARG("count", "zero"),
        },
    ),
    PublicCallable(
        "dag_run_end",
        interlock.testing.dag_run_end,
        {"dag_id": "d", "at": AT},
        {"dag_id": _ARG("text"), "state": _ARG("choice"), **RUN},
    ),
    PublicCallable(
        "task_instance_end",
        interlock.testing.task_instance_end,
        {"dag_id": "d", "task_id": "t", "at": AT},
        {
            "dag_id": _ARG("text"),
            "task_id": _ARG("text"),
            "state": _ARG("choice"),
            "map_index": _ARG("count", "zero", "minus"),
            **RUN,
        },
    ),
    PublicCallable(
        "spark_application_end",
        interlock.testing.spark_application_end,
        {"name": "n", "state": "failed", "at": AT},
        {
            "name": NAME,
            "state": _ARG("choice"),
            "at": _ARG("moment"),
            "data": DATA,
            "application": _ARG("text"),
            "application_id": _ARG("text", none=True),
            "error": _ARG("nothing", "tuple", none=True),
            "airflow": _ARG("nothing", "dict", none=True),
        },
    ),
    *(
        PublicCallable(
            name,
            call,
            {"condition": A, "events": [SENT]},
            {
                "condition": _ARG("condition"),
                "events": EVENTS,
                **dict.fromkeys(("start", "since", "until"), MOMENT),
            },
        )
        for name, call in (("fires", interlock.testing.fires), ("rehearse", rehearse))
    ),
    PublicCallable("fires", interlock.testing.fires, {"condition": KEYED, "events": [SENT]}, {"key": KEY}),
    PublicCallable("rehearse", rehearse, {"condition": KEYED, "events": [SENT]}, {"key": KEY}),
    PublicCallable(
        "explain_rehearsal",
        explain_rehearsal,
        {"condition": KEYED, "events": [SENT]},
        {"condition": _ARG("condition"), "open_key": KEY, "near_misses": _ARG("count", "zero", "huge")},
    ),
    PublicCallable(
        "runs_of",
        interlock.testing.runs_of,
        {"dag": _dispatcher(), "events": [SENT]},
        {"dag": _ARG("nothing"), "events": EVENTS, "until": MOMENT},
    ),
    PublicCallable(
        "requests_of",
        interlock.testing.requests_of,
        {"dag": deliver_dag("sent", condition=KEYED, conn_id="crm"), "events": [SENT]},
        {"dag": _ARG("nothing"), "events": EVENTS, "until": MOMENT},
    ),
    PublicCallable(
        "events_of",
        lambda dag, fired: interlock.testing.events_of(dag, fired),
        {"dag": relay_dag("r", trigger=Once(), type="t"), "fired": "text"},
        {"dag": _ARG("nothing"), "fired": FIRED},
    ),
    PublicCallable(
        "wait_of",
        interlock.testing.wait_of,
        {"dag": WAITING, "task_id": "ready", "logical_date": AT},
        {
            "dag": _ARG("nothing"),
            "task_id": _ARG("nothing"),
            "logical_date": _ARG("moment"),
            "run_after": MOMENT,
            "start": MOMENT,
            "run_id": _ARG("text"),
            "conf": _ARG("nothing", "dict", none=True),
            "partition_key": _ARG("text", none=True),
            "upstream": _ARG("nothing", "dict", "dict of nan", "dict of objects", none=True),
            "map_index": _ARG("count", "zero", "minus"),
        },
    ),
    PublicCallable(
        "given",
        interlock.testing.wait_of(WAITING, "ready", logical_date=AT).given,
        {"events": [SENT]},
        {"events": EVENTS, "until": MOMENT},
    ),
    PublicCallable(
        "dags_in",
        interlock.testing.dags_in,
        {"path": ROOT / "docs" / "decide"},
        {"path": _ARG("nothing"), "safe_mode": _ARG("flag")},
    ),
]


@pytest.mark.parametrize(("tried", "argument"), list(cases(CALLABLES)))
def test_a_wrong_argument_is_refused_by_a_sentence_that_names_callable_and_argument(
    tried: PublicCallable, argument: str
) -> None:
    check_argument(tried, argument)


def test_every_function_for_tests_and_for_spark_is_walked_with_every_argument() -> None:
    walked: dict[str, set[str]] = {}
    for each in CALLABLES:
        walked.setdefault(each.name.removesuffix("()"), set()).update(each.kinds)
    for room in (interlock.testing, interlock.spark):
        for name in room.__all__:
            value = getattr(room, name)
            if isinstance(value, type):
                continue  # results and errors, which authors do not make
            assert {*inspect.signature(value).parameters} <= walked[name], f"{name} is not walked"


@pytest.mark.parametrize("name", ["a=b", "", " a", "a\0"])
def test_data_whose_name_cannot_be_on_a_command_line_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="completion_data of 't'"):
        _submit(application="job.py", completion_data={name: 1})


@pytest.mark.parametrize("value", [None, ["a"], float("nan"), b"secret"])
def test_a_property_of_the_client_that_is_no_text_is_refused_without_its_value(value: object) -> None:
    with pytest.raises(interlock.InterlockError, match=r"Emitter: client\['sasl.password'\] is ") as caught:
        Emitter({"bootstrap.servers": "a:1", "sasl.password": value}, "t")  # type: ignore[dict-item]
    assert "secret" not in str(caught.value)
