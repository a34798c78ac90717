"""Sensors become conditions that accept the same events; what is not carried over is named."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event
from interlock.conditions import event
from interlock.migrate.argo import KINDS, sensors
from interlock.migrate.argo_filters import exact_and_where
from interlock.migrate.documents import Resource
from interlock.migrate.errors import NotTranslated
from interlock.migrate.fields import FieldNote, Members
from interlock.migrate.source import dag_file
from interlock.migrate.subscription import Subscription, Unread

A = {"name": "a", "eventSourceName": "shop", "eventName": "orders"}
B = {"name": "b-1", "eventSourceName": "bank", "eventName": "rates"}
C = {"name": "c", "eventSourceName": "ops", "eventName": "go"}
MATCHERS = {
    name: event(source=source, subject=subject, label=name)
    for name, source, subject in (("a", "shop", "orders"), ("b-1", "bank", "rates"), ("c", "ops", "go"))
}


def sensor(*triggers: Any, dependencies: Any = (A, B, C), **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Sensor",
        "metadata": {"name": "s"},
        "spec": {"dependencies": list(dependencies), "triggers": list(triggers), **spec},
    }


def trigger(conditions: str | None = None, /, **more: Any) -> dict[str, Any]:
    template: dict[str, Any] = {"name": "t", "argoWorkflow": {"operation": "submit"}}
    template |= {} if conditions is None else {"conditions": conditions}
    return {"template": template | more.pop("template", {}), "atLeastOnce": True, **more}


def read(given: dict[str, Any]) -> list[Subscription | Unread]:
    return sensors([Resource("document 1", given)])


def one(*args: Any, **named: Any) -> Subscription:
    _, found = read(sensor(*args, **named))
    assert isinstance(found, Subscription)
    return found


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


# Filters


def where(filters: Any, operator: str | None = None) -> Any:
    exact, text = exact_and_where(Members(filters, "filters"), operator, [])
    return event(**{"source": "shop", **exact}, where=text)


VALUES: dict[str, Any] = {
    "string": st.sampled_from(("", "a", "ab", "b", "abc", "5", "true", "it's", "\\d")),
    "number": st.sampled_from((-1, 0, 0.5, 5, 5.0, 100)),
    "bool": st.booleans(),
}
PATTERNS = {
    "string": st.sampled_from(("a", "^a", "b$", "^ab?$", "5", ".", "it's", "[ab]{2}", "\\\\d", "^$")),
    "number": st.sampled_from(("0", "0.5", "5", "5.00", "-1", "+1e2", ".5")),
    "bool": st.sampled_from(("true", "false", "1", "f", "TRUE")),
}
SIGNS = {
    "string": ("", "=", "!="),
    "number": ("", "=", "!=", ">", ">=", "<", "<="),
    "bool": ("", "=", "!=", ">"),
}
PATHS = {"string": "body.s", "number": "body.more.0.n", "bool": "body.b-1"}


@st.composite
def entries(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from(("string", "number", "bool")))
    return {
        "path": draw(st.sampled_from((PATHS[kind],) * 5 + ("body.none",))),
        "type": kind,
        "comparator": draw(st.sampled_from(SIGNS[kind])),
        "value": draw(st.lists(PATTERNS[kind], min_size=1, max_size=2)),
    }


CLOCKS = st.sampled_from(("00:00:00", "09:00:00", "17:30:10", "23:59:59"))
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "data": st.lists(entries(), min_size=1, max_size=3),
        "dataLogicalOperator": st.sampled_from(("", "and", "or")),
        "time": st.fixed_dictionaries({"start": CLOCKS, "stop": CLOCKS}),
        "context": st.fixed_dictionaries(
            {}, optional={"type": st.sampled_from(("x", "y")), "subject": st.just("s")}
        ),
    },
)
SENT = st.fixed_dictionaries(
    {
        "data": st.fixed_dictionaries(
            {
                "s": VALUES["string"],
                "more": st.builds(lambda n: [{"n": n}], VALUES["number"]),
                "b-1": VALUES["bool"],
            }
        ),
        "time": st.sampled_from(("00:00:00", "08:59:59", "09:00:00", "12:00:00", "17:30:10", "23:59:59")),
        "type": st.sampled_from(("x", "y")),
        "subject": st.sampled_from(("s", "t")),
    }
)  # fmt: skip


def looked_up(data: Any, path: str) -> Any:
    for step in path.split(".")[1:]:
        data = data[int(step)] if step.isdigit() else data[step]
    return data


def entry_passes(entry: Any, data: Any) -> bool:
    """As a Sensor decides: one of the values has to satisfy the comparator; a bool has none."""
    try:
        value = looked_up(data, entry["path"])
    except (KeyError, IndexError):
        return False
    sign = entry["comparator"] or "="
    if entry["type"] == "string":
        return any(bool(re.search(each, value)) is (sign == "=") for each in entry["value"])
    if entry["type"] == "bool":
        return any((each in ("true", "1", "TRUE")) is value for each in entry["value"])
    compare = {
        "=": lambda x, y: x == y, "!=": lambda x, y: x != y, ">": lambda x, y: x > y,
        ">=": lambda x, y: x >= y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y,
    }[sign]  # fmt: skip
    return any(compare(value, float(each)) for each in entry["value"])


def passes(filters: Any, operator: str, sent: Any) -> bool:
    parts = []
    if filters.get("data"):
        join = any if filters.get("dataLogicalOperator") == "or" else all
        parts.append(join(entry_passes(each, sent["data"]) for each in filters["data"]))
    if filters.get("context"):
        parts.append(all(sent[name] == value for name, value in filters["context"].items()))
    if "time" in filters:
        start, stop = filters["time"]["start"], filters["time"]["stop"]
        after, before = sent["time"] >= start, sent["time"] < stop
        parts.append((after and before) if start < stop else (after or before))
    return any(parts) if operator == "or" and parts else all(parts)


@given(
    filters=FILTERS, operator=st.sampled_from(("", "and", "or")), sent=st.lists(SENT, min_size=6, max_size=6)
)
@settings(max_examples=200)
def test_a_matcher_accepts_the_events_that_pass_the_filters_of_a_sensor(
    filters: Any, operator: str, sent: Any
) -> None:
    if operator == "or" and filters.get("context") == {}:
        with pytest.raises(NotTranslated, match="each event passes"):
            where(filters, operator)
        return
    wanted = [passes(filters, operator, each) for each in sent]
    try:
        made = where(filters, operator)
    except ValueError:  # as no event passes
        assert not any(wanted)
        return
    found = [
        made.accepts(
            Event.of(
                each["type"],
                "shop",
                subject=each["subject"],
                time=f"2026-11-20T{each['time']}Z",
                data=each["data"],
            )
        )
        for each in sent
    ]
    assert found == wanted


@pytest.mark.parametrize(
    ("kind", "sign", "values", "noted"),
    [
        ("string", "!=", ["foo", "bar"], True),
        ("number", "!=", ["1", "2"], True),
        ("string", "!=", ["foo"], False),
        ("string", "=", ["foo", "bar"], False),
        ("bool", "!=", ["true", "false"], False),
    ],
)
def test_a_note_says_that_a_differing_value_is_enough(
    kind: str, sign: str, values: list[str], noted: bool
) -> None:
    """argoproj/argo-events#3215, #3808: such filters were meant as "none of these"."""
    entry = {"path": "body.x", "type": kind, "comparator": sign, "value": values}
    found = one(trigger("a"), dependencies=({**A, "filters": {"data": [entry]}},))
    assert ("spec.dependencies[0].filters.data[0].comparator" in dict(found.differs)) is noted


