"""Transactions that brokers refuse: what waits, what continues, and that no record is blamed for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from interlock import Event, event
from interlock.engine.bus import Batch, Committed, End, Output, Record, TopicPartition
from interlock.engine.errors import EngineError, TransactionAborted
from interlock.engine.records import Registration
from interlock.events.kafka import encode

from tests.kit.pool import DEAD, EVENT, TRIGGER, Pool, RecordingBus
from tests.unit.engine.protocol.dying import EACH, alone, dead_letters

OTHER = TopicPartition(EVENT.topic, 1)
Refused = Callable[[Sequence[Output], Mapping[TopicPartition, Committed]], bool]


def refusing(monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    """Aborts transactions for which `refused` is true, as if brokers refused one of their records."""
    commit = RecordingBus.commit

    def asked(
        bus: RecordingBus,
        outputs: Sequence[Output],
        offsets: Mapping[TopicPartition, Committed],
        membership: object,
    ) -> int | None:
        if refused(outputs, offsets):
            raise TransactionAborted("The brokers refuse it.")
        return commit(bus, outputs, offsets, membership)

    monkeypatch.setattr(RecordingBus, "commit", asked)


def fetched_later(monkeypatch: pytest.MonkeyPatch, late: TopicPartition) -> None:
    """Where fetching starts, records of that partition come a poll later than those of the others."""
    start, poll = RecordingBus.start, RecordingBus.poll
    late_items: dict[RecordingBus, list[Record | End] | None] = {}

    def started(bus: RecordingBus, positions: Mapping[TopicPartition, int]) -> None:
        start(bus, positions)
        late_items[bus] = None

    def polled(bus: RecordingBus, most: int, timeout_s: float) -> Batch:
        batch = poll(bus, most, timeout_s)
        if bus not in late_items:
            return batch
        items = list(batch.records)
        before = late_items[bus]
        if before is not None:
            del late_items[bus]
            return replace(batch, records=[*before, *items])
        if items:
            late_items[bus] = [item for item in items if item.source == late]
        return replace(batch, records=[item for item in items if item.source != late])

    monkeypatch.setattr(RecordingBus, "start", started)
    monkeypatch.setattr(RecordingBus, "poll", polled)


def passes(pool: Pool, count: int) -> None:
    """So many passes, with an event for another partition before each."""
    for _ in range(count):
        pool.emit("x")
        pool.run(1)


def no_dead_letters(outputs: Sequence[Output], _: object) -> bool:
    return any(output.topic == DEAD.topic for output in outputs)


def no_matches(outputs: Sequence[Output], _: object) -> bool:
    return any(output.topic == TRIGGER.topic for output in outputs)


def test_a_try_whose_dead_letter_cannot_be_written_is_withdrawn_before_its_partition_pauses(
    lethal: set[tuple[TopicPartition, int]],
) -> None:
    pool = Pool()
    pool.write(EVENT, None, b"no event")
    engine = pool.engines[alone(pool, lethal, EVENT)]
    pool.cluster.delete(DEAD.topic)
    while EVENT not in engine.ownership.unread:
        pool.run(1)
    left = pool.metadata(EVENT)
    assert left.suspects
    assert (left.suspects.trying, left.suspects.ended, left.ended_cleanly) == (False, (), True)


@pytest.mark.parametrize(("tried_alone", "later"), [(False, False), (True, False), (False, True)])
def test_a_partition_whose_dead_letters_are_refused_pauses_and_the_others_are_read(
    lethal: set[tuple[TopicPartition, int]], monkeypatch: pytest.MonkeyPatch, tried_alone: bool, later: bool
) -> None:
    if later:
        fetched_later(monkeypatch, OTHER)
    pool = Pool(EACH, events=2)
    pool.write(OTHER, None, b"no event")
    engine = pool.engines[alone(pool, lethal, OTHER)] if tried_alone else pool.boot()
    with monkeypatch.context() as patch:
        refusing(patch, no_dead_letters)
        for _ in range(1000):  # a minute: it is tried again now and then
            pool.emit("x")
            pool.run(1)
        assert list(engine.ownership.unread) == [OTHER]
        assert len(pool.fired()) > 900
        assert dead_letters(pool) == []
    pool.run(200)
    assert [dead_letter["interlock_origin"] for dead_letter in dead_letters(pool)] == ["b-event[1]@0"]
    assert engine.ownership.unread == {}


def test_engines_that_end_in_order_beside_a_partition_that_waits_leave_nothing_suspect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool(EACH, events=2)
    refusing(monkeypatch, no_dead_letters)
    pool.write(OTHER, None, b"no event")
    for n in range(5):
        name = f"b-engine-d-{n}.1"
        engine = pool.boot(name)
        for _ in range(200):
            pool.emit("x")
            pool.run(1)
        assert list(engine.ownership.unread) == [OTHER]
        engine.end()
        pool.kill(name)
        assert [
            (pool.metadata(tp).suspects or None, pool.metadata(tp).ended_cleanly) for tp in (EVENT, OTHER)
        ] == [(None, True)] * 2


def test_a_record_whose_transaction_brokers_always_refuse_is_not_tried_for_ever_without_a_word(
    lethal: set[tuple[TopicPartition, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits in between, of its try and of another partition, do not hide the aborts."""
    pool = Pool(EACH, events=2)
    pool.emit("x", partition=1)
    alone(pool, lethal, OTHER)
    refusing(monkeypatch, lambda outputs, offsets: bool(outputs) and OTHER in offsets)

    with pytest.raises(
        EngineError, match=r"5 transactions with b-event\[1\] were aborted; the engine restarts"
    ):
        passes(pool, 400)
    left = pool.metadata(OTHER)
    assert left.suspects
    assert (left.suspects.trying, left.suspects.ended, left.ended_cleanly) == (False, (), True)


