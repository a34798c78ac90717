"""The oracle detects each kind of fault in logs written by hand, and finds nothing in correct ones."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from interlock.conditions import EMPTY, Condition, absent, count, event, sequence

from tests.chaos import oracle
from tests.chaos.backlog import Backlog
from tests.chaos.judge import Verdict, _fired, judge
from tests.chaos.model import Model
from tests.chaos.paper import START_MS, Paper
from tests.chaos.processes import ROOT

A, B = event("a", by="subject"), event("b", by="subject")


def judged(paper: Paper, at: float = 100.0) -> Verdict:
    return judge(paper.log, START_MS + round(at * 1000))


def wrong(paper: Paper, at: float = 100.0) -> dict[str, int]:
    """{kind: number of differences}, without zeros."""
    return {name: n for name, n in judged(paper, at).differences.counts().items() if n}


def pair_of(paper: Paper, kind: str = "durable", condition: Condition = A & B) -> tuple:
    wait = paper.register("s", condition, kind=kind, key=None if kind == "durable" else "k")
    return wait, paper.event("a", 1), paper.event("b", 2, partition=1)


@pytest.mark.parametrize("kind", ["durable", "one-shot"])
def test_a_correct_log_has_no_differences(kind: str) -> None:
    paper = Paper()
    wait, a, b = pair_of(paper, kind)
    paper.match(wait, b, (1,), 3)
    paper.match(wait, a, (0,), 3)
    verdict = judged(paper)
    assert not verdict.differences
    assert (verdict.events, verdict.firings) == (2, 1)
    assert verdict.fired_by_node == {"AllOf": 1, "Matcher": 1}


def test_a_firing_has_the_same_name_in_the_log_and_in_the_model_and_copies_of_events_have_others() -> None:
    names = []
    for first in (1, 0):  # of two copies, which the pair takes
        paper = Paper()
        wait, a, b = pair_of(paper)
        copies = a, paper.event("a", 1.5, id_=str(a.header("ce_id")))
        paper.match(wait, copies[first], (0,), 3)
        paper.match(wait, b, (1,), 3)
        model = Model(paper.log)
        [expected] = [each for fold in model.folds.values() for each in fold.fired]
        [found] = _fired(paper.log)
        assert (found.id, found.name) == (expected.id, expected.name)
        names.append(found.name)
    assert names[0] != names[1]
    assert names[0].split()[0] == names[1].split()[0]


def test_an_offset_that_was_skipped_is_missing() -> None:
    paper = Paper()
    wait, _a, b = pair_of(paper)
    paper.match(wait, b, (1,), 3)
    assert wrong(paper) == {"missing": 1}


def test_a_firing_that_was_lost_is_missing() -> None:
    paper = Paper()
    wait, a, b = pair_of(paper)
    paper.match(wait, a, (0,), 3)
    paper.match(wait, b, (1,), 3, process=False)
    assert wrong(paper) == {"missing": 1, "unexpected": 1}  # and the state is the earlier one


def test_matches_committed_outside_their_transaction_are_duplicated() -> None:
    """A crash between them and the offset: they are written again, and dropped by their marks."""
    paper = Paper()
    wait, a, b = pair_of(paper)
    paper.match(wait, a, (0,), 3)
    paper.match(wait, a, (0,), 4, process=False)
    paper.match(wait, b, (1,), 5)
    assert wrong(paper) == {"duplicated": 1}


def test_a_firing_committed_outside_its_transaction_is_duplicated() -> None:
    paper = Paper()
    wait, a, b = pair_of(paper)
    paper.match(wait, a, (0,), 3)
    before = dict(wait.states)
    paper.match(wait, b, (1,), 3)
    wait.states.update(before)
    paper.process(wait, b, (1,), 4)
    assert wrong(paper) == {"duplicated": 1}


def test_a_state_record_that_was_dropped_costs_its_firing() -> None:
    paper = Paper()
    wait, a, b = pair_of(paper)
    paper.match(wait, a, (0,), 3)
    wait.states["k"] = EMPTY  # what the next owner finds
    paper.match(wait, b, (1,), 4)
    assert wrong(paper) == {"missing": 1, "unexpected": 1}


@pytest.mark.parametrize("kind", ["durable", "one-shot"])
def test_a_state_that_does_not_follow_from_its_matches_is_unexpected_before_it_costs_a_firing(
    kind: str,
) -> None:
    paper = Paper()
    wait = paper.register("s", count(A, 3), kind=kind, key=None if kind == "durable" else "k")
    a, other = paper.event("a", 1), paper.event("other", 1)
    paper.match(wait, a, (0,), 3, process=False)
    assert wrong(paper) == {"missing": 1}
    paper.process(wait, a, (0,), 3)
    assert not wrong(paper)
    paper.process(wait, other, (0,), 4)
    assert wrong(paper) == {"unexpected": 1}


def test_a_tick_without_the_cut_causes_a_wrong_firing_and_misses_the_right_one() -> None:
    paper = Paper()
    wait, a, b = pair_of(paper, "one-shot", (A & B).expires(after="10s"))
    paper.match(wait, a, (0,), 3)
    paper.tick(wait, 11, 11)
    paper.match(wait, b, (1,), 12)  # it was in the log at 2
    assert wrong(paper) == {"missing": 1, "unexpected": 1}


@pytest.mark.parametrize("ticked", [10.0, 11.0, 50.0])
def test_a_legal_tick_may_come_late(ticked: float) -> None:
    paper = Paper()
    wait = paper.register("s", (A & B).expires(after="10s"), key="k")
    a, b = paper.event("a", 1), paper.event("b", 10)
    paper.match(wait, a, (0,), 3)
    paper.match(wait, b, (1,), 10)  # at the due time: it waits
    paper.tick(wait, ticked, 51)
    assert not wrong(paper)


def test_a_timer_before_its_time_is_unexpected() -> None:
    paper = Paper()
    wait = paper.register("s", absent(A, "10s"), kind="durable")
    a = paper.event("a", 1)
    paper.match(wait, a, (0,), 2)
    paper.tick(wait, 11, 9)
    assert wrong(paper) == {"unexpected": 1}


def test_a_timer_that_waits_for_a_minute_without_a_fault_is_late() -> None:
    for times, found in (((), {"late": 1}), ((11, 40), {}), ((11, 80), {"late": 1}), ((70,), {})):
        paper = Paper()
        wait = paper.register("s", (A & B).expires(after="10s"), key="k")
        paper.match(wait, paper.event("a", 1), (0,), 3)
        paper.tick(wait, 71, 72)
        paper.log.fault_times = [START_MS + at * 1000 for at in times]
        verdict = judge(paper.log, START_MS + 100_000)
        assert {name: n for name, n in verdict.differences.counts().items() if n} == found, times
        assert len(verdict.timers_late_ms) == 1


def test_while_many_records_wait_and_are_read_there_is_a_backlog_and_its_firings_are_not_late() -> None:
    backlog, slow, stuck = Backlog(), ("b-event", 0), ("b-event", 1)
    ends = {slow: 10_000, stuck: 10_000}
    for second, offset in enumerate((9_000, 9_300, 9_300, 9_650, 9_750)):
        backlog.look({slow: offset, stuck: 50}, ends, second)
    assert backlog.times_ms == [1, 3]
    backlog.look({slow: 9_800}, ends, 5)
    assert backlog.times_ms == [1, 3], "250 and 200 records are no backlog"


def test_the_delay_of_a_firing_counts_from_when_its_events_and_its_wait_existed() -> None:
    paper = Paper()
    wait = paper.register("s", A & B, key="k", stamp=100)
    paper.match(wait, paper.event("a", 1), (0,), 140)
    paper.match(wait, paper.event("b", 2), (1,), 140)
    assert not wrong(paper, 200)
    paper = Paper()
    wait = paper.register("s", A & B, key="k")
    paper.match(wait, paper.event("a", 1), (0,), 60)
    paper.match(wait, paper.event("b", 2), (1,), 60)
    assert wrong(paper, 200) == {"late": 1}


def test_a_timer_that_did_not_wait_for_a_partition_is_unexpected() -> None:
    paper = Paper()
    wait = paper.register("s", absent(A, "10s"), kind="durable")
    paper.match(wait, paper.event("a", 1), (0,), 2)
    paper.incomplete = True
    paper.tick(wait, 11, 12)
    assert wrong(paper) == {"unexpected": 1}


def test_a_look_back_after_live_matches_is_unexpected() -> None:
    paper = Paper()
    wait = paper.register("s", A, kind="durable")
    old, new = paper.event("a", 1), paper.event("a", 2)
    paper.match(wait, new, (0,), 3)
    paper.match(wait, old, (0,), 4)
    assert wrong(paper) == {"unexpected": 1}


def test_a_match_from_before_since_is_unexpected() -> None:
    paper = Paper()
    wait = paper.register("s", A, kind="durable", since=5)
    paper.match(wait, paper.event("a", 1), (0,), 6)
    assert wrong(paper) == {"unexpected": 2}  # the match, and its firing


def test_matches_of_different_partitions_may_arrive_in_any_order() -> None:
    paper = Paper()
    wait = paper.register("s", sequence(A, B), kind="durable")
    a, b = paper.event("a", 1), paper.event("b", 2, partition=1)
    paper.match(wait, b, (1,), 3)
    paper.match(wait, a, (0,), 3)
    paper.tick(wait, 4, 4)
    assert not wrong(paper)


def test_the_first_firing_of_any_key_may_end_a_wait_without_key() -> None:
    for first in ("k1", "k2"):
        paper = Paper()
        wait = paper.register("s", absent(A, "10s"))
        for key, stamp in (("k1", 1), ("k2", 2)):
            paper.match(wait, paper.event("a", stamp, key), (0,), 3, key=key)
        paper.tick(wait, 20, 20, first)
        paper.write("state", 20, b"si/k1", None)
        paper.write("state", 20, b"si/k2", None)
        assert not wrong(paper)


def test_a_tick_that_comes_late_lets_another_key_end_a_wait_without_key() -> None:
    """An early tick would have let the second event of k1 cause the first firing."""
    paper = Paper()
    wait = paper.register("s", absent(A, "10s") & B)
    for key, a, b in (("k1", 1, 20), ("k2", 2, 3)):
        paper.match(wait, paper.event("a", a, key), (0,), 21, key=key)
        paper.match(wait, paper.event("b", b, key), (1,), 21, key=key)
    paper.tick(wait, 22, 22, "k2")
    paper.write("state", 22, b"si/k1", None)
    assert not wrong(paper)


def test_a_firing_that_needs_no_tick_ends_a_wait_without_key() -> None:
    paper = Paper()
    wait = paper.register("s", absent(A, "10s") | B)
    paper.match(wait, paper.event("b", 1, "k1"), (1,), 2, key="k1", process=False)
    paper.match(wait, paper.event("a", 2, "k2"), (0,), 3, key="k2")
    paper.tick(wait, 22, 22, "k2")
    assert wrong(paper) == {"missing": 1, "unexpected": 1}


def test_an_event_that_is_repeated_after_it_was_forgotten_may_fire_again() -> None:
    paper = Paper()
    wait = paper.register("s", event("a"), kind="durable")
    for n in range(70):
        paper.match(wait, paper.event("a", 1 + n, id_=f"n{n}"), (0,), 1 + n, key="")
    paper.match(wait, paper.event("a", 80, id_="n0"), (0,), 80, key="")
    assert judged(paper).firings == 71
    assert not wrong(paper)


@pytest.mark.parametrize(("listed", "found"), [(30, {}), (1, {"missing": 1, "unexpected": 1})])
def test_a_tick_need_not_wait_for_a_topic_that_was_listed_after_it(
    listed: float, found: dict[str, int]
) -> None:
    paper = Paper()
    wait = paper.register("s", (A & B).expires(after="20s"), key="k")
    paper.match(wait, paper.event("a", 1), (0,), 3)
    paper.list_topic("orders", listed)
    b = paper.event("b", 2, kind="orders")
    paper.tick(wait, 20, 21)
    paper.match(wait, b, (1,), 40)
    assert wrong(paper) == found


def test_a_wait_that_fired_twice_is_unexpected() -> None:
    paper = Paper()
    wait = paper.register("s", A, key="k")
    paper.match(wait, paper.event("a", 1), (0,), 3)
    wait.closed = False
    paper.match(wait, paper.event("a", 2), (0,), 3)
    assert wrong(paper) == {"unexpected": 1}


def test_a_firing_that_either_of_two_lives_of_a_wait_may_have_made_counts_for_the_life_in_force() -> None:
    paper = Paper()
    first, a, b = pair_of(paper, "one-shot")
    paper.match(first, a, (0,), 3)
    paper.match(first, b, (1,), 3, process=False)
    paper.remove(first, 4)
    again = paper.register("s", first.condition, stamp=5, incarnation=first.incarnation, key=first.key)
    paper.match(again, a, (0,), 6)
    paper.match(again, b, (1,), 6)
    assert wrong(paper) == {}


@pytest.mark.parametrize("close", [True, False])
def test_states_of_removed_registrations_are_leaked(close: bool) -> None:
    paper = Paper()
    wait, a, _b = pair_of(paper)
    paper.match(wait, a, (0,), 3)
    paper.remove(wait, 4, close=close)
    assert wrong(paper) == ({} if close else {"leaked_keys": 1})


def test_a_state_past_its_close_time_is_leaked() -> None:
    paper = Paper()
    wait, a, _b = pair_of(paper, condition=A)
    paper.match(wait, a, (0,), 3)
    assert not wrong(paper, 100)
    assert wrong(paper, 3 * 3600) == {"leaked_keys": 1}


def test_a_removed_subscription_may_stop_anywhere_but_not_skip_a_firing() -> None:
    for matched, found in (((), {}), ((0,), {}), ((0, 1), {}), ((1,), {"missing": 1})):
        paper = Paper()
        wait = paper.register("s", A, kind="durable")
        events = [paper.event("a", 1), paper.event("a", 2)]
        for n in matched:
            paper.match(wait, events[n], (0,), 3)
        paper.remove(wait, 4)
        assert wrong(paper) == found, matched


def test_poison_is_a_dead_letter_once() -> None:
    for times, found in ((0, {"missing": 1}), (1, {}), (2, {"duplicated": 1})):
        paper = Paper()
        bad = paper.write("event", 1, None, b"\xff")
        for _ in range(times):
            paper.write("dead-letter", 2, None, b"\xff", headers=[("interlock_origin", str(bad).encode())])
        assert wrong(paper) == found, times


class EmptyBroker:
    """A broker of empty topics, as the oracle's clients see it. partitions: {topic: their number}."""

    def __init__(self) -> None:
        self.partitions = {"bus-subscription": 1, "bus-event": 1}

    def list_topics(self, **_: object) -> Any:
        of_topic = self.partitions.items()
        return SimpleNamespace(
            topics={name: SimpleNamespace(error=None, partitions=range(count)) for name, count in of_topic}
        )

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: object) -> Any:
        return dict.fromkeys(asked, SimpleNamespace(result=lambda seconds: SimpleNamespace(offset=0)))

    def list_consumer_group_offsets(self, asked: list[Any], **_: object) -> Any:
        nothing = SimpleNamespace(topic_partitions=[])
        return {asked[0].group_id: SimpleNamespace(result=lambda seconds: nothing)}

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Needed only to be there."""


def test_a_partition_may_be_found_while_the_ends_of_the_others_are_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Regression: `settle` ended in "Set changed size during iteration"."""
    broker, made = EmptyBroker(), 0

    def make(*place: Any) -> TopicPartition:
        nonlocal made
        made += 1
        if made == 1:  # where the follower's thread may come between
            broker.partitions["bus-event"] += 1
            follower._look()
        return TopicPartition(*place)

    monkeypatch.setattr(oracle, "AdminClient", lambda settings: broker)
    monkeypatch.setattr(oracle, "Consumer", lambda settings: broker)
    follower = oracle.Follower("localhost:1", "bus")
    follower._look()
    monkeypatch.setattr(oracle, "TopicPartition", make)
    assert follower.undone("engines") == []
    assert made > 2


def test_the_oracle_imports_nothing_of_the_engine() -> None:
    code = "import sys, tests.chaos.oracle; print(*(m for m in sys.modules if 'interlock.engine' in m))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
