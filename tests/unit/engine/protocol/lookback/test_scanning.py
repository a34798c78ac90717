"""Look-backs of a running engine: what a scan keeps, and what is reported when retention was faster."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol.lookback import scanning
from interlock.engine.protocol.tasks import scans
from interlock.engine.protocol.tasks.scans import LEAST_KEPT
from interlock.engine.records import Registration

from tests.kit.pool import EVENT, Pool


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans read one record in each pass."""
    monkeypatch.setattr(scanning, "MOST_ALONE", 1)
    monkeypatch.setattr(scanning, "MOST_BESIDE_LIVE", 1)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("removed", [True, False])
def test_look_backs_that_overlap_without_end_keep_no_more_than_is_in_a_scan(removed: bool) -> None:
    pool = Pool()
    pool.emit("a", times=12)
    engine = pool.start()
    most = 0
    for n in range(4 * LEAST_KEPT):
        made = pool.register(Registration.of(f"w{n}", event("x"), None, 0))
        pool.run(3)
        assert not engine.up_to_date, "a scan is running all the time"
        if removed:
            pool.remove(made)
        most = max(most, len(engine._scanning._index))
    assert most <= (6 if removed else LEAST_KEPT + 4)


def fetched(pool: Pool, engine: str = "one") -> dict[TopicPartition, int]:
    """The positions from which the scans' reader fetches."""
    reader: Any = pool.engines[engine]._scanning._reader
    return reader._fetching.positions


def test_the_reader_of_scans_fetches_nothing_more_when_the_last_scan_has_ended() -> None:
    """It went on with the partition's new events, until 16 MiB of them were in memory."""
    pool = Pool()
    pool.emit("a", times=3)
    engine = pool.start()
    pool.register(Registration.of("w", event("x"), None, 0))
    pool.run()
    assert engine.stats.scanned == 3
    assert not fetched(pool)


@pytest.mark.usefixtures("slow")
def test_the_reader_of_scans_fetches_nothing_more_when_the_partition_has_another_owner() -> None:
    pool = Pool()
    pool.emit("a", times=40)
    engine = pool.start("two")
    pool.register(Registration.of("w", event("x"), None, 0))
    pool.run(3)
    assert fetched(pool, "two")
    pool.boot("one")  # the group's assignment prefers it
    pool.run(10)
    assert not engine.ownership.sources
    assert not fetched(pool, "two")


# -- retention

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def hourly(event_type: str, count: int, start: int) -> Pool:
    """An engine that has read an event of each hour; retention has removed those below `start` since then."""
    pool = Pool()
    for _ in range(count):
        pool.emit(event_type)
        pool.cluster.now_ms += HOUR_MS
    pool.start()
    pool.log(EVENT).start = start
    return pool


def scanned_up_to(pool: Pool) -> int:
    """Run until a scan has read and committed two records; its committed position."""
    while not pool.metadata(EVENT).scans or pool.metadata(EVENT).scans[0][2] < 2:
        pool.run(1)
    return pool.metadata(EVENT).scans[0][2]


def idle_for_two_months(start: int) -> Pool:
    """A new engine two months after three events; retention has removed those below `start`."""
    pool = Pool()
    pool.emit("a", times=3)
    pool.start()
    pool.kill()
    pool.cluster.now_ms += 60 * DAY_MS
    pool.start()
    pool.log(EVENT).start = start
    return pool


def look_back(pool: Pool, name: str = "w", since_ms: int = 0) -> Registration:
    return pool.register(Registration.of(name, event("a"), None, since_ms))


def lost(pool: Pool) -> int:
    return pool.engines["one"].stats.look_back_lost


def test_a_look_back_beyond_the_first_record_is_reported_with_its_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = hourly("b", 5, start=3)
    look_back(pool)
    pool.run()
    [text] = pool.engines["one"].problems.all()
    assert text.startswith("b-event[0]: records below 3 were removed (retention); the oldest record left is ")
    assert "offset 3, of 2001-09-09T04:46:40+00:00. 1 subscription looks back further" in text
    assert text.endswith(", and may miss removed events: w.")
    assert lost(pool) == 1
    warned = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [r.getMessage() for r in warned] == [text]


def test_a_wait_that_looks_back_too_far_is_in_force_for_the_records_that_are_left() -> None:
    pool = hourly("a", 5, start=3)
    look_back(pool)
    pool.run()
    assert pool.fired() == [("w", "met")]


def test_a_look_back_within_the_existing_records_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    pool = hourly("b", 5, start=3)
    stamps = [entry.timestamp_ms for _, entry in pool.log(EVENT).history()]
    look_back(pool, since_ms=stamps[3])  # with the first that is left
    look_back(pool, "later", since_ms=stamps[4])
    pool.run()
    assert lost(pool) == 0
    assert not pool.engines["one"].problems.all()
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_look_back_to_the_start_of_a_whole_partition_is_not_reported() -> None:
    pool = Pool()
    pool.emit("b")
    pool.start()
    look_back(pool)
    pool.run()
    assert lost(pool) == 0


