"""What all nodes share: where they are allowed, text, equality, limits. Case ids: docs/use/conditions.md."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from interlock.conditions import (
    AllOf,
    AtLeast,
    Condition,
    ConditionError,
    absent,
    at_least,
    count,
    dag_run,
    event,
    from_json,
    sequence,
    spark_application,
    task_instance,
)
from interlock.conditions.nodes.condition import MAX_NODES

from .timeline import NAMES

a, b, c, d, e = (event(letter, label=letter) for letter in "abcde")

# One of each kind of node; the text says what it is.
NODES: dict[str, Condition] = {
    "matcher": a,
    "all": a & b,
    "any": a | b,
    "any-of-more": a | (b & c),
    "at-least": at_least(2, a, b, c),
    "count": count(a, 2),
    "sequence": sequence(a, b),
    "within": (a & b).within("1h"),
    "resets": (a & b).resets("0 0 * * *"),
    "absent": absent(a, "10m"),
    "quiet": a.quiet("5m"),
    "timed": absent(a, "10m") & b,
    "negation": ~b,
    "negation-beside": a & ~b,
    "window-end": (a & ~b).within("1h"),
    "period-end": (a & ~b).resets("0 0 * * *"),
    "window-end-or": (a & ~b).within("1h") | c,
    "ordered": a.ordered(),
    "expires": a.expires(after="2h"),
}
EVENTS = {"matcher", "all", "any", "any-of-more", "at-least", "count", "sequence", "within", "resets"}
TIMED = {"absent", "quiet", "timed"}
ENDS = {"window-end", "period-end", "window-end-or"}
ONE_EVENT = {"matcher", "any"}

# The places in which a node can stand, and the nodes that may.
PLACES: dict[str, tuple[Callable[[Condition], Condition], set[str]]] = {
    "operand of &": (lambda node: node & d, EVENTS | TIMED | {"negation", "negation-beside"}),
    "operand of |": (lambda node: node | d, EVENTS | TIMED | ENDS),
    "operand of at_least": (lambda node: at_least(2, node, d, e), EVENTS | TIMED),
    "operand of count": (lambda node: count(node, 2), {"matcher"}),  # type: ignore[arg-type]
    "operand of sequence": (lambda node: sequence(d, node), EVENTS),
    "within": (lambda node: node.within("1h"), EVENTS - ONE_EVENT | {"negation-beside"}),
    "resets": (lambda node: node.resets("0 0 * * *"), EVENTS - ONE_EVENT | {"negation-beside"}),
    "window with ~": (lambda node: (node & ~e).within("1h"), EVENTS | {"negation", "negation-beside"}),
    "~": (lambda node: (d & ~node).within("1h"), {"matcher", "any", "negation"}),
    "absent": (lambda node: absent(node, "10m"), {"matcher", "any"}),
    "quiet": (lambda node: node.quiet("5m"), EVENTS),
    "ordered": (lambda node: node.ordered(), EVENTS | TIMED | ENDS | {"ordered", "expires"}),
    "expires": (lambda node: node.expires(after="2h"), EVENTS | TIMED | ENDS | {"ordered"}),
}  # fmt: skip
# `~` directly in a window has nothing that opens it; beside a `~` alone there is nothing either.
REFUSED = {("window with ~", "negation")}

ADVICE = {
    "negation": 'write (a & ~b).within("1h") or (a & ~b).resets("0 0 * * *"), or absent(b, "1h")',
    "negation-beside": 'write (a & ~b).within("1h") or (a & ~b).resets("0 0 * * *"), or absent(b, "1h")',
    "ordered": "put it outside, as the last call",
    "expires": "put it outside, as the last call",
}


@pytest.mark.parametrize(("place", "kind"), list(itertools.product(PLACES, NODES)))
def test_a_node_is_accepted_only_where_it_has_a_meaning(place: str, kind: str) -> None:
    """E1, E2, E9, B4, B5, U3, P5, Q3, X7"""
    build, allowed = PLACES[place]
    if kind in allowed and (place, kind) not in REFUSED:
        assert isinstance(build(NODES[kind]), Condition)
    else:
        with pytest.raises(ConditionError):
            build(NODES[kind])


@pytest.mark.parametrize(
    ("place", "kind", "message"),
    [
        *((place, kind, message)
          for kind, message in ADVICE.items() for place in ("operand of |", "operand of sequence")),
        *((place, kind, 'put the other conditions into the window, (a & ~b & c).within(...), or join with |')
          for place in ("operand of &", "operand of at_least", "operand of sequence", "within")
          for kind in sorted(ENDS)),
        *((place, kind, "put it beside them, with & or |")
          for place in ("operand of sequence", "within", "resets", "window with ~")
          for kind in sorted(TIMED)),
        ("operand of count", "all", "count each matcher, or let one accept several types with filters="),
        ("~", "all", "it negates a matcher, or matchers joined with |"),
        ("absent", "count", "join several absent() with &"),
        ("within", "matcher", "has no effect: a single event meets it"),
        ("resets", "any", "has no effect: a single event meets it"),
        ("within", "negation", 'write absent(b, "1h") for no event in an hour, or (a & ~b).within("1h")'),
        ("window with ~", "negation", '(absent(b, "1h") & absent(c, "1h"))'),
    ],
)  # fmt: skip
def test_an_error_about_a_misplaced_node_says_what_to_write_instead(
    place: str, kind: str, message: str
) -> None:
    build, _ = PLACES[place]
    with pytest.raises(ConditionError) as caught:
        build(NODES[kind])
    assert message in str(caught.value)
    assert len(str(caught.value)) < 900


@pytest.mark.parametrize("kind", ["negation", "negation-beside"])
def test_a_negation_without_a_window_is_no_whole_condition(kind: str) -> None:
    """E1"""
    for use in (NODES[kind].check, lambda: NODES[kind].plan, lambda: NODES[kind].check_key(False)):
        with pytest.raises(ConditionError, match="~ needs a window"):
            use()


FORMS = [
    *NODES.values(),
    (a & ~(b | c)).within("1h", lateness="5m"),
    (a & ~b & ~c).resets("30 6 * * 1-5", timezone="Europe/London", lateness="0s"),
    ((a & b).within("10m") & c).within("1d"),
    (a | (b & c)).within(timedelta(milliseconds=90_061_001)),
    (sequence(a, c) & ~b).within("1h"),
    sequence(a & b, c | d, ordered=False),
    sequence(sequence(a, b, ordered=False), c),
    sequence(a, a),
    at_least(2, count(a, 2), b | c, absent(d, "1m", armed_by="subscription")),
    absent(a | b, "1d12h"),
    (a & b & c).quiet("2s") | d,
    (absent(a, "1m") & b).ordered().expires(after="1h", at="2026-11-20T06:00:00.5Z"),
    (a & b).keep("first"),
    count(a, 2).keep("all", 7).within("1h"),
    event("x", by=("subject", "data.day"), keep="all", limit=3) & event("y", by=("data.a.b", "time")),
]


@pytest.mark.parametrize("condition", FORMS, ids=str)
def test_the_text_of_a_condition_is_python_that_builds_it_again(condition: Condition) -> None:
    built = eval(str(condition), dict(NAMES))
    assert (built, hash(built), str(built)) == (condition, hash(condition), str(condition))
    assert repr(condition) == str(condition)


@pytest.mark.parametrize("condition", FORMS, ids=str)
def test_a_copy_of_a_condition_is_equal_and_has_the_same_plan(condition: Condition) -> None:
    for copied in (pickle.loads(pickle.dumps(condition)), copy.deepcopy(condition)):
        assert (copied, hash(copied)) == (condition, hash(condition))
        assert copied.labels == condition.labels


def test_conditions_of_different_content_differ() -> None:
    different = [
        *FORMS,
        (a & b).within("2h"),
        (a & b).within("1h", lateness="1h"),  # the same effect, but different content
        (a & b).resets("0 1 * * *"),
        (a & b).resets("0 0 * * *", timezone="Europe/London"),
        count(a, 3),
        count(b, 2),
        at_least(2, a, c, b),
        sequence(a, b, ordered=False),
        sequence(b, a),
        absent(a, "10m", armed_by="subscription"),
        a.quiet("6m"),
        a.expires(after="3h"),
        a.expires(at="2026-11-20T06:00:00Z"),
        (a & ~b).within("1h", lateness="1m"),
    ]
    assert len(set(different)) == len(different)


def test_spellings_of_one_content_are_equal() -> None:
    assert (a & b).within("90m") == (a & b).within("1h30m") == (a & b).within(hours=1.5)
    assert (a & b).within(minutes=90) == (a & b).within(timedelta(minutes=90))
    assert (a & b).resets(" 0  0 * * * ") == (a & b).resets("@daily") == (a & b).resets("0 0 * * *")
    assert at_least(2, a, b, a, c) == at_least(2, a, b, c)
    assert a.expires(at="2026-11-20T06:00:00Z") == a.expires(at="2026-11-20T07:00:00+01:00")
    assert (
        a.expires("1h") == a.expires(after=timedelta(hours=1)) == Condition.parse("x.expires('1h')", {"x": a})
    )
    assert ~~a == a
    assert (a & b).ordered().expires(after="1h") == (a & b).expires(after="1h").ordered()


def test_matchers_and_labels_are_numbered_by_their_first_appearance() -> None:
    """C5, M7"""
    unlabelled = event("b")
    condition = ((sequence(c, a) & ~unlabelled).within("1h") | absent(a, "1m") | count(d, 2)).expires(
        after="1h"
    )
    assert condition.matchers == (c, a, unlabelled, d)
    assert condition.labels == ("c", "a", "b", "d")
    with pytest.raises(ConditionError, match="label 'b' names two matchers"):
        (a & ~b).within("1h") | event("other", label="b")


def test_keys_of_different_numbers_of_values_never_meet() -> None:
    one, two, three = (event(f"x{n}", by=("a", "b", "c")[:n] if n > 1 else "a") for n in (1, 2, 3))
    for pair in ((one, two), (two, three)):
        with pytest.raises(
            ConditionError, match=r"which are never equal: give each by= the same number of paths"
        ):
            sequence(*pair)
    with pytest.raises(ConditionError, match=r"read keys of 1 and 2 values"):
        (one & ~two).within("1h")
    assert (two & event("y", by=("c", "d"))).key_parts == 2


def test_a_key_goes_with_every_node() -> None:
    """K21, K22, K23, B2"""
    keyed, other, plain = event("x", by="subject"), event("y", by="subject"), event("z")
    for condition in (
        keyed & event("b", by="data.x"),
        sequence(keyed, other),
        (keyed & ~other).within("1h"),
        absent(keyed, "1m"),
        count(keyed, 2),
    ):
        condition.check_key(True)
        condition.check_key(False)
    for condition in (
        a & b,
        sequence(a, b),
        (a & ~b).within("1h"),
        absent(a, "1m"),
        count(a, 2).expires(after="1m"),
    ):
        condition.check_key(False)
        with pytest.raises(ConditionError, match="no matcher reads one: add by="):
            condition.check_key(True)
    for condition in (
        keyed & plain,
        sequence(keyed, plain),
        (keyed & ~plain).within("1h"),
        absent(plain, "1m") & keyed,
    ):
        assert condition.keyed
        condition.check_key(True)
        with pytest.raises(
            ConditionError, match="reads no key, but other matchers of the condition do: add by="
        ):
            condition.check_key(False)
    armed = absent(keyed, "1m", armed_by="subscription").expires(after="1h")
    armed.check_key(True)
    with pytest.raises(ConditionError, match=r'give the wait a key, or write armed_by="event"'):
        armed.check_key(False)
    absent(a, "1m", armed_by="subscription").check_key(False)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (dag_run("x"), 'subject="x"), such as dag_run("x", by="logical_date"), or drop the key'),
        (task_instance("x", "load"), 'such as task_instance("x", "load", by="logical_date"), or'),
        (dag_run("x", state="failed"), 'such as dag_run("x", ..., by="logical_date"), or'),
        (dag_run("x", deployment="b"), 'such as dag_run("x", ..., by="logical_date"), or'),
        (spark_application("orders"), 'such as spark_application("orders", by="data.date"), or'),
        (event("t") & dag_run("x"), 'such as dag_run("x", by="logical_date"), or'),
        (event("t"), 'event(type="t"), or drop the key'),
        (event("interlock.airflow.dag_run.succeeded"), 'succeeded"), or drop the key'),
        (event("interlock.spark.query.failed", subject="q"), 'subject="q"), or drop the key'),
    ],
)
def test_the_error_for_a_matcher_without_a_key_shows_the_recipe_with_one(
    condition: Any, expected: str
) -> None:
    """It showed only event(type=..., subject=...), which nobody had written."""
    with pytest.raises(ConditionError) as caught:
        condition.check_key(True)
    assert expected in str(caught.value)


def test_the_error_for_a_matcher_without_a_key_beside_others_shows_the_recipe_with_one() -> None:
    with pytest.raises(ConditionError) as caught:
        (event("t", by="subject") & dag_run("x")).check_key(False)
    assert 'add by= to it, such as dag_run("x", by="logical_date"), or give' in str(caught.value)


def test_every_node_counts_towards_the_limit() -> None:
    many = [event(f"t{n}") for n in range(MAX_NODES - 1)]
    full = AtLeast(2, *many)
    assert full.nodes == AllOf(*many).nodes == MAX_NODES
    half = [event(f"t{n}") for n in range(MAX_NODES - 4)]
    assert (sequence(*half[:-1]) & ~half[-1]).within("1h").nodes == MAX_NODES
    for too_many in (
        lambda: full.within("1h"),
        lambda: full.quiet("1h"),
        lambda: full.expires(after="1h"),
        lambda: full.ordered(),
        lambda: full.resets("0 0 * * *"),
        lambda: AllOf(*many, a),
    ):
        with pytest.raises(ConditionError, match="257 nodes: at most 256"):
            too_many()
    with pytest.raises(ConditionError, match="33 levels deep: at most 32"):
        _deep(32)
    deep = _deep(31)
    assert (deep.depth, from_json(deep.to_json())) == (32, deep)


def _deep(levels: int) -> Condition:
    condition: Condition = a
    for level in range(levels):
        other = event(f"t{level}")
        condition = condition & other if level % 2 else at_least(2, condition, other, b)
    return condition
