"""Templates that Jinja cannot compile are import errors; what a DAG adds to Jinja is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG
from interlock import event, param
from interlock.operators import EmitEventOperator, EventSensor, dispatch_dag

KEYED = event("x", by="data.d")
OPEN = event("x", subject=param("s"))

USES: dict[str, Callable[[str], object]] = {
    "key": lambda text: EventSensor(task_id="t", condition=KEYED, key=text),
    "param_values": lambda text: EventSensor(task_id="t", condition=OPEN, param_values={"s": text}),
    "mapped key": lambda text: EventSensor.partial(task_id="t", condition=KEYED).expand(key=["a", text]),
    "emit": lambda text: EmitEventOperator(task_id="t", type="x", data={"a": [text]}),
    "extensions": lambda text: EmitEventOperator(task_id="t", type="x", extensions={"a": text}),
}
BAD = [
    ("{{ ds | nosuch }}", "nosuch"),
    ("{{ 'x' is nosuch }}", "nosuch"),
    ("{{ ds", "unexpected end"),
    ("{% block a %}{% endblock %}{% block a %}{% endblock %}", "block 'a'"),
    ("{% continue %}", "continue"),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("text", "named"), BAD, ids=[text for text, _ in BAD])
def test_a_template_that_jinja_cannot_compile_is_an_import_error(use: str, text: str, named: str) -> None:
    """An unknown filter parsed, and failed in each run."""
    with (
        DAG("d", schedule=None),
        pytest.raises(ValueError, match=f"'t': .*a template that Jinja can read.*{named}"),
    ):
        USES[use](text)


REMOVED = [
    ("{{ yesterday_ds }}", "macros.ds_add(ds, -1)"), ("{{ prev_ds }}", "macros.ds_add(ds, -1)"),
    ("x-{{ tomorrow_ds_nodash }}", "macros.ds_add(ds, 1) | replace"),
    ("{{ next_ds }}", "data_interval_end | ds"),
    ("{{ execution_date.isoformat() }}", "logical_date"), ("{{ conf['x'] }}", "dag_run.conf"),
    ("{{ prev_execution_date_success | ds }}", "prev_data_interval_start_success"),
    ("{{ dag_run.execution_date | ds }}", "dag_run.logical_date"),
    ("{{ ti.execution_date }}", "dag_run.logical_date"),
    ("{{ task_instance.execution_date.date() }}", "dag_run.logical_date"),
    ("{{ dag_run.external_trigger }}", "dag_run.run_type"),
    ("{{ triggering_dataset_events }}", "triggering_asset_events"),
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("text", "instead"), REMOVED, ids=[text for text, _ in REMOVED])
def test_a_name_that_airflow_3_removed_is_an_import_error_that_says_what_to_write(
    use: str, text: str, instead: str
) -> None:
    """It parsed, and failed in each run. The kind of apache/airflow#48473."""
    with (
        DAG("d", schedule=None),
        pytest.raises(ValueError, match=r"'t': .*give .*because Airflow 3 has no") as error,
    ):
        USES[use](text)
    assert instead in str(error.value)


@pytest.mark.parametrize("use", USES)
def test_a_name_that_only_looks_removed_is_accepted(use: str) -> None:
    own = DAG("d", schedule=None, user_defined_macros={"yesterday_ds": "2026-11-20"})
    for text, dag in (
        ("{{ yesterday_ds }}", own),
        ("{{ yesterday_ds | default(ds) }}", DAG("d", schedule=None)),
        ("{{ yesterday_ds if yesterday_ds is defined else ds }}", DAG("d", schedule=None)),
        ("{% set yesterday_ds = macros.ds_add(ds, -1) %}{{ yesterday_ds }}", DAG("d", schedule=None)),
        ("{{ dag_run.conf['execution_date'] }}", DAG("d", schedule=None)),
        ("{{ dag_run.conf.execution_date }}", DAG("d", schedule=None)),
        ("{{ dag_run.execution_date | default(ds) }}", DAG("d", schedule=None)),
        ("{% set ti = params %}{{ ti.execution_date }}", DAG("d", schedule=None)),
    ):
        with dag:
            USES[use](text)


@pytest.mark.parametrize("argument", ["conf", "note", "logical_date", "param_values"])
def test_a_template_of_a_dispatcher_that_jinja_cannot_compile_is_an_import_error(argument: str) -> None:
    text = "{{ firing.key | nosuch }}"
    given: dict[str, Any] = {argument: {"s": text} if argument in ("conf", "param_values") else text}
    condition = OPEN if argument == "param_values" else KEYED
    with pytest.raises(ValueError, match=f"dispatch_dag 'd': {argument} is .*nosuch"):
        dispatch_dag("d", condition=condition, trigger_dag_id="t", **given)
    dispatch_dag("d", condition=condition, trigger_dag_id="t", user_defined_filters={"nosuch": str}, **given)


@pytest.mark.parametrize("use", USES)
def test_filters_and_extensions_of_the_dag_are_known(use: str) -> None:
    extensions = {"extensions": ["jinja2.ext.loopcontrols"]}
    for text, dag in (
        ("{{ ds | nosuch }}", DAG("d", schedule=None, user_defined_filters={"nosuch": str})),
        (
            "{% for a in ds %}{% continue %}{% endfor %}",
            DAG("d", schedule=None, jinja_environment_kwargs=extensions),
        ),
        ("{{ logical_date | ds_nodash }}", DAG("d", schedule=None)),
    ):
        with dag:
            USES[use](text)


