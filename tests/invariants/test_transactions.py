"""I1 to I4 and I8: what engines commit, over Kafka in memory. Invariants: docs/understand/design.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pytest
from interlock import count, event
from interlock.conditions import Condition
from interlock.engine.bus import Committed, TopicPartition
from interlock.engine.protocol.lookback import scanning
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.partitions.fencing import Fencing
from interlock.engine.protocol.poison.refusals import Refusals
from interlock.engine.protocol.tasks.evaluator import Evaluator
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.protocol.tasks.trigger_task import TriggerTask
from interlock.engine.records import MatchRecord, Registration, decode_msgpack
from interlock.engine.registry.registry import Registered, Registry
from interlock.events.errors import InterlockError

from tests.invariants.durable import durable, ids_fired
from tests.invariants.needs import NeverRaised, Patch, Without, needs, unharmed, without
from tests.kit.bus import Alone
from tests.kit.made_of import MadeOf
from tests.kit.pool import ACTION, DEAD, EVENT, REGISTRY, TRIGGER, Pool
from tests.simulation import faults

PAIR = event("x") & event("y")
BY_KEY = event("x", by="data.k") & event("y", by="data.k")


# Rules, each with engines and brokers that lack it.
FENCE: Final = Without("the fence of a commit", faults.NO_FENCE)
LIVE: Final = Without("live only after the scan", faults.LIVE_DURING_ITS_SCAN)
OFFSET: Final = Without("no offset beyond what was read", faults.OFFSET_TOO_FAR)
ONE_TRANSACTION: Final = Without("one transaction for outputs and offsets", faults.TWO_TRANSACTIONS)
STATE: Final = Without("writing the state", faults.STATE_NOT_WRITTEN)
ROLLBACK: Final = Without("rolling a pass back", faults.NO_ROLLBACK)
SINCE: Final = Without("since", faults.SINCE_IGNORED)
MARKS: Final = Without("marks", faults.NO_MARKS)


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
    """Kills the process after `left` requests to the brokers."""

    def __init__(self, pool: Pool, left: int) -> None:
        super().__init__(pool.cluster)
        self.left = left

    def pause(self, what: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Killed
        super().pause(what)


def _killed_at(step: int, made_of: MadeOf) -> tuple[Pool, bool]:
    """(a bus at rest after an engine was killed at a step and another continued, whether it got that far)."""
    pool = Pool(durable("d", PAIR), made_of=made_of)
    pool.emit("x", event_id="1")
    pool.start(passes=20)
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


@needs(ONE_TRANSACTION, STATE, OFFSET)
def test_i1_a_crash_at_any_step_loses_nothing_and_repeats_nothing_that_a_reader_can_see(
    made_of: MadeOf,
) -> None:
    for step in range(1000):
        pool, killed = _killed_at(step, made_of)
        assert [match.offset for match in matched(pool)] == [0, 1, 2, 3], f"killed at step {step}"
        assert ids_fired(pool, "d") == [["1", "2"], ["3", "4"]], f"killed at step {step}"
        if not killed:
            break
    assert step > 20


@needs(ONE_TRANSACTION)
def test_i1_each_output_is_in_the_transaction_that_commits_the_offset_of_its_origin(made_of: MadeOf) -> None:
    pool = Pool(durable("d", PAIR), made_of=made_of)
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
            assert moved > own, f"{tp}: a record from {origin}@{own} was written with offset {moved}"


def matched_offset(tp: TopicPartition, value: bytes | None) -> int:
    """The offset of a record's origin: its event, the bad record of a dead letter, or the last match."""
    if tp == TRIGGER:
        return decode_msgpack(MatchRecord, value or b"", "a match").offset
    return 2 if tp == DEAD else 1