def test_a_time_is_that_of_its_zone() -> None:
    made = where({"time": {"start": "09:00:00", "stop": "10:00:00", "timezone": "Europe/Berlin"}})
    assert made.accepts(Event.of("x", "shop", time="2026-07-01T07:30:00Z"))
    assert not made.accepts(Event.of("x", "shop", time="2026-07-01T09:30:00Z"))


def test_an_hour_may_have_one_digit_as_go_reads_it() -> None:
    made = where({"time": {"start": "9:00:00", "stop": "10:00:00"}})
    assert made.accepts(Event.of("x", "shop", time="2026-07-01T09:30:00Z"))


def test_an_operator_of_expressions_that_joins_none_is_ignored() -> None:
    wanted: dict[str, Any] = {"context": {"type": "x"}, "exprLogicalOperator": "or"}
    assert where(wanted) == where({"context": {"type": "x"}})


@pytest.mark.parametrize(("operator", "noted"), [("or", True), ("and", False), (None, False)])
def test_a_member_that_is_missing_leaves_the_other_filters_of_an_or_and_a_note_says_so(
    operator: str | None, noted: bool
) -> None:
    """argoproj/argo-events: the page on filters, and `Filter` in pkg/sensors/dependencies/filter.go."""
    notes: list[FieldNote] = []
    filters = {
        "context": {"type": "x"},
        "data": [{"path": "body.n", "type": "number", "comparator": ">", "value": ["3"]}],
    }
    exact, text = exact_and_where(Members(copy.deepcopy(filters), "filters"), operator, notes)
    made = event(**{"source": "shop", **exact}, where=text)
    assert made.accepts(Event.of("x", "shop", data={"m": 1})) is noted
    assert ("filtersLogicalOperator" in dict(notes)) is noted


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"exprs": [{"expr": "a > 1", "fields": []}]}, "exprs"),
        ({"exprs": [], "exprLogicalOperator": "or"}, "exprs"),
        ({"script": "return true"}, "script"),
        ({"other": 1}, "other"),
        ({"data": {}}, "data"),
        ({"data": [1]}, "data[0]"),
        ({"dataLogicalOperator": "xor"}, "dataLogicalOperator"),
        ({"data": [{"path": "body.*", "type": "bool", "value": ["true"]}]}, "data[0].path"),
        ({"data": [{"path": "a.#", "type": "bool", "value": ["true"]}]}, "data[0].path"),
        ({"data": [{"path": "header.x", "type": "bool", "value": ["true"]}]}, "data[0].path"),
        ({"data": [{"path": "", "type": "bool", "value": ["true"]}]}, "data[0].path"),
        ({"data": [{"path": "a", "type": "bool", "value": []}]}, "data[0].value"),
        ({"data": [{"path": "a", "type": "bool", "value": [True]}]}, "data[0].value"),
        ({"data": [{"path": "a", "type": "bool", "value": ["yes"]}]}, "data[0].value"),
        ({"data": [{"path": "a", "type": "number", "value": ["0x1"]}]}, "data[0].value"),
        (
            {"data": [{"path": "a", "type": "string", "comparator": ">", "value": ["a"]}]},
            "data[0].comparator",
        ),
        (
            {"data": [{"path": "a", "type": "string", "comparator": "~", "value": ["a"]}]},
            "data[0].comparator",
        ),
        ({"data": [{"path": "a", "type": "object", "value": ["a"]}]}, "data[0].type"),
        (
            {"data": [{"path": "a", "type": "string", "value": ["a"], "template": "{{.}}"}]},
            "data[0].template",
        ),
        ({"time": {"start": "9:00", "stop": "10:00:00"}}, "time.start"),
        ({"time": {"start": "09:00:00"}}, "time.stop"),
        ({"time": {"start": "09:00:00", "stop": "10:00:00", "timezone": "a'b"}}, "time.timezone"),
        ({"time": {"start": "09:00:00", "stop": "10:00:00", "days": ["Mon"]}}, "time.days"),
    ],
    ids=str,
)
def test_a_filter_that_cannot_be_carried_over_is_refused_by_its_path(filters: Any, field: str) -> None:
    notes: list[FieldNote] = []
    with pytest.raises(NotTranslated) as caught:
        exact_and_where(Members(copy.deepcopy(filters), "filters"), None, notes)
    assert caught.value.field == f"filters.{field}"