@pytest.mark.usefixtures("slow")
def test_retention_that_overtakes_a_scan_is_reported_once_with_offsets_and_subscriptions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = Pool()
    for _ in range(40):
        pool.emit("b")
        pool.cluster.now_ms += 1
    pool.start()
    for n in range(7):
        look_back(pool, f"w{n}")
    scanned_up_to(pool)
    at = pool.engines["one"].ownership.sources[EVENT].scans.current
    pool.log(EVENT).start = 30
    pool.run(5)
    problems = pool.engines["one"].problems.all()
    assert len(problems) == 1
    assert problems[0].startswith(
        f"b-event[0]: records {at} to 29 were removed (retention); the oldest record"
    )
    assert problems[0].endswith(
        "7 subscriptions look back further, and may miss removed events: w0, w1, w2, w3, w4 and 2 more."
    )
    assert lost(pool) == 7
    pool.run(30)
    assert not pool.engines["one"].ownership.sources[EVENT].scans
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == problems


@pytest.mark.usefixtures("slow")
def test_retention_that_overtakes_a_scan_while_no_engine_runs_is_reported_by_the_next_one() -> None:
    pool = Pool()
    pool.emit("b", times=40)
    pool.start()
    look_back(pool, since_ms=-1)
    at = scanned_up_to(pool)
    pool.kill()
    pool.log(EVENT).start = 30
    pool.start("two")
    assert f"records {at} to 29 were removed" in pool.engines["two"].problems.all()[0]


@pytest.mark.usefixtures("slow")
def test_a_scan_whose_remaining_records_are_all_removed_is_reported() -> None:
    pool = Pool()
    pool.emit("b", times=40)
    pool.start()
    look_back(pool)
    scanned_up_to(pool)
    pool.log(EVENT).start = 40
    pool.run(5)
    assert (
        "to 39 were removed (retention); no record to look back at is left."
        in pool.engines["one"].problems.all()[0]
    )


def test_a_jump_over_records_that_never_were_events_is_not_reported() -> None:
    """Control records of transactions and compaction leave jumps; the partition begins where it began."""
    pool = Pool()
    pool.emit("b")
    transaction = pool.open_transaction("other", EVENT, EVENT)
    pool.cluster.end(transaction, commit=False)
    pool.boot()
    pool.emit("b")
    pool.run()
    assert pool.log(EVENT).end > 3
    look_back(pool)
    pool.run()
    assert pool.engines["one"].stats.scanned == 2
    assert lost(pool) == 0


def test_a_gap_is_a_problem_for_a_minute_at_least_and_then_no_more() -> None:
    pool = hourly("b", 3, start=1)
    look_back(pool)
    pool.run(10)
    engine = pool.engines["one"]
    assert not engine.ownership.sources[EVENT].scans
    assert engine.problems.all()
    pool.cluster.now_ms += 60_000
    pool.run(1)
    assert not engine.problems.all()
    assert engine.stats.look_back_lost == 1


@pytest.mark.usefixtures("slow")
def test_a_gap_is_reported_and_counted_once_when_the_pass_that_found_it_is_aborted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = hourly("b", 10, start=3)
    pool.buses["one"].aborts = 2
    look_back(pool)
    pool.run(40)
    assert pool.buses["one"].aborts == 0
    assert lost(pool) == 1
    assert sum(r.levelno == logging.WARNING for r in caplog.records) == 1


@pytest.mark.usefixtures("slow")
def test_a_gap_names_all_that_are_still_in_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "TURN", 1)
    pool = hourly("b", 20, start=3)
    look_back(pool, "one")
    pool.run(5)
    look_back(pool, "two")
    pool.run(5)
    assert pool.engines["one"].problems.all()[0].endswith("removed events: one, two.")
    assert lost(pool) == 2


def test_a_wait_beyond_the_retention_is_reported_when_no_record_is_left() -> None:
    pool = idle_for_two_months(start=3)
    look_back(pool, since_ms=pool.cluster.now_ms - 31 * DAY_MS)
    pool.run()
    [text] = pool.engines["one"].problems.all()
    assert text.startswith(
        "b-event[0]: records below 3 were removed (retention); no record to look back at is left."
    )
    assert text.endswith(" 1 subscription looks back further, and may miss removed events: w.")
    assert lost(pool) == 1


@pytest.mark.parametrize(
    ("days", "start"),
    [
        # Otherwise every wait would be reported for every partition that was idle for a month.
        pytest.param(29, 3, id="within the retention, no record is left"),
        pytest.param(31, 2, id="beyond it, and a record is left that is older: segments go as a whole"),
    ],
)
def test_a_wait_that_retention_costs_nothing_is_not_reported_after_an_idle_time(
    days: int, start: int
) -> None:
    pool = idle_for_two_months(start)
    look_back(pool, since_ms=pool.cluster.now_ms - days * DAY_MS)
    pool.run()
    assert lost(pool) == 0
