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
