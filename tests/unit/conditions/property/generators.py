"""Random valid conditions, and random inputs for them, for hypothesis.

Times are small multiples of one unit, and durations too, so that ends of windows, due times, ticks and
stamps are often equal; sometimes they differ by a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st
from interlock.conditions import AllOf, AnyOf, Condition, ConditionError, Match, Matcher, event
from interlock.conditions.nodes.combinations import at_least, count, sequence
from interlock.conditions.nodes.paths import counting_matchers
from interlock.conditions.nodes.timers import Expires, absent
from interlock.conditions.nodes.windows import Reset, Within
from interlock.events import Event

from .oracle import Cancel, Oracle, Tick
from .periods import DAILY, REGULAR

UNIT_MS = 600_000
# Evenings before London's clocks change, so that periods of 23 and 25 hours lie ahead; and a plain one.
BASES_MS = tuple(
    int(datetime(*day, 22, tzinfo=UTC).timestamp() * 1000)
    for day in ((2026, 3, 28), (2026, 10, 24), (2026, 11, 20))
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LEAVES: tuple[Matcher, ...] = (
    event("a", label="a"),
    event("b", label="b"),
    event("c", label="c"),
    event(source="/s", label="s"),
    event("a", source="/s", label="as"),
    event("b", label="b again"),
)


@dataclass(frozen=True)
class Opened:
    """The start of a wait, which gives the first state."""

    at_ms: int
    since_ms: int


@dataclass(frozen=True)
class Case:
    condition: Condition
    opened: Opened | None
    inputs: tuple[Match | Tick | Cancel, ...]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # hypothesis asks for it
        printer.text(str(self))

    def __str__(self) -> str:
        """Times in minutes after the case's base, so that a failure can be read."""
        base = BASES_MS[0]
        for given in self.inputs:
            if not isinstance(given, Cancel):
                at = given.time_ms if isinstance(given, Tick) else given.timestamp_ms
                base = max((each for each in BASES_MS if each <= at + 40 * UNIT_MS), default=base)
                break
        lines = [f"base {base}: {self.condition}"]
        if self.opened is not None:
            since = self.opened.since_ms and _minutes(self.opened.since_ms, base)
            lines.append(f"  opened at {_minutes(self.opened.at_ms, base)} since {since}")
        for given in self.inputs:
            if isinstance(given, Cancel):
                lines.append("  cancel")
            elif isinstance(given, Tick):
                lines.append(f"  tick {_minutes(given.time_ms, base)}")
            else:
                time = given.event.time
                when = "" if time is None else f" time {_minutes(int(time.timestamp() * 1000), base)}"
                lines.append(
                    f"  {given.event.type}{given.event.id} of {given.event.source},"
                    f" matchers {given.matchers}, stamp {_minutes(given.timestamp_ms, base)}{when}"
                )
        return "\n".join(lines)


def _minutes(ms: int, base: int) -> str:
    return f"{(ms - base) / 60_000:g}"


Draw = Callable[[st.SearchStrategy[Any]], Any]

_small = st.integers(0, 5)
_distinct = st.sampled_from(("subject", "subject", "source", ("source", "subject")))
_units = st.sampled_from((1, 2, 3, 6, 12))
_late = st.sampled_from((None, None, 0, 1, 3))


def _ms(units: int) -> int:
    return units * UNIT_MS


def _window(draw: Draw, inner: Condition) -> Condition:
    late = draw(_late)
    late_ms = None if late is None else _ms(late)
    if draw(st.booleans()):
        return Within(inner, _ms(draw(_units)), late_ms)
    zone = draw(st.sampled_from(("UTC", "Europe/London")))
    return Reset(inner, draw(st.sampled_from((*DAILY, *REGULAR, *REGULAR))), zone, late_ms)


def _several(draw: Draw, make: Callable[[], Condition], most: int) -> list[Condition]:
    return [make() for _ in range(draw(st.integers(2, most)))]


def _counted(leaf: Matcher, paths: str | tuple[str, ...]) -> Matcher:
    """Q8: a matcher of its own, because the leaf may stand elsewhere in the condition."""
    return leaf.changed(label=f"{leaf.label} by {paths}")