@pytest.mark.parametrize("use", USES)
def test_a_task_whose_dag_is_not_known_yet_may_have_any_filter(use: str) -> None:
    USES[use]("{{ ds | nosuch }}")
    with pytest.raises(ValueError, match="a template that Jinja can read"):
        USES[use]("{{ ds")


NAMES: dict[str, Callable[[], object]] = {
    "conf": lambda: dispatch_dag("d", condition=KEYED, trigger_dag_id="t", conf={"{{ firing.key }}": 1}),
    "conf, inside": lambda: dispatch_dag(
        "d", condition=KEYED, trigger_dag_id="t", conf={"a": [{"{{ firing.key }}": 1}]}
    ),
    "data": lambda: EmitEventOperator(task_id="t", type="x", data={"a": {"{{ ds }}": 1}}),
}


@pytest.mark.parametrize("use", NAMES)
def test_a_template_as_a_name_in_a_dict_is_an_import_error(use: str) -> None:
    """Airflow renders values only: the template was the name in the run's conf, or in the event."""
    with pytest.raises(ValueError, match="give the names in a dict as fixed texts"):
        NAMES[use]()


def test_an_error_of_a_templated_argument_does_not_say_that_it_is_not_templated() -> None:
    with pytest.raises(ValueError, match="a template that Jinja can read") as caught:
        dispatch_dag("d", condition=KEYED, trigger_dag_id="t", conf={"a": "{{ firing.key"})
    assert "not templated" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("{{ firing.ky }}", "a firing has no 'ky': it has version, firing_id"),
        ("{{ firing['ds'] }}", "a firing has no 'ds'"),
        ("day {{ firing.events.rates[0].data.day | upper }}", "the condition has the labels orders"),
        ("{{ firing.recorded['rates'][0] }}", "firing.recorded has no 'rates'"),
        ("{{ firing[0] }}", "a firing has no 0: it has version"),
        ("{{ firing.events.orders.data.day }}", r"is a list: write firing.events.orders\[0\].data"),
        ("{{ firing.events['orders'].id }}", r"is a list: write firing.events.orders\[0\].id"),
        ("{{ firing.recorded.orders.time }}", r"is a list: write firing.recorded.orders\[0\]"),
        ("{{ firing.events[0].id }}", "firing.events has no 0: the condition has the labels orders"),
    ],
)
@pytest.mark.parametrize("argument", ["conf", "note", "logical_date"])
def test_a_member_that_no_firing_has_is_an_import_error(argument: str, text: str, expected_text: str) -> None:
    """Each firing was held until somebody read the log."""
    given: dict[str, Any] = {argument: {"s": [text]} if argument == "conf" else text}
    with pytest.raises(ValueError, match=f"dispatch_dag 'd': {argument} is .*{expected_text}"):
        dispatch_dag("d", condition=event("x", label="orders"), trigger_dag_id="t", **given)


@pytest.mark.parametrize(
    "given", [{"logical_date": "{{ firing.key }}"}, {"conf": {"a": "{{ firing.canonical_key }}"}}]
)
def test_the_key_of_a_condition_without_keys_is_an_import_error(given: dict[str, Any]) -> None:
    """As logical_date it held each firing, and a conf got the text None."""
    with pytest.raises(ValueError, match=r"is None: no matcher of the condition reads a key with by="):
        dispatch_dag(
            "d",
            condition=event("x", subject=param("p")),
            param_values={"p": "a"},
            trigger_dag_id="t",
            **given,
        )
    dispatch_dag(
        "d", condition=event("x"), trigger_dag_id="t", logical_date="{{ firing.key or '2026-11-20' }}"
    )


def test_a_key_of_several_values_as_a_date_is_an_import_error() -> None:
    """It held each firing."""
    several = event("x", by=["data.day", "subject"])
    with pytest.raises(ValueError, match=r"logical_date is .*this key has several values"):
        dispatch_dag("d", condition=several, trigger_dag_id="t", logical_date="{{ firing.key }}")
    dispatch_dag("d", condition=several, trigger_dag_id="t", note="{{ firing.key }}")


@pytest.mark.parametrize(
    "text",
    [
        "{{ firing.key }} {{ firing.canonical_key }} {{ firing.missing }}",
        "{{ firing.events.orders[0].data.x.y }}",
        "{{ firing.events['orders#2'][0].id }}",
        "{{ firing.events.get('rates') }} {{ firing.events.items() }} {{ firing.get('x') }}",
        "{{ firing.events.rates | default('') }}",
        "{{ firing.events.orders | length }} {{ firing.events.orders[-1].id }}",
        "{{ firing.recorded.orders.0 }} {{ firing.events.orders.index(1) }}",
        "{{ firing.events.get('orders')[0].id }}",
        "{% if firing.events.rates is defined %}{{ firing.events.rates[0].id }}{% endif %}",
        "{{ firing.events[label] }} {{ firing | tojson }} {{ other.firing.x }}",
        "{% for label in firing.events %}{{ firing.events[label] }}{% endfor %}",
        "{{ dag_run.conf.firing }}",
    ],
)
def test_members_that_a_firing_may_have_are_no_error(text: str) -> None:
    condition = event("x", label="orders", by="subject") | event("y", label="orders#2", by="subject")
    dispatch_dag("d", condition=condition, trigger_dag_id="t", conf={"a": text})


def test_data_that_hold_themselves_are_an_import_error_that_names_them() -> None:
    """It was a RecursionError."""
    data: dict[str, Any] = {}
    data["a"] = data
    with pytest.raises(
        ValueError, match="EmitEventOperator 't': data is nested too deeply, or contains itself"
    ):
        EmitEventOperator(task_id="t", type="x", data=data)