@needs(ROLLBACK)
def test_i1_an_aborted_transaction_is_not_visible_and_is_rolled_back(made_of: MadeOf) -> None:
    pool = Pool(durable("d", PAIR), made_of=made_of)
    pool.emit("x", event_id="1")
    pool.start()
    pool.emit("y", event_id="2")
    pool.buses["one"].aborts = 1
    pool.engines["one"].run_pass()  # the match is rolled back
    pool.run(1)
    pool.buses["one"].aborts = 1
    pool.run()  # the firing is rolled back
    assert pool.engines["one"].stats.aborted == 2
    assert ids_fired(pool, "d") == [["1", "2"]]


@needs(FENCE)
def test_i1_records_read_before_a_partition_was_lost_are_committed_by_its_next_owner_alone(
    made_of: MadeOf,
) -> None:
    pool = Pool.started(durable("d", event("x")), made_of=made_of)
    first = pool.engines["one"]
    commit = pool.buses["one"].commit

    def late(*arguments: Any) -> int | None:
        """Another engine takes over between the poll and the commit."""
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


class TaskThatHoldsItsOffset(TriggerTask):
    """Holds the offset back while a key is half met."""

    def commit_into(self, outputs: Outputs, committer: str, number: int) -> None:
        super().commit_into(outputs, committer, number)
        if self.open_keys:
            outputs.offsets[self.tp] = Committed(0, outputs.offsets[self.tp].metadata)


OFFSETS_ADVANCE: Final = without("offsets that advance", trigger_task=TaskThatHoldsItsOffset)


@needs(STATE, OFFSETS_ADVANCE)
def test_i2_a_half_met_condition_holds_no_offset_back_and_outlives_retention_and_its_engine(
    made_of: MadeOf,
) -> None:
    pool = Pool(durable("d", BY_KEY), made_of=made_of)
    pool.boot()
    for n in range(30):
        pool.emit("x", {"k": n}, event_id=f"x{n}")
    pool.run()
    for tp in (EVENT, TRIGGER):
        offset = pool.committed(tp).offset
        assert offset == pool.log(tp).end, f"the offset of {tp} waits at {offset}"
        pool.cluster.delete_below(tp, pool.log(tp).end)  # all that the topics held is gone
    pool.kill()
    pool.boot("two")
    for n in range(30):
        pool.emit("y", {"k": n}, event_id=f"y{n}")
    pool.run()
    assert ids_fired(pool, "d") == [[f"x{n}", f"y{n}"] for n in range(30)]


# -- I3


class SourceWithoutScans(SourceTask):
    def apply(self, until: int, first_offset: int | None) -> None:
        super().apply(until, None)


SCANS: Final = without("scans", source_task=SourceWithoutScans)


@needs(LIVE, SCANS, SINCE)
def test_i3_each_event_at_or_after_since_counts_once_whether_before_or_after_the_registration(
    made_of: MadeOf,
) -> None:
    pool = Pool(topics=("orders",), made_of=made_of)
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
        pool.kill()  # another one continues the scan
        pool.start("two", passes=20)
    pool.cluster.now_ms += 5000
    pool.emit("x", event_id="12")
    pool.run()
    assert reached(pool, back) == [*range(4, 13)]
    assert reached(pool, ahead) == [12]


@needs(MARKS)
def test_i3_offsets_that_an_administrator_sets_back_repeat_nothing(made_of: MadeOf) -> None:
    pool = Pool(durable("d", event("x")), made_of=made_of)
    pool.boot()
    for n in range(80):  # more than a key remembers by their identity
        pool.emit("x", event_id=f"{n}")
    pool.run()
    pool.kill()
    pool.commit_by_hand(EVENT, 0)
    pool.start("two")
    assert len(matched(pool)) == 160
    assert ids_fired(pool, "d") == [[f"{n}"] for n in range(80)]


# -- I4


