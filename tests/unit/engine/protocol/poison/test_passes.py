"""Engines end on a record, one after another, until it is a dead letter and the others are processed."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol.lookback.scanning import Scanning
from interlock.engine.protocol.poison.suspects import MOST_CONDEMNED, MOST_TRIES, ONE_RECORD, SUSPECTS, WIDTHS
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.records import MatchRecord, decode_msgpack

from tests.kit.pool import EVENT, TRIGGER, Pool
from tests.unit.engine.protocol.dying import EACH, dead_letters, run

SUSPECTED = dict(zip(WIDTHS, (SUSPECTS, *WIDTHS), strict=False))


def test_a_record_that_ends_processes_is_dead_lettered_after_five_and_the_rest_is_matched(
    lethal: set[tuple[TopicPartition, int]],
) -> None:
    pool = Pool(EACH)
    pool.emit("x", times=20)
    lethal.add((EVENT, 7))
    assert run(pool) == 2 + len(WIDTHS) + MOST_TRIES  # one by one, seven went well: once more
    (dead_letter,) = dead_letters(pool)
    assert dead_letter["interlock_origin"] == "b-event[0]@7"
    assert dead_letter["interlock_attempts"] == str(MOST_TRIES)
    assert dead_letter["interlock_stage"] == "event"
    assert all(f"b-engine-d-{n}.1" in dead_letter["interlock_reason"] for n in range(6, 11))
    assert len(pool.fired()) == 19
    assert pool.committed(EVENT).offset == 20
    assert not pool.metadata(EVENT).suspects


def test_a_match_that_ends_processes_is_dead_lettered_from_the_trigger_topic(
    lethal: set[tuple[TopicPartition, int]],
) -> None:
    pool = Pool(EACH)
    pool.emit("x", times=4)
    lethal.add((TRIGGER, 1))
    run(pool)
    (dead_letter,) = dead_letters(pool)
    assert dead_letter["interlock_origin"] == "b-trigger[0]@1"
    assert dead_letter["interlock_attempts"] == str(MOST_TRIES)
    assert dead_letter["interlock_stage"] == "trigger"
    assert len(pool.fired()) == 3


def test_processes_that_lose_their_partitions_while_they_try_count_for_nothing(
    lethal: set[tuple[TopicPartition, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool(EACH)
    pool.emit("x")
    lethal.add((EVENT, 0))
    run(pool, ends=1 + len(WIDTHS))
    lethal.clear()
    match, made = SourceTask.match, 2 * MOST_TRIES

    def lost(task: SourceTask, *rest: Any) -> Any:
        nonlocal made
        assert not task.suspects.records.ended
        if made:  # whoever has the least name is given the partition
            made -= 1
            for bus in pool.buses.values():
                bus.aborts = 1
            pool.boot(f"b-engine-d-joins{made:02}.1")
        return match(task, *rest)

    monkeypatch.setattr(SourceTask, "match", lost)
    pool.boot("b-engine-d-last.1")
    for _ in range(200):
        for name in list(pool.engines):
            pool.run(1, name)
    assert made == 0
    assert len(pool.fired()) == 1
    assert not dead_letters(pool)


def test_nothing_else_runs_in_the_pass_that_tries_a_record_alone(
    lethal: set[tuple[TopicPartition, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends the process then is that record."""
    pool = Pool()
    pool.emit("x")
    pool.emit("x")
    lethal.add((EVENT, 0))
    run(pool, ends=1 + len(WIDTHS))
    lethal.clear()
    done: list[str] = []
    match, advance = SourceTask.match, Scanning.advance

    def matched(task: SourceTask, *rest: Any) -> Any:
        done.append("alone" if task.suspects.stage in ONE_RECORD else "together")
        return match(task, *rest)

    def scanned(*given: Any, **named: Any) -> Any:
        done.append("scans")
        return advance(*given, **named)

    monkeypatch.setattr(SourceTask, "match", matched)
    monkeypatch.setattr(Scanning, "advance", scanned)
    pool.boot("b-engine-d-last.1")
    passes = []
    for _ in range(60):
        done.clear()
        pool.run(1)
        passes.append(tuple(done))
    assert passes.index(("alone",)) < passes.index(("together", "scans"))
    assert not any("alone" in each and "scans" in each for each in passes)


def test_an_orderly_end_whose_transaction_is_aborted_says_that_it_is_not_committed() -> None:
    pool = Pool()
    engine = pool.boot("b-engine-d-a.1")
    pool.emit("x")
    pool.run()
    pool.buses["b-engine-d-a.1"].aborts = 1
    assert engine.end() is False
    assert not pool.metadata(EVENT).ended_cleanly
    assert engine.end() is True
    assert pool.metadata(EVENT).ended_cleanly is True


