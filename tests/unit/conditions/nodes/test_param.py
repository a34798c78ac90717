"""Parameters of a condition, and templates in one, which are errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from interlock import Condition, ConditionError, count, dag_run, event, param, sequence, spark_application
from interlock.conditions import explain_rehearsal, parse, rehearse
from interlock.conditions.filters import Exact, Prefix, Sql
from interlock.engine.records import Registration
from interlock.events import Event

ORDERS = event("order", subject=param("customer"), by="data.day")
RATES = event(
    "rate", where="data.currency == param.currency && event.subject != 'param.customer'", by="data.day"
)


def order(customer: str, **data: Any) -> Event:
    data = {"day": "2026-11-20", **data}
    return Event.of("order", "/shop", id=str(data), subject=customer, time="2026-11-20T06:00:00Z", data=data)


def test_a_condition_names_its_parameters_in_the_order_of_their_appearance() -> None:
    assert (ORDERS & RATES).params == ("customer", "currency")
    assert event("a").params == ()


def test_a_bound_condition_waits_for_the_value_and_nothing_else() -> None:
    bound = ORDERS.bind(customer="acme")
    assert bound == event("order", subject="acme", by="data.day", label="order")
    assert bound.params == ()
    assert rehearse(bound, [order("umbrella")]) == []
    assert len(rehearse(bound, [order("acme")])) == 1


def test_labels_do_not_depend_on_the_values() -> None:
    pair = event("order", subject=param("a")) & event("order", subject=param("b"))
    assert (
        pair.labels
        == pair.bind(a="x", b="y").labels
        == pair.bind(a="x", b="x").labels
        == ("order", "order#2")
    )
    assert event(subject=param("customer")).labels == ("customer",)


def test_where_reads_a_parameter_as_text_and_only_outside_of_texts_comments_and_members() -> None:
    loops = "data.items.exists(param, param.x == 1)"
    assert event("a", where=loops).params == ()
    assert event("a", where="data.param.x == 'param.y' // param.z\n").params == ()
    assert event("a", where="double(param.limit) < data.amount").params == ("limit",)
    assert event("a", where="timestamp(param.from) < timestamp(data.t)").params == ("from",)
    assert event("a", where="data.x == param.a && int(param.b) < data.n").params == ("a", "b")
    cheap, dear = (order("acme", amount=amount) for amount in (5, 50))
    bound = event("order", where="double(param.limit) < data.amount").bind(limit=10)
    assert [len(rehearse(bound, [each])) for each in (cheap, dear)] == [0, 1]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("param.limit < data.amount", 10),
        ("data.amount > param.limit", 10),
        ("double(param.limit) < data.amount", "10"),
        ("data.dear == param.dear", True),
    ],
)
def test_a_number_or_bool_keeps_its_type_in_where(where: str, value: object) -> None:
    """As a text it would be compared with a number and never pass."""
    cheap, dear = (order("acme", amount=amount, dear=amount > 10) for amount in (5, 50))
    bound = event("order", where=where).bind(**{where.partition("param.")[2].split()[0].rstrip(")"): value})
    assert [len(rehearse(bound, [each])) for each in (cheap, dear)] == [0, 1]


@pytest.mark.parametrize(
    "value", ["it's", 'a"b', "\\", "x' || true || '", '" == "" || "" == "', "é\U0001f600", "{{ ds }}"]
)
def test_a_value_is_a_text_whatever_its_signs(value: str) -> None:
    """A value that ends the literal around it (injection into a filter)."""
    bound = event("order", where="data.name == param.name").bind(name=value)
    assert len(rehearse(bound, [order("acme", name=value)])) == 1
    assert rehearse(bound, [order("acme", name="other")]) == []


@pytest.mark.parametrize(
    ("where", "values", "data"),
    [
        (
            'timestamp(data.t) >= timestamp(param.day + "T00:00:00Z")',
            {"day": "2026-11-20"},
            {"t": "2026-11-20T06:00:00Z"},
        ),
        (
            " && ".join(f"data.x > double(param.{name})" for name in "abcd"),
            {"a": "1", "b": "2", "c": "3", "d": 4},
            {"x": 5},
        ),
        ("data.n > double(param.limit) && data.s == param.limit", {"limit": "7"}, {"n": 8, "s": "7"}),
        ("param.mode == 'full' && data.x > 1.0", {"mode": "full"}, {"x": 2}),
        ("param.on && data.x > 1.0", {"on": True}, {"x": 2}),
        ("data.x > param.y + 1", {"y": 5}, {"x": 7}),
        ("param.a + 1 == data.x && param.b == data.s", {"a": -5, "b": "s"}, {"x": -4, "s": "s"}),
        ("data.x - param.n == 6", {"n": -5}, {"x": 1}),
        ("data.x == param.n", {"n": 2**63}, {"x": 2**63}),
        ("data.x.matches(param.pattern)", {"pattern": "^a"}, {"x": "ab"}),
        (
            "timestamp(data.t).getHours(param.zone) == 7",
            {"zone": "Europe/Berlin"},
            {"t": "2026-11-20T06:00:00Z"},
        ),
        ("data.x.size() > int(param.n)", {"n": "1"}, {"x": [1, 2]}),
        (
            r'''data.p == r"C:\" && data.c == param.c && data.d == "x"''',
            {"c": "q"},
            {"p": "C:\\", "c": "q", "d": "x"},
        ),
        ("data.p == r'param.x' && data.c == param.c", {"c": "q"}, {"p": "param.x", "c": "q"}),
    ],
)  # fmt: skip
def test_where_is_checked_without_values_that_stand_for_the_parameters(
    where: str, values: dict[str, Any], data: dict[str, Any]
) -> None:
    """Valid conditions were import errors, because no sample value was a date, or fitted four parameters."""
    matcher = event("order", where=where)
    assert sorted(matcher.params) == sorted(values)
    bound = matcher.bind(**values)
    assert len(rehearse(bound, [order("acme", **data)])) == 1
    assert rehearse(bound, [order("acme")]) == []
    assert parse(str(matcher)) == pickle.loads(pickle.dumps(matcher)) == matcher
    assert parse(str(bound)) == pickle.loads(pickle.dumps(bound)) == bound


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("data.x > param.y + true", "no matching overload"),
        ("param.a.startsWith('x') && data.x > param.a + 1", "no matching overload"),
        ("data.x = param.y", "write == for ="),
        ("data.x == param.a && data.y == int('b')", r"int\('b'\) fails on every event"),
        ("data.x == param.a && false", "never true"),
        ("data.x == param.a && data.y == 1 && data.y == 2", "never true"),
        ("data.x == param.a && data.y.matches('(')", "does not close a group"),
        ("param.a == 'x'", "neither data nor event"),
        ("data.x ? param.a : param.b + 'x'", "not true or false"),
        ("has(param.a) && data.x == 1", "a parameter always has a value"),
        ("data.x == param['a']", r"write param\.name"),
        ("data.x == param.a && size(param) > 1", r"write param\.name"),
        ("data.l.exists(param, param.x == 1) && data.y == param.y", "give the loop's variable another name"),
    ],
)
def test_where_that_no_value_makes_valid_is_an_error_before_there_are_values(
    where: str, sentence: str
) -> None:
    with pytest.raises(ConditionError, match=sentence):
        event("order", where=where)


def test_constants_are_checked_with_the_values() -> None:
    with pytest.raises(ConditionError, match=r"timestamp\(.*\) fails on every event"):
        event("a", where="timestamp(data.t) > timestamp(param.t)").bind(t="tomorrow")
    with pytest.raises(ConditionError, match="double"):
        event("a", where="data.x > double(param.x)").bind(x="many")


@pytest.mark.parametrize("value", ["日" * 2048, "Müller " * 200, '"' * 2048, "\n" * 1000, "é\\" * 1000])
def test_a_long_value_does_not_make_where_too_long(value: str) -> None:
    """110 Japanese letters were too many, because each became ten characters."""
    one = event("order", where="data.name == param.name").bind(name=value)
    assert len(rehearse(one, [order("acme", name=value)])) == 1
    several = event("order", where=" && ".join(f"data.name != param.p{n}" for n in range(3)))
    bound = several.bind(**{f"p{n}": value[:2040] + str(n) for n in range(3)})
    for same in (parse(str(bound)), Condition.from_json(bound.to_json()), pickle.loads(pickle.dumps(bound))):
        assert same == bound


def test_a_value_is_shown_as_it_is_written() -> None:
    bound = event("order", where="data.name == param.name").bind(name="Müller & 日本")
    assert 'where="data.name == \\"Müller & 日本\\""' in str(bound)


def test_the_limit_of_a_where_that_an_author_writes_stays() -> None:
    with pytest.raises(ConditionError, match="at most 1024"):
        event("order", where=f"data.name == '{'x' * 1024}'")
    with pytest.raises(
        ConditionError, match="in string literals, with the values of its parameters: at most 16384"
    ):
        event("a", where=" || ".join(["data.x == param.a"] * 9)).bind(a="x" * 1900)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ORDERS.bind(), r"without a value: customer\. Give the task param_values="),
        (
            lambda: ORDERS.bind(customer="a", day="b"),
            "'day', which the condition does not read: its parameters are customer",
        ),
        (lambda: event("a").bind(x="y"), "it has no parameters"),
        (lambda: ORDERS.bind(customer=""), "is empty"),
        (lambda: ORDERS.bind(customer=None), "customer is None: give a text"),  # type: ignore[arg-type]
        (lambda: ORDERS.bind(customer=0.5), r'give it as text, "0.5", .*double\(param.customer\)'),  # type: ignore[arg-type]
        (lambda: ORDERS.bind(customer="x" * 3000), "at most 2048"),
        (lambda: param("a b"), "give a name of letters"),
        (lambda: f"orders/{param('x')}", "cannot be a part of a text"),
        (lambda: "orders/" + param("x"), "cannot be a part of a text"),
        (lambda: event("a", by=param("x")), "give a path"),
        (lambda: event("a", label=param("x")), "give a string"),
        (lambda: Prefix(subject=param("x")), "give a string"),  # type: ignore[arg-type]
        (lambda: event("a", Subject=param("x")), "did you mean subject"),
        (lambda: event("a", my_header=param("x")), "not the name of an attribute"),
        (lambda: event("a", where="data.x > param.y + true"), "no matching overload"),
        (lambda: dag_run(param("x")), r"write event\(type=..., subject=param"),  # type: ignore[call-overload]
        (lambda: event("a", where="data.x.matches(param.y)").bind(y="("), "does not close a group"),
    ],
)
def test_a_parameter_that_cannot_be_is_an_error(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConditionError, match=sentence):
        call()


@pytest.mark.parametrize(
    "use",
    [
        lambda condition: condition.to_json(),
        lambda condition: Registration.of("s", condition, None, 0),
        lambda condition: rehearse(condition, [order("acme")]),
        lambda condition: explain_rehearsal(condition, [order("acme")]),
        lambda condition: condition.check(),
    ],
)
@pytest.mark.parametrize("condition", [ORDERS, RATES, count(ORDERS, 2), sequence(ORDERS, RATES)], ids=str)
def test_nothing_evaluates_registers_or_stores_a_condition_without_its_values(
    condition: Condition, use: Callable[[Condition], object]
) -> None:
    with pytest.raises(ConditionError, match=r"parameters without a value: .* write condition\.bind\("):
        use(condition)


def test_even_a_matcher_by_itself_accepts_nothing_without_its_values() -> None:
    for matcher in (ORDERS, event("order", where="data.day != param.day")):
        assert not matcher.accepts(order("acme"))
        assert "without a value" in str(matcher.verdict(order("acme")).error)


def test_text_and_pickle_keep_parameters() -> None:
    both = ORDERS & RATES
    assert 'subject=param("customer")' in str(both)
    for same in (parse(str(both)), pickle.loads(pickle.dumps(both))):
        assert (same, same.params) == (both, both.params)
        assert hash(same) == hash(both)
    assert event("order", subject=param("a")) != event("order", subject=param("b"))
    with pytest.raises(ConditionError, match=r"give a string in quotes, or a parameter"):
        parse("event(5)")


@pytest.mark.parametrize(
    "build",
    [
        lambda: event("{{ ds }}"),
        lambda: event("a", subject="{{ ds }}"),
        lambda: event("a", source="x-{{ ds }}"),
        lambda: event("a", tenant="{% if x %}y{% endif %}"),
        lambda: event("a", where="data.day == '{{ ds }}'"),
        lambda: event("a", by="data.{{ x }}"),
        lambda: event("a", by=["subject", "data.{{ x }}"]),
        lambda: event("a", label="{{ ds }}"),
        lambda: event("a", filters=[Exact(subject="{{ ds }}")]),
        lambda: event("a", filters=[~Prefix(subject="{{ ds }}")]),
        lambda: event("a", filters=[Sql("subject = '{{ ds }}'")]),
        lambda: event("a", filters=[{"any": [{"suffix": {"subject": "{{ ds }}"}}]}]),
        lambda: dag_run("{{ params.dag }}"),
        lambda: dag_run("a", deployment="{{ var.value.name }}"),
        lambda: spark_application("a", application="{{ x }}"),
        lambda: parse("event('a', subject='{{ ds }}')"),
    ],
)
def test_a_template_in_a_condition_is_refused_and_the_error_says_what_to_write(
    build: Callable[[], object],
) -> None:
    """A sensor whose filter had a template waited for ever (Airflow users expect rendering everywhere)."""
    with pytest.raises(ConditionError, match=r"a condition is not rendered.*(key=|param_values=)"):
        build()


def test_the_error_about_a_template_shows_the_key_and_the_parameter_to_write() -> None:
    with pytest.raises(ConditionError) as raised:
        event("a", subject="{{ ds }}")
    assert "by=\"subject\" here and key='{{ ds }}' in the task" in str(raised.value)
    assert "subject=param(\"day\"), and param_values={'day': '{{ ds }}'}" in str(raised.value)


def test_braces_in_where_are_written_as_escapes_and_stored_conditions_with_them_stay_readable() -> None:
    literal = event("order", where=r"data.text == '\x7b{ ds }}'")
    assert len(rehearse(literal, [order("acme", text="{{ ds }}")])) == 1
    form = {"v": 1, "condition": {"event": {"exact": {"type": "a", "subject": "{{ ds }}"}}}}
    assert Condition.from_json(form).to_json() == form


@pytest.mark.parametrize(
    "make",
    [
        lambda: event("t", subject="orders-%s" % param("customer")),  # noqa: UP031
        lambda: event("t", subject=str(param("customer"))),
        lambda: event("t", where="data.customer == '%s'" % param("customer")),  # noqa: UP031
        lambda: event("t", filters=[Prefix(subject=str(param("customer")))]),
    ],
    ids=["percent", "str", "where", "filter"],
)
def test_a_parameter_that_was_put_into_a_text_is_an_error(make: Callable[[], object]) -> None:
    """It was compared with the text param("customer")."""
    with pytest.raises(ConditionError, match="cannot be a part of a text: give the whole text"):
        make()
