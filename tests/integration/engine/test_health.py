"""Health as the cluster reports it, on a bus that is well and on one that is not."""

from __future__ import annotations

import socket
import threading
from typing import Any

import msgspec
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Asked
from interlock import event
from interlock.engine.admin import health as health_module
from interlock.engine.admin.health import examine
from interlock.engine.admin.resuming import resumption, write
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, TopicsError, UnreachableError
from interlock.engine.kafka.topics import check_settings, create
from interlock.engine.runtime.metrics import Publisher
from interlock.engine.runtime.runtime import run_engine

from .conftest import running, set_topic
from .crowd import counted_engine

PAIR = event("a") & event("b")


def row(health: Any, topic: str, partition: int) -> dict[str, Any]:
    [found] = [p for p in health.partitions if (p["topic"], p["partition"]) == (topic, partition)]
    return found


def test_a_bus_that_is_well_shows_engines_positions_and_registrations(bench: Any, eventually: Any) -> None:
    with bench.engine(), bench.waiting() as waiting:
        waiting("half", PAIR)
        done = waiting("done", event("a"))
        _, partition, offset = bench.emit("a")
        done.firing()
        topic = bench.config.topic("event")
        health = eventually(
            "all is read",
            lambda: (h := examine(bench.config)).ok and not row(h, topic, partition)["lag"] and h,
        )
        assert [engine["partitions"] for engine in health.engines] == [8]
        assert {p["engine"] for p in health.partitions} == {health.engines[0]["engine"]}
        assert row(health, topic, partition)["committed"] == offset + 1
        assert row(health, topic, partition)["state"] == "open"
        assert health.registrations["one_shot"] == 2
        assert health.registrations["oldest"] == "half"
        assert health.dead_letters_at_most == 0
        msgspec.json.encode(health)


def test_registrations_without_an_engine_are_a_problem_and_a_bus_without_either_is_none(
    bench: Any, eventually: Any
) -> None:
    assert examine(bench.config).ok
    topic, partition, _ = bench.emit("x")
    assert row(examine(bench.config), topic, partition)["lag"] == 1
    with bench.waiting() as waiting:
        waiting("w", PAIR)
        [problem] = eventually("it is registered", lambda: examine(bench.config).problems)
    assert "No engine is a member" in problem
    assert "airflow interlock engine" in problem


def test_a_range_that_retention_removed_is_named_with_the_command_that_resumes(
    bench: Any, eventually: Any
) -> None:
    topic = bench.config.topic("event")
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("w", event("a"))
        _, partition, _ = bench.emit("a", partitionkey="p")
        wait.firing()
        eventually(
            "the offset is committed", lambda: row(examine(bench.config), topic, partition)["committed"] == 1
        )
    bench.emit("a", partitionkey="p")
    bench.emit("a", partitionkey="p")
    assert row(examine(bench.config), topic, partition)["lag"] == 2
    bench.delete_records("event")
    health = examine(bench.config)
    [problem] = [p for p in health.problems if "retention" in p]
    assert f"{topic}[{partition}] is stopped: records 1 to 2 were removed" in problem
    assert f"airflow interlock topics resume {topic} {partition} --from" in problem
    assert row(health, topic, partition)["state"] == "stopped"


@pytest.fixture
def used(bench: Any, eventually: Any) -> Any:
    """A bus whose partitions one engine owned, all of them, before it left the group."""
    with bench.engine():
        eventually(
            "all partitions are in use",
            lambda: all(p["state"] == "open" for p in examine(bench.config).partitions),
        )
    eventually("the group is empty", lambda: not examine(bench.config).engines)
    return bench


def test_offsets_that_the_group_lost_are_named(used: Any) -> None:
    bench = used
    [future] = bench.admin.delete_consumer_groups([bench.config.group]).values()
    future.result()
    problems = examine(bench.config).problems
    assert len([p for p in problems if "the group's committed offset no longer exists" in p]) == 8


