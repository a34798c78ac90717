"""Relays of a real Redis and of another Kafka cluster, in processes and in an Airflow that are killed."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
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

from . import held_writes
from .collector import Collector
from .held_writes import HeldWrites

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]
PROCESS = """
import asyncio, json, sys
from interlock.triggers.relay import RelayTrigger
from tests.integration.triggers.held_writes import hold_writes

hold_writes(sys.argv[2])

async def main():
    async for event in RelayTrigger(**json.loads(sys.argv[1])).run():
        print(event.payload)

asyncio.run(main())
"""
DAGS = """
    from __future__ import annotations

    from datetime import timedelta

    from airflow.sdk import DAG, task
    from interlock import event
    from interlock.operators import EventSensor, dispatch_dag, relay_dag
    from redis_list import RedisListTrigger

    relay_dag(
        "relay_orders",
        trigger=RedisListTrigger("orders", "redis_orders"),
        type="com.shop.order.{data.state}",
        source="/shop/orders",
        subject="{data.id}",
        id="{data.id}",
        renew_after=timedelta(minutes=1),
    )

    dispatch_dag(
        "ship_paid_orders",
        condition=event("com.shop.order.paid", by="subject", label="paid"),
        trigger_dag_id="ship",
        conf={"order": "{{ firing.key }}"},
    )

    with DAG("ship", schedule=None):

        @task
        def ship(dag_run=None) -> str:
            return dag_run.conf["order"]

        ship()

    with DAG("close_shop", schedule=None):
        EventSensor(task_id="wait", condition=event("com.shop.order.last"))
"""


class Relays:
    """Starts relays to a bus of their own, each in a process, as a triggerer is one."""

    def __init__(self, bus: BusConfig, connections: dict[str, Any], folder: Path) -> None:
        self.bus, self._log = bus, folder / "relay.log"
        self.writes = HeldWrites(folder)
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
                [sys.executable, "-c", PROCESS, json.dumps(kwargs), str(self.writes.folder)],
                cwd=ROOT, env=self._environment, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def is_held(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        return self.writes.is_held()

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
        started.append(Relays(bus, {"kafka_default": kafka, **connections}, tmp_path))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def connection(redis_port: int) -> dict[str, Any]:
    return {"conn_type": "redis", "host": "127.0.0.1", "port": redis_port}


def killed_again_and_again(
    relays: Relays, start: Callable[[], None], bodies: set[bytes], eventually: Any
) -> None:
    """Each body is at least once among the events, and those that repeat are the same event.

    The relay is killed between taking a message and writing its event. A message that was acknowledged then
    would be lost.
    """
    for _ in range(3):
        relays.writes.hold(after=len(bodies) // 4)
        start()
        eventually("a message is in flight", relays.is_held, deadline_s=240)
        relays.kill()
        relays.writes.go_on()
    start()
    eventually(
        "all are written",
        lambda: len({event.data for event in relays.events()}) >= len(bodies),
        deadline_s=240,
    )
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


@pytest.fixture
def collector(site: Any) -> Iterator[Collector]:
    """Takes the metrics of a triggerer that a test starts; afterwards there is one without metrics."""
    with Collector() as collector:
        yield collector
    site.airflow.kill_triggerer()
    site.airflow.start_triggerer()


def orders(count: int) -> list[bytes]:
    """Bodies of orders, in order. Each tenth is repeated; five have the state `paid`, the last one `last`."""

    def order(n: int) -> bytes:
        state = "last" if n == count - 1 else "paid" if n % (count // 5) == 0 else "open"
        return json.dumps({"id": f"o{n}", "state": state}).encode()

    return [body for n in range(count) for body in [order(n)] * (2 if n % 10 == 0 else 1)]


def test_a_relay_in_an_airflow_whose_triggerer_is_killed_starts_a_run_for_each_order_and_a_waiting_task(
    site: Any, redis: Redis, redis_port: int, collector: Collector, tmp_path: Path, eventually: Any
) -> None:
    api, path = site.api, "tests.integration.triggers.redis_queue"
    writes = HeldWrites(tmp_path)
    (site.plugins / "held_writes.py").write_text(Path(held_writes.__file__).read_text())
    hold = f"from held_writes import hold_writes\n\nhold_writes({str(tmp_path)!r})\n"
    (site.plugins / "redis_list.py").write_text(f"{importlib.import_module(path)._TEXT}\n\n{hold}")
    (site.airflow.dags_folder / "shop.py").write_text(textwrap.dedent(DAGS))
    uri = f"redis://127.0.0.1:{redis_port}"
    for command in (("connections", "add", "redis_orders", "--conn-uri", uri), ("dags", "reserialize")):
        done = site.airflow.cli(*command, timeout_s=240)
        assert done.returncode == 0, done.stdout
    closing = site.deferred("close_shop")
    first = {}
    for dag_id, task_id in (("ship_paid_orders", "dispatch"), ("relay_orders", "relay")):
        api.unpause(dag_id)
        [run] = eventually(f"{dag_id} runs", lambda dag_id=dag_id: api.runs(dag_id))
        first[dag_id] = run["dag_run_id"]
        api.wait_for_task(dag_id, run["dag_run_id"], task_id, "deferred", timeout_s=90)
    api.unpause("ship")

    bodies = orders(5000)
    writes.hold(after=1000)
    redis.lpush("orders", *bodies)
    eventually("a message is in flight", writes.is_held, 120)
    site.airflow.kill_triggerer()
    assert redis.llen("orders") > 0
    assert redis.llen("orders:taken") == 1
    writes.go_on()
    site.airflow.start_triggerer(environment=collector.environment)
    assert api.wait_for_run("close_shop", closing, timeout_s=300) == "success"

    records = read_all(site.bus.bootstrap_servers, site.bus.topic("event"))
    events = [decode(record.key, record.value, list(record.headers)) for record in records]
    relayed = [event for event in events if event.source == "/shop/orders"]
    assert {event.data for event in relayed} == set(bodies)
    assert len({event.identity for event in relayed}) == 5000
    assert not redis.llen("orders")
    eventually("the last is acknowledged", lambda: not redis.llen("orders:taken"))
    paid = {f"o{n}" for n in range(0, 5000, 1000)}
    eventually("each paid order has its run", lambda: len(api.runs("ship")) == len(paid))
    for run in (runs := api.runs("ship")):
        assert api.wait_for_run("ship", run["dag_run_id"]) == "success"
    assert sorted(run["conf"]["order"] for run in runs) == sorted(paid)

    relay = first["relay_orders"]
    assert api.wait_for_run("relay_orders", relay, timeout_s=120) == "success"
    assert api.task("relay_orders", relay, "relay")["try_number"] == 1
    assert "Relaying from redis_list.RedisListTrigger" in site.log("relay_orders", relay, "relay")
    redis.lpush("orders", b'{"id": "later", "state": "paid"}')
    eventually("the next run of the relay relays", lambda: len(api.runs("ship")) == len(paid) + 1, 120)
    counted = {
        (f"airflow.interlock.relay.{name}", "relay_orders") for name in ("messages", "events", "write_time")
    }
    eventually(
        "its metrics came",
        lambda: counted <= {(p.name, p.attributes.get("dag_id")) for p in list(collector.points)},
    )
    for dag_id in first:
        api.pause(dag_id)
    [run] = [run for run in api.runs("relay_orders") if run["state"] == "running"]
    api.mark("relay_orders", run["dag_run_id"], "relay", "failed")
