"""Random conditions with all nodes and filters, for hypothesis: every form must be able to express them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st
from interlock.conditions import (
    Absent,
    AllOf,
    AnyOf,
    AtLeast,
    Condition,
    ConditionError,
    Count,
    Expires,
    Matcher,
    Ordered,
    Quiet,
    Reset,
    Sequence,
    Within,
)
from interlock.conditions.filters import All, Exact, Filter, Not, Prefix, Sql, Suffix, Where
from interlock.conditions.filters import Any as AnyFilter
from interlock.conditions.nodes.templates import is_template

Draw = Callable[[st.SearchStrategy[Any]], Any]

# Among them words that cannot be keywords of Python or of event().
names = st.sampled_from(("type", "source", "subject", "tenant", "x1", "class", "1st", "by", "where", "topic"))
texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8) | st.sampled_from(
    ("a", "'", '"', "\\", "\\'\"", "#", "~(&", "a\nb", "\x00", "\u2028", "\U0001f600", "&& !")
)
texts = texts.filter(lambda text: not is_template(text))  # event() refuses templates
attributes = st.dictionaries(names, texts, min_size=1, max_size=3)
comparisons = st.builds(lambda kind, pairs: kind(pairs), st.sampled_from((Exact, Prefix, Suffix)), attributes)
sqls = st.sampled_from(("type = 'a'", "level > 3 AND EXISTS tenant", "subject LIKE '%\\\\_\"x'")).map(Sql)
filters: st.SearchStrategy[Filter] = st.recursive(
    comparisons | sqls,
    lambda inner: (
        st.builds(
            lambda kind, of: kind(*of),
            st.sampled_from((All, AnyFilter)),
            st.lists(inner, min_size=1, max_size=3),
        )
        | inner.map(Not)
    ),
    max_leaves=5,
)
wheres = st.sampled_from(('data.a == "x"', "event.type == 'a\\\\b' && data.n > 3", "true")).map(Where)
paths = st.sampled_from(
    (
        "subject",
        "time",
        "data.a.b",
        "day(data.a, Europe/Berlin) + 1d",
        "hour(time, UTC, ms)",
        "data.\u00fc x",
        'data."',
        "x1",
    )
)
keys = {
    "none": st.none(),
    "one": paths,
    "two": st.lists(paths, min_size=2, max_size=2, unique=True).map(tuple),
    "three": st.lists(paths, min_size=3, max_size=3, unique=True).map(tuple),
}
keeps = st.sampled_from(
    ((None, None), (None, None), ("latest", None), ("first", None), ("all", None), ("all", 7), ("all", 1000))
)
durations = st.integers(1, 366 * 86_400_000) | st.sampled_from((1, 1000, 60_000, 3_600_000, 90_061_001))
lateness = st.none() | st.just(0) | durations
crons = st.sampled_from(("0 0 * * *", "*/5 6-18 * * MON-FRI", "30 1 L * *", "@hourly"))
zones = st.sampled_from(("UTC", "Europe/London", "America/New_York"))
moments = st.integers(1, 253_402_214_400_000)


def matchers(key: str, label: st.SearchStrategy[str | None]) -> st.SearchStrategy[Matcher]:
    """Matchers of a kind of key."""

    def made(
        exact: dict[str, str], of: list[Filter], where: Where | None, by: Any, named: str | None, keep: Any
    ) -> Matcher:
        try:
            return Matcher(exact.items(), by, named, filters=of, where=where, keeps=keep[0], limit=keep[1])
        except ConditionError:  # two values for one attribute
            reject()

    exact_only = st.tuples(attributes, st.just([]), st.none())
    filtered = st.tuples(
        attributes | st.just({}), st.lists(filters, min_size=1, max_size=2), st.none() | wheres
    )
    return st.builds(
        lambda content, by, named, keep: made(*content, by, named, keep),
        exact_only | filtered,
        keys[key],
        label,
        keeps,
    )


@st.composite
def conditions(draw: Draw, depth: int = 3) -> Condition:
    """Whole conditions, of all nodes."""
    key = draw(st.sampled_from(("none", "one", "one", "two", "three")))
    unlabelled = matchers(key, st.none())
    try:
        made = _whole(draw, unlabelled, depth)
        made.check()
    except ConditionError:  # equal operands, operands that do not fit together, or too high a cost
        reject()
    return made


def _whole(draw: Draw, leaves: st.SearchStrategy[Matcher], depth: int) -> Condition:
    kind = draw(st.sampled_from(("events", "events", "timed", "ending", "either")))
    if kind == "events":
        made = _events(draw, leaves, depth)
    elif kind == "timed":
        made = _timed(draw, leaves, depth)
    else:
        made = _ending(draw, leaves)
        if kind == "either":
            made = AnyOf(made, _events(draw, leaves, 1))
    if draw(st.integers(0, 4)) == 0:
        made = Ordered(made)
    if draw(st.integers(0, 4)) == 0:
        after, at = draw(st.sampled_from(((True, True), (True, False), (False, True))))
        made = Expires(
            made,
            draw(durations) if after else None,
            draw(moments) if at else None,
            draw(st.sampled_from(("event", "subscription"))),
        )
    return made


def _events(draw: Draw, leaves: st.SearchStrategy[Matcher], depth: int) -> Condition:
    """A condition that events meet."""
    kinds = ("leaf", "all", "any", "at_least", "count", "sequence", "window", "window")
    kind = draw(st.sampled_from(kinds)) if depth else "leaf"
    if kind == "leaf":
        leaf = draw(leaves)
        if not draw(st.integers(0, 3)):
            named = f"label {draw(st.integers(0, 999))}"
            content = {"filters": leaf.filters, "where": leaf.where, "keeps": leaf.keeps, "limit": leaf.limit}
            leaf = Matcher(leaf.exact, leaf.by, named, **content)
        return leaf
    if kind == "count":
        return Count(draw(leaves), draw(st.integers(2, 7)), draw(st.none() | paths))
    least = 3 if kind == "at_least" else 2
    several = [_events(draw, leaves, depth - 1) for _ in range(draw(st.integers(least, 3)))]
    if kind == "all":
        return AllOf(*several)
    if kind == "any":
        return AnyOf(*several)
    if kind == "at_least":
        return AtLeast(2, *several)
    if kind == "sequence":
        return Sequence(*several, ordered=draw(st.booleans()))
    return _window(draw, AllOf(*several))


def _window(draw: Draw, inner: Condition) -> Condition:
    if draw(st.booleans()):
        return Within(inner, draw(durations), draw(lateness))
    return Reset(inner, draw(crons), draw(zones), draw(lateness))


def _ending(draw: Draw, leaves: st.SearchStrategy[Matcher]) -> Condition:
    """A window with `~`."""
    negated = draw(leaves) if draw(st.booleans()) else AnyOf(draw(leaves), draw(leaves))
    operands = [_events(draw, leaves, 1), ~negated]
    if draw(st.booleans()):
        operands.reverse()
    return _window(draw, AllOf(*operands))


def _timed(draw: Draw, leaves: st.SearchStrategy[Matcher], depth: int) -> Condition:
    """A condition that needs ticks."""
    kind = draw(st.sampled_from(("absent", "quiet", "joined"))) if depth else "absent"
    if kind == "absent":
        of = draw(leaves) if draw(st.booleans()) else AnyOf(draw(leaves), draw(leaves))
        return Absent(of, draw(durations), draw(st.sampled_from(("event", "subscription"))))
    if kind == "quiet":
        return Quiet(_events(draw, leaves, depth - 1), draw(durations))
    operands = (_timed(draw, leaves, depth - 1), _events(draw, leaves, depth - 1))
    return draw(st.sampled_from((AllOf, AnyOf)))(*operands)