def _of_events(draw: Draw, leaves: tuple[Matcher, ...], depth: int) -> Condition:
    """A condition that events meet."""
    leaf = st.sampled_from(leaves)
    if depth == 0:
        return draw(leaf)
    kind = draw(st.sampled_from(("leaf", "leaf", "all", "all", "any", "some", "count", "seq", "win", "win")))
    inner = lambda: _of_events(draw, leaves, depth - 1)  # noqa: E731
    if kind == "leaf":
        return draw(leaf)
    if kind == "all":
        return AllOf(*_several(draw, inner, 3))
    if kind == "any":
        return AnyOf(*_several(draw, inner, 3))
    if kind == "some":
        if draw(st.integers(0, 2)) == 0:
            paths = draw(_distinct)
            some = [_counted(each, paths) for each in leaves]
            return at_least(draw(st.integers(2, len(some))), *some, distinct=paths)
        return at_least(2, *_several(draw, inner, 3), inner())
    if kind == "count":
        paths = draw(st.none() | _distinct)
        of = draw(leaf) if paths is None else _counted(draw(leaf), paths)
        return count(of, draw(st.integers(2, 3)), distinct=paths)
    if kind == "seq":
        return sequence(*_several(draw, inner, 3), ordered=bool(draw(st.integers(0, 1))))
    return _window(draw, inner())


def _timed(draw: Draw, leaves: tuple[Matcher, ...], depth: int) -> Condition:
    """A condition that needs ticks."""
    kind = draw(st.sampled_from(("absent", "absent", "quiet", "quiet", "all", "any", "some")))
    if kind == "absent" or (depth == 0 and kind != "quiet"):
        of: Condition = draw(st.sampled_from(leaves))
        if not draw(_small):
            of = of | draw(st.sampled_from(leaves))
        armed = draw(st.sampled_from(("event", "event", "subscription")))
        return absent(of, timedelta(milliseconds=_ms(draw(_units))), armed_by=armed)
    if kind == "quiet":
        return _of_events(draw, leaves, depth).quiet(timedelta(milliseconds=_ms(draw(_units))))
    operands = [_timed(draw, leaves, depth - 1), _of_events(draw, leaves, depth - 1)]
    if kind == "some":
        return at_least(2, *operands, draw(st.sampled_from(leaves)))
    if draw(st.booleans()):
        operands.reverse()
    return AllOf(*operands) if kind == "all" else AnyOf(*operands)


def _with_end(draw: Draw, leaves: tuple[Matcher, ...], depth: int) -> Condition:
    """A window with `~`, alone or in an outermost `|`."""
    refuting = ~draw(st.sampled_from(leaves))
    window = _window(draw, AllOf(_of_events(draw, leaves, depth - 1), refuting))
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return window | _of_events(draw, leaves, depth - 1)
    if kind == 1:
        return _of_events(draw, leaves, depth - 1) | _window(
            draw, AllOf(draw(st.sampled_from(leaves)), ~draw(st.sampled_from(leaves)))
        )
    return window


@st.composite
def conditions(draw: Draw, base_ms: int = BASES_MS[0], negated: bool = False) -> Condition:
    """A condition of 2 to 4 matchers, with all kinds of nodes; `negated`: with a window with `~`."""
    leaves = tuple(draw(st.permutations(LEAVES))[: draw(st.integers(2, 4))])
    try:
        return _whole(draw, leaves, base_ms, negated)
    except ConditionError:  # invalid: a window of one event, an & of one operand...
        return draw(st.sampled_from(_FALLBACKS))


def _whole(draw: Draw, leaves: tuple[Matcher, ...], base_ms: int, negated: bool) -> Condition:
    make = _with_end if negated else draw(st.sampled_from((_of_events, _of_events, _timed, _with_end)))
    result = make(draw, leaves, draw(st.integers(1, 2)))
    if not draw(_small):
        result = result.ordered()
    if draw(st.integers(0, 2)) == 0:
        after, at = _ms(draw(_units)), base_ms + _ms(draw(st.integers(1, 20)))
        which = draw(st.integers(0, 2))
        armed_by = "subscription" if draw(_small) else "event"
        result = Expires(result, after if which else None, at if which != 1 else None, armed_by)
    keep = draw(st.sampled_from((None, None, None, "first", "all")))
    if keep is not None:
        result = result.keep(keep, draw(st.sampled_from((None, 3))) if keep == "all" else None)
    return result


