"""The cut: a timer waits until what is stamped before its time is evaluated, and no longer than patience."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import msgspec
import pytest
from interlock import Event, event
from interlock.engine.bus import Bus, Committed, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.protocol.context import Clocks, EngineContext
from interlock.engine.protocol.loop import Engine
from interlock.engine.protocol.partitions.registry_reader import RegistryReader
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.timers import cut
from interlock.engine.records import (
    CLOCK_KEY,
    MatchRecord,
    MatchTarget,
    OffsetMetadata,
    Registration,
    encode_json,
    encode_msgpack,
)

from tests.kit.made_of import MadeOf
from tests.kit.pool import ACTION, EVENT, REGISTRY, STATE, TRIGGER, Pool

OTHER = TopicPartition(EVENT.topic, 1)
PAIR = event("x") & event("y")


def waiting(pool: Pool, expires: str = "10s", name: str = "w") -> Registration:
    return pool.register(Registration.of(name, PAIR.expires(after=expires), None, 0))


def elsewhere(pool: Pool, tp: TopicPartition, **fields: object) -> None:
    """Commits as another engine, which does not exist, for one of its partitions."""
    end = pool.log(tp).end
    about: dict[str, object] = {
        "applied": pool.log(REGISTRY).end,
        "topic_id": pool.topic_id(tp.topic),
        "committer": "other",
        **fields,
    }
    offset = about.pop("offset", end)
    assert isinstance(offset, int)
    text = encode_json(OffsetMetadata(**about)).decode()  # type: ignore[arg-type]
    pool.cluster.group.offsets[tp] = Committed(offset, text)


def with_another_engine() -> Pool:
    """Two event partitions; the second belongs to a member that commits nothing."""
    pool = Pool(events=2)
    pool.cluster.join("999", "other", (EVENT.topic,))
    engine = pool.boot()
    member = pool.cluster.group.members["999"]
    member.joined = True
    pool.cluster._complete()
    pool.run(10)
    assert engine.partitions == (EVENT, TRIGGER)
    return pool


def waiting_beside_another_engine() -> Pool:
    pool = with_another_engine()
    waiting(pool)
    return pool


def waiting_pool(expires: str = "10s") -> Pool:
    pool = Pool()
    pool.boot()
    waiting(pool, expires)
    return pool


def test_an_expiry_fires_when_its_time_has_come_and_not_before() -> None:
    pool = waiting_pool()
    pool.run(100)
    assert pool.fired() == []
    pool.run(100)
    assert pool.fired() == [("w", "expired")]
    firing = pool.actions()[0]["firing"]
    assert not firing["incomplete"]
    assert firing["missing"]


def test_a_timer_fires_within_a_second_of_its_cut_by_the_clock_of_the_brokers() -> None:
    pool = Pool()
    pool.start(passes=20)
    for n in range(20):
        waiting(pool, expires=f"{5_000 + 137 * n}ms", name=f"w{n}")
    pool.run(200)
    fired = [entry for _, entry in pool.log(ACTION).history()]
    late = [entry.timestamp_ms - json.loads(entry.value or b"")["firing"]["timer_ms"] for entry in fired]
    assert len(late) == 20
    assert min(late) >= 0
    assert max(late) <= 1000


@pytest.mark.parametrize("in_time", [True, False])
def test_after_a_downtime_an_event_that_came_in_time_counts_and_one_that_came_too_late_does_not(
    in_time: bool,
) -> None:
    pool = waiting_pool()
    pool.emit("x")
    pool.run()
    pool.kill()
    if in_time:
        pool.emit("y")
    pool.cluster.now_ms += 3_600_000
    if not in_time:
        pool.emit("y")
    pool.start("two")
    assert pool.fired() == [("w", "met" if in_time else "expired")]


def test_a_record_is_written_for_the_time_when_nothing_was_committed_for_long() -> None:
    pool = waiting_pool("5m")
    pool.run()
    before = len([key for key, _ in pool.records(STATE) if key == CLOCK_KEY])
    pool.run(40, pass_ms=10_000)
    assert len([key for key, _ in pool.records(STATE) if key == CLOCK_KEY]) > before
    assert pool.fired() == [("w", "expired")]


class EngineWithAWrongClock(Engine):
    def __init__(self, bus: Bus, config: BusConfig, *, parts: EngineParts) -> None:
        clocks = Clocks(lambda: 4e9, parts.clocks.monotonic)
        super().__init__(bus, config, parts=replace(parts, clocks=clocks))


def test_the_clock_of_the_machine_decides_nothing() -> None:
    pool = Pool(made_of=MadeOf(engine=EngineWithAWrongClock))
    pool.boot()
    waiting(pool)
    pool.run(20)
    assert pool.fired() == []
    pool.run(300)
    assert pool.fired() == [("w", "expired")]


def test_a_cut_waits_for_a_source_partition_that_another_engine_reads() -> None:
    pool = waiting_beside_another_engine()
    pool.emit("x", partition=1)
    elsewhere(pool, OTHER, offset=0)
    pool.run(60, pass_ms=500)
    assert pool.fired() == []
    elsewhere(pool, OTHER)
    pool.run(10)
    assert pool.fired() == [("w", "expired")]


def test_a_cut_waits_for_a_source_partition_that_nobody_has_opened() -> None:
    pool = waiting_beside_another_engine()
    pool.run(100, pass_ms=500)
    assert pool.fired() == []
    assert pool.engines["one"].problems.all() == [
        f"Timers are waiting for {OTHER}, which no engine has opened."
    ]


class ReaderThatWaits(RegistryReader):
    """Reads nothing new while it must wait."""

    waits = False

    def read_new(self) -> None:
        if not self.waits:
            super().read_new()


def test_a_cut_waits_until_a_topic_that_was_listed_before_its_time_is_known() -> None:
    readers: list[ReaderThatWaits] = []

    def reader(context: EngineContext) -> ReaderThatWaits:
        readers.append(ReaderThatWaits(context))
        return readers[-1]

    pool = Pool(made_of=MadeOf(parts=EngineParts(registry_reader=reader)))
    pool.boot()
    waiting(pool)
    pool.emit("x")
    pool.run()
    readers[0].waits = True
    pool.cluster.create("orders", 1)
    pool.write_bus_record(msgspec.structs.replace(pool.record, topics=("orders",)))
    pool.run(200)
    assert pool.fired() == []
    readers[0].waits = False
    pool.run(200)
    assert pool.fired() == [("w", "expired")]
    assert not pool.actions()[0]["firing"]["incomplete"]


def test_a_cut_waits_for_the_open_transaction_of_another_engine() -> None:
    pool = waiting_beside_another_engine()
    elsewhere(pool, OTHER)
    transaction = pool.open_transaction("other", OTHER)
    pool.run(60, pass_ms=500)
    assert pool.fired() == []
    pool.cluster.end(transaction, commit=False)
    pool.run(10)
    assert pool.fired() == [("w", "expired")]


def test_an_offset_that_was_committed_by_hand_is_waited_for() -> None:
    """The owner commits it again, with its own metadata."""
    pool = waiting_beside_another_engine()
    pool.commit_by_hand(OTHER, 0)
    pool.run(100, pass_ms=500)
    assert pool.fired() == []
    assert str(OTHER) in pool.engines["one"].problems.all()[0]


def test_an_offset_of_a_deleted_topic_is_no_offset_of_its_successor() -> None:
    pool = waiting_beside_another_engine()
    elsewhere(pool, OTHER, offset=100, topic_id="another")
    pool.run(100, pass_ms=500)
    assert pool.fired() == []


def test_a_registration_that_another_engine_has_not_applied_yet_waits_for_another_cut() -> None:
    pool = with_another_engine()
    w = waiting(pool)
    elsewhere(pool, OTHER, applied=pool.log(REGISTRY).end - 1)
    pool.run(60, pass_ms=500)
    assert pool.fired() == []
    assert pool.engines["one"].stats.cuts > 0
    elsewhere(pool, OTHER)
    pool.run(30)
    assert pool.fired() == [(w.subscription, "expired")]


def test_a_registration_in_a_scan_waits_for_another_cut_and_the_others_do_not() -> None:
    pool = with_another_engine()
    first, _ = waiting(pool, name="a"), waiting(pool, name="b")
    r = pool.log(REGISTRY).end
    elsewhere(pool, OTHER, scans=[(r - 2, r - 1, 0)])
    pool.run(60, pass_ms=500)
    assert pool.fired() == [("b", "expired")]
    elsewhere(pool, OTHER)
    pool.run(30)
    assert pool.fired() == [("b", "expired"), (first.subscription, "expired")]


def test_a_partition_that_stopped_before_a_registration_is_waited_for_no_longer_than_patience(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its offset is beyond its end, so the cut is reached; its owner applies nothing any more."""
    pool = Pool.started(events=2)
    pool.kill()
    applied = pool.metadata(OTHER).applied
    elsewhere(pool, OTHER, offset=5, applied=applied)
    engine = pool.boot("two")
    waiting(pool)
    missing = f"{OTHER}, whose owner has not applied registrations from {applied} on"
    pool.run(60, pass_ms=1000)
    assert engine.problems.all()[1:] == [f"Timers are waiting for {missing}."]
    pool.run(int(cut.PATIENCE_S) - 60, pass_ms=1000)
    assert pool.fired() == []
    assert engine.stats.incomplete == 0
    pool.run(30, pass_ms=1000)
    assert pool.fired() == [("w", "expired")]
    assert pool.actions()[0]["firing"]["incomplete"]
    assert engine.stats.incomplete == 1
    pool.run(5, pass_ms=1000)
    assert len(engine.problems.all()) == 1
    # It has stood for long enough: the next one continues without it at once, and the log has it already.
    waiting(pool, name="next")
    pool.run(20, pass_ms=1000)
    assert pool.fired()[1:] == [("next", "expired")]
    assert engine.stats.incomplete == 2
    texts = [record.getMessage() for record in caplog.records]
    assert sum(text.startswith(f"Timers have been waiting for {missing}") for text in texts) == 1
    assert sum(text.startswith(f"Timers stop waiting for {missing}") for text in texts) == 1


