"""Sensors become conditions that accept the same events; what is not carried over is named."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.conditions import event
from interlock.migrate.argo import KINDS
from interlock.migrate.fields import FieldNote
from interlock.migrate.source import dag_file
from interlock.migrate.subscription import Subscription, Unread

from tests.unit.migrate.argo_sensors import MATCHERS, A, B, C, one, read, sensor, trigger


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        (None, MATCHERS["a"] & MATCHERS["b-1"] & MATCHERS["c"]),
        ("a", MATCHERS["a"]),
        ("(a && b-1) || c", (MATCHERS["a"] & MATCHERS["b-1"]) | MATCHERS["c"]),
        ("a || b_1 && c", MATCHERS["a"] | (MATCHERS["b-1"] & MATCHERS["c"])),
        ("(a||c)&&(a||b-1)", (MATCHERS["a"] | MATCHERS["c"]) & (MATCHERS["a"] | MATCHERS["b-1"])),
    ],
)
def test_conditions_join_the_dependencies(conditions: str | None, wanted: Any) -> None:
    found = one(trigger(conditions))
    assert found.condition == wanted
    assert (found.name, found.function) == ("s.t", "dispatch_dag")
    assert dict(found.arguments) == {"trigger_dag_id": "t"}


@pytest.mark.parametrize(("namespace", "name"), [("default", "s.t"), ("", "s.t"), ("shop", "shop.s.t")])
def test_the_namespace_is_part_of_the_name_unless_it_is_the_default_one(namespace: str, name: str) -> None:
    given = sensor(trigger("a"))
    given["metadata"]["namespace"] = namespace
    assert [each.name for each in read(given) if isinstance(each, Subscription)] == [name]


def test_triggers_that_would_become_the_same_dag_are_refused_except_the_first() -> None:
    """The file had two DAGs of one id, of which Airflow keeps one."""
    _, first, second, other = read(sensor(trigger("a"), trigger("c"), trigger("a", template={"name": "u"})))
    assert isinstance(first, Subscription)
    assert isinstance(second, Subscription)
    assert isinstance(other, Subscription)
    assert (first.refused, other.refused, second.condition) == ((), (), None)
    assert second.refused == (
        FieldNote("spec.triggers[1].template.name", "another trigger of the file becomes the same DAG name"),
    )


@pytest.mark.parametrize(
    "conditions", ["a && d", "!a", "a & b-1", "a && b-1 +", "event('x')", "a b-1", "a &&", " "]
)
def test_a_condition_that_a_sensor_does_not_have_is_refused(conditions: str) -> None:
    [note] = one(trigger(conditions)).refused
    assert note.field == "spec.triggers[0].template.conditions"


def test_a_reset_is_that_of_its_time_zone() -> None:
    by_time = [
        {"byTime": {"cron": "0 0 * * *", "timezone": "Europe/London"}},
        {"byTime": {"cron": "0 12 * * *"}},
    ]
    found = one(trigger("a && c", template={"conditionsReset": by_time})).condition
    both = MATCHERS["a"] & MATCHERS["c"]
    assert found == both.resets("0 0 * * *", timezone="Europe/London").resets("0 12 * * *", timezone="UTC")


def test_a_reset_of_a_condition_that_holds_nothing_is_left_out_and_a_wrong_one_refused() -> None:
    reset = {"conditionsReset": [{"byTime": {"cron": "0 0 * * *"}}]}
    found = one(trigger("a || c", template=reset))
    assert found.condition == MATCHERS["a"] | MATCHERS["c"]
    assert [note.field for note in found.left_out] == ["spec.triggers[0].template.conditionsReset[0].byTime"]
    wrong = {"conditionsReset": [{"byTime": {"cron": "every day"}}]}
    assert one(trigger("a && c", template=wrong)).refused


@pytest.mark.parametrize(
    ("conditions", "noted"),
    [("a || (b-1 && c)", True), ("(a || b-1) && c", True), ("a || c", False), ("a && c", False)],
)
def test_a_note_says_what_a_firing_of_one_side_leaves_held(conditions: str, noted: bool) -> None:
    """A Sensor drops all that it holds; here the other side stays (argoproj/argo-events#1088)."""
    field = "spec.triggers[0].template.conditions"
    assert (field in dict(one(trigger(conditions)).differs)) is noted


def test_an_http_trigger_calls_a_service_and_one_with_another_method_starts_a_dag() -> None:
    def http(**more: Any) -> Subscription:
        template = {
            "argoWorkflow": None,
            "http": {"url": "https://x.example:8443/y?z=1", "payload": [], **more},
        }
        return one(trigger("a", template=template))

    found = http(timeout=5, headers={"a": "b"}, secureHeaders=[], basicAuth={}, tls={}, dynamicHeaders=[])
    assert (found.function, found.destination.host) == ("deliver_dag", "https://x.example:8443")
    assert dict(found.arguments) == {"path": "/y?z=1", "retry": {"timeout_s": 5.0}}
    assert {note.field.rpartition(".")[2] for note in found.left_out} == {
        "payload", "headers", "secureHeaders", "basicAuth", "tls", "dynamicHeaders",
    }  # fmt: skip
    assert http().arguments["retry"] == {"timeout_s": 60.0}
    assert http(method="PUT").function == "dispatch_dag"
    assert http(url="nowhere").refused[0].field == "spec.triggers[0].template.http.url"
    for timeout in (3601, -1, "10"):
        assert http(timeout=timeout).refused == (
            FieldNote(
                "spec.triggers[0].template.http.timeout",
                f"{timeout!r} is not a number of seconds up to an hour",
            ),
        )


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "http"])
def test_any_other_kind_needs_a_dag_that_does_it(kind: str) -> None:
    found = one(trigger("a", template={"argoWorkflow": None, kind: {"x": 1}}))
    assert found.function == "dispatch_dag"
    target = "write a DAG t that does what this trigger did"
    assert ("spec.triggers[0].template." + kind, target) in found.differs


