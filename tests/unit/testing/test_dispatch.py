from __future__ import annotations

import pytest
from airflow.sdk import DAG
from interlock import Event, event
from interlock.operators import dispatch_dag
from interlock.operators.target import RunRefused
from interlock.testing import runs_of

closed = event("closed", by="data.day", label="close")


def sent(day: str, at: str) -> Event:
    return Event.of("closed", "/s", id=f"{day} {at}", time=f"2026-11-20T{at}:00Z", data={"day": day, "n": 1})


def test_each_firing_is_a_run_with_what_the_templates_make_of_it() -> None:
    dag = dispatch_dag(
        "on_close",
        condition=closed,
        trigger_dag_id="report",
        logical_date="{{ firing.key }}",
        conf={"n": "{{ firing.events.close[0].data.n }}"},
        note="{{ firing.key }} closed",
    )
    first, second = runs_of(dag, [sent("2026-11-19", "06:00"), sent("20261120", "07:00")])
    assert (first.dag_id, first.conf, first.note) == ("report", {"n": "1"}, "2026-11-19 closed")
    assert str(first.logical_date) == "2026-11-19 00:00:00+00:00"
    assert (second.note, second.at.hour) == ("2026-11-20 closed", 7)
    assert first.run_id.startswith("dispatch__")
    assert first.run_id != second.run_id


def test_without_templates_a_run_has_the_firing_and_no_date() -> None:
    [run] = runs_of(
        dispatch_dag("on_close", condition=closed, trigger_dag_id="t"), [sent("20261120", "07:00")]
    )
    assert (run.conf["key"], run.conf["outcome"], run.logical_date) == ("2026-11-20", "met", None)


def test_a_firing_of_which_no_run_can_be_made_raises_what_the_dispatchers_log_says() -> None:
    dag = dispatch_dag("on_close", condition=closed, trigger_dag_id="t", logical_date="{{ firing.key }}")
    with pytest.raises(RunRefused, match="logical_date is 'someday'"):
        runs_of(dag, [sent("someday", "06:00")])


def test_a_dag_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no DAG that dispatch_dag made"):
        runs_of(DAG("plain", schedule=None), [])
