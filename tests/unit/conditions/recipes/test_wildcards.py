"""`dag_run("ingest_*")` and its like: * is no wildcard, and the error is a condition to copy."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from interlock import Condition, ConditionError, dag_run, spark_application, task_instance
from interlock.conditions import parse
from interlock.events import Event


@pytest.mark.parametrize(
    ("call", "accepted", "refused"),
    [
        (lambda: dag_run("ingest_*"), ["ingest_eu"], ["load_eu"]),
        (lambda: dag_run("*_eu"), ["ingest_eu"], ["ingest_us"]),
        (lambda: dag_run("in*_eu"), ["ingest_eu"], ["ingest_us", "out_eu"]),
        (lambda: dag_run("*"), ["ingest_eu"], []),
        (lambda: task_instance("ingest_*", "load"), ["ingest_eu/load"], ["ingest_eu/save", "load"]),
        (lambda: task_instance("ingest", "load_*"), ["ingest/load_eu"], ["ingest/save_eu"]),
        (lambda: spark_application("orders-*"), ["orders-eu"], ["rates"]),
    ],
)
def test_the_error_about_a_wildcard_shows_the_event_that_accepts_them(
    call: Callable[[], Condition], accepted: list[str], refused: list[str]
) -> None:
    """The error named filters=, which dag_run() does not have."""
    with pytest.raises(ConditionError, match=r"\* is not a wildcard") as raised:
        call()
    written = re.search(r"event\(.*\)(?=,)", str(raised.value))
    assert written is not None
    [matcher] = parse(written[0]).matchers
    kind = dict(matcher.exact)["type"]
    for subject, expected in [*((each, True) for each in accepted), *((each, False) for each in refused)]:
        assert matcher.accepts(Event.of(kind, "/airflow", subject=subject)) is expected


def test_the_type_in_the_error_is_that_of_the_state() -> None:
    with pytest.raises(ConditionError, match=r"interlock\.airflow\.dag_run\.failed"):
        dag_run("ingest_*", state="failed")