def test_timers_wait_for_a_scan_that_makes_progress_and_report_it() -> None:
    pool = with_another_engine()
    engine = pool.engines["one"]
    waiting(pool)
    r = pool.log(REGISTRY).end
    for step in range(3):
        elsewhere(pool, OTHER, scans=[(r - 1, r, step)])
        pool.run(int(cut.PATIENCE_S) - 20, pass_ms=1000)
        end = pool.log(OTHER).end
        assert engine.problems.all() == [
            f"Timers are waiting for {OTHER}, where a scan has read up to {step} of {end}."
        ]
    assert pool.fired() == []
    elsewhere(pool, OTHER)
    pool.run(5, pass_ms=1000)
    assert pool.fired() == [("w", "expired")]
    assert not pool.actions()[0]["firing"]["incomplete"]
    assert engine.problems.all() == []


def test_a_scan_that_stands_still_is_waited_for_no_longer_than_patience() -> None:
    pool = waiting_beside_another_engine()
    r = pool.log(REGISTRY).end
    elsewhere(pool, OTHER, scans=[(r - 1, r, 0)])
    pool.run(int(cut.PATIENCE_S), pass_ms=1000)
    assert pool.fired() == []
    # Another scan that begins beside it is no progress of this one.
    elsewhere(pool, OTHER, applied=r + 1, scans=[(r - 1, r, 0), (r, r + 1, 0)])
    pool.run(30, pass_ms=1000)
    assert pool.actions()[0]["firing"]["incomplete"]


