"""Relays of a real Redis and of another Kafka cluster, whose process is killed again and again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.events.kafka import decode
from interlock.plugin.broker import LocalBroker
from redis import Redis

from local.airflow import free_port
from local.topics import read_all

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]
PROCESS = """
import asyncio, json, sys
from interlock.triggers.relay import RelayTrigger

async def main():
    async for event in RelayTrigger(**json.loads(sys.argv[1])).run():
        print(event.payload)

asyncio.run(main())
"""


class Relays:
    """Starts relays to a bus of their own, each in a process, as a triggerer is one."""

    def __init__(self, bus: BusConfig, connections: dict[str, Any], log: Path) -> None:
        self.bus, self._log = bus, log
        self._environment = os.environ | {
            f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, path: str, arguments: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        kwargs = {
            "inner": [path, arguments],
            "attributes": {
                "type": "com.shop.order", "source": "/shop", "subject": None, "id": None, "function": None
            },
            "acknowledge": None, "at_invalid": "stop", "kafka_conn_id": "kafka_default",
            "bus": self.bus.name, "deployment": "airflow", "resume_not_before": now.isoformat(),
            "renew_at": (now + timedelta(hours=1)).isoformat(),
        }  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PROCESS, json.dumps(kwargs)],
                cwd=ROOT, env=self._environment, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def events(self) -> list[Event]:
        assert self._process is None or self._process.poll() in (None, -signal.SIGKILL), self._log.read_text()
        records = read_all(self.bus.bootstrap_servers, self.bus.topic("event"))
        return [decode(record.key, record.value, list(record.headers)) for record in records]


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory, eventually: Any) -> Iterator[int]:
    if shutil.which("redis-server") is None:
        pytest.fail("no redis-server: apt-get install redis-server")
    port, folder = free_port(), tmp_path_factory.mktemp("redis")
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        with Redis(port=port) as redis:
            eventually("Redis answers", lambda: server.poll() is None and answers(redis))
        yield port
        server.terminate()


def answers(redis: Redis) -> bool:
    try:
        return bool(redis.ping())
    except OSError:
        return False
    except Exception as e:
        return "Connection" not in type(e).__name__


@pytest.fixture
def redis(redis_port: int) -> Iterator[Redis]:
    with Redis(port=redis_port) as client:
        client.flushall()
        yield client


@pytest.fixture(scope="module")
def other_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(directory=tmp_path_factory.mktemp("other"), port=free_port()) as broker:
        yield broker


@pytest.fixture
def start_relays(
    request: pytest.FixtureRequest, broker: LocalBroker, tmp_path: Path
) -> Iterator[Callable[..., Relays]]:
    started: list[Relays] = []

    def start(**connections: Any) -> Relays:
        bus = BusConfig(
            name=f"relay-{request.node.name[-40:]}",
            client={"bootstrap.servers": broker.bootstrap_servers},
        )
        create(bus, partitions=1)
        kafka = {"conn_type": "kafka", "extra": dict(bus.client)}
        started.append(Relays(bus, {"kafka_default": kafka, **connections}, tmp_path / "relay.log"))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def connection(redis_port: int) -> dict[str, Any]:
    return {"conn_type": "redis", "host": "127.0.0.1", "port": redis_port}


def killed_again_and_again(
    relays: Relays, start: Callable[[], None], bodies: set[bytes], eventually: Any
) -> None:
    """Each body is at least once among the events, and those that repeat are the same event."""
    for part in (1, 2, 3, 4):
        start()
        eventually(
            f"{part} quarters are written",
            lambda part=part: len({e.data for e in relays.events()}) >= len(bodies) * part // 4,
            deadline_s=240,
        )
        if part < 4:
            relays.kill()
    events = relays.events()
    assert {event.data for event in events} == bodies
    assert len({event.identity for event in events}) == len(bodies)


def test_a_redis_list_loses_nothing_when_the_relay_is_killed(
    redis: Redis, redis_port: int, start_relays: Any, eventually: Any
) -> None:
    relays = start_relays(redis_default=connection(redis_port))
    bodies = {json.dumps({"order": n}).encode() for n in range(2000)}
    redis.lpush("orders", *bodies)
    path = "tests.integration.triggers.redis_queue.RedisListTrigger"
    killed_again_and_again(relays, lambda: relays.start(path, {"queue": "orders"}), bodies, eventually)
    eventually("nothing is left", lambda: not redis.llen("orders") and not redis.llen("orders:taken"))


def test_messages_of_a_redis_channel_become_events(
    redis: Redis, redis_port: int, start_relays: Any, eventually: Any
) -> None:
    """Each is published until it is written: the trigger is not subscribed between two messages."""
    from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger

    relays = start_relays(redis_default=connection(redis_port))
    trigger = MessageQueueTrigger(scheme="redis+pubsub", channels=["orders"], poll_interval=0.1)
    relays.start(*trigger.serialize())

    def written(body: str) -> bool:
        redis.publish("orders", body)
        return body.encode() in {event.data for event in relays.events()}

    for body in ("hello", '{"order": 1}'):
        eventually(f"{body} is written", lambda body=body: written(body), deadline_s=120)
    events = relays.events()
    assert len({event.identity for event in events}) == 2
    assert {event.datacontenttype for event in events} == {"text/plain", "application/json"}


def other_kafka(cluster: LocalBroker, **more: Any) -> dict[str, Any]:
    extra = {
        "bootstrap.servers": cluster.bootstrap_servers, "group.id": "relay", "auto.offset.reset": "earliest",
        "enable.auto.commit": "false", "session.timeout.ms": 6000, **more,
    }  # fmt: skip
    return {"conn_type": "kafka", "extra": extra}


def produce(cluster: LocalBroker, topic: str, bodies: set[bytes]) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    admin = AdminClient(servers)  # its futures fail when it is gone
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    failed: list[Any] = []
    producer = Producer(servers)
    for body in bodies:
        producer.produce(topic, body, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failed == []


def test_another_kafka_cluster_loses_nothing_when_the_relay_is_killed(
    other_cluster: LocalBroker, start_relays: Any, eventually: Any
) -> None:
    from airflow.providers.apache.kafka.triggers.shared_stream import KafkaSharedStreamTrigger

    relays = start_relays(other=other_kafka(other_cluster))
    bodies = {json.dumps({"order": n}).encode() for n in range(2000)}
    produce(other_cluster, "shared", bodies)
    inner = KafkaSharedStreamTrigger(topics=["shared"], kafka_config_id="other").serialize()
    killed_again_and_again(relays, lambda: relays.start(*inner), bodies, eventually)


def test_airflows_trigger_of_a_kafka_message_is_run_for_each_message(
    other_cluster: LocalBroker, start_relays: Any, eventually: Any
) -> None:
    from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger

    relays = start_relays(other=other_kafka(other_cluster, **{"group.id": "await"}))
    bodies = {b"one", b"two", b"three"}
    produce(other_cluster, "awaited", bodies)
    trigger = MessageQueueTrigger(scheme="kafka", topics=["awaited"], kafka_config_id="other")
    relays.start(*trigger.serialize())
    eventually("all are written", lambda: {e.data for e in relays.events()} == bodies, deadline_s=120)