def test_a_committed_offset_whose_metadata_cannot_be_read_is_a_problem_of_that_partition(
    used: Any, eventually: Any
) -> None:
    bench, topic = used, used.config.topic("event")
    by_hand = ConsumerGroupTopicPartitions(bench.config.group, [Asked(topic, 0, 0, "nonsense")])
    [future] = bench.admin.alter_consumer_group_offsets([by_hand]).values()
    future.result()
    health = examine(bench.config)
    [problem] = health.problems
    assert f"{topic}[0] is stopped: its committed offset holds no valid OffsetMetadata" in problem
    assert f"airflow interlock topics resume {topic} 0 --from" in problem
    assert [p["partition"] for p in health.partitions if p["state"] == "stopped"] == [0]
    write(bench.config, [resumption(bench.config, topic, 0, "start")])
    with bench.engine():
        eventually("it continues", lambda: examine(bench.config).ok)


@pytest.mark.parametrize(
    ("kind", "contents"), [("state", "half-met conditions"), ("subscription", "registrations")]
)
def test_records_of_an_internal_topic_that_were_removed_by_hand_are_named_and_stop_the_engine(
    bench: Any, eventually: Any, kind: str, contents: str
) -> None:
    topic = bench.config.topic(kind)
    everything = [Asked(topic, p, -1) for p in range(1 if kind == "subscription" else bench.partitions)]

    def remove() -> bool:
        """Brokers refuse it while the topic is only compacted, and follow its setting a little later."""
        try:
            for future in bench.admin.delete_records(everything).values():
                future.result()
        except KafkaException as e:
            if e.args[0].code() == KafkaError.POLICY_VIOLATION:
                return False
            raise
        return True

    with bench.engine(), bench.waiting() as waiting:
        waiting("w", PAIR)
        bench.emit("a")
        eventually("a state is kept", lambda: bench.records("state"))
    check_settings(bench.config)
    set_topic(bench.admin, topic, "cleanup.policy", "delete")
    eventually("the records are removed", remove)
    with pytest.raises(TopicsError, match=f"Topic '{topic}' has cleanup.policy=delete"):
        check_settings(bench.config)
    set_topic(bench.admin, topic, "cleanup.policy", "compact")
    text = f" were removed, and possibly {contents} with them. Create a bus with another name"
    assert [p for p in examine(bench.config).problems if text in p and f" of {topic}[" in p]
    stop = threading.Event()
    give_up = threading.Timer(60, stop.set)
    give_up.start()
    with pytest.raises(TopicsError, match=f"possibly {contents} with them"):
        run_engine(bench.config, stop)
    give_up.cancel()


def test_engines_and_waits_begin_without_the_dead_letter_topic_and_the_partition_that_needs_it_is_named(
    bench: Any, eventually: Any
) -> None:
    """Nothing is skipped: the record becomes a dead letter when the topic exists again."""
    topic, dead_letters = bench.config.topic("event"), bench.config.topic("dead-letter")
    bench.admin.delete_topics([dead_letters])[dead_letters].result()
    eventually(
        "it is gone", lambda: any(dead_letters in problem for problem in examine(bench.config).problems)
    )
    with bench.waiting() as waiting:
        wait = waiting("w", event("a"))
        with bench.engine():
            _, partition, _ = bench.emit("a", partitionkey="p")
            wait.firing()
            producer = Producer(dict(bench.config.client))
            producer.produce(topic, b"poison", partition=partition, headers=[("ce_type", b"a")])
            assert producer.flush(20) == 0
            text = f"{topic}[{partition}] is paused: it has a record that can neither be processed"
            health = eventually(
                "the partition is named",
                lambda: (text in " ".join((h := examine(bench.config)).problems)) and h,
            )
            assert row(health, topic, partition)["state"] == "paused"
            create(bench.config, partitions=bench.partitions)
            eventually("all is well", lambda: examine(bench.config).ok)
            assert [record.value for record in bench.records("dead-letter")] == [b"poison"]


