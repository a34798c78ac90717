"""`airflow interlock topics` as an administrator runs it, with the connection in Airflow's database."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from interlock import event

from local.airflow import MIGRATED, LocalAirflow
from tests.integration.engine.conftest import Bench
from tests.integration.plugin.commands.conftest import Ran


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs an `airflow` command in an Airflow of its own."""
    home = tmp_path_factory.mktemp("airflow-home")
    made = LocalAirflow(home, home / "dags", migrated=MIGRATED)
    made.prepare()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).parent / "airflow"), *arguments],
            env=made.processes.environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.mark.long
def test_topics_are_made_and_checked_through_a_connection_of_the_database(
    airflow: Callable[..., subprocess.CompletedProcess[str]],
    bootstrap_servers: str,
    unique_name: Callable[[str], str],
) -> None:
    name = unique_name("bus")
    missing = airflow("interlock", "topics", "check", "--conn-id", "kafka_cli")
    assert missing.returncode == 1
    assert "kafka_cli" in missing.stderr
    extra = json.dumps({"bootstrap.servers": bootstrap_servers})
    assert (
        airflow("connections", "add", "kafka_cli", "--conn-type", "kafka", "--conn-extra", extra).returncode
        == 0
    )
    common = ("--conn-id", "kafka_cli", "--bus", name, "--output", "json")

    made = airflow("interlock", "topics", "create", *common, "--partitions", "2")
    assert made.returncode == 0, made.stderr
    rows = json.loads(made.stdout[made.stdout.index("[") :])
    assert {row["topic"] for row in rows} == {
        f"{name}-{kind}" for kind in ("event", "trigger", "state", "action", "subscription", "dead-letter")
    }
    assert {row["state"] for row in rows} == {"created"}

    again = airflow("interlock", "topics", "create", *common, "--partitions", "3")
    assert again.returncode == 1
    assert "Existing topics have 2 partitions, not 3" in again.stderr


def test_a_bus_is_given_another_topic_and_loses_it_again_while_its_engine_runs(
    bench: Bench, interlock: Callable[..., Ran], eventually: Any, unique_name: Callable[[str], str]
) -> None:
    orders = unique_name("orders")
    make_topic(bench, orders, 1)
    bench.subscribe("w", event("org.apache.kafka.record"))
    with bench.engine():
        assert interlock("topics", "add", orders).rows() == [
            {"topic": bench.config.topic("event"), "partitions": 2, "state": "ok", "reads": "CloudEvents"},
            {"topic": orders, "partitions": 1, "state": "ok", "reads": "plain records"},
        ]
        assert {"topic": orders, "partitions": 1, "state": "ok, listed: plain records"} in interlock(
            "topics", "check"
        ).rows()
        eventually("the topic is read", lambda: committed(bench, orders) == 0)
        send(bench, orders, b"1")
        bench.eventually_fired("w", 1)
        again = interlock("topics", "add", orders)
        assert f"Already listed: {orders}" in again.err
        assert f"Producers set the timestamps of '{orders}'" in again.err
        declared = interlock("topics", "add", orders, "--cloudevents")
        assert f"Read as CloudEvents from now on: {orders}." in declared.err
        assert declared.rows()[1]["reads"] == "CloudEvents"
        assert [row["topic"] for row in interlock("topics", "remove", orders).rows()] == [
            bench.config.topic("event")
        ]
        eventually("it is read no more", lambda: orders not in assigned(bench))
        send(bench, orders, b"2")
        interlock("topics", "add", orders)
        bench.eventually_fired("w", 2)
        eventually("the rest is committed", lambda: committed(bench, orders) == 2)
    assert len([f for f in bench.firings() if f["subscription"] == "w"]) == 2


def test_only_existing_topics_outside_the_bus_can_be_listed(
    bench: Bench, interlock: Callable[..., Ran]
) -> None:
    own = bench.config.topic("state")
    refused = interlock("topics", "add", own, "nowhere-to-be-found")
    assert refused.code == 1
    assert f"Topic {own!r} belongs to the bus itself." in refused.err
    assert "Topic 'nowhere-to-be-found' does not exist." in refused.err
    assert len(interlock("topics", "check").rows()) == 6
    refused = interlock("topics", "remove", "orders", bench.config.topic("event"))
    assert "Topic 'orders' is not listed." in refused.err
    assert "belongs to the bus itself" in refused.err


def test_a_listed_topic_that_is_gone_is_reported_with_what_to_do(
    bench: Bench, interlock: Callable[..., Ran], eventually: Any, unique_name: Callable[[str], str]
) -> None:
    orders = unique_name("orders")
    make_topic(bench, orders, 1)
    interlock("topics", "add", orders)
    bench.admin.delete_topics([orders])[orders].result()
    checked = eventually("it is gone", lambda: (ran := interlock("topics", "check")).code and ran)
    assert f"The listed topic {orders!r} does not exist." in checked.err
    assert f"airflow interlock topics remove {orders}" in checked.err
    interlock("topics", "remove", orders).rows()
    assert interlock("topics", "check").code == 0


