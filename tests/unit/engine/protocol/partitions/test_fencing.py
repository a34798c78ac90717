"""Fencing: what a dead engine has open is ended, and a living one is left alone."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from interlock import event
from interlock.engine.bus import Committed, TopicPartition
from interlock.engine.errors import NotReadable, UnreachableError
from interlock.engine.protocol.context import Clocks, EngineContext
from interlock.engine.protocol.partitions.fencing import Fencing
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.records import Registration

from tests.kit.pool import ACTION, CONFIG, EVENT, REGISTRY, STATE, TRIGGER, Pool, RecordingBus

ONE = Registration.of("one", event("x"), None, 0, kind="durable")


def fenced(pool: Pool) -> list[str]:
    return [call for call in pool.buses["one"].calls if call.startswith("fence")]


def die_while_writing(pool: Pool, tp: TopicPartition) -> None:
    """The engine "dead" leaves a record of an open transaction there, and no offset with its name."""
    transaction = pool.cluster.begin("dead", pool.cluster.producers["dead"].epoch)
    pool.cluster.write(transaction, tp, b"k", b"v", None)
    pool.kill("dead")


def test_the_open_offsets_of_a_dead_engine_hold_a_takeover_back_for_half_a_second_only() -> None:
    pool = Pool(ONE)
    pool.start("dead")
    pool.open_transaction("dead", EVENT, TRIGGER)
    pool.kill("dead")
    pool.emit("x")
    engine = pool.start(passes=5)
    assert fenced(pool) == []
    pool.run(15)
    assert fenced(pool) == ["fence dead"]
    assert engine.stats.fenced == 1
    pool.run()
    assert pool.fired() == [("one", "met")]


# A transaction with firings blocks waits and dispatchers, which can end nobody; one in the registry, all.
@pytest.mark.parametrize("tp", [TRIGGER, ACTION, REGISTRY], ids=["matches", "firings", "registry"])
def test_an_engine_that_died_before_its_first_commit_is_known_as_an_earlier_member(
    tp: TopicPartition,
) -> None:
    """Only a record of the dead engine is in the way, and no offset has its name."""
    pool = Pool()
    pool.boot()
    pool.start("dead", passes=10)
    die_while_writing(pool, tp)
    pool.run(40, pass_ms=100)
    assert fenced(pool) == ["fence dead"]


def test_an_engine_that_died_in_its_first_transaction_is_known_to_one_that_began_while_it_was_a_member() -> (
    None
):
    pool = Pool(ONE)
    pool.emit("x")
    pool.boot("dead")
    pool.make()
    die_while_writing(pool, TRIGGER)
    assert pool.committed(EVENT) is None
    pool.run(40, pass_ms=100)
    assert fenced(pool) == ["fence dead"]
    assert pool.fired() == [("one", "met")]


def test_a_dead_engine_is_ended_while_another_partition_is_busy() -> None:
    pool = Pool(ONE, events=2)
    pool.boot()
    pool.start("dead", passes=10)
    die_while_writing(pool, TRIGGER)
    for _ in range(80):
        pool.emit("y", partition=0)
        pool.emit("y", partition=1)
        pool.run(1, pass_ms=100)
    assert fenced(pool) == ["fence dead"]


def test_a_dead_engine_that_holds_back_the_state_is_ended_as_well() -> None:
    pool = Pool(ONE)
    pool.start("dead")
    die_while_writing(pool, STATE)
    engine = pool.boot()
    pool.run(30, pass_ms=100)
    assert fenced(pool) == ["fence dead"]
    assert engine.is_open


def test_an_engine_that_was_killed_while_it_was_alone_is_known_to_the_one_that_took_over() -> None:
    """The successor's first commit replaces the dead engine's name by its own."""
    pool = Pool(ONE)
    dead = pool.start("dead")
    pool.emit("x")
    dead.run_pass()
    die_while_writing(pool, TRIGGER)
    pool.emit("x")
    pool.start(passes=4)
    assert pool.metadata(EVENT).committer == pool.metadata(TRIGGER).committer == "one"
    assert pool.fired() == [("one", "met")]
    pool.run(40)
    assert fenced(pool) == ["fence dead"]
    assert pool.fired() == [("one", "met")] * 2


def test_an_engine_continues_when_it_cannot_ask_about_the_action_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool(ONE)
    pool.start(passes=10)
    asked = [0]

    def refuse(_: object) -> dict[TopicPartition, int]:
        asked[0] += 1
        raise NotReadable("b-action", "It has no leader.")

    monkeypatch.setattr(pool.buses["one"], "stable_offsets", refuse)
    pool.emit("x")
    pool.run(100, pass_ms=100)
    assert pool.fired() == [("one", "met")]
    assert asked == [1]  # each question may take ten seconds


def test_fencing_that_fails_is_tried_again_and_does_not_keep_others_from_being_fenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool()
    pool.boot()
    for name in ("dead", "lost"):
        pool.boot(name)
    pool.run(10)
    die_while_writing(pool, TRIGGER)
    pool.kill("lost")
    bus = pool.buses["one"]
    fence, failures = bus.fence, [2]

    def failing(name: str) -> None:
        if name == "dead" and failures[0]:
            failures[0] -= 1
            raise UnreachableError("The coordinator does not answer.")
        fence(name)

    monkeypatch.setattr(bus, "fence", failing)
    pool.run(60, pass_ms=100)
    assert fenced(pool) == ["fence lost", "fence dead"]
    assert pool.engines["one"].stats.fenced == 2


@pytest.mark.parametrize("written", [(TRIGGER, EVENT), (ACTION,)], ids=["matches and events", "firings"])
def test_a_member_with_an_open_transaction_is_left_alone(written: tuple[TopicPartition, ...]) -> None:
    pool = Pool()
    pool.boot()
    pool.start("slow", passes=10)
    transaction = pool.cluster.begin("slow", pool.cluster.producers["slow"].epoch)
    for tp in written:
        pool.cluster.write(transaction, tp, b"k", b"v", None)
    pool.run(100, "one", pass_ms=100)
    assert fenced(pool) == []
    assert transaction.decision == "open"


class Stage:
    """The fencing of an engine "me", on a clock that tests move."""

    def __init__(self) -> None:
        self.pool, self.now = Pool(), 100.0
        self.bus = RecordingBus(self.pool.cluster, "me")
        self.pool.cluster.join("member-me", "me", [EVENT.topic])
        clocks = Clocks(monotonic=lambda: self.now)
        self.fencing = Fencing(EngineContext.of(self.bus, CONFIG, EngineParts(clocks=clocks)))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_an_engine_never_fences_itself(stage: Stage) -> None:
    stage.pool.commit_by_hand(EVENT, 0, '{"v":1,"R":0,"c":"other"}')
    stage.pool.commit_by_hand(TRIGGER, 0, '{"v":1,"R":0,"c":"me"}')
    for _ in range(10):
        stage.fencing.note_blocked([EVENT, TRIGGER])
        stage.now += 1
    assert stage.bus.calls.count("fence me") == 0
    assert "fence other" in stage.bus.calls


def test_nobody_is_fenced_if_the_list_of_members_lacks_the_engine_that_asks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the coordinator was loading, engines that lived were fenced: pitfall 23 of the clients."""
    members = stage.bus.members
    monkeypatch.setattr(stage.bus, "members", frozenset)
    stage.pool.commit_by_hand(EVENT, 0, '{"v":1,"R":0,"c":"other"}')
    for _ in range(3):
        stage.fencing.note_blocked([EVENT])
        stage.now += 1
    assert "fence other" not in stage.bus.calls
    monkeypatch.setattr(stage.bus, "members", members)
    stage.fencing.note_blocked([EVENT])
    assert "fence other" in stage.bus.calls