def test_an_open_transaction_of_others_is_named_with_the_offset_from_which_on_it_holds_readers_back(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = bench.config.topic("event")
    stranger = Producer({**bench.config.client, "transactional.id": f"{topic}-stranger"})
    stranger.init_transactions(20)
    for _ in range(2):
        stranger.begin_transaction()
        stranger.produce(topic, b"1", partition=1)
        stranger.flush(20)
        assert examine(bench.config).ok  # it has only begun
        with monkeypatch.context() as patch:
            patch.setattr(health_module, "OPEN_MS", -60_000)
            [problem] = examine(bench.config).problems
        offset = row(examine(bench.config), topic, 1)["end"] - 1
        assert f"{topic}[1]: a transaction of another producer" in problem
        assert f"--topic {topic} --partition 1 --start-offset {offset}" in problem
        stranger.commit_transaction(20)
    with monkeypatch.context() as patch:
        patch.setattr(health_module, "OPEN_MS", -60_000)
        assert examine(bench.config).ok


def test_a_missing_topic_is_named_and_a_cluster_that_does_not_answer_raises(
    bench: Any, unique_name: Any
) -> None:
    other = BusConfig(name=unique_name("none"), client=bench.config.client)
    health = examine(other)
    assert any("airflow interlock topics create" in problem for problem in health.problems)
    assert not health.partitions
    nowhere = BusConfig(client={"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(UnreachableError):
        examine(nowhere)


class Sink:
    """Keeps the last gauge of each name, and the sum of each counter."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def incr(self, stat: str, count: int, *, tags: dict[str, str]) -> None:
        self.values[stat] = self.values.get(stat, 0) + count

    def gauge(self, stat: str, value: float, *, tags: dict[str, str]) -> None:
        self.values[stat] = value

    def timing(self, stat: str, dt: float, *, tags: dict[str, str]) -> None:
        self.values[stat] = dt


def test_metrics_show_what_an_engine_did_and_how_far_the_group_is(bench: Any, eventually: Any) -> None:
    sink = Sink()
    with counted_engine(bench.config) as status, bench.waiting() as waiting:
        publisher = Publisher(sink, status, dict, lambda: bench.config)
        waiting("half", PAIR)
        wait = waiting("w", event("a"))
        bench.emit("a", partitionkey="p")
        wait.firing()
        eventually("a half-met condition is counted", lambda: status.size.open_keys == 1)
    for _ in range(3):
        bench.emit("a", partitionkey="p")
    publisher.publish()
    assert sink.values["interlock.source_lag"] == 3
    assert sink.values["interlock.retention_used"] == 0.75
    assert sink.values["interlock.fired"] == 1
    assert sink.values["interlock.matched"] == 2
    assert sink.values["interlock.transaction_time"] > 0
    assert sink.values["interlock.firing_latency"] > 0


def test_an_engine_that_cannot_start_is_named_with_its_host_and_reason(
    bench: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine ends at each start, and the group has no member."""
    monkeypatch.setattr("interlock.engine.runtime.failures.AFTER_S", 0.5)
    monkeypatch.setattr("interlock.engine.runtime.failures.HEALTHY_S", 0.5)
    can_start = threading.Event()

    def start(*given: Any, **named: Any) -> None:
        if not can_start.is_set():
            raise EngineError("the reason of this test")
        run_engine(*given, **named)

    monkeypatch.setattr("interlock.engine.runtime.runtime.run_engine", start)
    with running(bench.config):

        def named() -> list[str]:
            return [each for each in examine(bench.config).problems if "again and again" in each]

        [problem] = eventually("the engine is named", named)
        assert socket.gethostname() in problem
        assert "the reason of this test" in problem
        can_start.set()
        eventually("the engine is well", lambda: not named())
