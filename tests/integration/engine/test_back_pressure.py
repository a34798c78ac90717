"""Slow, paused, oversized and numerous clients and events stop no others and fill no memory; real brokers."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
import pytest
from confluent_kafka import Producer
from interlock import Event, count, event
from interlock.engine.admin.health import examine
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.engine.records import CLOCK_KEY, Registration, partition_of
from interlock.engine.records.sizes import MAX_INTERNAL_BYTES
from interlock.engine.waiting.waits import FiringForWait
from interlock.events.errors import EmitError
from interlock.events.kafka import encode
from interlock.events.sizes import MAX_EVENT_BYTES
from interlock.plugin.broker import LocalBroker

from .conftest import Bench, running
from .crowd import Followed, counted_engine, produce

PAIR = event("left", by="subject") & event("right", by="subject")
PAUSE_S = 20  # longer than a commit may take: the engine replaces its clients
MIB = 2**20
WAITERS_PROCESS = """
import json, sys, threading
from interlock import event
from interlock.engine.config import BusConfig
from interlock.engine.waiting.notices import NoticeBoard
from interlock.engine.records import Registration
from interlock.engine.waiting.waits import FiringForWait, Waits
waits = Waits(BusConfig(**json.loads(sys.argv[1])), NoticeBoard())
def deliver(item):
    if isinstance(item, FiringForWait):
        print(item.action.subscription, flush=True)
for n in range(int(sys.argv[2])):
    waits.open(Registration.of(f"slow{n}", event("large", by="subject"), f"k{n}", 0), deliver)
waits.run(threading.Event())
"""


def states(bench: Any) -> dict[bytes, bytes]:
    """What the state topic holds once it is compacted."""
    last = {record.key: record.value for record in bench.records("state") if record.key != CLOCK_KEY}
    return {key: value for key, value in last.items() if value is not None}


@pytest.mark.long
def test_waiters_that_take_nothing_hold_up_nobody_and_find_all_their_firings_later(
    bench: Any, eventually: Any, tmp_path: Path
) -> None:
    """90 MB of firings for a process that is stopped: they wait in the topic, in nobody's memory."""
    waits = 1500
    delivered = tmp_path / "delivered"
    with delivered.open("wb") as out:
        waiters = bench.process(WAITERS_PROCESS, str(waits), stdout=out)
    engine = psutil.Process(bench.engine_process().pid)
    eventually("all are registered", lambda: len(bench.records("subscription")) > waits)
    with bench.waiting() as waiting:
        waiting("before", event("ready")) and bench.emit("ready")
        eventually("the engine runs", lambda: bench.firings())
        actions = Followed(bench.config, "action", bench.partitions)
        os.kill(waiters.pid, signal.SIGSTOP)
        before = engine.memory_info().rss
        quick = waiting("quick", event("large", by="subject"), "last")
        data = os.urandom(30_000).hex()
        large = (Event.of("large", "/t", id=f"{n}", subject=f"k{n}", data=data) for n in range(waits))
        produce(bench.config, large)
        bench.emit("large", subject="last")
        quick.firing()
        grown = [0]

        def all_fire() -> bool:
            grown.append(engine.memory_info().rss - before)
            return actions.count() == waits + 2

        eventually("all fire", all_fire)
        actions.close()
        assert delivered.read_bytes() == b""
        assert max(grown) < 160 * MIB
    os.kill(waiters.pid, signal.SIGCONT)
    eventually("all are delivered", lambda: delivered.read_bytes().count(b"\n") >= waits)
    assert Counter(delivered.read_text().split()) == Counter(f"slow{n}" for n in range(waits))


class OwnBench(NamedTuple):
    bench: Bench
    broker: LocalBroker
    pid: int  # of the broker


@pytest.fixture
def own_bench(
    tmp_path: Path,
    unique_name: Callable[[str], str],
    say: Callable[[str], None],
    eventually: Callable[..., Any],
) -> Iterator[OwnBench]:
    """A bus with pairs that are waited for, on a broker that no other test uses."""
    with LocalBroker(tmp_path / "broker", report=say) as broker:
        config = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": broker.bootstrap_servers})
        create(config, partitions=4)
        made = Bench(config, 4, eventually)
        with made.stack:
            made.subscribe("pairs", PAIR)
            yield OwnBench(made, broker, broker.pid)


