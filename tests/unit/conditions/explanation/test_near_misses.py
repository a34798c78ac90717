"""Near misses: recent events that nearly met a missing matcher, the reason, and limits on the search."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from interlock.conditions import (
    EMPTY,
    Condition,
    Match,
    Matcher,
    Seen,
    State,
    Tick,
    count,
    event,
    explain,
    explain_rehearsal,
    opened,
    rehearse,
    step,
)
from interlock.conditions.explanation.near_miss import NearMiss
from interlock.conditions.filters import Any as AnyFilter
from interlock.conditions.filters import Exact, Prefix, Sql
from interlock.events import Event
from interlock.events.plain import event_of_record

from .near_noon import DAY, NOON, NOON_MS, misses_of, rates, sent

other = event("com.shop.orders", by="subject", label="orders")


def miss_of(matcher: Matcher, seen: object, key: str | None = None, state: State = EMPTY) -> NearMiss:
    [miss] = misses_of(matcher, [seen], key, state)
    return miss


def after(condition: Condition, *events: Event) -> State:
    state = EMPTY
    for offset, happened in enumerate(events):
        numbers = tuple(n for n, matcher in enumerate(condition.matchers) if matcher.accepts(happened))
        state, _ = step(condition, state, Match(happened, numbers, "events", 0, offset, NOON_MS))
    return state


def test_a_term_that_refused_is_shown_with_the_value_of_the_event() -> None:
    miss = miss_of(event("com.bank.rates", subject="eur"), sent(subject="usd"))
    assert (miss.why, miss.term) == ("term", 'Exact(subject="eur")')
    assert (miss.attribute, miss.value) == ("subject", "usd")
    assert (miss.refused, miss.terms) == (1, 2)
    assert str(miss).endswith(': Exact(subject="eur") refused its subject, usd')
    without = miss_of(event("com.bank.rates", subject="eur"), sent())
    assert without.value is None
    assert str(without).endswith("refused its subject, none")


def test_further_terms_that_refused_are_counted() -> None:
    miss = miss_of(event("com.bank.rates", subject="eur", tenant="x"), sent(subject="usd"))
    assert (miss.refused, miss.terms) == (2, 3)
    assert "(and 1 more of 3 terms)" in str(miss)


def test_a_filter_says_its_term() -> None:
    either = AnyFilter(Exact(tenant="a"), Exact(tenant="b"))
    matcher = event(filters=[Prefix(subject="orders/"), either])
    assert miss_of(matcher, sent(subject="orders/1", tenant="c")).term == str(either)


def test_a_predicate_shows_its_text_and_never_the_data() -> None:
    miss = miss_of(event("com.bank.rates", where="data.rows > 0"), sent(data={"rows": -42, "iban": "SECRET"}))
    assert (miss.why, miss.term, miss.value) == ("term", 'Where("data.rows > 0")', None)
    assert "42" not in str(miss) + json.dumps(miss.to_json())


def test_an_error_of_a_predicate_is_shown_and_counted() -> None:
    matcher = event("com.bank.rates", where="data.rows > 0")
    explanation = explain(matcher, EMPTY, NOON_MS, [sent("1"), sent("2", data={"row": 1})])
    [found] = explanation.near_misses
    assert found.errors == 2
    assert {miss.why for miss in found.misses} == {"error"}
    assert "rows" in (found.misses[1].error or "")
    assert "near misses of bank.rates (2 could not be evaluated):" in str(explanation)


@pytest.mark.parametrize(
    "where",
    ["{'a': 1}[data.secret] > 0", "data.list[data.number] > 0", "int(data.secret) > 0"],
)
def test_an_error_of_a_predicate_quotes_nothing_of_the_data(where: str) -> None:
    seen = sent(data={"secret": 'hun"ter2', "number": 987654, "list": [1]})
    miss = miss_of(event("com.bank.rates", where=where), seen)
    assert miss.why == "error"
    assert "hun" not in str(miss)
    assert "ter2" not in str(miss)
    assert "987654" not in str(miss)


def test_an_error_of_sql_is_shown() -> None:
    miss = miss_of(event("com.bank.rates", filters=[Sql("INT(subject) > 3")]), sent(subject="abc"))
    assert (miss.why, "abc" in (miss.error or "")) == ("error", True)


def test_another_key_is_shown_with_the_wanted_key_and_its_spelling() -> None:
    miss = miss_of(rates, sent(data={"day": "20261119"}), DAY)
    assert (miss.why, miss.key, miss.raw, miss.wanted) == ("key", "2026-11-19", "20261119", DAY)
    assert str(miss).endswith("key 2026-11-19 (written 20261119) here, 2026-11-20 wanted")


@pytest.mark.parametrize(
    ("day", "given", "raw"),
    [("2026-11-19", DAY, None), ("2026-11-19", "20261120", None), (20261119, DAY, "20261119")],
    ids=["in canonical spelling", "the given one in another spelling", "a number"],
)
def test_keys_are_compared_in_canonical_form_and_another_spelling_is_shown(
    day: Any, given: str, raw: str | None
) -> None:
    miss = miss_of(rates, sent(data={"day": day}), given)
    assert (miss.wanted, miss.raw) == (DAY, raw)


def test_all_parts_of_a_composite_key_are_shown() -> None:
    matcher = event("com.bank.rates", by=("data.day", "subject"))
    miss = miss_of(matcher, sent(subject="eur", data={"day": "20261119"}), '["2026-11-20","eur"]')
    assert (miss.key, miss.raw) == ('["2026-11-19","eur"]', '["20261119","eur"]')


@pytest.mark.parametrize(
    ("data", "expected_end"),
    [
        ({"date": "x"}, ""),
        ({"day": None}, ": its data.day is null"),
        ({"day": {"a": 1}}, ": its data.day is an object"),
        ({"day": ""}, ": its data.day is empty"),
    ],
)
def test_an_event_without_a_key_is_shown_with_the_path(data: object, expected_end: str) -> None:
    miss = miss_of(rates, sent(data=data), DAY)
    assert (miss.why, miss.attribute) == ("no key", "data.day")
    assert str(miss).endswith(f"no key at data.day{expected_end}")


def test_unreadable_data_is_given_as_the_reason() -> None:
    miss = miss_of(rates, sent(data=b"{", datacontenttype="application/json"), DAY)
    assert (miss.why, miss.attribute) == ("no data", "data.day")
    assert "no key at data.day: its data is not valid JSON" in str(miss)
    text = miss_of(rates, sent(data="day=1", datacontenttype="text/plain"), DAY)
    assert "no key at data.day: its data is text/plain, not JSON" in str(text)


def test_the_key_is_read_from_an_event_held_where_none_is_given() -> None:
    condition = rates & other
    state = after(condition, sent("o1", "com.shop.orders", subject="20261120"))
    explanation = explain(condition, state, NOON_MS, [sent(data={"day": "2026-11-19"})])
    assert explanation.key == DAY
    assert [miss.why for miss in explanation.near_misses[0].misses] == ["key"]


def test_an_event_stamped_before_since_is_marked() -> None:
    """Y1"""
    matcher = event("com.bank.rates")
    state = opened(matcher, NOON_MS, since_ms=NOON_MS)
    assert miss_of(matcher, Seen(sent(), timestamp_ms=NOON_MS - 1), state=state).why == "since"
    assert miss_of(matcher, Seen(sent(), timestamp_ms=NOON_MS), state=state).why == "unknown"
    late = Seen(sent(), timestamp_ms=NOON_MS - 60_000)  # its time is noon
    assert str(miss_of(matcher, late, state=state)).endswith("the wait's since, at 2026-11-20T11:59:00Z")


@pytest.mark.parametrize("stamp_ms", [-1, -62_135_596_800_000])
def test_an_event_whose_record_has_no_timestamp_is_named_as_such(stamp_ms: int) -> None:
    """It was of 1969, and stamped before since (confluentinc/confluent-kafka-python#96, IBM/sarama#907)."""
    made = event_of_record("shop.orders", 0, 7, stamp_ms, b"k", b"{}", None)
    matcher = event(source="shop.orders")
    state = opened(matcher, NOON_MS, since_ms=NOON_MS)
    text = str(miss_of(matcher, Seen(made, "shop.orders", 0, 7, stamp_ms), state=state))
    assert text.startswith("0/7 of shop.orders (shop.orders[0]@7): its record has no timestamp, so it counts")


def test_an_event_that_fired_before_is_marked_as_a_repeat() -> None:
    """D1"""
    matcher = event("com.bank.rates")
    assert miss_of(matcher, sent(), state=after(matcher, sent())).why == "repeat"


LATER_MS = NOON_MS + 7_200_000  # beyond the hour for which a state remembers what it has seen


def test_a_repeat_of_an_event_that_another_matcher_holds_is_shown_as_a_repeat() -> None:
    """D2: an id that a producer uses again was reported as an event that fits and is not read yet."""
    condition = rates & event("com.bank.closing", by="data.day", label="closing")
    state = after(condition, sent(data={"day": DAY}))
    again = Seen(sent(type_="com.bank.closing", data={"day": DAY}), "events", 0, 9, LATER_MS)
    state_now, firings = step(condition, state, Match(again.event, (1,), "events", 0, 9, LATER_MS))
    assert (state_now.matches, firings) == (state.matches, ())
    [found] = explain(condition, state, LATER_MS, [again], DAY).near_misses
    [miss] = found.misses
    assert (found.label, miss.why, miss.held_for) == ("closing", "repeat", "rates")
    assert str(miss).endswith(
        "a repeat: an event with this id and source is held for rates, and does not count twice"
    )


def test_a_repeat_of_an_event_that_the_same_matcher_holds_is_shown_as_a_repeat() -> None:
    """D2: a constant id, so that a count stays at one."""
    condition = count(event("com.bank.rates", label="rates"), 3)
    state = after(condition, sent())
    again = Seen(sent(data={"n": 2}), "events", 0, 9, LATER_MS)
    [found] = explain(condition, state, LATER_MS, [again]).near_misses
    assert [(miss.why, miss.held_for) for miss in found.misses] == [("repeat", "rates")]
    own = Seen(sent(), "events", 0, 0, NOON_MS)
    [found] = explain(condition, state, LATER_MS, [own]).near_misses
    assert found.misses == ()


def test_the_same_record_that_another_matcher_still_holds_is_no_repeat() -> None:
    """W7: a window released the event for one matcher, another one holds it without a window."""
    own = event("com.bank.rates", label="own")
    either = event(source="/bank", label="either")
    condition = (own & other).within("10m") | count(either, 3)
    state = after(condition, sent())
    state, _ = step(condition, state, Match(sent("late", "x", 60), (2,), "events", 0, 1, NOON_MS + 3_600_000))
    state, _ = step(condition, state, Tick(LATER_MS + 1))
    first = Seen(sent(), "events", 0, 0, NOON_MS)
    found = {each.label: each for each in explain(condition, state, NOON_MS, [first]).near_misses}
    [miss] = found["own"].misses
    assert (miss.why, miss.held_for) == ("released", "either")
    assert "held for either, no longer for this one" in str(miss)


def test_a_repeat_of_an_event_that_waits_is_no_second_one() -> None:
    """W5, D1"""
    condition = (event("com.bank.rates", label="rates") & other).ordered()
    again = Seen(sent(), "events", 0, 9, NOON_MS)
    [found, _] = explain(condition, after(condition, sent()), NOON_MS, [again]).near_misses
    assert [miss.why for miss in found.misses] == ["repeat"]


@pytest.mark.parametrize(
    ("read", "why", "sentence"),
    [
        (False, "unread", "fits: the engines have not read it yet"),
        (True, "gone", "fits: it was read, and is no longer held"),
        (None, "unknown", "fits: not read yet, or no longer held"),
    ],
)
def test_an_event_that_fits_and_is_not_held_was_read_or_not(
    read: bool | None, why: str, sentence: str
) -> None:
    """One sentence stood for two states, even where it was known which one applied."""
    explanation = explain(rates, EMPTY, LATER_MS, [sent(data={"day": DAY})], was_read=lambda _: read)
    [miss] = explanation.near_misses[0].misses
    assert (miss.why, sentence in str(miss)) == (why, True)


def test_a_rehearsal_has_read_all_of_its_events() -> None:
    both = (rates & event("com.shop.orders", by="data.day", label="orders")).within("10m")
    events = [sent(data={"day": DAY}), sent("o", "com.shop.orders", 300, data={"day": DAY})]
    explanation = explain_rehearsal(both, events, key=DAY, until=NOON + timedelta(hours=9))
    assert [miss.why for found in explanation.near_misses for miss in found.misses] == ["gone", "gone"]


@pytest.mark.parametrize("hours", [1, 9], ids=["seen", "no longer remembered"])
def test_an_event_whose_window_a_negated_one_refuted_is_shown_with_it(hours: int) -> None:
    """E5; apache/flink#19295, siddhi-io/siddhi#708. The event itself was called a repeat."""
    closing = event("com.bank.closing", label="closing")
    condition = (event("com.bank.rates", label="rates") & ~closing).within("10m")
    events = [sent(), sent("c", "com.bank.closing", 5), sent("late", minutes=20)]
    found = explain_rehearsal(condition, events[:2], until=NOON + timedelta(hours=hours)).near_misses
    [miss] = found[0].misses
    assert (miss.why, miss.refuted_ms, miss.refuted_by) == ("refuted", NOON_MS + 300_000, "closing")
    assert str(miss).endswith("closing came in its window, at 2026-11-20T12:05:00Z")
    [fired] = rehearse(condition, events, until=NOON + timedelta(hours=hours))
    assert fired.taking_part[0].match.event.id == "late"
    after_firing = explain_rehearsal(condition, events, until=NOON + timedelta(hours=hours)).near_misses
    assert {each.event.id: each.why for each in after_firing[0].misses}["r1"] == "refuted"


def test_an_event_that_has_another_place_in_the_condition_is_not_called_refuted() -> None:
    closing = event("com.bank.closing", label="closing")
    own = event("com.bank.rates", label="rates")
    condition = (own & ~closing).within("10m") | count(own, 3)
    events = [sent(), sent("c", "com.bank.closing", 5)]
    explanation = explain_rehearsal(condition, events, until=NOON + timedelta(hours=1))
    assert "refuted" not in [miss.why for found in explanation.near_misses for miss in found.misses]


def test_an_event_that_is_no_longer_held_is_not_called_a_repeat() -> None:
    """It may be the one that counted: only its identity is known."""
    text = str(miss_of(event("com.bank.rates"), sent(), state=after(event("com.bank.rates"), sent())))
    assert "read before, and no longer held: it took part in a firing" in text


def test_an_event_that_took_part_in_a_firing_is_shown_with_the_firing() -> None:
    """An event of a durable subscription whose run exists, after the state has forgotten it."""
    fired = {("/bank", "r1"): "firing f7 of 2026-11-20T12:00:00Z; its run was created or skipped"}
    explanation = explain(rates, EMPTY, LATER_MS, [sent(data={"day": DAY})], fired=fired)
    [miss] = explanation.near_misses[0].misses
    assert miss.why == "fired"
    assert str(miss).endswith(f"took part in {fired['/bank', 'r1']}")
    seen = explain(rates, EMPTY, LATER_MS, [sent(data={"day": DAY})], fired={("/bank", "r1"): ""})
    assert [miss.why for miss in seen.near_misses[0].misses] == ["repeat"]


def test_an_event_that_the_state_has_forgotten_is_no_repeat() -> None:
    """D1"""
    matcher = event("com.bank.rates")
    later = Seen(sent(), timestamp_ms=NOON_MS + 3_600_001)
    assert miss_of(matcher, later, state=after(matcher, sent())).why == "unknown"


def test_an_event_that_waits_for_a_due_time_is_marked() -> None:
    """W5"""
    condition = (event("com.bank.rates", label="rates") & other).ordered()
    state = after(condition, sent())
    [found, _] = explain(condition, state, NOON_MS, [sent()]).near_misses
    assert [miss.why for miss in found.misses] == ["waiting"]


def test_an_event_that_is_held_is_no_near_miss() -> None:
    condition = count(event("com.bank.rates"), 2)
    [found] = explain(condition, after(condition, sent()), NOON_MS, [sent(), sent("r2")]).near_misses
    assert [miss.event.id for miss in found.misses] == ["r2"]


def test_matchers_that_are_met_are_not_looked_at() -> None:
    condition = event("com.bank.rates", label="rates") & other
    explanation = explain(condition, after(condition, sent()), NOON_MS, [sent("r2")])
    assert [found.label for found in explanation.near_misses] == ["orders"]


def test_an_event_of_another_kind_is_no_near_miss() -> None:
    assert not misses_of(event("com.bank.rates"), [sent(type_="com.shop.orders")])
    assert not misses_of(event("com.bank.rates", source="/bank"), [sent(type_="com.shop.orders")])


def test_an_event_of_another_type_that_most_terms_accept_is_one() -> None:
    matcher = event("com.bank.rates", source="/bank", subject="eur")
    miss = miss_of(matcher, sent(type_="com.bank.rate", subject="eur"))
    assert (miss.attribute, miss.value) == ("type", "com.bank.rate")


@pytest.mark.parametrize("type_", ["com.bank.Rates", "com.bank.rates "])
def test_a_type_that_differs_in_case_or_space_alone_is_one(type_: str) -> None:
    assert miss_of(event("com.bank.rates"), sent(type_=type_)).value == type_


def test_a_refusing_term_is_shown_with_both_keys_for_an_event_of_another_key() -> None:
    matcher = event("com.bank.rates", by="data.day", where="data.rows > 0")
    miss = miss_of(matcher, sent(data={"day": "20261119", "rows": 0}), DAY)
    assert (miss.why, miss.key, miss.wanted) == ("term", "2026-11-19", DAY)
    assert str(miss).endswith("refused it; key 2026-11-19 (written 20261119) here, 2026-11-20 wanted")


def test_a_position_is_shown_if_it_is_known() -> None:
    matcher = event("com.bank.rates", subject="eur")
    known = miss_of(matcher, Seen(sent(), "events", 3, 17, NOON_MS + 5))
    assert "r1 of /bank at 2026-11-20T12:00:00Z (events[3]@17)" in str(known)
    assert known.event.timestamp_ms == NOON_MS + 5
    assert known.to_json()["event"] == {
        "id": "r1", "source": "/bank", "type": "com.bank.rates", "time_ms": NOON_MS, "topic": "events",
        "partition": 3, "offset": 17, "timestamp_ms": NOON_MS + 5,
    }  # fmt: skip
    assert "(" not in str(miss_of(matcher, sent())).split(": Exact")[0]


def test_long_values_are_shortened() -> None:
    matcher = event("com.bank.rates", subject="x" * 2000)
    miss = miss_of(matcher, sent("i" * 5000, subject="y" * 5000))
    assert len(str(miss)) < 700
    assert len(json.dumps(miss.to_json())) < 3000


def test_an_event_that_is_half_readable_breaks_nothing() -> None:
    odd = Event(
        {"id": "\ud800", "source": "\n", "time": "0001-01-01T00:00:00+23:59", "type": "com.bank.rates"}
    )
    explanation = explain(event("com.bank.rates", subject="e", by="time"), EMPTY, NOON_MS, [odd])
    assert json.dumps(explanation.to_json(), ensure_ascii=False, allow_nan=False).encode("utf-8")
    assert "? of \\n" in str(explanation)


def test_the_text_without_events_has_no_near_misses() -> None:
    assert "near misses" not in str(explain(rates, EMPTY, NOON_MS))


def test_the_text_says_if_there_are_no_near_misses() -> None:
    assert "near misses of rates: none" in str(explain(rates, EMPTY, NOON_MS, [sent(type_="x")]))
