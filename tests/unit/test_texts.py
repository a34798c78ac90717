"""Each argument that is a text takes a member of a StrEnum, and any other str, as its plain text.

References: msgspec refused such texts in serialized DAGs; `class Region(str, Enum)` was written as Region.EU.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, StrEnum
from typing import Any

import msgspec
import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.serialization.serialized_objects import DagSerialization
from interlock import Event, event
from interlock.conditions import Condition
from interlock.events.plain_text import plain_text
from interlock.operators import EmitEventOperator, EventSensor, dispatch_dag

from tests.kit.arguments import PublicCallable
from tests.unit import test_arguments, test_more_arguments


class Rendered(str):
    """A text whose other forms lie, as those of lazy and marked-up texts may."""

    __slots__ = ()

    def __str__(self) -> str:
        return "str() of it"

    def __repr__(self) -> str:
        return "repr() of it"

    def __format__(self, spec: str) -> str:
        return "format() of it"


# {argument: a text that it takes where any text is not one}
CHOICES = {
    "armed_by": "subscription", "at_invalid": "skip", "at_limit": "drop-oldest", "by": "data.ds",
    "cron": "@daily", "distinct": "subject", "duration": "2h", "keep": "first", "logical_date": "{{ ds }}",
    "offset": "1d", "on_expired": "skip", "since": "2026-11-20T00:00:00Z", "source": "/s", "state": "failed",
    "timezone": "Europe/Berlin", "tz": "UTC", "unit": "s", "where": "data.x == 1", "which": "first",
}  # fmt: skip


def _kinds(text: str) -> tuple[str, ...]:
    enum = StrEnum("Text", {"A": text})  # type: ignore[misc]
    mixed = Enum("Mixed", {"A": text}, type=str)  # type: ignore[misc]
    return enum.A, mixed.A, Rendered(text)  # type: ignore[attr-defined, return-value]


def _cases() -> Iterator[Any]:
    for each in (*test_arguments.CALLABLES, *test_more_arguments.CALLABLES):
        for argument in dict.fromkeys((*each.given, *each.kinds)):
            texts = {each.given.get(argument)} if isinstance(each.given.get(argument), str) else set()
            if argument in each.kinds and "text" in each.kinds[argument].accepted:
                texts.add("text")
            if argument in CHOICES and argument in each.kinds:
                texts.add(CHOICES[argument])
            for text in sorted(texts):
                yield pytest.param(each, argument, text, id=f"{each.name.split(' ')[0]}-{argument}-{text}")


@pytest.mark.parametrize(("tried", "argument", "text"), list(_cases()))
def test_a_text_of_another_class_is_its_plain_text(tried: PublicCallable, argument: str, text: str) -> None:
    plain = _outcome(tried, argument, text)
    for each in _kinds(text):
        found = _outcome(tried, argument, each)
        assert _comparable(found) == _comparable(plain), each.__class__.__bases__
        assert _other_texts(found) - _other_texts(plain) == set()


NESTED: dict[str, Any] = {
    "conf": lambda text: dispatch_dag(
        "d", condition=event("a"), trigger_dag_id="t", conf={text: [text, {"a": (text,)}]}, tags={text}
    ),
    "extensions": lambda text: _in_a_dag(EmitEventOperator, type="a", extensions={"region": text}),
    "data": lambda text: _in_a_dag(EmitEventOperator, type="a", data={text: [text]}),
    "several keys": lambda text: _in_a_dag(
        EventSensor, condition=event("a", by=["data.a", "data.b"]), key=[text, "x"]
    ),
    "param_values": lambda text: _in_a_dag(
        EventSensor, condition=event("a", where="data.a == param.a"), param_values={"a": text}
    ),
    "default_args": lambda text: _in_a_dag(
        EventSensor, condition=event("a", by="data.a"), default_args={"key": text}
    ),
    "filters": lambda text: event(filters=[{"exact": {"subject": text}}]),
    "by": lambda text: event("a", by=[text, "data.b"]),
}


@pytest.mark.parametrize("where", NESTED)
def test_a_text_of_another_class_inside_an_argument_is_its_plain_text(where: str) -> None:
    plain = _result(NESTED[where]("eu"))
    for each in _kinds("eu"):
        found = _result(NESTED[where](each))
        assert _comparable(found) == _comparable(plain)
        assert _other_texts(found) - _other_texts(plain) == set()


def test_a_mapped_wait_takes_texts_of_other_classes() -> None:
    def mapped(text: str) -> Any:
        with DAG("d", schedule=None) as dag:
            wait = EventSensor.partial(task_id="t", condition=event("a", by="data.a"), kafka_conn_id=text)
            wait.expand(key=["a", text])
        return _result(dag)

    plain = mapped("eu")
    for each in _kinds("eu"):
        assert _comparable(mapped(each)) == _comparable(plain)
        assert _other_texts(mapped(each)) == _other_texts(plain)


def test_values_without_such_texts_stay_the_same_objects() -> None:
    """Airflow renders some of them in place."""
    holds_itself: list[Any] = []
    holds_itself.append(holds_itself)
    for each in ({"a": ["b", ("c", 1)]}, ["a"], ("a", {"b"}), "a", 1, None, object(), holds_itself):
        assert plain_text(each) is each


def _in_a_dag(operator: Any, default_args: Any = None, **arguments: Any) -> DAG:
    with DAG("d", schedule=None, default_args=default_args or {}) as dag:
        operator(task_id="t", **arguments)
    return dag


def _outcome(tried: PublicCallable, argument: str, value: object) -> Any:
    try:
        return _result(tried(**{argument: value}))
    except Exception as error:  # compared
        return f"{type(error).__name__}: {error}"


def _result(made: Any) -> Any:
    if isinstance(made, BaseOperator):
        made = made.get_dag()
    if isinstance(made, Condition):
        return [made.to_json(), str(made)]
    if isinstance(made, DAG):
        return DagSerialization.to_dict(made)["dag"]["tasks"]
    if isinstance(made, Event):
        return [dict(made.attributes), made.data]
    for name in ("serialize", "to_json"):
        if hasattr(made, name):
            return getattr(made, name)()
    return made if isinstance(made, (str, tuple)) else [type(made).__name__]


def _comparable(found: Any) -> bytes:
    return msgspec.json.encode(found)


def _other_texts(value: Any, where: str = "") -> set[str]:
    """The places of texts whose class is not str."""
    if isinstance(value, str):
        return set() if type(value) is str else {where}
    if isinstance(value, dict):
        return {
            place
            for name, each in value.items()
            for place in _other_texts(name, f"{where}.{name!r}") | _other_texts(each, f"{where}.{name!r}")
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return {
            place for number, each in enumerate(value) for place in _other_texts(each, f"{where}[{number}]")
        }
    return set()