a, b, c = LEAVES[:3]
_FALLBACKS: tuple[Condition, ...] = (
    a & b,
    (a & b).within("1h"),
    Reset(a & b, "*/20 * * * *"),
    (a & ~b).within("1h"),
    Reset(AllOf(a, ~b), "0 * * * *"),
    sequence(a, b),
    (sequence(a, c) & ~b).within("2h"),
    (count(a, 2) & b).expires(after="1h"),
    absent(a | b, "20m"),
    (a & b).quiet("10m"),
    at_least(2, a, b, c).ordered(),
)

# For faults that few of all conditions show.
s, a_from_s = LEAVES[3:5]
ANY: tuple[Condition, ...] = (a | s, (a & b) | (s & b), a_from_s | a, count(a, 2) | s)  # one event meets both
EXPIRING: tuple[Condition, ...] = (
    (a & b).quiet("20m").expires(after="20m"),
    absent(a | b, "20m").expires(after="20m"),
    (a & ~b).within("20m").expires(after="30m"),
)
NEGATED: tuple[Condition, ...] = (
    (a & ~b).within("1h"),
    Reset(AllOf(a, ~b), "0 * * * *"),
    (sequence(a, c) & ~b).within("1h"),
)
WINDOWED: tuple[Condition, ...] = (
    (a & b).within("20m"),
    sequence(a, b).within("20m"),
    count(a, 2).within("20m"),
)
SLOTS: tuple[Condition, ...] = (a & b, a & b & c, at_least(2, a, b, c))
# Few of all conditions have a period that ends between the events of a case.
PERIODIC = (
    Reset(a & b, "*/20 * * * *"),
    Reset(sequence(a, b), "*/20 * * * *"),
    Reset(count(a, 2), "*/20 * * * *"),
)

_GAPS = (0, 0, 0, 1, 1, 2, 3, 6, 7, 30, 200)
_LAGS = (None, None, 0, 0, -1, -1, -2, -3, -6, -13, 1, 4)
Op = tuple[int, int, int, "int | None", int, int]


def _op_of(drawn: tuple[int, int, int]) -> Op:
    """(kind, which event, gap before it, its time against its stamp, source, id)"""
    (kind, which), (gap, lag) = divmod(drawn[0], 4), divmod(drawn[1], len(_LAGS))
    return (kind, which, _GAPS[gap], _LAGS[lag], *divmod(drawn[2], 32))


# Three numbers, because drawing takes the time; small ones, because hypothesis prefers the beginning of a
# large range.
_op = st.tuples(
    st.integers(0, 16 * 4 - 1), st.integers(0, len(_GAPS) * len(_LAGS) - 1), st.integers(0, 4 * 32 - 1)
).map(_op_of)
# two lists, because hypothesis makes one of them short
_ops = st.tuples(st.lists(_op, max_size=12), st.lists(_op, max_size=12), st.sampled_from((None, 1, 13, 200)))


@st.composite
def cases(draw: Draw, negated: bool = False, among: tuple[Condition, ...] = ()) -> Case:
    """A condition, how its state begins, and inputs. among: the conditions to choose from, instead of all."""
    base_ms = draw(st.sampled_from(BASES_MS))
    condition = draw(st.sampled_from(among) if among else conditions(base_ms, negated))
    opened = None
    if draw(st.integers(0, 2)) == 0:
        opened = Opened(base_ms, draw(st.sampled_from((0, base_ms - _ms(2), base_ms + _ms(1)))))
    begin, end, last_gap = draw(_ops)
    return Case(condition, opened, inputs_of(condition, base_ms, begin + end, last_gap))


def inputs_of(
    condition: Condition,
    base_ms: int,
    ops: list[Op],
    last_gap: int | None,
) -> tuple[Match | Tick | Cancel, ...]:
    """Inputs from drawn numbers: each stamp follows the previous one, except for a few late ones."""
    result = list[Match | Tick | Cancel]()
    now = base_ms
    last_tick = 0  # before it no match is stamped if there are due times (W6)
    keeps_promise = Oracle(condition).has_timers
    sent: list[Event] = []
    for number, (kind, which, gap, lag, source, id_) in enumerate(ops):
        now += _ms(gap)
        if kind in (12, 13):
            now += (-1, 0, 1)[which % 3] if gap else which % 2
            last_tick = now
            result.append(Tick(now))
            continue
        if kind == 15 and which == 3 and source == 0:
            result.append(Cancel())
            continue
        stamp = now
        if kind == 14:  # a record of another partition that lags
            stamp = max(stamp - _ms((1, 3, 7, 20)[which]), last_tick if keeps_promise else 0)
        elif kind == 11:
            stamp += 1
        if kind == 10 and sent:
            happened = sent[which % len(sent)]  # a repeat
        else:
            time = None if lag is None else _EPOCH + timedelta(milliseconds=stamp + _ms(lag))
            if kind == 8 and time is not None:  # T4: times have microseconds
                time += timedelta(microseconds=which - 1)
            wanted = dict(condition.matchers[which % len(condition.matchers)].exact)
            type_ = wanted.get("type", "abx"[source % 3]) if kind != 9 else "x"
            from_ = wanted.get("source", "/t" if source == 0 else "/s")
            subject = (None, *"uvwx")[id_ % 5]  # without one it does not count
            happened = Event.of(type_, from_, id=str(id_), time=time, subject=subject)
            sent.append(happened)
        match = match_of(condition, happened, stamp, number)
        if match is not None:
            result.append(match)
    if last_gap is not None:
        result.append(Tick(now + _ms(last_gap)))
    return tuple(result)