@pytest.mark.long
def test_a_broker_that_is_paused_under_load_costs_time_only(own_bench: OwnBench, eventually: Any) -> None:
    """Longer than commits and sessions last; events are written again as soon as it takes them.

    Meanwhile the engine's process is not busy: a loop that asks without rest would take a core.
    """
    bench, _, pid = own_bench
    engine = psutil.Process(bench.engine_process().pid)
    over = threading.Event()
    keys: list[str] = []

    def load() -> None:
        producer = Producer({
            **bench.config.client, "enable.idempotence": True, "delivery.timeout.ms": 120_000,
            "partitioner": "murmur2_random",
        })  # fmt: skip
        while not over.wait(0.01):
            keys.append(f"k{len(keys)}")
            for kind in ("left", "right"):
                key, value, headers = encode(Event.of(kind, "/t", id=f"{kind}-{keys[-1]}", subject=keys[-1]))
                producer.produce(bench.config.topic("event"), value, key, headers=list(headers))
            producer.poll(0)
        assert producer.flush(60) == 0

    thread = threading.Thread(target=load)
    thread.start()
    try:
        eventually("it fires", lambda: len(bench.firings()) > 100)
        before, worked_s = engine.memory_info().rss, _cpu_s(engine)
        os.kill(pid, signal.SIGSTOP)
        try:
            grown = [before]
            for _ in range(PAUSE_S * 2):
                over.wait(0.5)  # the fault itself
                grown.append(engine.memory_info().rss)
            worked_s = _cpu_s(engine) - worked_s
        finally:
            os.kill(pid, signal.SIGCONT)
        there = len(bench.firings())
        eventually("it continues", lambda: len(bench.firings()) > there + 100)
    finally:
        over.set()
        thread.join()
    eventually("all fire", lambda: len(bench.firings()) >= len(keys))
    assert Counter(firing["firing"]["key"] for firing in bench.firings()) == Counter(keys)
    assert max(grown) - before < 128 * MIB
    assert worked_s < PAUSE_S / 4


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@pytest.mark.long
def test_a_broker_whose_disk_is_full_halts_and_has_all_it_acknowledged_when_it_is_back(
    own_bench: OwnBench, eventually: Any
) -> None:
    """No file may grow beyond a limit, which is to the broker what a full disk is: writing fails."""
    bench, broker, pid = own_bench
    bench.engine_process()
    acknowledged: list[str] = []
    producer = Producer({**bench.config.client, "enable.idempotence": True, "delivery.timeout.ms": 5000})
    data = os.urandom(100_000).hex()

    def emit(kind: str, key: str, data: str | None) -> None:
        made = Event.of(kind, "/t", id=f"{kind}-{key}", subject=key, data=data, partitionkey="one")
        record_key, value, headers = encode(made)

        def note(error: Any, _message: Any) -> None:
            if error is None:
                acknowledged.append(key)

        producer.produce(bench.config.topic("event"), value, record_key, headers=headers, on_delivery=note)

    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (16 * MIB, hard))
    for n in range(200):
        emit("left", f"k{n}", data)
    eventually("the broker halts", lambda: producer.poll(0.1) >= 0 and broker.pid is None)
    producer.flush(30)
    kept = list(acknowledged)
    assert 10 < len(kept) < 200
    broker.stop()
    broker.start()
    for key in kept:
        emit("right", key, None)
    assert producer.flush(30) == 0
    eventually("all fire", lambda: len(bench.firings()) >= len(kept))
    assert Counter(firing["firing"]["key"] for firing in bench.firings()) == Counter(kept)


@pytest.mark.parametrize("at_limit", ["dead-letter", "drop-oldest"])
def test_a_durable_subscription_keeps_no_more_open_keys_than_it_may(
    bench: Any, eventually: Any, at_limit: str
) -> None:
    """The declared policy decides what becomes of the others; what is open is completed."""
    share = 10
    bench.subscribe("limited", PAIR, max_keys=4 * share, at_limit=at_limit)
    keys = [f"k{n}" for n in range(100)]
    by_partition: dict[int, list[str]] = {}
    for key in keys:
        by_partition.setdefault(partition_of("durable", "limited", key, 4), []).append(key)
    drops = at_limit == "drop-oldest"
    kept = {
        key
        for together in by_partition.values()
        for key in (together[-share:] if drops else together[:share])
    }
    # All on one source partition: which key came first is the same for everybody.
    left = (Event.of("left", "/t", id=f"left-{k}", subject=k, partitionkey="one") for k in keys)
    produce(bench.config, left)
    with bench.engine():
        eventually("all are judged", lambda: set(_open(bench)) == kept)
        right = (Event.of("right", "/t", id=f"right-{k}", subject=k, partitionkey="one") for k in kept)
        produce(bench.config, right)
        fired = bench.eventually_fired("limited", len(kept))
        dead = bench.records("dead-letter")
    assert Counter(firing["firing"]["key"] for firing in fired) == Counter(kept)
    assert {record.header("ce_subject") for record in dead} == (set() if drops else set(keys) - kept)
    assert all("max_keys=40" in (record.header("interlock_reason") or "") for record in dead)