def test_an_orderly_end_leaves_nothing_suspect_and_a_kill_does() -> None:
    pool = Pool()
    pool.boot("b-engine-d-a.1")
    pool.emit("x")
    pool.run()
    pool.engines["b-engine-d-a.1"].end()
    assert pool.metadata(EVENT).ended_cleanly is True
    pool.kill("b-engine-d-a.1")
    pool.emit("x")
    engine = pool.start("b-engine-d-b.1", passes=1)
    while not engine.is_open:
        pool.run(1)
    assert engine.ownership.sources[EVENT].suspects.records is None
    pool.run()
    pool.kill("b-engine-d-b.1")
    pool.emit("x")
    engine = pool.boot("b-engine-d-c.1")
    while not engine.is_open:
        engine.run_pass()
    suspected = engine.ownership.sources[EVENT].suspects.records
    assert suspected.width == WIDTHS[0]


def test_when_every_record_ends_processes_the_partition_stops_and_can_be_resumed(
    lethal: set[tuple[TopicPartition, int]],
) -> None:
    pool = Pool(EACH)
    for n in range(2 * MOST_CONDEMNED):
        pool.emit("x")
        lethal.add((EVENT, n))
    run(pool)
    assert len(dead_letters(pool)) == MOST_CONDEMNED
    (engine,) = pool.engines.values()
    assert list(engine.ownership.unread) == [EVENT]
    assert engine.problems.all() == [
        "b-event[0] is stopped: engine processes keep ending on its records. 8 of them went to the "
        "dead-letter topic. Then, at record 8, 5 engine processes ended while processing only this record: "
        + ", ".join(f"b-engine-d-{n}.1" for n in range(45, 50))
        + ". The records are probably not the cause: find out why the engines end. To resume: airflow "
        "interlock topics resume b-event 0 --from start|end|OFFSET --bus b"
    ]
    lethal.clear()
    pool.resume(EVENT, 8)
    pool.run(60)
    assert pool.committed(EVENT).offset == 2 * MOST_CONDEMNED
    assert len(pool.fired()) == MOST_CONDEMNED
    assert not pool.metadata(EVENT).condemned


def test_a_record_far_behind_the_committed_offset_is_found_when_nothing_is_matched(
    lethal: set[tuple[TopicPartition, int]],
) -> None:
    pool = Pool(EACH)
    pool.emit("of no interest", times=3500)
    lethal.add((EVENT, 3250))
    # two widths are taken once more, behind records that went well
    assert run(pool) == 1 + len(WIDTHS) + 2 + MOST_TRIES
    (dead_letter,) = dead_letters(pool)
    assert dead_letter["interlock_origin"] == "b-event[0]@3250"


def test_kills_that_no_record_caused_make_no_group_smaller() -> None:
    pool = Pool(EACH)
    widths = []
    for n in range(6):
        pool.emit("of no interest", times=2000)
        name = f"b-engine-d-{n}.1"
        engine = pool.boot(name)
        while not engine.is_open:
            pool.run(1, name)
        suspected = engine.ownership.sources[EVENT].suspects.records
        widths.append(None if suspected is None else suspected.width)
        began = pool.committed(EVENT)
        while (now := pool.committed(EVENT)) is None or (began is not None and now.offset == began.offset):
            pool.run(1, name)
        pool.kill(name)
    assert widths == [None, *[WIDTHS[0]] * 5]


@pytest.mark.parametrize("ends", range(1, 1 + len(WIDTHS)))
def test_suspected_partitions_are_worked_on_together_and_each_in_its_order(
    lethal: set[tuple[TopicPartition, int]], ends: int
) -> None:
    pool = Pool(EACH, events=4)
    for n in range(800):
        pool.emit("x", partition=n % 4)
    lethal.add((EVENT, 0))
    run(pool, ends=ends)
    lethal.clear()
    engine = pool.boot("b-engine-d-last.1")
    while not engine.is_open:
        pool.run(1)
    width = WIDTHS[ends - 1]
    found = [source.suspects.records for source in engine.ownership.sources.values()]
    assert [suspected and suspected.width for suspected in found] == [width] * 4
    together = [took for took in (engine.run_pass() for _ in range(400)) if took >= 4 * width]
    assert len(together) >= min(200, SUSPECTED[width]) // width
    assert len(pool.fired()) == 800
    matches = [decode_msgpack(MatchRecord, value or b"", "a match") for _, value in pool.records(TRIGGER)]
    for partition in range(4):
        assert [each.offset for each in matches if each.partition == partition] == list(range(200))