@needs(LIVE)
def test_i4_matches_of_a_key_are_evaluated_in_the_order_of_their_source_partition(made_of: MadeOf) -> None:
    pool = Pool.started(made_of=made_of)
    for n in range(8):
        pool.emit("x", {"k": n % 2}, event_id=f"{n}")
    pool.run()
    pool.register(durable("d", count(event("x", by="data.k"), 3)))
    with Patch.context() as small:
        for limit in ("MOST_ALONE", "MOST_BESIDE_LIVE"):
            small.setattr(scanning, limit, 2)
        for n in range(8, 12):  # while earlier events are scanned
            pool.emit("x", {"k": n % 2}, event_id=f"{n}")
            pool.run(1)
        pool.run()
    found = ids_fired(pool, "d")
    assert sorted(found) == [["0", "2", "4"], ["1", "3", "5"], ["6", "8", "10"], ["7", "9", "11"]]


def _a_key_of_its_own_for_each_value(patch: Patch) -> None:
    from interlock.conditions.index import matcher_index

    patch.setattr(matcher_index, "key_at", lambda by, made: "one for all")


@needs(_a_key_of_its_own_for_each_value)
def test_i4_a_key_that_is_half_met_blocks_no_other(made_of: MadeOf) -> None:
    pool = Pool(durable("d", BY_KEY), made_of=made_of)
    pool.boot()
    pool.emit("x", {"k": "stuck"}, event_id="1")
    for n in range(5):
        pool.emit("x", {"k": n}, event_id=f"x{n}")
        pool.emit("y", {"k": n}, event_id=f"y{n}")
    pool.run()
    assert ids_fired(pool, "d") == [[f"x{n}", f"y{n}"] for n in range(5)]
    assert pool.engines["one"].ownership.triggers[TRIGGER].open_keys == 6  # five only remember their events


class SourceThatIgnoresKeys(SourceTask):
    """Chooses the trigger partition by the subscription alone."""

    def trigger_partition(self, registered: Registered, key: str) -> int:
        return super().trigger_partition(registered, "")


KEYS_CHOOSE: Final = without("keys that choose the partition", source_task=SourceThatIgnoresKeys)


@needs(KEYS_CHOOSE)
def test_i4_one_hot_durable_subscription_spreads_over_all_trigger_partitions_by_its_keys(
    made_of: MadeOf,
) -> None:
    pool = Pool(durable("hot", event("x", by="data.k")), partitions=4, made_of=made_of)
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


class OutputsWithoutDeadLetters(Outputs):
    def dead_letter(self, *_: Any, **__: Any) -> None:
        pass


class SourceThatCatchesNothing(SourceTask):
    caught = NeverRaised  # type: ignore[assignment]


DEAD_LETTERS: Final = without("dead letters", outputs=OutputsWithoutDeadLetters)
CATCHES_EVENTS: Final = without("catching what one event raises", source_task=SourceThatCatchesNothing)


@needs(DEAD_LETTERS, CATCHES_EVENTS)
def test_i8_a_bad_event_becomes_a_dead_letter_in_the_transaction_that_moves_past_it_and_stops_nothing(
    made_of: MadeOf,
) -> None:
    pool = Pool(durable("d", event("x")), made_of=made_of)
    pool.boot()
    pool.emit("x", event_id="1")
    bad = pool.write(EVENT, b"k", b"\xff", [("ce_id", b"x")])
    pool.emit("x", event_id="2")
    with unharmed("the engine"):
        pool.run()
    assert ids_fired(pool, "d") == [["1"], ["2"]]
    assert pool.records(DEAD) == [(b"k", b"\xff")]
    [(_, entry)] = pool.log(DEAD).history()
    assert entry.transaction.offsets[EVENT].offset > bad


class RefusesNothing(Refusals):
    """Does not check whether dead letters can be written."""

    def refusal(self, outputs: Outputs) -> str:
        return ""


CHECKS_FIRST: Final = without("checking whether dead letters can be written", refusals=RefusesNothing)