def test_work_that_brokers_always_refuse_ends_the_engine_whatever_is_committed_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetched_later(monkeypatch, OTHER)
    pool = Pool(EACH, events=2)
    pool.emit("x", partition=1)
    pool.boot()
    refusing(monkeypatch, lambda outputs, offsets: OTHER in offsets and offsets[OTHER].offset > 0)

    with pytest.raises(
        EngineError, match=r"5 transactions with b-event\[1\] were aborted; the engine restarts"
    ):
        passes(pool, 100)
    assert pool.committed(EVENT).offset > 0


def test_engines_that_end_by_refusals_make_no_record_suspect_whoever_takes_over_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process makes new clients after a pause, in which it is no member."""
    r, pool = random.Random(1), Pool(EACH)
    began = pool.cluster.now_ms
    lives, fails, begins = [0] * 6, [0] * 6, [0.0] * 6
    at_work: dict[int, str] = {}

    def work(process: int) -> None:
        now_s = (pool.cluster.now_ms - began) / 1000
        try:
            if process not in at_work:
                if now_s < begins[process]:
                    return
                lives[process] += 1
                at_work[process] = f"b-engine-d-p{process}.{lives[process]}"
                pool.boot(at_work[process])
            pool.run(1, at_work[process], pass_ms=10)
        except EngineError:
            pool.kill(at_work.pop(process))
            fails[process] += 1
            begins[process] = now_s + r.uniform(0, min(15, 0.5 * 2 ** fails[process]))

    with monkeypatch.context() as patch:
        refusing(patch, no_matches)
        pool.emit("x")
        while pool.cluster.now_ms < began + 120_000:
            for process in range(6):
                work(process)
            pool.cluster.now_ms += 50
            assert not (pool.committed(EVENT) and pool.metadata(EVENT).suspects)
    assert sum(lives) > 12
    for name in at_work.values():
        pool.kill(name)
    pool.start("b-engine-d-last.1")
    assert (pool.fired(), dead_letters(pool)) == ([("w", "met")], [])


def test_keys_that_a_changed_condition_drops_are_counted_once_when_a_transaction_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def subscribed(second: str, nonce: str) -> None:
        pair = event("x", by="subject") & event(second, by="subject")
        pool.register(Registration.of("w", pair, None, 0, kind="durable"), nonce)

    pool = Pool(events=2)
    subscribed("y", "n1")
    engine = pool.boot()
    for n in range(3):
        pool.write(EVENT, *encode(Event.of("x", "/s", id=str(n), subject=f"k{n}")))
    pool.run()
    refusing(monkeypatch, no_dead_letters)
    subscribed("z", "n2")
    pool.write(OTHER, None, b"no event")
    pool.run(60)
    assert list(engine.ownership.unread) == [OTHER]
    assert engine.stats.keys_dropped == 3