def test_a_partition_that_stopped_resumes_at_the_given_offset(
    bench: Bench, interlock: Callable[..., Ran], eventually: Any
) -> None:
    source = bench.config.topic("event")
    bench.subscribe("w", event("x"))
    with bench.engine():
        for n in range(4):
            bench.emit("x", id=f"before-{n}", subject="s")
        bench.eventually_fired("w", 4)
        eventually("it is committed", lambda: 4 in committed_all(bench))
    number = committed_all(bench).index(4)
    running = interlock("topics", "resume", source, number, "--from", "end", "--yes")
    assert running.code == 1
    assert f"{source}[{number}] is not stopped: it is read from offset 4." in running.err
    for n in range(3):
        bench.emit("x", id=f"lost-{n}", subject="s")
    bench.delete_records("event")
    for n in range(2):
        bench.emit("x", id=f"there-{n}", subject="s")
    for start, problem in (
        ("6", "has no offset 6: use one from 7 to 9"),
        ("soon", "use start, end or an offset"),
    ):
        assert problem in interlock("topics", "resume", source, number, "--from", start, "--yes").err
    resumed = interlock("topics", "resume", source, number, "--from", "8")
    assert resumed.code == 1
    assert "records 4 to 6 were removed before they were read" in resumed.err
    assert "Records 4 to 6 are lost. Records 7 to 7 (1) are skipped." in resumed.err
    with bench.engine():
        eventually("the engine is there", lambda: len(assigned(bench)) == 4)
        [row] = interlock("topics", "resume", source, number, "--from", "8", "--yes").rows()
        assert (row["committed"], row["start"], row["end"], row["continues_at"]) == (4, 7, 9, 8)
        fired = bench.eventually_fired("w", 5)
    assert fired[-1]["firing"]["events"]["x"][0]["id"] == "there-1"


def test_one_command_resumes_all_partitions_that_stopped(
    bench: Bench, interlock: Callable[..., Ran], eventually: Any
) -> None:
    """As after a week without an engine, when the group has lost its offsets."""
    assert "No partition is stopped" in interlock("topics", "resume", "--all", "--from", "start").err
    with bench.engine():
        eventually("all are in use", lambda: min(committed_all(bench)) == 0)
    eventually("the group is empty", lambda: not assigned(bench))
    bench.admin.delete_consumer_groups([bench.config.group])[bench.config.group].result()
    bench.emit("x", subject="s")
    bench.subscribe("w", event("x"))
    unanswered = interlock("topics", "resume", "--all", "--from", "end")
    assert unanswered.code == 1
    assert "Resume 4 partitions?" in unanswered.err
    source = bench.config.topic("event")
    rows = interlock("topics", "resume", "--topic", source, "--from", "end", "--yes").rows()
    assert sorted(row["partition"] for row in rows) == [0, 1]
    rows = interlock("topics", "resume", "--all", "--from", "start", "--yes").rows()
    assert len(rows) == 4
    assert {(row["committed"], row["continues_at"]) for row in rows} == {(None, 0)}
    with bench.engine():
        bench.eventually_fired("w", 1)
        eventually(
            "all have resumed",
            lambda: (
                "No partition is stopped" in interlock("topics", "resume", "--all", "--from", "start").err
            ),
        )


@pytest.mark.parametrize(
    ("topic", "partition", "problem"),
    [("orders", 0, "does not read 'orders'"), ("event", 2, "has no partition 2, only 0 to 1")],
)
def test_only_a_partition_of_the_group_is_resumed(
    bench: Bench, interlock: Callable[..., Ran], topic: str, partition: int, problem: str
) -> None:
    name = bench.config.topic(topic) if topic == "event" else topic
    refused = interlock("topics", "resume", name, partition, "--from", "start", "--yes")
    assert refused.code == 1
    assert problem in refused.err


def make_topic(bench: Bench, name: str, partitions: int) -> None:
    bench.admin.create_topics([NewTopic(name, partitions)])[name].result()


def send(bench: Bench, topic: str, value: bytes) -> None:
    producer = Producer(dict(bench.config.client))
    producer.produce(topic, value)
    assert producer.flush(20) == 0


def committed(bench: Bench, topic: str) -> int:
    consumer = Consumer({**bench.config.client, "group.id": bench.config.group})
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=10)
    consumer.close()
    return int(found.offset)


def committed_all(bench: Bench) -> list[int]:
    return [bench.committed("event", number) for number in range(2)]


def assigned(bench: Bench) -> list[str]:
    """The topics of the partitions that the group's members have."""
    group = bench.admin.describe_consumer_groups([bench.config.group])[bench.config.group].result()
    return [tp.topic for member in group.members for tp in member.assignment.topic_partitions]


@pytest.mark.parametrize("name", ["caf\udce9", "", ".", "a b", "é", "a" * 250])
def test_what_is_no_name_of_a_topic_does_not_exist(interlock: Any, name: str) -> None:
    """A name that is not UTF-8 ended the process with a segmentation fault, in the client."""
    ran = interlock("topics", "add", name)
    assert (ran.code, "does not exist. Nothing was changed." in ran.err) == (1, True)
