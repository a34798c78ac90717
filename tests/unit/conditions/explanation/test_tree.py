"""What an explanation shows for each node: events, what is missing, and the time left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from interlock.conditions import (
    EMPTY,
    Tick,
    absent,
    at_least,
    count,
    day,
    event,
    explain,
    explain_rehearsal,
    hour,
    month,
    opened,
    sequence,
    step,
    week,
)
from interlock.conditions.explanation.node import Apart, Note
from interlock.conditions.nodes.condition import Keep
from interlock.events import Event

from tests.unit.conditions.explanation.states import (
    MINUTE_MS,
    NOON,
    a,
    at,
    b,
    c,
    explained,
    held,
    ids,
    note,
)


def test_all_of_shows_held_events_and_what_is_missing() -> None:
    explanation = explained(a & b, "a1@0")
    assert not explanation.met
    assert explanation.missing == ("b",)
    assert (explanation.tree.kind, explanation.tree.have, explanation.tree.need) == ("all", 1, 2)
    here, missing = explanation.tree.of
    assert (here.title, here.met, ids(here)) == ("a", True, ["a1"])
    assert (missing.title, missing.met, ids(missing)) == ("b", False, [])


def test_an_event_is_shown_with_its_position_time_and_stamp() -> None:
    [ref] = explained(a & b, "a1@2@1").tree.of[0].events
    assert ref == ("a1", "/s", "a", at(1), "events", 0, 0, at(2))


def test_text_has_a_line_for_each_node_and_labels_first() -> None:
    assert str(explained((a & b).expires(after="2h") , "a1@0", now=40)) == (
        "not met: b missing, at 2026-11-20T12:40:00Z\n"
        "[ ] expires after 2h: at 2026-11-20T14:00:00Z (in 1h20m)\n"
        "`- [ ] all of: 1 of 2\n"
        "   |- [x] a: a1 of /s at 2026-11-20T12:00:00Z (events[0]@0)\n"
        "   `- [ ] b: nothing"
    )  # fmt: skip


def test_a_branch_that_is_not_needed_is_marked() -> None:
    alternative, other = explained((a | b) & c, "a1@0").tree.of
    assert alternative.met
    assert [(e.title, e.met, e.needed) for e in alternative.of] == [("a", True, True), ("b", False, False)]
    assert not other.met
    assert "[-] b: not needed" in str(explained((a | b) & c, "a1@0"))


def test_a_branch_before_the_one_that_is_met_is_not_needed_either() -> None:
    """O2"""
    branches = explained((a | b) & c, "b1@0").tree.of[0].of
    assert [(each.met, each.needed) for each in branches] == [(False, False), (True, True)]


def test_a_held_event_of_a_branch_that_is_not_needed_is_shown() -> None:
    """A6"""
    spare = explained((a | b) & c, "a1@0", "b1@1").tree.of[0].of[1]
    assert (ids(spare), spare.met, spare.needed) == (["b1"], True, False)


def test_at_least_and_count_say_how_many_there_are() -> None:
    node = explained(at_least(2, count(a, 3), b, c), "a1@0", "a2@1").tree
    assert (node.kind, node.have, node.need) == ("at_least", 0, 2)
    counted = node.of[0]
    assert (counted.kind, counted.have, counted.need, ids(counted)) == ("count", 2, 3, ["a1", "a2"])
    assert "count of a: 2 of 3; a1" in str(explained(count(a, 3), "a1@0", "a2@1"))


def test_a_count_of_different_values_says_how_many_more_have_one_of_them() -> None:
    runs = count(event("a", label="a"), 3, distinct="subject")
    sent = [Event.of("a", "/s", id=f"a{n}", subject=who, time=NOON) for n, who in enumerate("xxyy")]
    explanation = explain_rehearsal(runs, sent)
    assert (explanation.tree.have, explanation.tree.need) == (2, 3)
    assert note(explanation.tree, "same_value") == Note("same_value", number=1, text="subject")
    assert "2 of 3" in str(explanation)
    assert "1 more with the same subject" in str(explanation)
    assert "values so far: x, y" in str(explanation)
    met = explain_rehearsal(runs, [*sent, Event.of("a", "/s", id="z", subject="z", time=NOON)])
    assert "values so far" not in str(met)


_TWO_IN_KOLKATA = "2026-11-20T16:30:00Z, 2026-11-20T17:30:00Z"


@pytest.mark.parametrize(
    ("counted", "need", "key", "there", "missing"),
    [
        (hour("data.at", tz="UTC"), 24, "2026-11-20", range(23), "2026-11-20T23:00:00Z"),
        (hour("data.at", tz="Asia/Kolkata"), 24, "2026-11-20", range(-5, 17), _TWO_IN_KOLKATA),
        (day("data.at", tz="UTC"), 7, "2026-W47", range(-96, 48, 24), "2026-11-22"),
        (day("data.at", tz="UTC"), 30, "2026-11", range(-456, 240, 24), "2026-11-30"),
    ],
    ids=["hours of a day", "hours of a day in Kolkata", "days of a week", "days of a month"],
)
def test_a_count_of_all_of_a_period_says_which_are_missing(
    counted: str, need: int, key: str, there: range, missing: str
) -> None:
    """23 of 24 hours were listed, and the one to look for was not."""
    zone = "Asia/Kolkata" if "Kolkata" in counted else "UTC"
    by = {"2026-11-20": day, "2026-W47": week, "2026-11": month}[key]("data.at", tz=zone)
    begin = datetime(2026, 11, 20, tzinfo=UTC)
    sent = [
        Event.of("a", "/s", id=str(n), time=NOON, data={"at": (begin + timedelta(hours=n)).isoformat()})
        for n in there
    ]
    condition = count(event("a", by=by), need, distinct=counted)
    text = str(explain_rehearsal(condition, sent, key=key))
    assert f"values missing: {missing}" in text
    few = str(explain_rehearsal(condition, sent[:2], key=key))
    assert "values so far: " in few


def test_a_count_of_a_part_of_a_period_says_which_there_are() -> None:
    condition = count(event("a", by=day("data.at", tz="UTC")), 3, distinct=hour("data.at", tz="UTC"))
    sent = [Event.of("a", "/s", id=str(n), time=NOON, data={"at": f"2026-11-20T0{n}:00:00Z"}) for n in "12"]
    found = str(explain_rehearsal(condition, sent, key="2026-11-20"))
    assert "values so far: 2026-11-20T01:00:00Z, 2026-11-20T02:00:00Z" in found


def test_an_event_without_a_value_to_count_is_a_near_miss_that_says_so() -> None:
    runs = count(event("a", label="a"), 2, distinct=("subject", "data.run"))
    sent = Event.of("a", "/s", id="a1", subject="x", time=NOON, data={"Run": 1})
    assert "no value at subject, data.run, so it does not count" in str(explain_rehearsal(runs, [sent]))


def test_conditions_whose_events_have_only_values_of_others_are_pointed_out() -> None:
    approved = at_least(2, a, b, c, distinct="subject")
    sent = [Event.of(kind, "/s", id=kind, subject="ann", time=NOON) for kind in "ab"]
    explanation = explain_rehearsal(approved, sent)
    assert [node.met for node in explanation.tree.of] == [True, False, False]
    assert "each subject of its events counts for another matcher" in str(explanation)
    assert explanation.missing == ("b", "c")


def test_of_many_events_a_few_are_shown_and_the_others_counted() -> None:
    explanation = explained(count(a, 40), *(f"a{number}@{number}" for number in range(30)))
    assert explanation.tree.have == 30
    assert len(explanation.tree.events) == 20
    assert "and 27 more" in str(explanation)


def test_the_latest_event_is_shown_if_latest_is_kept() -> None:
    first = event("a", label="a", keep="first")
    assert ids(explained(a & b, "a1@0", "a2@1").tree.of[0]) == ["a2"]
    assert ids(explained(first & b, "a1@0", "a2@1").tree.of[0]) == ["a1"]


# -- expiry


def test_expiry_says_when_it_is_due() -> None:
    explanation = explained((a & b).expires(after="2h"), "a1@0", now=40)
    assert note(explanation.tree, "expires").at_ms == at(120)
    assert explanation.due_ms == at(120)


def test_expiry_without_a_match_runs_from_the_first_one_on() -> None:
    assert note(explained((a & b).expires(after="2h")).tree, "expiry_not_armed")


def test_expiry_of_a_subscription_runs_from_its_start() -> None:
    condition = (a & b).expires(after="2h")
    explanation = explain(condition, opened(condition, at(5)), at(10))
    assert note(explanation.tree, "expires").at_ms == at(125)


def test_an_expiry_whose_tick_has_not_come_is_shown_as_due() -> None:
    assert "due since 2026-11-20T14:00:00Z (1m ago), its tick has not come yet" in str(
        explained((a & b).expires(after="2h"), "a1@0", now=121)
    )


@pytest.mark.parametrize(
    "sent",
    [("a1@0",), ("a1@0", "a2@90", "b1@20"), ("b1@70",)],
    ids=["one", "one too old", "the other"],
)
def test_missing_labels_are_those_that_the_expiry_then_reports(sent: tuple[str, ...]) -> None:
    """X8"""
    condition = ((a & b).within("1h") & c).expires(after="5h")
    state = held(condition, *sent)
    [firing] = step(condition, state, Tick(at(400)))[1]
    assert explain(condition, state, at(100)).missing == firing.missing


# -- windows


def test_a_window_says_when_its_earliest_part_leaves_it() -> None:
    """I1, I6"""
    node = explained((a & b).within("2h"), "a1@0", "a2@30").tree
    assert node.kind == "within"
    assert note(node, "slides_out")[:2] == ("slides_out", at(120))
    assert note(node, "slides_out").label == "a"
    assert note(node, "held_until").at_ms == at(180)


def test_parts_that_are_too_far_apart_say_by_how_much() -> None:
    """I2"""
    explanation = explained((a & b).within("1h"), "a1@0", "b1@90")
    [apart] = explanation.tree.of[0].of[0].apart
    assert (apart.event.id, apart.why, apart.by_ms) == ("a1", "window", 30 * MINUTE_MS)
    assert "a1 of /s at 2026-11-20T12:00:00Z (events[0]@0) is outside the window by 30m" in str(explanation)


def test_less_than_a_millisecond_too_far_is_shown_as_a_millisecond() -> None:
    condition = (a & b).within("1h")
    [apart] = explained(condition, "a1@0", "b1@60.00001").tree.of[0].of[0].apart
    assert apart.by_ms == 1


def test_parts_that_are_recorded_too_far_apart_say_by_how_much() -> None:
    """I6"""
    node = explained((a & b).within("1h", lateness="1m"), "a1@0", "b1@90@50").tree
    assert note(node, "recorded_apart").by_ms == 29 * MINUTE_MS
    assert [each.met for each in node.of[0].of] == [True, True]


def test_a_met_window_shows_only_the_events_that_take_part() -> None:
    node = explained((a & b).within("1h") & c, "a1@0", "b1@30", "a2@100", now=110).tree.of[0]
    assert node.met
    assert [ids(each) for each in node.of[0].of] == [["a1"], ["b1"]]


def test_a_nested_window_says_which_of_both_keeps_an_event_out() -> None:
    """I4"""
    condition = ((a & b).within("10m") & c).within("1h")
    tree = explained(condition, "a1@0", "b1@20", "c1@30").tree
    inner = tree.of[0].of[0]
    assert [(each.why, each.by_ms) for each in inner.of[0].of[0].apart] == [("window", 10 * MINUTE_MS)]
    assert inner.of[0].of[1].met
    assert {each.what for each in tree.notes} == {"slides_out", "held_until"}
    assert {each.what for each in inner.notes} == {"slides_out"}, "the outer window decides how long"


def test_an_event_outside_two_windows_is_reported_by_the_inner_one() -> None:
    condition = ((a & b).within("10m") & c).within("1h")
    inner = explained(condition, "a1@0", "b1@50", "c1@70").tree.of[0].of[0]
    assert [(each.why, each.by_ms) for each in inner.of[0].of[0].apart] == [("window", 40 * MINUTE_MS)]


def test_a_reset_shows_its_period_and_events_of_others() -> None:
    """R1"""
    condition = (a & b).resets("0 13 * * *", timezone="UTC")
    explanation = explained(condition, "a1@0", "b1@90")
    node = explanation.tree
    assert node.title == 'in a period of "0 13 * * *"'
    assert note(node, "period")[:3] == ("period", at(60 + 24 * 60), at(60))
    assert node.of[0].of[0].apart == (Apart(node.of[0].of[0].apart[0].event, "period", 60 * MINUTE_MS),)
    assert "period from 2026-11-20T13:00:00Z until 2026-11-21T13:00:00Z (in 23h20m)" in str(explanation)


def test_a_reset_that_holds_nothing_says_the_present_period() -> None:
    node = explained((a & b).resets("0 6 * * *", timezone="Europe/London")).tree
    assert node.title == 'in a period of "0 6 * * *" (Europe/London)'
    assert note(node, "period")[:3] == ("period", at(18 * 60), at(-6 * 60))


# -- windows with ~


def test_a_window_with_negation_says_when_it_is_over() -> None:
    """E6"""
    explanation = explained((a & ~b).within("1h"), "a1@0", now=20)
    node = explanation.tree
    assert not node.met
    assert note(node, "opened")[:2] == ("opened", at(0))
    assert note(node, "over").at_ms == at(60) + 1 == explanation.due_ms
    assert [(each.kind, each.met) for each in node.of[0].of] == [("event", True), ("not", True)]
    assert "no b" in str(explanation)


def test_a_refuted_window_says_when_the_negated_event_came() -> None:
    """E4"""
    node = explained((a & ~b).within("1h"), "a1@0", "b1@30", now=40).tree
    refuting = node.of[0].of[1]
    assert not refuting.met
    assert note(refuting, "refuted").at_ms == at(30)


def test_of_several_windows_the_one_that_can_fire_first_is_shown() -> None:
    """E3"""
    node = explained((a & ~b).within("1h"), "a1@0", "b1@5", "a2@10", "a3@20", now=40).tree
    assert note(node, "opened").at_ms == at(10)
    assert note(node, "other_windows").number == 1
    assert note(node, "refuted_windows").number == 1


def test_of_several_windows_that_cannot_fire_yet_the_latest_is_shown() -> None:
    node = explained((a & b & ~c).within("1h"), "a1@0", "a2@10", now=40).tree
    assert note(node, "opened").at_ms == at(10)


def test_a_window_with_negation_shows_the_events_that_met_it_first() -> None:
    """E4"""
    node = explained((a & b & ~c).within("1h"), "a1@0", "b1@10", "b2@20", now=40).tree
    assert [ids(each) for each in node.of[0].of] == [["a1"], ["b1"], []]


def test_an_event_whose_window_was_over_when_it_came_opens_none() -> None:
    """W6"""
    node = explained((a & ~b).within("1h"), "tick@200", "a1@0", now=201).tree
    assert note(node, "no_window")


def test_a_window_with_negation_that_nothing_opened_says_so() -> None:
    explanation = explained((a & ~b).within("1h"), "b1@0")
    assert note(explanation.tree, "no_window")
    assert explanation.missing == ("a",)


def test_a_period_with_negation_says_its_bounds() -> None:
    node = explained((a & ~b).resets("0 13 * * *"), "a1@0", now=40).tree
    assert note(node, "period")[:3] == ("period", at(60), at(60 - 24 * 60))
    assert note(node, "over").at_ms == at(60) + 1


# -- sequences


def test_a_sequence_says_which_step_is_next() -> None:
    node = explained(sequence(a, b, c, ordered=False), "a1@0").tree
    assert (node.have, node.need, note(node, "next_step").number) == (1, 3, 2)
    assert [each.met for each in node.of] == [True, False, False]


def test_a_sequence_shows_an_event_that_is_too_early() -> None:
    node = explained(sequence(a, b, ordered=False), "b1@0", "a1@30").tree
    [apart] = node.of[1].apart
    assert (apart.event.id, apart.why, apart.by_ms) == ("b1", "sequence", 30 * MINUTE_MS)


@pytest.mark.parametrize(("keep", "dropped"), [("latest", "earliest"), ("first", "latest")])
def test_a_step_that_can_hold_no_more_events_says_which_are_dropped(keep: Keep, dropped: str) -> None:
    """With one more `a` the one that `b1` followed was dropped, and only "b1 is too early" was shown."""
    condition = sequence(a, b, c, ordered=False).keep(keep)
    steps = [f"a{n}@{n}" for n in range(2, 17)]
    full = explained(condition, "b1@-1", "a1@0", *steps).tree.of[0]
    assert [note for note in full.notes if note.what == "full"] == [Note("full", number=16, text=dropped)]
    assert full.notes[0].text_at(0) == f"holds 16 events, the most it can: of more it drops the {dropped}"
    assert not explained(condition, "b1@-1", *steps).tree.of[0].notes


def test_a_sequence_uses_an_event_for_one_step_only() -> None:
    """P3"""
    node = explained(sequence(a, a, ordered=False), "a1@0").tree
    assert (node.have, ids(node.of[0])) == (1, ["a1"])
    assert [each.why for each in node.of[1].apart] == ["taken"]


def test_a_later_step_shows_its_event_while_an_earlier_one_is_missing() -> None:
    node = explained(sequence(a, b, c, ordered=False), "a1@0", "c1@10").tree
    assert [each.met for each in node.of] == [True, False, True]
    assert node.have == 1


def test_a_sequence_that_is_met_inside_another_condition_shows_the_chain_that_would_fire() -> None:
    """P4"""
    node = explained(sequence(a, b, ordered=False) & c, "a1@0", "a2@5", "b1@10", "a3@20").tree.of[0]
    assert node.met
    assert [ids(each) for each in node.of] == [["a2"], ["b1"]]


def test_an_ordered_condition_shows_matches_that_wait_for_a_later_tick() -> None:
    """W5"""
    explanation = explained((a & b).ordered(), "a1@0")
    assert explanation.tree.kind == "ordered"
    assert (explanation.waiting_count, [each.id for each in explanation.waiting]) == (1, ["a1"])
    assert "1 match waits until a later tick: a1" in str(explanation)


# -- timers


def test_absence_says_when_it_fires_and_the_last_event() -> None:
    """B1"""
    explanation = explained(absent(a | b, "1h"), "a1@0", "b1@20", now=30)
    node = explanation.tree
    assert node.title == "no a or b for 1h"
    assert note(node, "fires").at_ms == at(80) == explanation.due_ms
    assert ids(node) == ["a1", "b1"]


def test_absence_that_nothing_armed_says_so() -> None:
    assert note(explained(absent(a, "1h")).tree, "not_armed")


def test_a_met_absence_is_shown_beside_what_is_missing() -> None:
    """B5"""
    assert explained(absent(a, "1h") & b, "a1@0", "tick@61").tree.of[0].met


def test_quiet_says_when_it_settles_once_its_condition_is_met() -> None:
    """U1"""
    condition = (a & b).quiet("1h")
    assert not explained(condition, "a1@0").tree.notes
    node = explained(condition, "a1@0", "b1@20").tree
    assert note(node, "settles").at_ms == at(80)
    assert node.of[0].met


def test_waiting_matches_say_which_due_time_holds_them() -> None:
    """W1"""
    explanation = explained((a & b).expires(after="1h"), "a1@0", "b1@70", now=75)
    assert explanation.waiting_until_ms == at(60)
    assert "1 match waits until 2026-11-20T13:00:00Z (15m ago): b1" in str(explanation)


def test_in_an_ordered_condition_a_later_tick_holds_them_whatever_is_due() -> None:
    explanation = explained((a & b).ordered().expires(after="1h"), "a1@0", "tick@5", "b1@70", now=75)
    assert explanation.due_ms == at(60)
    assert explanation.waiting_until_ms is None


def test_events_that_went_beyond_a_bound_are_counted() -> None:
    """H3"""
    queued = event("a", label="a", keep="all", limit=2)
    explanation = explained(queued & b, "a1@0", "a2@1", "a3@2")
    assert explanation.dropped == 1
    assert "1 event dropped at a limit" in str(explanation)


def test_an_absence_armed_by_the_subscription_says_that_nothing_opened_the_state() -> None:
    """B2"""
    watched = absent(a, "1h", armed_by="subscription")
    assert "make the first state of the wait with opened()" in str(explain(watched, EMPTY, at(0)))
    assert "not watched" not in str(explain(watched, opened(watched, at(0)), at(1)))
    assert note(explained(watched, "tick@5").tree, "not_armed")
    assert note(explained(absent(a, "1h")).tree, "not_armed")
