from __future__ import annotations

import pytest
from airflow.sdk import DAG
from interlock import Event, count, day, event
from interlock.operators import dispatch_dag
from interlock.operators.target import RunRefused
from interlock.testing import runs_of

closed = event("closed", by="data.day", label="close")


def sent(day: str, at: str) -> Event:
    return Event.of("closed", "/s", id=f"{day} {at}", time=f"2026-11-20T{at}:00Z", data={"day": day, "n": 1})


def test_each_firing_becomes_a_run_with_rendered_arguments() -> None:
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
    assert (second.note, second.at.hour) == ("20261120 closed", 7)
    assert str(second.logical_date) == "2026-11-20 00:00:00+00:00"
    assert first.run_id.startswith("dispatch__")
    assert first.run_id != second.run_id


def test_without_templates_a_run_has_the_firing_and_no_date() -> None:
    [run] = runs_of(
        dispatch_dag("on_close", condition=closed, trigger_dag_id="t"), [sent("20261120", "07:00")]
    )
    assert (run.conf["key"], run.conf["outcome"], run.logical_date) == ("20261120", "met", None)
    assert run.conf["canonical_key"] == "2026-11-20"


@pytest.mark.parametrize("customer", [19991231, "19991231", "7", 7, "2026-11-20T01:30:00+01:00"])
@pytest.mark.parametrize("kilobytes", [0, 70])
def test_a_run_gets_the_key_as_its_event_writes_it(customer: object, kilobytes: int) -> None:
    """K17: customer number 19991231 came out as the last day of 1999."""
    dag = dispatch_dag(
        "orders",
        condition=event("order", by="data.customer", label="order"),
        trigger_dag_id="t",
        conf={"customer": "{{ firing.key }}"},
    )
    data = {"customer": customer, "text": "x" * kilobytes * 1024}
    [run] = runs_of(dag, [Event.of("order", "/s", time="2026-11-20T06:00:00Z", data=data)])
    assert run.conf == {"customer": str(customer)}


def test_a_template_reads_the_canonical_key_and_what_was_left_out_of_each_firing() -> None:
    """Firings whose key was written in its canonical form were held: they have no canonical_key."""
    dag = dispatch_dag(
        "on_close",
        condition=closed,
        trigger_dag_id="report",
        conf={"day": "{{ firing.canonical_key }}", "left_out": "{{ firing.left_out.close | default(0) }}"},
    )
    runs = runs_of(dag, [sent("2026-11-19", "06:00"), sent("20261120", "07:00")])
    assert [run.conf for run in runs] == [{"day": f"2026-11-{day}", "left_out": "0"} for day in (19, 20)]


def test_a_key_that_two_events_write_differently_is_that_of_the_first_matcher() -> None:
    both = event("a", by="data.day", label="a") & event("b", by="data.day", label="b")
    dag = dispatch_dag("both", condition=both, trigger_dag_id="t")
    a, b = (
        Event.of(kind, "/s", time="2026-11-20T06:00:00Z", data={"day": text})
        for kind, text in (("a", "20261120"), ("b", "2026-11-20"))
    )
    for events in ([a, b], [b, a]):
        [run] = runs_of(dag, events)
        assert (run.conf["key"], run.conf["canonical_key"]) == ("20261120", "2026-11-20")


def test_a_computed_key_has_only_its_canonical_form() -> None:
    by = [day("data.at", tz="Europe/Berlin"), "data.customer"]
    dag = dispatch_dag("both", condition=event("a", by=by), trigger_dag_id="t")
    data = {"at": "2026-11-19T23:00:00Z", "customer": 19991231}
    [run] = runs_of(dag, [Event.of("a", "/s", time="2026-11-20T06:00:00Z", data=data)])
    assert run.conf["key"] == '["2026-11-20","19991231"]'
    assert run.conf["canonical_key"] == '["2026-11-20","1999-12-31"]'


def large(kilobytes: int, number: int = 0, blank: bool = False) -> Event:
    filling = " " * kilobytes * 1024
    n = f"{filling}1" if blank else f'"{filling}"'
    data = f'{{"day": "20261120", "n": {n}}}'.encode()
    return Event.of("closed", "/s", id=str(number), time=f"2026-11-20T07:00:0{number}Z", data=data)


@pytest.mark.parametrize("event", [large(50), large(70), large(70, blank=True)], ids=lambda e: len(e.data))
def test_a_run_gets_a_reference_to_large_data_as_from_a_dispatcher(event: Event) -> None:
    """Tasks get no data beyond 48 KiB, and engines store no data beyond 64 KiB, including blanks."""
    [run] = runs_of(dispatch_dag("on_close", condition=closed, trigger_dag_id="t"), [event])
    [given] = run.conf["events"]["close"]
    assert "data" not in given
    assert given["dataref"] == "kafka:rehearsal/0/0"
    dag = dispatch_dag(
        "d", condition=closed, trigger_dag_id="t", note="{{ firing.events.close[0].data.n | length }}"
    )
    with pytest.raises(RunRefused, match=r"the template of note failed: UndefinedError: .*labels: close"):
        runs_of(dag, [event])


def test_data_that_is_too_large_in_sum_is_replaced_largest_first() -> None:
    dag = dispatch_dag("on_close", condition=count(closed, 3), trigger_dag_id="t")
    [run] = runs_of(dag, [large(15), large(25, 1), large(10, 2)])
    assert ["data" in each for each in run.conf["events"]["close"]] == [True, False, True]


def test_a_firing_that_cannot_have_a_run_raises_the_dispatchers_error() -> None:
    dag = dispatch_dag("on_close", condition=closed, trigger_dag_id="t", logical_date="{{ firing.key }}")
    with pytest.raises(RunRefused, match="logical_date is 'someday'"):
        runs_of(dag, [sent("someday", "06:00")])


def test_a_dag_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="not a DAG made by dispatch_dag"):
        runs_of(DAG("plain", schedule=None), [])