def test_rounds_are_a_second_apart_and_begin_half_a_second_after_the_first_sign(stage: Stage) -> None:
    bus, fencing, rounds = stage.bus, stage.fencing, []
    for tick in range(40):
        before = bus.calls.count("unstable")
        fencing.note_blocked([EVENT])
        if bus.calls.count("unstable") > before:
            rounds.append(tick)
        stage.now += 0.125
    assert rounds[0] == 4
    assert all(later - earlier == 8 for earlier, later in pairwise(rounds))
    fencing.note_unblocked()
    fencing.note_blocked([EVENT])
    stage.now += 0.4
    before = bus.calls.count("unstable")
    fencing.note_blocked([EVENT])
    assert bus.calls.count("unstable") == before


def test_a_round_is_short_though_no_coordinator_answers_and_each_candidate_has_its_turn(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight candidates took 80 s in one pass: the group excludes a member that does not poll for 45 s."""
    tried = list[str]()

    def silent(name: str) -> None:
        tried.append(name)
        stage.now += 10
        raise UnreachableError("The coordinator does not answer.")

    monkeypatch.setattr(stage.bus, "fence", silent)
    names = [f"dead{n}" for n in range(4)]
    stage.fencing.note_committers(Committed(0, f'{{"v":1,"R":0,"c":"{name}"}}') for name in names)
    stage.fencing.note_blocked([])
    for _ in range(2 * len(names)):
        stage.now += 1
        before = stage.now
        stage.fencing.note_blocked([])
        assert stage.now - before == 10
    assert tried == 2 * names
    fenced: list[str] = []
    monkeypatch.setattr(stage.bus, "fence", fenced.append)
    for _ in range(2):
        stage.now += 1
        stage.fencing.note_blocked([])
    assert fenced == names


def test_metadata_that_cannot_be_read_name_nobody_and_stop_nothing(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.pool.commit_by_hand(EVENT, 0, "rubbish")
    stage.pool.commit_by_hand(TRIGGER, 0, "")
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        for _ in range(2):
            stage.fencing.note_blocked([EVENT, TRIGGER])
            stage.now += 1
    assert [call for call in stage.bus.calls if call.startswith("fence")] == []
    assert "metadata" in caplog.text


def test_metadata_that_cannot_be_read_are_logged_once_until_they_change(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """They were an ERROR in each second in which something was blocked."""

    def errors_of_five_rounds() -> int:
        caplog.clear()
        for _ in range(6):
            stage.fencing.note_blocked([EVENT, TRIGGER])
            stage.now += 1
        return len(caplog.records)

    caplog.set_level(logging.ERROR, "interlock.engine")
    stage.pool.commit_by_hand(EVENT, 0, "rubbish")
    assert errors_of_five_rounds() == 1
    assert errors_of_five_rounds() == 0
    stage.pool.commit_by_hand(EVENT, 0, '{"v":1,"R":0,"c":"me"}')
    assert errors_of_five_rounds() == 0
    stage.pool.commit_by_hand(EVENT, 0, "rubbish")
    assert errors_of_five_rounds() == 1


def test_a_failed_query_for_the_group_is_repeated_and_ends_no_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool()
    pool.start("one", passes=10)
    bus = pool.buses["one"]
    members, refused = bus.members, [0]

    def refuse() -> frozenset[str]:
        refused[0] += 1
        raise UnreachableError("The coordinator is loading.")

    monkeypatch.setattr(bus, "members", refuse)
    pool.start("dead", passes=40)
    assert refused[0] > 1
    monkeypatch.setattr(bus, "members", members)
    pool.run(40)
    die_while_writing(pool, TRIGGER)
    monkeypatch.setattr(bus, "members", refuse)
    pool.run(40, pass_ms=100)
    assert fenced(pool) == []
    monkeypatch.setattr(bus, "members", members)
    pool.run(40, pass_ms=100)
    assert fenced(pool) == ["fence dead"]