def test_a_wait_without_a_key_keeps_no_more_open_keys_than_it_may_and_gets_a_notice(
    bench: Any, eventually: Any
) -> None:
    limited = msgspec.structs.replace(Registration.of("w", PAIR, None, 0), max_keys=20)
    received: list[Any] = []
    with running(bench.config) as runtime:
        wait = runtime.waits.open(limited, received.append)
        for n in range(25):
            bench.emit("left", subject=f"k{n}")
        dead = eventually("five dead letters", lambda: len(d := bench.records("dead-letter")) == 5 and d)
        reasons = {record.header("interlock_reason") or "" for record in dead}
        assert all("'w' has no room for another key: 20 are open" in reason for reason in reasons)
        expected_text = "'w' waits without a key and has 20 open keys"
        eventually(
            "a notice comes", lambda: any(expected_text in (getattr(i, "text", None) or "") for i in received)
        )
        eventually(
            "health reports it", lambda: any(expected_text in text for text in examine(bench.config).problems)
        )
        assert len(_open(bench)) == 20
        kept = _open(bench)[7]
        bench.emit("right", subject=kept)
        [firing] = eventually("it fires", lambda: [i for i in received if isinstance(i, FiringForWait)])
        assert firing.action.firing.key == kept
        runtime.waits.close(wait)


def _open(bench: Any) -> list[str]:
    """The keys that are open, once for each subscription."""
    return [key.decode().split("/", 1)[1] for key in states(bench) if b"/" in key]


def test_what_is_too_large_is_refused_referred_to_or_a_dead_letter_and_the_rest_continues(
    bench: Any, eventually: Any
) -> None:
    with pytest.raises(EmitError, match=r"(?i)too large"):
        bench.emit("huge", data="x" * (MAX_EVENT_BYTES + 1))
    # 48 events with attributes of 200,000 bytes each: more than a state may hold.
    bench.subscribe("sum", count(event("wide", by="subject"), 48))
    with bench.engine(), bench.waiting() as waiting:
        large = waiting("large", event("large"))
        bench.emit("large", data={"rows": "x" * 500_000})
        [form] = large.firing().action.firing.events["large"]
        wide = (f"{n:06}" + "x" * 200_000 for n in range(48))
        produce(bench.config, (Event.of("wide", "/t", id=w[:6], subject="s", wide=w) for w in wide))
        dead = eventually("dead letters", lambda: bench.records("dead-letter"))
        after = waiting("after", event("small"))
        bench.emit("small")
        after.firing()
    [source] = [r for r in bench.records("event") if r.header("ce_type") == "large"]
    assert form["dataref"] == f"kafka:{source.topic}/{source.partition}/{source.offset}"
    assert "data" not in form
    assert {record.header("interlock_stage") for record in dead} == {"trigger"}
    assert all("Send references" in (record.header("interlock_reason") or "") for record in dead)
    assert all(len(record.value or b"") < MAX_INTERNAL_BYTES for record in bench.records("state"))
    assert {firing["subscription"] for firing in bench.firings()} == {"large", "after"}


def test_a_storm_on_one_key_fills_no_state_and_other_keys_of_its_partition_fire_in_their_turn(
    bench: Any, eventually: Any
) -> None:
    """10,000 events of one key, with fifty of another one in their middle, on the same partitions."""
    bench.subscribe("fifties", count(event("tick", by="subject"), 50))
    bench.subscribe("never", event("tick", by="subject") & event("tock", by="subject"))
    place = partition_of("durable", "fifties", "hot", 4)
    calm = next(k for n in range(100) if partition_of("durable", "fifties", k := f"calm{n}", 4) == place)
    subjects = ["hot"] * 5000 + [calm] * 50 + ["hot"] * 5000
    with counted_engine(bench.config) as account:
        ticks = (
            Event.of("tick", "/t", id=f"{n}", subject=subject, partitionkey="one")
            for n, subject in enumerate(subjects)
        )
        produce(bench.config, ticks)
        eventually("all is judged", lambda: account.stats.stepped == 2 * len(subjects))
    in_order = [record.json()["firing"]["key"] for record in bench.records("action")]
    assert Counter(in_order) == {"hot": 200, calm: 1}
    assert in_order.index(calm) == 100
    largest = max(len(record.value or b"") for record in bench.records("state"))
    assert largest < 64 * 1024
    assert Counter(_open(bench)) == {"hot": 2, calm: 2}
