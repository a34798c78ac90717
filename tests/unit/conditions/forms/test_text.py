"""Conditions as text: what `str()` gives, and names joined with && and ||."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from interlock.conditions import AllOf, Condition, ConditionError, at_least, count, event, parse, sequence
from interlock.conditions.filters import All, Exact, Not, Prefix, Sql, Suffix
from interlock.conditions.filters import Any as AnyFilter
from interlock.conditions.forms import text, vocabulary
from interlock.conditions.grammar import Grammar
from interlock.conditions.nodes.timers import absent
from interlock.conditions.recipes import presets
from interlock.conditions.recipes.completions import dag_run, spark_application, task_instance

from .generators import conditions

a, b, c = event("a"), event("b"), event("c")
NAMES = {"orders": a, "rates": b, "override-2": c, "2nd_try": c}


@settings(max_examples=50)
@given(conditions())
def test_the_text_of_a_condition_parses_to_an_equal_one(condition: Condition) -> None:
    parsed = parse(str(condition))
    assert parsed == condition
    assert str(parsed) == str(condition)


@pytest.mark.parametrize(
    ("source", "meant"),
    [
        ("orders", a),
        ("orders && rates", a & b),
        ("orders || rates && override-2", a | (b & c)),
        ("(orders || rates) && 2nd_try", (a | b) & c),
        ("orders & rates | override-2", (a & b) | c),
        ("orders && (rates & override-2)", AllOf(a, b, c)),
        ("orders && orders", a),
        ("(orders && rates).within('2h')", (a & b).within("2h")),
        ("(orders && !rates).within(hours=1.5)", (a & ~b).within("90m")),
        ("(orders && ~(rates || 2nd_try)).within('2h')", (a & ~(b | c)).within("2h")),
        ("!!orders", a),
        ("orders.quiet('5m') || rates", a.quiet("5m") | b),
        ('event("a") & event(type="b", by="subject")', a & event("b", by="subject")),
        (
            "event('a', tenant='t', by=('subject', 'data.x'),)",
            event("a", tenant="t", by=("subject", "data.x")),
        ),
        ("event('a', by=['subject', 'data.x'])", event("a", by=("subject", "data.x"))),
        ("event('a', where=\"data.x == 'y'\")", event("a", where="data.x == 'y'")),
        ("event('a', keep='all', limit=3)", event("a", keep="all", limit=3)),
        (
            "event(filters=[All(Exact(type='x'), Any(Suffix(subject='b'), Not(Sql('level = 1'))))])",
            event(filters=[All(Exact(type="x"), AnyFilter(Suffix(subject="b"), Not(Sql("level = 1"))))]),
        ),
        (
            """event(filters=[{"any": [{"prefix": {"subject": "x"}}, {"not": {"sql": "level = 1"}},],}])""",
            event(filters=[AnyFilter(Prefix(subject="x"), Not(Sql("level = 1")))]),
        ),
        (
            "event(filters=[Exact({'class': 'x', 'type': 'y'})])",
            event(filters=[Exact({"class": "x", "type": "y"})]),
        ),
        ("at_least(2, orders, rates, override-2)", at_least(2, a, b, c)),
        ("at_least(1, orders, rates)", a | b),
        ("count(orders, 3)", count(a, 3)),
        ("count(n=3, matcher=orders)", count(a, 3)),
        ("sequence(orders, rates, ordered=False)", sequence(a, b, ordered=False)),
        ("absent(orders, minutes=10, armed_by='subscription')", absent(a, "10m", armed_by="subscription")),
        (
            "(orders & rates).resets('0 6 * * *', timezone='Europe/London', lateness='5m')",
            (a & b).resets("0 6 * * *", timezone="Europe/London", lateness="5m"),
        ),
        (
            "(orders & rates).within('1h', lateness='0s').expires(after='2h', at='2026-11-20T18:00+01:00')",
            (a & b).within("1h", lateness="0s").expires(after="2h", at="2026-11-20T17:00:00Z"),
        ),
        ("orders.expires(after='2h', armed_by='event')", a.expires(after="2h", armed_by="event")),
        ("(orders & rates).ordered()", (a & b).ordered()),
        ("all_of(orders, rates)", a & b),
        ("all_of(orders, rates, within='1h') | override-2", (a & b).within("1h") | c),
        ("any_of(orders, rates)", a | b),
        ("any_of(orders)", a),
        ("every_nth(orders, 3)", count(a, 3)),
        ("burst(orders, n=3, within='1h')", count(a, 3).within("1h")),
        ("debounce(orders | rates, '5m')", (a | b).quiet("5m")),
        ("heartbeat(orders, '10m')", absent(a, "10m")),
        (
            "heartbeat(orders, every='10m', armed_by='subscription')",
            absent(a, "10m", armed_by="subscription"),
        ),
        ("not_followed_by(orders, rates, '1h')", (a & ~b).within("1h")),
        (
            "daily(orders, rates, timezone='Europe/London')",
            (a & b).resets("0 0 * * *", timezone="Europe/London"),
        ),
        ("daily(orders, rates)", (a & b).resets("0 0 * * *")),
        ("(orders & rates).keep('all', limit=10)", (a & b).keep("all", limit=10)),
        (" orders\n\t&& rates\r\n", a & b),
        (
            r"""event("it's", subject='say \"x\"\n\t\\ \x41\u00e9\U0001F600\101')""",
            event("it's", subject='say "x"\n\t\\ Aé\U0001f600A'),
        ),
    ],
)
def test_text_means_the_same_as_python(source: str, meant: Condition) -> None:
    assert parse(source, NAMES) == meant


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "line 1, column 1: expected a condition, found the end"),
        ("orders &&", "line 1, column 10: expected a condition, found the end"),
        ("orders\n  && && rates", "line 2, column 6: expected a condition, found '&&'"),
        ("orders rates", "line 1, column 8: expected &, |, a method or the end, found 'rates'"),
        ("orders and rates", "line 1, column 8: write & for and"),
        ("not orders", "line 1, column 5: write ~ for not"),
        ("orders AND rates", "line 1, column 8: write & for AND"),
        ("orders\n or rates", "line 2, column 2: write | for or"),
        ("orders Or rates", "column 8: write | for Or"),
        ("NOT orders", "column 5: write ~ for NOT"),
        ("(not orders)", "column 6: write ~ for not"),
        ("rates &\nnot orders", "line 2, column 5: write ~ for not"),
        ("(orders & rates).within(2h)", 'column 25: durations are written in quotes: "2h"'),
        ("debounce(orders, 1h30m)", 'column 18: durations are written in quotes: "1h30m"'),
        ("heartbeat(orders, every=500ms)", 'column 25: durations are written in quotes: "500ms"'),
        ("burst(orders, 3)", "column 1: burst() needs within"),
        ("daily()", "column 1: AllOf needs at least two"),
        ("daily(orders, timezone='x/y')", "column 1: "),
        ("all_of(orders, 2)", "column 16: argument 2 of all_of() is a number: give a condition"),
        ("heartbeat(orders, '10m', armed_by='x')", "column 1: absent(armed_by='x')"),
        ("orders.expires(after='2h', armed_by='x')", "column 8: expires(armed_by='x')"),
        ("(orders", "line 1, column 8: expected ',' or ')', found the end"),
        ("orders)", "line 1, column 7: expected the end, found ')'"),
        ("orders.within", "line 1, column 14: expected '(', found the end"),
        ("event(type='a", "column 12: this string is not closed"),
        ("event(type='a\n')", "column 12: this string is not closed"),
        ("event(type='\\d')", "column 13: \\d is not an escape sequence; for a backslash write \\\\"),
        ("event('\\U00110000')", "column 8: there is no such character"),
        ("event(b'x')", "found"),
        ("event({'a' 'b'})", "column 12: expected ':', found"),
        ("{1: 2}", "column 2: expected a string in quotes, found '1'"),
        ("order && rates", "column 1: there is no condition called 'order'; did you mean orders?"),
        ("nothing-alike", "column 1: there is no condition called 'nothing-alike'"),
        ("event", "event is a function: write event(...)"),
        ("evnt('x')", "there is no function evnt(): did you mean event"),
        ("__import__('os')", "there is no function __import__(): known are event, dag_run"),
        ("orders.witin('2h')", "column 8: there is no method witin(): did you mean within?"),
        ("orders.__class__()", "there is no method __class__()"),
        ("orders & 'rates'", "column 10: & joins conditions, and this is a string"),
        ("!'x'", "column 2: ! negates a condition, and this is a string"),
        ("'x'.within('2h')", "column 1: .within() belongs to a condition, and this is a string"),
        ("['x']", "column 1: this is a list, not a condition"),
        ("Prefix(subject='a')", "column 1: this is a filter, not a condition"),
        ("True", "this is True or False, not a condition"),
        ("(orders & rates).within(2)", "argument 1 of within() is a number: give a duration in quotes"),
        ("(orders & rates).within(hours='2')", "within(hours=...) is a string: give a number"),
        ("rates.within(foo='2')", "column 14: within() has no argument 'foo': known are duration, lateness"),
        ("(orders & rates).within('1h', '2h')", "within() takes at most 1 argument without a name"),
        ("orders.ordered(1)", "ordered() takes no arguments without a name"),
        ("orders.within('1h')", "column 8: within() around event(type=\"a\") has no effect"),
        ("count(orders)", "column 1: count() needs n"),
        ("count(orders, True)", "argument 2 of count() is True or False: give a whole number"),
        ("count(orders, 1.5)", "give a whole number"),
        ("at_least(2, ['x'], orders)", "argument 2 of at_least() is a list: give a condition"),
        ("event('a', type='b')", "column 12: event() got type twice, without and with its name"),
        ("event(label='a', label='b')", "column 18: event() got label twice"),
        ("event(label='a', 'b')", "column 18: arguments without a name must come before those with one"),
        ("event('a', data='x')", "event(data=...) is reserved"),
        ("event('a', Type='x')", "did you mean type=?"),
        ("event('a', filters=[{'exact': {'type': 'x'}, 'any': []}])", "filters[0] must be an object with"),
        ("event('a', filters=[{'exact': {'type': 'x', 'type': 'y'}}])", "the name 'type' is given twice"),
        ("(orders & rates).resets('x')", "column 18: cron 'x'"),
        ("(orders & rates).within(hours=" + "9" * 19 + ")", "this number has more than 18 digits"),
    ],
)  # fmt: skip
def test_an_error_names_the_position_and_what_is_expected(source: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(source, NAMES)
    assert message in str(caught.value)


def test_every_preset_can_be_called_with_the_arguments_it_has_in_python() -> None:
    written = {
        name: made
        for name, made in vars(presets).items()
        if inspect.isfunction(made) and made.__module__ == presets.__name__ and not name.startswith("_")
    }
    assert len(written) >= 8
    for name, made in written.items():
        call = vocabulary.FUNCTIONS[name]
        assert call.build is made
        assert name in vocabulary.CONDITIONS
        arguments = inspect.signature(made).parameters.values()
        named = [each.name for each in arguments if each.kind is not each.VAR_POSITIONAL]
        assert [*call.positional, *call.keywords] == named


def test_an_error_in_a_short_line_points_to_the_place() -> None:
    with pytest.raises(ConditionError) as caught:
        parse("(orders &&\n  rates) & x", NAMES)
    assert str(caught.value).splitlines()[1:] == ["      rates) & x", "               ^"]
    with pytest.raises(ConditionError) as caught:
        parse("orders &" + " " * 100 + ")", NAMES)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["webhook-gateway:orders", "a:b", "1:a", "a:1", "gate_way:a-b:c_d", "a--b", "9a", "_"]
)
def test_a_name_may_have_argos_form_of_a_dependency(name: str) -> None:
    """Argo Events joins the names of a gateway and an event so."""
    names = {name: a, "rates": b}
    assert parse(f"({name}&&rates) || {name}", names) == (a & b) | a
    assert parse(f"at_least(1, {name}, rates)", names) == a | b
    filters = "filters=[{'prefix':{'subject':'y'}}]"
    parsed = parse(f"sequence({name}, rates) | event('x', {filters})", names)
    assert parsed == sequence(a, b) | event("x", filters=[Prefix(subject="y")])


@pytest.mark.parametrize(
    "name", ["orders.eu", "", "7", "-a", "a:", ":a", "a::b", "a: b", "a b", "a/b", "\u00e9", 7, None]
)
def test_a_name_that_no_text_can_use_is_refused_by_the_rule(name: str) -> None:
    with pytest.raises(ConditionError, match="no text can use the name"):
        parse("rates", {"rates": b, name: a})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gateway:order && rates", "column 1: there is no condition called 'gateway:order'; did you mean"),
        ("gateway : orders", "column 9: expected &, |, a method or the end, found ':'"),
        ("gateway: orders", "column 8: expected"),
        ("rates & :orders", "column 9: expected a condition, found ':'"),
    ],
)  # fmt: skip
def test_an_error_in_a_name_with_a_colon_says_what_is_expected(source: str, message: str) -> None:
    """Argo Events joins the names of a gateway and an event so."""
    with pytest.raises(ConditionError) as caught:
        parse(source, {"gateway": a, "gateway:orders": a, "rates": b})
    assert message in str(caught.value)


def test_without_names_a_name_is_unknown() -> None:
    with pytest.raises(ConditionError, match="'orders'; no names are known here"):
        parse("orders")
    with pytest.raises(ConditionError, match="stands for a string, not a condition"):
        parse("orders", {"orders": "a"})  # type: ignore[dict-item]
    with pytest.raises(ConditionError, match="is a bytes: give a string"):
        parse(b"orders")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (" " * (text.MAX_CHARS + 1), "has 65537 characters: at most 65536"),
        ("(" * (text.MAX_NESTING + 1), "column 65: brackets are nested more than 64 levels deep"),
        ("[" * 60_000, "nested more than 64 levels"),
        ("!" * text.MAX_TOKENS + "orders", "column 4501: the text is too long: at most 4500"),
        ("!" * 4400 + "orders", "more than 256 names, calls and ~"),
        ("orders" + " & orders" * 256, "more than 256 names, calls and ~"),
        ("(orders & rates)" + ".keep('first')" * 300, "more than 256 names, calls and ~"),
        ("(" + " & ".join(f"event('{n}')" for n in range(200)) + ")" + ".keep('all')" * 6, "too often"),
        (" & ".join(f"event('{n}')" for n in range(257)), "more than 256 names, calls and ~"),
        (" & ".join(f"event(where='data.x=={n} {' ' * 900}')" for n in range(9)), "4096 characters together"),
        ("event(filters=[" + f"{{'sql': 'a{' ' * 2040}= 1'}}," * 3 + "])", "4096 characters together"),
        ("'\n" * 30_000, "line 1, column 1: this string is not closed"),
        ("event('" + "x" * 60_000 + "')", "has 60000 characters: at most 2048"),
        ("event(filters=[" + "{'not':" * 30 + "{'sql': 'true'}" + "}" * 30 + "])", "more than 16 levels"),
    ],
)  # fmt: skip
def test_a_text_is_limited(source: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse(source, NAMES)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_brackets_in_strings_are_no_nesting() -> None:
    assert parse("event('" + "(" * 200 + "')") == event("(" * 200)
    assert parse("(" * 64 + "orders" + ")" * 64, NAMES) == a


def test_a_condition_as_large_as_allowed_parses() -> None:
    large = AllOf(*(event(f"t{n}", by="subject", label=f"l{n}") for n in range(255)))
    assert parse(str(large)) == large


def test_threads_share_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "grammar", Grammar(text.__package__ or "", "condition.lark"))
    barrier = threading.Barrier(8)
    found: list[Any] = []

    def run() -> None:
        barrier.wait()
        found.append((text.grammar.parser(), parse("(orders && rates) || override-2", NAMES)))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(parser) for parser, _ in found} == {id(found[0][0])}
    assert [condition for _, condition in found] == [(a & b) | c] * 8


def test_the_matchers_of_ends_are_known() -> None:
    orders = spark_application("orders", state=["succeeded", "failed"], by="data.date", offset="1d")
    text = 'spark_application("orders", state=["succeeded", "failed"], by="data.date", offset="1d")'
    assert parse(text) == orders
    assert parse('dag_run("d", by="ds") & task_instance("d", "t", by="ds")') == (
        dag_run("d", by="ds") & task_instance("d", "t", by="ds")
    )
    with pytest.raises(ConditionError, match="task_instance\\(\\) needs task_id"):
        parse('task_instance("d")')