@pytest.mark.parametrize("template", [{"argoWorkflow": None}, {"log": {}}, {"name": None}, {"name": "a b"}])
def test_a_trigger_without_one_kind_or_without_a_name_is_refused(template: Any) -> None:
    assert one(trigger("a", template=template)).refused


LEFT_OUT = ("parameters", "policy", "retryStrategy", "rateLimit", "dlqTrigger", "other")


@pytest.mark.parametrize("field", LEFT_OUT)
def test_a_field_of_a_trigger_without_a_counterpart_is_named_with_its_reason(field: str) -> None:
    [note] = one(trigger("a", **{field: {"a": 1}})).left_out
    assert note.field == f"spec.triggers[0].{field}"
    assert len(note.text) > 10


OF_THE_SPEC = (
    "template", "replicas", "revisionHistoryLimit", "eventBusName", "errorOnFailedRound", "loggingFields",
    "other",
)  # fmt: skip


@pytest.mark.parametrize("field", OF_THE_SPEC)
def test_a_field_of_a_sensor_without_a_counterpart_is_named_with_its_reason(field: str) -> None:
    whole = read(sensor(trigger("a"), **{field: {"a": 1}}))[0]
    [note] = whole.left_out
    assert note.field == f"spec.{field}"


def test_at_most_once_has_no_place() -> None:
    once = trigger("a")
    del once["atLeastOnce"]
    assert "at most once" in dict(one(once).differs)["spec.triggers[0].atLeastOnce"]
    assert "spec.triggers[0].atLeastOnce" not in dict(one(trigger("a")).differs)


def test_each_matcher_has_to_be_completed_and_a_note_says_so() -> None:
    found = one(trigger("a && c"))
    assert set(dict(found.differs)) >= {
        "spec.dependencies[0].eventSourceName",
        "spec.dependencies[2].eventSourceName",
    }
    assert "spec.dependencies[1].eventSourceName" not in dict(found.differs)