def match_of(condition: Condition, happened: Event, stamp_ms: int, offset: int) -> Match | None:
    """The event as input of `step`, or None if no matcher accepts it."""
    accepted = tuple(n for n, matcher in enumerate(condition.matchers) if matcher.accepts(happened))
    numbers, values = counting_matchers(condition.distinct_paths, accepted, happened)
    return Match(happened, numbers, "events", 0, offset, stamp_ms, values) if numbers else None


@st.composite
def merge_independent_cases(draw: Draw) -> Case:
    """Merge-independent conditions; every event comes once, and its id decides its partition."""
    base_ms = draw(st.sampled_from(BASES_MS))
    condition = draw(conditions(base_ms).filter(lambda each: each.merge_independent))
    begin, end, last_gap = draw(_ops)
    once: dict[tuple[str, str], None] = {}
    inputs: list[Match | Tick | Cancel] = []
    for given in inputs_of(condition, base_ms, begin + end, last_gap):
        if isinstance(given, Match):
            if given.identity in once:
                continue
            once[given.identity] = None
            given = msgspec.structs.replace(given, partition=int(given.event.id) % 2)
        inputs.append(given)
    opened = Opened(base_ms, 0) if draw(st.booleans()) else None
    return Case(condition, opened, tuple(inputs))


# Few events meet these, so that more come than are held.
_SELDOM_MET: tuple[Condition, ...] = (
    (a & b).within("1h"),
    (a & b).within("4h", lateness="0s") | (a & c),
    (a & b).resets("0 * * * *"),
    (count(a, 3) & b).within("2h"),
    count(a, 3) & b,
    sequence(a, b, ordered=False),
    sequence(a, a, b),
    (a & ~b).within("2h") | (a & b & c),
    (a & b).quiet("30m"),
    (a & b).expires(after="2h"),
    absent(a, "1h") & b,
    (a & b).ordered(),
    count(a, 3, distinct="subject") & b,
    (count(a, 3, distinct="subject") & b).within("2h"),
    at_least(2, a, b, c, distinct="subject"),
)
_many = st.tuples(
    st.sampled_from("aaaaaaaaaabct"),
    st.sampled_from((0, 0, 0, 0, 1, 3)),
    st.sampled_from((None, 0, -1, -2, -6, 2)),
    st.integers(0, 999),
)


@st.composite
def crowded_cases(draw: Draw, least: int, most: int) -> Case:
    """More events than the capacities (H1 to H3), the remembered identities (D1) or short queues hold."""
    base_ms = draw(st.sampled_from(BASES_MS))
    condition = draw(st.sampled_from(_SELDOM_MET))
    keep = draw(st.sampled_from((None, None, "first", "all")))
    if keep is not None:
        condition = condition.keep(keep, 4 if keep == "all" else None)
    now, inputs = base_ms, list[Match | Tick | Cancel]()
    for kind, gap, lag, id_ in draw(st.lists(_many, min_size=least, max_size=most)):
        now += _ms(gap)
        time = None if lag is None else _EPOCH + timedelta(milliseconds=now + _ms(lag))
        if kind == "t":
            inputs.append(Tick(now))
            continue
        match = match_of(
            condition, Event.of(kind, "/s", id=str(id_), time=time, subject="uvwx"[id_ % 4]), now, len(inputs)
        )
        if match is not None:
            inputs.append(match)
    return Case(condition, None, tuple(inputs))
