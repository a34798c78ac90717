"""`param_values`: the parameters of a condition, from the DAG file to the registration."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, task
from interlock import Condition, ConditionError, event, param
from interlock.events import Event
from interlock.operators import EventSensor, dispatch_dag
from interlock.testing import runs_of, wait_of
from interlock.triggers.asset import ConditionTrigger

ORDERS = event("order", subject=param("customer"), by="data.day", label="orders")
FAILED = event("failed", where="data.customer == param.customer", by="data.day")
DAY = "2026-11-20T00:00:00Z"
CUSTOMER = {"customer": "{{ dag_run.conf['customer'] }}"}


def happened(kind: str, customer: str) -> Event:
    data = {"day": "2026-11-20", "customer": customer}
    return Event.of(kind, "/shop", id=customer, subject=customer, time="2026-11-20T06:00:00Z", data=data)


def wait(**arguments: Any) -> DAG:
    arguments = {
        "condition": ORDERS,
        "fail_on": FAILED,
        "key": "{{ ds }}",
        "param_values": CUSTOMER,
    } | arguments
    with DAG("d", schedule=None) as dag:
        EventSensor(task_id="wait", **arguments)
    return dag


def test_the_values_of_a_run_decide_which_events_it_waits_for() -> None:
    waiting = wait_of(wait(), "wait", logical_date=DAY, conf={"customer": "acme"})
    assert waiting.condition == ORDERS.bind(customer="acme")
    assert waiting.whole.params == ()
    assert waiting.given([happened("order", "umbrella")]).state == "deferred"
    met = waiting.given([happened("order", "umbrella"), happened("order", "acme")])
    assert met.output is not None
    assert [each["subject"] for each in met.output["events"]["orders"]] == ["acme"]
    assert waiting.given([happened("failed", "umbrella")]).state == "deferred"
    assert waiting.given([happened("failed", "acme")]).outcome == "fail_on"


@pytest.mark.parametrize("condition", [ORDERS, ORDERS.expires(after="1h")], ids=["timeout", "expiry"])
def test_what_a_wait_that_was_not_met_says_has_the_values_of_its_run(condition: Condition) -> None:
    """It named param("customer"), so that nobody saw for whom it had waited."""
    dag = wait(condition=condition, fail_on=None, timeout=7200)
    waiting = wait_of(dag, "wait", logical_date=DAY, conf={"customer": "acme"})
    ended = waiting.given([], until=waiting.start + timedelta(days=1))
    assert ended.error is not None
    assert 'subject="acme"' in str(ended.error)
    assert "param(" not in str(ended.error)


def test_each_run_registers_its_own_values() -> None:
    forms = [
        wait_of(wait(), "wait", logical_date=DAY, conf={"customer": name}).whole.to_json()
        for name in ("a", "b")
    ]
    assert forms[0] != forms[1]
    assert '"subject": "a"' in str(forms[0]).replace("'", '"')


def test_values_may_be_fixed_numbers_or_the_output_of_another_task() -> None:
    fixed = wait(param_values={"customer": 7})
    assert wait_of(fixed, "wait", logical_date=DAY).condition == ORDERS.bind(customer="7")
    with DAG("d", schedule=None) as dag:

        @task
        def customer() -> str:
            return "acme"

        one = EventSensor(
            task_id="wait", condition=ORDERS, key="{{ ds }}", param_values={"customer": customer()}
        )
    assert one.upstream_task_ids == {"customer"}
    waiting = wait_of(dag, "wait", logical_date=DAY, upstream={"customer": "acme"})
    assert waiting.condition == ORDERS.bind(customer="acme")


def test_mapped_waits_have_their_own_values() -> None:
    with DAG("d", schedule=None) as dag:
        made = EventSensor.partial(task_id="wait", condition=ORDERS, key="{{ ds }}")
        made.expand(param_values=[{"customer": "a"}, {"customer": "{{ ds }}"}])
    for index, name in enumerate(("a", "2026-11-20")):
        waiting = wait_of(dag, "wait", logical_date=DAY, map_index=index)
        assert waiting.condition == ORDERS.bind(customer=name)
    with pytest.raises(
        ConditionError, match=r"EventSensor 'wait': param_values has 'x', which the condition"
    ):
        EventSensor.partial(task_id="wait", condition=ORDERS).expand(param_values=[{"x": "a"}])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"param_values": None}, r"parameters without a value: customer\. Give the task param_values="),
        ({"param_values": {}}, "parameters without a value: customer"),
        (
            {"param_values": {**CUSTOMER, "day": "x"}},
            "'day', which the condition does not read: its parameters are customer",
        ),
        ({"condition": event("a", by="data.day"), "fail_on": None}, "it has no parameters"),
        ({"param_values": "{{ params }}"}, "param_values is '{{ params }}': give a dict"),
        ({"param_values": {"customer": None}}, "parameter customer is None: give a text"),
        ({"param_values": {"customer": ""}}, "is empty"),
        ({"param_values": {"customer": ["a"]}}, "parameter customer is a list"),
        (
            {"condition": event("a", subject=param("customer"), filters=[{"exact": {"subject": "x"}}])},
            "attribute subject is filtered twice",
        ),
    ],
)
def test_unknown_missing_and_unused_parameters_are_import_errors(
    arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConditionError, match=f"EventSensor 'wait': .*{sentence}"):
        wait(**arguments)


@pytest.mark.parametrize(
    "where",
    [
        'timestamp(data.t) >= timestamp(param.customer + "T00:00:00Z")',
        "data.n > double(param.customer) && data.c == param.customer",
        "data.c == param.customer || data.day == param.customer",
    ],
)
def test_a_template_may_give_any_text(where: str) -> None:
    """The DAG file was an import error, because no sample value was a date or both numeral and text."""
    condition = event("a", where=where, by="data.day") & ORDERS
    wait(condition=condition, fail_on=None)
    wait(condition=condition, fail_on=event("failed", where=where, by="data.day"))
    dispatch_dag("d", condition=condition, param_values=CUSTOMER, trigger_dag_id="t")


def test_a_template_gives_a_text_unless_the_dag_renders_native_values() -> None:
    condition = event("a", where="data.n > param.n + 1", by="data.day")
    with pytest.raises(ConditionError, match=r"EventSensor 'wait': .*no matching overload"):
        wait(condition=condition, fail_on=None, param_values={"n": "{{ params.n }}"})
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        EventSensor(task_id="wait", condition=condition, key="k", param_values={"n": "{{ params.n }}"})
    with DAG("d", schedule=None):
        EventSensor(task_id="wait", condition=condition, key="k", param_values={"n": 5})
        with pytest.raises(ConditionError, match="no matching overload"):
            EventSensor(task_id="other", condition=condition, key="k", param_values={"n": "5"})


def test_a_template_that_jinja_cannot_read_is_an_import_error() -> None:
    for arguments in ({"param_values": {"customer": "{{ ds"}}, {"key": "{% if %}"}):
        with pytest.raises(ValueError, match=r"EventSensor 'wait': .*a template that Jinja can read"):
            wait(**arguments)


def test_a_run_without_the_value_fails_its_wait_with_a_sentence() -> None:
    with pytest.raises(ConditionError, match=r"param_values\['customer'\], .* was rendered to 'None'"):
        wait_of(wait(), "wait", logical_date=DAY, conf={"customer": None})
    with pytest.raises(ConditionError, match=r"param_values .* cannot be rendered: 'ds' is undefined"):
        wait_of(wait(param_values={"customer": "{{ ds }}"}, key="k"), "wait", run_after=DAY)


def test_a_dispatcher_has_values_too_and_waits_for_them_alone() -> None:
    dag = dispatch_dag(
        "d", condition=ORDERS, param_values={"customer": "{{ 'ac' ~ 'me' }}"}, trigger_dag_id="t"
    )
    [run] = runs_of(dag, [happened("order", "umbrella"), happened("order", "acme")])
    assert run.conf["events"]["orders"][0]["subject"] == "acme"
    with pytest.raises(ConditionError, match=r"dispatch_dag 'd': .*without a value: customer"):
        dispatch_dag("d", condition=ORDERS, trigger_dag_id="t")


def test_an_asset_trigger_takes_bound_conditions_only() -> None:
    with pytest.raises(ConditionError, match=r"ConditionTrigger 'n': .*condition\.bind\(customer="):
        ConditionTrigger("n", ORDERS)
    assert ConditionTrigger("n", ORDERS.bind(customer="acme")).condition.params == ()


def test_a_template_in_a_condition_that_was_read_from_json_is_an_import_error_too() -> None:
    form = {"v": 1, "condition": {"event": {"exact": {"type": "a", "subject": "{{ ds }}"}}}}
    read = Condition.from_json(form)
    for build in (
        lambda: EventSensor(task_id="t", condition=read),
        lambda: EventSensor(task_id="t", condition=event("a"), fail_on=read),
        lambda: dispatch_dag("d", condition=read, trigger_dag_id="t"),
        lambda: ConditionTrigger("n", read),
    ):
        with pytest.raises(ConditionError, match="a condition is not rendered"):
            build()