WRONG = {
    "transform": {"jq": "."},
    "filters": {"script": "return true"},
    "other": 1,
    "eventName": None,
    "filtersLogicalOperator": "xor",
    "name": "a b",
}


@pytest.mark.parametrize("field", WRONG)
def test_a_dependency_that_cannot_be_carried_over_refuses_the_triggers_that_name_it(field: str) -> None:
    wrong = {**A, field: WRONG[field]}
    name = "a" if field != "name" else None
    first, second = trigger(name), trigger("c")
    _, refused, made = read(sensor(first, second, dependencies=(wrong, C)))
    assert isinstance(refused, Subscription)
    assert isinstance(made, Subscription)
    assert refused.refused
    assert made.condition == MATCHERS["c"]


def test_a_trigger_of_all_dependencies_is_refused_for_the_one_without_a_name() -> None:
    nameless = {"eventSourceName": "shop", "eventName": "orders"}
    [note] = one(trigger(), dependencies=(B, nameless)).refused
    assert note == FieldNote("spec.dependencies[1].name", "it is missing")


@pytest.mark.parametrize("second", ["a-b", "a_b"])
@pytest.mark.parametrize("conditions", [None, "a-b", "a_b && c"])
def test_dependencies_of_one_name_are_refused(second: str, conditions: str | None) -> None:
    """The condition lost the first of two with equal names, and `a_b` meant the events of `a-b`.

    To a Sensor's conditions - and _ are the same: argoproj/argo-events, `getDependencyExpression`.
    """
    first, other = A | {"name": "a-b"}, C | {"name": second}
    found = one(trigger(conditions), dependencies=(first, other, C))
    assert found.condition is None
    assert [note.field for note in found.refused] == ["spec.dependencies[1].name"]


def test_a_sensor_without_dependencies_says_so() -> None:
    [note] = one(trigger(), dependencies=()).refused
    assert note.field == "spec.dependencies"


def test_a_context_that_is_not_that_of_the_dependency_is_refused() -> None:
    wrong = {**A, "filters": {"context": {"source": "other", "type": "webhook"}}}
    [note] = one(trigger("a"), dependencies=(wrong,)).refused
    assert note.field == "spec.dependencies[0].filters.context.source"
    right = {**A, "filters": {"context": {"source": "shop", "type": "webhook"}}}
    made = one(trigger("a"), dependencies=(right,)).condition
    assert made == event("webhook", source="shop", subject="orders", label="a")


def test_filters_that_no_matcher_can_have_are_refused() -> None:
    """A `where` has a limit, which a long list of values goes beyond."""
    values = {"path": "a", "type": "string", "value": ["x"] * 5000}
    [note] = one(trigger("a"), dependencies=({**A, "filters": {"data": [values]}},)).refused
    assert note.field == "spec.dependencies[0].filters"
    assert "characters: at most" in note.text


def test_other_resources_are_not_read_and_a_sensor_without_a_spec_is_refused() -> None:
    [found] = read(
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "EventBus", "metadata": {"name": "default"}}
    )
    assert isinstance(found, Unread)
    [refused] = read({**sensor(), "spec": []})
    assert isinstance(refused, Subscription)
    assert refused.refused[0].field == "spec"


def test_the_dag_file_has_the_same_conditions() -> None:
    reset = {"conditionsReset": [{"byTime": {"cron": "0 0 * * *"}}]}
    found = one(trigger("(a && b-1) || c", template=reset))
    given: list[Any] = []
    names: dict[str, Any] = {"dispatch_dag": lambda *args, **named: given.append((args, named))}
    source = dag_file([found]).replace("from interlock.operators import dispatch_dag", "")
    exec(source, names)
    assert given == [(("s.t",), {"condition": found.condition, "trigger_dag_id": "t"})]
