"""Problems: one engine writes those of its partitions, and all engines report them to their waiting tasks."""

from __future__ import annotations

import msgspec
from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol import problems
from interlock.engine.records import ProblemRecord, Registration, encode_json, partition_of, registry_key

from tests.kit.pool import DEAD, EVENT, REGISTRY, TRIGGER, Pool

OTHER = TopicPartition(EVENT.topic, 1)
KEY = registry_key("problem", *EVENT)


def lost(*, partitions: int = 2, events: int = 2) -> Pool:
    """A bus whose first event partition has lost records that nobody had read."""
    pool = Pool(partitions=partitions, events=events)
    pool.boot()
    pool.emit("x", times=3)
    pool.run()
    pool.kill()
    pool.emit("x", times=4)
    pool.cluster.delete_below(EVENT, 5)
    return pool


def written(pool: Pool) -> list[bytes | None]:
    return [value for key, value in pool.records(REGISTRY) if key == KEY]


def test_every_engine_reports_a_stopped_partition_until_it_resumes() -> None:
    pool = lost()
    pool.boot("one")
    pool.start("two", passes=100)
    (owner,) = [name for name, engine in pool.engines.items() if engine.ownership.unread]
    (other,) = pool.engines.keys() - {owner}
    reason = pool.engines[owner].ownership.unread[EVENT]
    assert pool.engines[other].problems.elsewhere() == [reason]
    assert pool.engines[other].problems.all() == []  # of its own
    assert pool.engines[owner].problems.elsewhere() == []
    assert len(written(pool)) == 1
    pool.resume(EVENT, 5)
    pool.run(200)
    assert written(pool)[1:] == [None]
    assert pool.engines[other].problems.elsewhere() == []


def test_every_engine_reports_a_look_back_that_misses_records_for_a_while() -> None:
    pool = Pool(partitions=2, events=2)
    pool.boot("one")
    pool.boot("two")
    pool.emit("b", times=5)
    pool.run()
    pool.log(EVENT).start = 3
    pool.cluster.now_ms += 3_600_000
    pool.register(Registration.of("w", event("a"), None, 0))
    pool.run(100)
    (other,) = [engine for engine in pool.engines.values() if not engine.problems.look_backs()]
    assert "records below 3 were removed" in other.problems.elsewhere()[0]
    pool.cluster.now_ms += 120_000
    pool.run(100)
    assert other.problems.elsewhere() == []
    assert written(pool)[-1] is None


def test_the_next_owner_removes_what_a_dead_engine_reported_about_a_partition() -> None:
    pool = Pool()
    pool.write(REGISTRY, KEY, encode_json(ProblemRecord(text="b-event[0] is paused: why not.")))
    pool.start(passes=100)
    assert written(pool)[1:] == [None]


def test_problems_of_a_topic_that_was_removed_from_the_bus_are_not_reported() -> None:
    pool = Pool()
    key = registry_key("problem", "gone", 0)
    pool.write(REGISTRY, key, encode_json(ProblemRecord(text="gone[0] is paused.")))
    engine = pool.start()
    assert engine.problems.elsewhere() == []


def test_every_engine_reports_a_wait_without_room_for_new_keys_until_it_is_over() -> None:
    pool = Pool(partitions=2, events=2)
    half = event("x", by="data.k") & event("y", by="data.k")
    wait = msgspec.structs.replace(Registration.of("w", half, None, 0), max_keys=3)
    pool.register(wait)
    pool.boot("one")
    pool.start("two")
    for n in range(8):
        pool.emit("x", {"k": n})
        pool.run(100)
    (owner,) = [engine for engine in pool.engines.values() if engine.problems.full_waits()]
    (other,) = [engine for engine in pool.engines.values() if engine is not owner]
    [text] = owner.problems.full_waits()
    assert text.startswith("'w' waits without a key and has 3 open keys")
    assert owner.problems.all() == other.problems.elsewhere() == [text]
    at = partition_of("one-shot", "w", "", 2)
    key = registry_key("problem", TRIGGER.topic, at)
    assert len([1 for name, _ in pool.records(REGISTRY) if name == key]) == 1
    assert len(pool.records(DEAD)) == 5
    pool.remove(wait)
    pool.run(200)
    assert owner.problems.all() == other.problems.elsewhere() == []


def test_a_problem_that_stays_is_written_once() -> None:
    pool = lost(partitions=1, events=1)
    pool.start(passes=300)
    assert len(written(pool)) == 1


def test_a_very_long_text_is_cut() -> None:
    pool = Pool()
    engine = pool.start()
    engine.ownership.pause(EVENT, "x" * 100_000)
    pool.run(200)
    assert len(written(pool)[-1] or b"") < problems.MOST_CHARS + 100


def test_an_engine_without_an_open_partition_has_no_transaction_to_report_with() -> None:
    pool = lost(partitions=1, events=1)
    pool.boot("one")
    pool.start("two", passes=200)
    owners = [each for each in pool.engines.values() if each.ownership.unread]
    assert len(owners) == 1
    assert bool(written(pool)) == bool(owners[0].ownership.tasks())
