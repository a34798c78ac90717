"""I1 to I4 and I8: what engines commit, over Kafka in memory. Invariants: docs/understand/design.md."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from interlock import count, event
from interlock.conditions import Condition
from interlock.engine.bus import Committed, TopicPartition
from interlock.engine.protocol.lookback import scanning
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.partitions.fencing import Fencing
from interlock.engine.protocol.poison.refusals import Refusals
from interlock.engine.protocol.tasks import source_task
from interlock.engine.protocol.tasks.evaluator import Evaluator
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.trigger_task import TriggerTask
from interlock.engine.records import MatchRecord, Registration, decode_msgpack
from interlock.engine.registry import registry
from interlock.events.errors import InterlockError

from tests.invariants.durable import durable, ids_fired
from tests.invariants.needs import NeverRaised, Patch, needs, unharmed
from tests.kit.bus import Alone
from tests.kit.pool import ACTION, DEAD, EVENT, REGISTRY, TRIGGER, Pool
from tests.simulation import faults
from tests.simulation.faults import wrap

PAIR = event("x") & event("y")
BY_KEY = event("x", by="data.k") & event("y", by="data.k")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def matched(pool: Pool) -> list[MatchRecord]:
    return [decode_msgpack(MatchRecord, value or b"", "a match") for _, value in pool.records(TRIGGER)]


def reached(pool: Pool, registration: Registration) -> list[int]:
    """The offsets of the events that were matched for a registration, in the order of the trigger topic."""
    incarnation = registration.incarnation
    return [
        match.offset
        for match in matched(pool)
        for target in match.targets
        if target.incarnation == incarnation
    ]


# -- I1


class _Killed(BaseException):
    pass


class _KilledAfter(Alone):
    """The process is killed where it asks the brokers for the `left`-th time, or sends them something."""

    def __init__(self, pool: Pool, left: int) -> None:
        super().__init__(pool.cluster)
        self.left = left

    def pause(self, what: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Killed
        super().pause(what)


def _killed_at(step: int) -> tuple[Pool, bool]:
    """A bus at rest after an engine was killed at a step, and another went on; whether it came that far."""
    pool = Pool()
    pool.register(durable("d", PAIR))
    pool.emit("x", event_id="1")
    pool.boot()
    pool.run(20)
    pool.emit("y", event_id="2")
    pool.emit("x", event_id="3")
    bus = pool.buses["one"]
    bus.host = host = _KilledAfter(pool, step)
    try:
        pool.run(8)
    except _Killed:
        pool.kill()
        pool.boot("two")
    else:
        bus.host = Alone(pool.cluster)
    pool.emit("y", event_id="4")
    pool.run(60)
    return pool, host.left < 0


@needs(
    faults.one_transaction_for_outputs_and_offsets,
    faults.writing_the_state,
    faults.no_offset_beyond_what_was_read,
)
def test_i1_a_crash_at_any_step_loses_nothing_and_repeats_nothing_that_a_reader_can_see() -> None:
    for step in range(1000):
        pool, killed = _killed_at(step)
        assert [match.offset for match in matched(pool)] == [0, 1, 2, 3], f"killed at step {step}"
        assert ids_fired(pool, "d") == [["1", "2"], ["3", "4"]], f"killed at step {step}"
        if not killed:
            break
    assert step > 20


@needs(faults.one_transaction_for_outputs_and_offsets)
def test_i1_each_output_stands_in_the_transaction_that_moves_past_what_brought_it() -> None:
    pool = Pool()
    pool.register(durable("d", PAIR))
    pool.boot()
    pool.emit("x")
    pool.emit("y")
    pool.write(EVENT, b"k", b"\xff", [("ce_id", b"x")])
    pool.run()
    for tp, origin in ((TRIGGER, EVENT), (DEAD, EVENT), (ACTION, TRIGGER)):
        written = list(pool.log(tp).history())
        assert written
        for _, entry in written:
            moved = entry.transaction.offsets[origin].offset if entry.transaction else 0
            own = matched_offset(tp, entry.value)
            assert moved > own, f"{tp}: what came from {origin}@{own} was written at offset {moved}"


def matched_offset(tp: TopicPartition, value: bytes | None) -> int:
    """The offset of what brought a record: of the event of a match, the bad record, the last match."""
    if tp == TRIGGER:
        return decode_msgpack(MatchRecord, value or b"", "a match").offset
    return 2 if tp == DEAD else 1


@needs(faults.taking_a_pass_back)
def test_i1_of_an_aborted_transaction_nothing_is_seen_and_nothing_is_kept() -> None:
    pool = Pool()
    pool.register(durable("d", PAIR))
    pool.emit("x", event_id="1")
    pool.boot()
    pool.run()
    pool.emit("y", event_id="2")
    pool.buses["one"].aborts = 1
    pool.engines["one"].run_pass()  # the match is taken back
    pool.run(1)
    pool.buses["one"].aborts = 1
    pool.run()  # the firing is taken back
    assert pool.engines["one"].stats.aborted == 2
    assert ids_fired(pool, "d") == [["1", "2"]]


@needs(faults.the_fence_of_a_commit)
def test_i1_what_an_engine_took_before_it_lost_its_partitions_is_committed_by_their_owner_alone() -> None:
    pool = Pool()
    pool.register(durable("d", event("x")))
    pool.boot()
    pool.run()
    first = pool.engines["one"]
    commit = pool.buses["one"].commit

    def late(*arguments: Any) -> int | None:
        """Between what it took and its commit another engine comes and takes over."""
        pool.buses["one"].commit = commit  # type: ignore[method-assign]
        pool.cluster.leave(pool.buses["one"]._member or "")
        pool.boot("two")
        pool.run(20, "two")
        return commit(*arguments)

    pool.buses["one"].commit = late  # type: ignore[method-assign]
    pool.emit("x", event_id="1")
    first.run_pass()
    pool.run(40)
    assert [match.offset for match in matched(pool)] == [0]
    assert ids_fired(pool, "d") == [["1"]]


# -- I2


def _offsets_that_go_on(patch: Patch) -> None:
    """As of an engine that keeps what is half met in the offset."""

    def held_back(original: Any, self: TriggerTask, outputs: Outputs, *rest: Any) -> None:
        original(self, outputs, *rest)
        if self.open_keys:
            outputs.offsets[self.tp] = Committed(0, outputs.offsets[self.tp].metadata)

    wrap(patch, TriggerTask, "commit_into", held_back)


@needs(faults.writing_the_state, _offsets_that_go_on)
def test_i2_a_half_met_condition_holds_no_offset_back_and_outlives_retention_and_its_engine() -> None:
    pool = Pool()
    pool.register(durable("d", BY_KEY))
    pool.boot()
    for n in range(30):
        pool.emit("x", {"k": n}, event_id=f"x{n}")
    pool.run()
    for tp in (EVENT, TRIGGER):
        committed = pool.committed(tp)
        assert committed is not None
        assert committed.offset == pool.log(tp).end, f"the offset of {tp} waits at {committed.offset}"
        pool.cluster.delete_below(tp, pool.log(tp).end)  # all that the topics held is gone
    pool.kill()
    pool.boot("two")
    for n in range(30):
        pool.emit("y", {"k": n}, event_id=f"y{n}")
    pool.run()
    assert ids_fired(pool, "d") == [[f"x{n}", f"y{n}"] for n in range(30)]


# -- I3


def _scans(patch: Patch) -> None:
    wrap(patch, SourceTask, "apply", lambda original, self, until, _: original(self, until, None))


def _since(patch: Patch) -> None:
    def at_any_time(original: Any, self: SourceTask, record: Any, *rest: Any) -> Any:
        return original(self, record._replace(timestamp_ms=1 << 60), *rest)

    wrap(patch, SourceTask, "targets", at_any_time)


@needs(faults.live_only_when_the_scan_has_met, _scans, _since)
def test_i3_each_event_at_or_after_since_counts_once_whether_before_or_after_the_registration() -> None:
    pool = Pool(topics=("orders",))
    pool.boot()
    for n in range(10):
        pool.emit("x", event_id=f"{n}")
        pool.cluster.now_ms += 1000
    pool.run()
    began = pool.log(EVENT).entries[4].timestamp_ms
    back = pool.register(durable("back", event("x"), began))
    ahead = pool.register(durable("ahead", event("x"), pool.cluster.now_ms + 5000))
    with Patch.context() as small:
        for limit in ("MOST_ALONE", "MOST_BESIDE_LIVE"):
            small.setattr(scanning, limit, 2)
        pool.emit("x", event_id="10")
        pool.run(2)
        pool.emit("x", event_id="11")
        pool.run(2)
        pool.kill()  # another one goes on with the scan
        pool.boot("two")
        pool.run(20)
    pool.cluster.now_ms += 5000
    pool.emit("x", event_id="12")
    pool.run()
    assert reached(pool, back) == [*range(4, 13)]
    assert reached(pool, ahead) == [12]


def _marks(patch: Patch) -> None:
    def unmarked(original: Any, self: TriggerTask, source: str, targets: Any, *rest: Any) -> None:
        kept = self.store.get(targets[0].incarnation)
        if kept is not None:
            kept.marks.clear()
        original(self, source, targets, *rest)

    wrap(patch, TriggerTask, "reach", unmarked)


@needs(_marks)
def test_i3_offsets_that_an_administrator_sets_back_repeat_nothing() -> None:
    pool = Pool()
    pool.register(durable("d", event("x")))
    pool.boot()
    for n in range(80):  # more than a key remembers by their identity
        pool.emit("x", event_id=f"{n}")
    pool.run()
    pool.kill()
    pool.commit_by_hand(EVENT, 0)
    pool.boot("two")
    pool.run()
    assert len(matched(pool)) == 160
    assert ids_fired(pool, "d") == [[f"{n}"] for n in range(80)]


# -- I4


@needs(faults.live_only_when_the_scan_has_met)
def test_i4_matches_of_a_key_are_evaluated_in_the_order_of_their_source_partition() -> None:
    pool = Pool()
    pool.boot()
    pool.run()
    for n in range(8):
        pool.emit("x", {"k": n % 2}, event_id=f"{n}")
    pool.run()
    pool.register(durable("d", count(event("x", by="data.k"), 3)))
    with Patch.context() as small:
        for limit in ("MOST_ALONE", "MOST_BESIDE_LIVE"):
            small.setattr(scanning, limit, 2)
        for n in range(8, 12):  # while what came before is read
            pool.emit("x", {"k": n % 2}, event_id=f"{n}")
            pool.run(1)
        pool.run()
    found = ids_fired(pool, "d")
    assert sorted(found) == [["0", "2", "4"], ["1", "3", "5"], ["6", "8", "10"], ["7", "9", "11"]]


def _a_key_of_its_own_for_each_value(patch: Patch) -> None:
    from interlock.conditions.index import matcher_index

    patch.setattr(matcher_index, "key_at", lambda by, made: "one for all")


@needs(_a_key_of_its_own_for_each_value)
def test_i4_a_key_that_is_half_met_blocks_no_other() -> None:
    pool = Pool()
    pool.register(durable("d", BY_KEY))
    pool.boot()
    pool.emit("x", {"k": "stuck"}, event_id="1")
    for n in range(5):
        pool.emit("x", {"k": n}, event_id=f"x{n}")
        pool.emit("y", {"k": n}, event_id=f"y{n}")
    pool.run()
    assert ids_fired(pool, "d") == [[f"x{n}", f"y{n}"] for n in range(5)]
    assert pool.engines["one"].ownership.triggers[TRIGGER].open_keys == 6  # of five what is remembered


def _keys_that_choose_the_partition(patch: Patch) -> None:
    original = source_task.partition_of
    patch.setattr(source_task, "partition_of", lambda kind, name, key, n: original(kind, name, "", n))


@needs(_keys_that_choose_the_partition)
def test_i4_one_hot_durable_subscription_spreads_over_all_trigger_partitions_by_its_keys() -> None:
    pool = Pool(partitions=4)
    pool.register(durable("hot", event("x", by="data.k")))
    pool.boot()
    for n in range(60):
        pool.emit("x", {"k": n})
    pool.run()
    spread = Counter(
        {number: len(pool.records(TopicPartition(TRIGGER.topic, number))) for number in range(4)}
    )
    assert spread.total() == 60
    assert min(spread.values()) > 0, spread


# -- I8


def _dead_letters(patch: Patch) -> None:
    patch.setattr(Outputs, "dead_letter", lambda self, *_: None)


def _catching_what_one_event_raises(patch: Patch) -> None:
    patch.setattr(SourceTask, "caught", NeverRaised)


@needs(_dead_letters, _catching_what_one_event_raises)
def test_i8_a_bad_event_is_set_aside_in_the_transaction_that_moves_past_it_and_stops_nothing() -> None:
    pool = Pool()
    pool.register(durable("d", event("x")))
    pool.boot()
    pool.emit("x", event_id="1")
    bad = pool.write(EVENT, b"k", b"\xff", [("ce_id", b"x")])
    pool.emit("x", event_id="2")
    with unharmed("the engine"):
        pool.run()
    assert ids_fired(pool, "d") == [["1"], ["2"]]
    assert pool.records(DEAD) == [(b"k", b"\xff")]
    [(_, entry)] = pool.log(DEAD).history()
    assert entry.transaction is not None
    assert entry.transaction.offsets[EVENT].offset > bad


def _looking_whether_dead_letters_can_be_written(patch: Patch) -> None:
    patch.setattr(Refusals, "refusal", lambda self, outputs: "")


@needs(_looking_whether_dead_letters_can_be_written, _dead_letters)
def test_i8_an_event_that_cannot_be_set_aside_keeps_its_offset_and_holds_up_no_other_partition() -> None:
    pool = Pool(events=2)
    pool.register(durable("d", event("x")))
    pool.boot()
    pool.run()
    pool.cluster.delete(DEAD.topic)
    bad = pool.write(EVENT, b"k", b"\xff", [("ce_id", b"x")])
    pool.emit("x", event_id="behind it")
    pool.emit("x", event_id="elsewhere", partition=1)
    with unharmed("the engine"):
        pool.run()
    committed = pool.committed(EVENT)
    assert committed is not None
    assert committed.offset == bad, "the offset moved past what was set aside nowhere"
    assert ids_fired(pool, "d") == [["elsewhere"]]
    pool.cluster.create(DEAD.topic, 1)
    pool.run(200)
    assert ids_fired(pool, "d") == [["elsewhere"], ["behind it"]]
    assert len(pool.records(DEAD)) == 1


def _catching_what_one_registration_raises(patch: Patch) -> None:
    patch.setattr(registry, "InterlockError", NeverRaised)
    patch.setattr(registry, "RecordError", NeverRaised)


@needs(_catching_what_one_registration_raises)
def test_i8_a_registration_that_cannot_be_read_stops_no_other() -> None:
    pool = Pool()
    pool.write(REGISTRY, b"incarnation:nonce", b'{"v":1, "subscription": 7}')
    pool.register(durable("d", event("x")))
    pool.emit("x", event_id="1")
    with unharmed("the engine"):
        pool.boot()
        pool.run()
    assert ids_fired(pool, "d") == [["1"]]


def _catching_what_one_condition_raises(patch: Patch) -> None:
    patch.setattr(TriggerTask, "caught", NeverRaised)


@needs(_catching_what_one_condition_raises, _dead_letters)
def test_i8_a_condition_whose_judgement_raises_loses_that_event_to_the_dead_letters_alone() -> None:
    pool = Pool()
    for name in ("a", "faulty", "z"):
        pool.register(durable(name, event("x", label=name)))
    step = Evaluator.step

    def faulty(condition: Condition, *rest: Any) -> Any:
        if condition.matchers[0].label == "faulty":
            raise InterlockError("a mistake in one condition")
        return step(condition, *rest)

    with Patch.context() as mistake:
        mistake.setattr(Evaluator, "step", staticmethod(faulty))
        pool.emit("x", event_id="1")
        with unharmed("the engine"):
            pool.boot()
            pool.run()
    assert [ids_fired(pool, name) for name in ("a", "faulty", "z")] == [[["1"]], [], [["1"]]]
    assert len(pool.records(DEAD)) == 1


def _fencing_the_dead(patch: Patch) -> None:
    patch.setattr(Fencing, "blocked", lambda self, partitions: None)


@needs(_fencing_the_dead)
def test_i8_an_engine_killed_inside_a_transaction_holds_the_others_back_no_longer_than_seconds() -> None:
    pool = Pool()
    pool.register(durable("d", event("x")))
    pool.boot()
    pool.run()
    pool.boot("two")
    pool.run(20)
    [owner] = [name for name, engine in pool.engines.items() if EVENT in engine.partitions]
    pool.buses[owner].host = _KilledAfter(pool, 3)
    pool.emit("x", event_id="1")
    with pytest.raises(_Killed):
        pool.run(20, owner)
    assert pool.cluster.group.pending or pool.log(TRIGGER).open, "it was killed elsewhere"
    pool.kill(owner)
    pool.run(100)  # nothing times out in this Kafka: what is not fenced holds them back for good
    assert ids_fired(pool, "d") == [["1"]]