def test_a_new_scan_at_the_offset_of_an_old_one_gets_its_own_time() -> None:
    pool = with_another_engine()
    gone = waiting(pool)
    elsewhere(pool, OTHER, applied=pool.log(REGISTRY).end - 1)
    pool.run(20, pass_ms=1000)
    assert pool.engines["one"].stats.cuts > 0
    pool.remove(gone)
    elsewhere(pool, OTHER)
    pool.run(int(cut.PATIENCE_S), pass_ms=1000)
    waiting(pool, name="next")
    r = pool.log(REGISTRY).end
    elsewhere(pool, OTHER, scans=[(r - 1, r, 0)])
    pool.run(int(cut.PATIENCE_S), pass_ms=1000)
    assert pool.fired() == []


def test_registrations_that_have_no_room_for_a_scan_wait_for_those_that_make_progress() -> None:
    pool = with_another_engine()
    r = pool.log(REGISTRY).end
    waiting(pool)
    for step in range(3):
        elsewhere(pool, OTHER, applied=r, scans=[(r - 1, r, step)])
        pool.run(int(cut.PATIENCE_S) - 20, pass_ms=1000)
    assert pool.fired() == []
    elsewhere(pool, OTHER, applied=r, scans=[(r - 1, r, 3)])
    pool.run(int(cut.PATIENCE_S) + 30, pass_ms=1000)
    assert pool.actions()[0]["firing"]["incomplete"]


def test_keys_that_are_not_ready_cost_a_cut_a_second_and_no_transaction() -> None:
    pool = waiting_beside_another_engine()
    elsewhere(pool, OTHER, applied=pool.log(REGISTRY).end - 1)
    pool.run(200)
    stats, began = pool.engines["one"].stats, pool.cluster.now_ms
    cuts, commits = stats.cuts, pool.buses["one"].calls.count("commit")
    assert cuts > 0
    pool.run(400)
    seconds = (pool.cluster.now_ms - began) / 1000
    assert seconds / 2 < stats.cuts - cuts <= seconds / cut.CLOSING_S + 1
    # one in half a minute, for the time
    assert pool.buses["one"].calls.count("commit") - commits <= 1