@needs(CHECKS_FIRST, DEAD_LETTERS)
def test_i8_an_event_that_cannot_become_a_dead_letter_keeps_its_offset_and_holds_up_no_other_partition(
    made_of: MadeOf,
) -> None:
    pool = Pool(durable("d", event("x")), events=2, made_of=made_of)
    pool.start()
    pool.cluster.delete(DEAD.topic)
    bad = pool.write(EVENT, b"k", b"\xff", [("ce_id", b"x")])
    pool.emit("x", event_id="behind it")
    pool.emit("x", event_id="elsewhere", partition=1)
    with unharmed("the engine"):
        pool.run()
    assert pool.committed(EVENT).offset == bad, "the offset moved past an event without a dead letter"
    assert ids_fired(pool, "d") == [["elsewhere"]]
    pool.cluster.create(DEAD.topic, 1)
    pool.run(200)
    assert ids_fired(pool, "d") == [["elsewhere"], ["behind it"]]
    assert len(pool.records(DEAD)) == 1


class RegistryThatCatchesNothing(Registry):
    caught = (NeverRaised,)  # type: ignore[assignment]


CATCHES_REGISTRATIONS: Final = without(
    "catching what one registration raises", registry=RegistryThatCatchesNothing
)


@needs(CATCHES_REGISTRATIONS)
def test_i8_a_registration_that_cannot_be_read_stops_no_other(made_of: MadeOf) -> None:
    pool = Pool(made_of=made_of)
    pool.write(REGISTRY, b"incarnation:nonce", b'{"v":1, "subscription": 7}')
    pool.register(durable("d", event("x")))
    pool.emit("x", event_id="1")
    with unharmed("the engine"):
        pool.start()
    assert ids_fired(pool, "d") == [["1"]]


class TaskThatCatchesNothing(TriggerTask):
    caught = NeverRaised  # type: ignore[assignment]


CATCHES_CONDITIONS: Final = without("catching what one condition raises", trigger_task=TaskThatCatchesNothing)


class EvaluatorWithAMistake(Evaluator):
    """Fails to evaluate one of the conditions."""

    @staticmethod
    def step(condition: Condition, *rest: Any) -> Any:
        if condition.matchers[0].label == "faulty":
            raise InterlockError("a mistake in one condition")
        return Evaluator.step(condition, *rest)


@needs(CATCHES_CONDITIONS, DEAD_LETTERS)
def test_i8_an_event_that_one_condition_cannot_evaluate_becomes_a_dead_letter_for_it_alone(
    made_of: MadeOf,
) -> None:
    mistaken = replace(made_of, parts=replace(made_of.parts, evaluator=EvaluatorWithAMistake))
    pool = Pool(*(durable(name, event("x", label=name)) for name in ("a", "faulty", "z")), made_of=mistaken)
    pool.emit("x", event_id="1")
    with unharmed("the engine"):
        pool.start()
    assert [ids_fired(pool, name) for name in ("a", "faulty", "z")] == [[["1"]], [], [["1"]]]
    assert len(pool.records(DEAD)) == 1


class FencesNobody(Fencing):
    def note_blocked(self, partitions: Iterable[TopicPartition]) -> None:
        pass


FENCES: Final = without("fencing the dead", fencing=FencesNobody)


@needs(FENCES)
def test_i8_an_engine_killed_inside_a_transaction_holds_the_others_back_no_longer_than_seconds(
    made_of: MadeOf,
) -> None:
    pool = Pool.started(durable("d", event("x")), made_of=made_of)
    pool.start("two", passes=20)
    [owner] = [name for name, engine in pool.engines.items() if EVENT in engine.partitions]
    pool.buses[owner].host = _KilledAfter(pool, 3)
    pool.emit("x", event_id="1")
    with pytest.raises(_Killed):
        pool.run(20, owner)
    assert pool.cluster.group.pending or pool.log(TRIGGER).open, "it was killed elsewhere"
    pool.kill(owner)
    pool.run(100)  # nothing times out in this Kafka: what is not fenced holds them back for good
    assert ids_fired(pool, "d") == [["1"]]