@pytest.mark.parametrize("kind", ["string", "number"])
def test_a_note_says_that_one_of_several_values_is_enough_to_differ(kind: str) -> None:
    """argoproj/argo-events#3215, #3808: nearly each event passes, and authors mean none of the values."""
    for values, wanted in ((["1", "2"], ["filters.data[0].comparator"]), (["1"], [])):
        notes: list[FieldNote] = []
        entry = {"path": "body.x", "type": kind, "comparator": "!=", "value": values}
        exact_and_where(Members({"data": [entry]}, "filters"), None, notes)
        assert [note.field for note in notes if note.field.endswith("comparator")] == wanted


def test_the_name_of_filters_in_an_old_file_refuses_nothing() -> None:
    """argoproj/argo-events#872: no Sensor read it, and files from before 1.0 have it."""
    filters = {"name": "data-filter", "context": {"type": "x"}}
    assert exact_and_where(Members(filters, "filters"), None, []) == ({"type": "x"}, None)


def test_what_a_sensor_does_not_compare_is_left_out() -> None:
    notes: list[FieldNote] = []
    context = {"id": "1", "specversion": "1.0", "time": "2026-11-20T00:00:00Z", "type": "x"}
    assert exact_and_where(Members({"context": context}, "filters"), None, notes) == ({"type": "x"}, None)
    assert [note.field for note in notes] == [
        f"filters.context.{name}" for name in ("id", "specversion", "time")
    ]