def test_matches_in_the_trigger_topic_when_the_sources_are_reached_are_evaluated_before_the_tick() -> None:
    """Step 4 comes after step 3: another engine wrote the match in the transaction that reached the end."""
    pool = with_another_engine()
    w = waiting(pool)
    pool.emit("x")
    pool.emit("y", partition=1)
    elsewhere(pool, OTHER, offset=0)
    place = pool.log(REGISTRY).end - 1
    pool.run(3)
    pool.run(60, pass_ms=500)
    assert pool.fired() == []
    stamp = pool.log(OTHER).entries[0].timestamp_ms
    made = Event.of("y", "/s", id="of the other")
    match = MatchRecord(1, *OTHER, 0, stamp, made, [MatchTarget(place, w.incarnation, (1,), "")], "id-1")
    pool.write(TRIGGER, None, encode_msgpack(match))
    elsewhere(pool, OTHER)
    pool.run(30)
    assert pool.fired() == [("w", "met")]


def test_without_a_cut_within_patience_the_tick_comes_and_the_firing_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = waiting_beside_another_engine()
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        pool.run(20, pass_ms=500)
        pool.run(int(cut.PATIENCE_S), pass_ms=1000)
        assert pool.fired() == []
        pool.run(30, pass_ms=1000)
    assert pool.fired() == [("w", "expired")]
    assert pool.actions()[0]["firing"]["incomplete"]
    assert f"{OTHER}, which no engine has opened" in caplog.text
    assert pool.engines["one"].stats.incomplete == 1
    assert pool.engines["one"].problems.all() == []


def test_a_trigger_partition_that_is_not_read_to_its_end_within_patience_is_incomplete_as_well() -> None:
    pool = waiting_pool()
    pool.run()
    pool.open_transaction("nobody", TopicPartition("b-action", 0), TRIGGER)
    pool.cluster.join("999", "nobody", (EVENT.topic,))  # a living member is not fenced
    pool.cluster.group.members["999"].joined = True
    pool.run(60)
    pool.run(int(cut.PATIENCE_S), pass_ms=1000)
    assert pool.fired() == []
    pool.run(60, pass_ms=1000)
    assert pool.fired() == [("w", "expired")]
    assert pool.actions()[0]["firing"]["incomplete"]


def test_one_cut_serves_all_timers_that_are_due() -> None:
    pool = Pool(partitions=3)
    pool.boot()
    for n in range(50):
        waiting(pool, name=f"w{n}")
    pool.run(200)
    assert len(pool.fired()) == 50
    assert pool.engines["one"].stats.cuts <= 2


def test_a_cut_starts_again_with_another_assignment() -> None:
    pool = waiting_beside_another_engine()
    pool.run(60, pass_ms=500)
    assert pool.engines["one"].cuts.wants_commits
    pool.cluster.leave("999")
    pool.run(60, pass_ms=500)
    assert pool.fired() == [("w", "expired")]


def test_an_aborted_tick_is_given_again_and_fires_once() -> None:
    pool = waiting_pool()
    pool.run(100)
    pool.run(60)
    pool.buses["one"].aborts = 2
    pool.run(60)
    assert pool.fired() == [("w", "expired")]


def test_cuts_that_only_close_keys_are_made_at_most_once_a_second() -> None:
    pool = Pool()
    pool.boot()
    durable = (event("x", by="data.k") & event("y", by="data.k")).within("3s", lateness="1s")
    pool.register(Registration.of("d", durable, None, 0, kind="durable"))
    for n in range(150):
        pool.emit("x", {"k": n})
        pool.run(2)
    stats = pool.engines["one"].stats
    while stats.ticks == 0:
        pool.run(1, pass_ms=1000)
    before, began = stats.cuts, pool.cluster.now_ms
    pool.run(400)
    assert pool.engines["one"].ownership.triggers[TRIGGER].open_keys == 0
    assert stats.ticks == 150
    assert 5 < stats.cuts - before <= (pool.cluster.now_ms - began) / 1000 / cut.CLOSING_S + 1


def test_the_brokers_are_not_queried_while_no_timer_is_due() -> None:
    pool = waiting_pool("1h")
    pool.run()
    calls = len(pool.buses["one"].calls)
    pool.run(5)
    assert pool.buses["one"].calls[calls:] == []
