"""Deliverers on a real broker: firings reach a sink once and in order, also when deliverers come and go."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.delivery.firings import subscription_of
from interlock.engine.delivery.retry import Retry
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.kafka import bus as kafka_bus
from interlock.engine.kafka.admin import Admin
from interlock.engine.kafka.topics import write_registry
from interlock.engine.kafka.transactions import Transactions
from interlock.engine.records import encode_json
from interlock.engine.runtime import watchdog
from interlock.engine.runtime.delivering import Delivering

from tests.kit.arrivals import Arrivals, posts
from tests.kit.commit import commit_number

from .test_watchdog import Hang

KEYS = 6
KILLS = 8
# A deliverer that delivers until the test kills it.
PROCESS = """
import json, logging, sys, threading
from interlock.engine.config import BusConfig
from interlock.engine.runtime.delivering import Delivering
from tests.kit.arrivals import posts
logging.basicConfig(stream=sys.stderr, level=logging.INFO)
Delivering(BusConfig(**json.loads(sys.argv[1])), posts).start()
threading.Event().wait()
"""

# A deliverer that ends itself in its first transaction with an acknowledgement, just before the commit. The
# brokers would end that transaction only after ten minutes.
VICTIM = """
import os
from interlock.engine.kafka import transactions
connect, commit = transactions.connect, transactions.Transactions.commit
send_offsets = transactions.Transactions.send_offsets

def patient(kind, config, errors, **own):
    if "transactional_id" in own:
        own["transaction_timeout_ms"] = 600_000
    return connect(kind, config, errors, **own)

def noted(self, outputs, offsets, membership):
    self.dies = bool(outputs)
    return commit(self, outputs, offsets, membership)

def dying(self, offsets, membership):
    send_offsets(self, offsets, membership)
    if self.dies:
        self._producer.flush(10)
        os._exit(42)

transactions.connect, transactions.Transactions.commit = patient, noted
transactions.Transactions.send_offsets = dying
"""


class Deliveries:
    """A bus with a sink, and the firings for it that an engine makes."""

    def __init__(self, bench: Any, sink: Arrivals, eventually: Callable[..., Any]) -> None:
        self.bench, self.sink, self._eventually = bench, sink, eventually
        self.subscription = subscription_of(bench.config.deployment, "s")
        self.emitted = 0
        record = SinkRecord(subscription=self.subscription, connection=sink.url, retry=Retry(delay_s=0.05))
        write_registry(bench.config, {record.key: encode_json(record)})
        bench.subscribe(self.subscription, event("trade", by="data.trade"))

    def emit(self, count: int) -> None:
        for n in range(self.emitted, self.emitted + count):
            self.bench.emit("trade", id=f"t{n}", subject="s", data={"trade": f"k{n % KEYS}"})
        self.emitted += count

    @contextmanager
    def delivering(self) -> Iterator[Delivering]:
        deliverer = Delivering(self.bench.config, posts)
        deliverer.start()
        try:
            yield deliverer
        finally:
            deliverer.stop()

    def acknowledged(self) -> set[str]:
        forms = [record.json() for record in self.bench.records("action")]
        return {form["firing"]["id"] for form in forms if form and form["state"] == "acked"}

    def eventually_acknowledged(self, count: int | None = None) -> None:
        wanted = self.emitted if count is None else count
        self._eventually(f"{wanted} acknowledgements", lambda: len(self.acknowledged()) >= wanted)
        assert len(self.acknowledged()) == wanted

    def eventually_arrived(self, count: int) -> None:
        self._eventually(f"{count} deliveries", lambda: len(self.sink.arrived) >= count)

    def behind(self) -> dict[TopicPartition, int]:
        """{partition: how far its committed offset is from its end}."""
        config = self.bench.config.of_deliverers
        admin = Admin(config)
        try:
            tps = [TopicPartition(config.topic("action"), p) for p in range(self.bench.partitions)]
            ends, committed = admin.end_offsets(tps), admin.committed(tps, stable=True) or {}
        finally:
            admin.close()
        return {tp: ends[tp] - (0 if (found := committed.get(tp)) is None else found.offset) for tp in tps}


@pytest.fixture
def deliveries(bench: Any, eventually: Callable[..., Any]) -> Iterator[Deliveries]:
    with Arrivals() as sink:
        yield Deliveries(bench, sink, eventually)


def test_each_firing_of_an_engine_is_delivered_once_and_in_the_order_of_its_key(
    deliveries: Deliveries, eventually: Callable[..., Any]
) -> None:
    deliveries.emit(30)
    with deliveries.bench.engine(), deliveries.delivering() as deliverer:
        deliveries.eventually_acknowledged()
        deliveries.emit(30)  # now live
        deliveries.eventually_acknowledged()
        eventually("the offsets reach the ends", lambda: not any(deliveries.behind().values()))
    assert Counter(deliveries.sink.firings) == dict.fromkeys(deliveries.acknowledged(), 1)
    deliveries.sink.assert_in_order()
    assert deliverer._loops[0].failures == 0


def test_what_a_sink_refuses_becomes_a_dead_letter_with_its_acknowledgement_and_the_rest_is_delivered(
    deliveries: Deliveries,
) -> None:
    deliveries.sink.statuses["k1"] = 400
    deliveries.emit(2 * KEYS)
    with deliveries.bench.engine(), deliveries.delivering():
        deliveries.eventually_acknowledged()
    dead_letters = deliveries.bench.records("dead-letter")
    assert [
        (dead_letter.header("interlock_stage"), dead_letter.json()["firing"]["key"])
        for dead_letter in dead_letters
    ] == [
        ("delivery", "k1"),
        ("delivery", "k1"),
    ]
    assert {dead_letter.header("interlock_reason") for dead_letter in dead_letters} == {
        "the sink refused it: HTTP 400"
    }
    assert len(set(deliveries.sink.firings)) == 2 * KEYS


def test_a_deliverer_that_is_killed_repeats_what_was_in_flight_and_no_more(
    deliveries: Deliveries,
) -> None:
    sink, bench = deliveries.sink, deliveries.bench
    victim = bench.process(PROCESS)
    with bench.engine():
        deliveries.emit(20)
        deliveries.eventually_acknowledged()
        sink.hold()
        deliveries.emit(3 * KEYS)
        deliveries.eventually_arrived(20 + KEYS)  # the first firing of each lane
        bench.sigkill(victim)
        in_flight = sink.firings[20:]
        assert len(in_flight) == KEYS
        sink.release()
        with deliveries.delivering():
            deliveries.eventually_acknowledged()
    repeated = {firing for firing, count in Counter(sink.firings).items() if count > 1}
    assert repeated == {*in_flight}
    assert len(sink.firings) == deliveries.emitted + KEYS
    sink.assert_in_order()


@pytest.mark.long
def test_a_deliverer_that_stood_still_does_no_harm_beside_the_one_that_took_over(
    deliveries: Deliveries, eventually: Callable[..., Any]
) -> None:
    """Its deliveries were accepted while it stood still; it cannot acknowledge them any more."""
    sink, bench = deliveries.sink, deliveries.bench
    stands = bench.process(PROCESS)
    admin = Admin(bench.config.of_deliverers)
    with bench.engine():
        deliveries.emit(20)
        deliveries.eventually_acknowledged()
        sink.hold()
        deliveries.emit(3 * KEYS)
        deliveries.eventually_arrived(20 + KEYS)
        stands.send_signal(signal.SIGSTOP)
        in_flight = sink.firings[20:]
        sink.release()
        with deliveries.delivering():
            deliveries.eventually_acknowledged()
            stands.send_signal(signal.SIGCONT)
            deliveries.emit(3 * KEYS)
            eventually("it is a member again", lambda: [*map(len, _shares(admin))] == [2, 2])
            deliveries.emit(3 * KEYS)
            deliveries.eventually_acknowledged()
    admin.close()
    repeated = {firing for firing, count in Counter(sink.firings).items() if count > 1}
    assert repeated == {*in_flight}
    assert len(sink.firings) == deliveries.emitted + KEYS
    sink.assert_in_order()


@pytest.mark.long
def test_deliverers_that_come_and_go_lose_nothing_and_one_that_stops_repeats_nothing(
    deliveries: Deliveries, eventually: Callable[..., Any]
) -> None:
    sink = deliveries.sink
    admin = Admin(deliveries.bench.config.of_deliverers)
    with deliveries.bench.engine(), deliveries.delivering() as first:
        deliveries.emit(30)
        deliveries.eventually_arrived(10)
        with deliveries.delivering():
            eventually("both have partitions", lambda: [*map(len, _shares(admin))] == [2, 2])
            deliveries.emit(30)
            deliveries.eventually_acknowledged()
            repeated = len(sink.firings) - deliveries.emitted
            assert repeated <= KEYS, "what was in flight when the partitions moved"
            deliveries.emit(30)
            deliveries.eventually_arrived(70 + repeated)
            first.stop()
            deliveries.eventually_acknowledged()
    admin.close()
    assert len({*sink.firings}) == deliveries.emitted
    assert len(sink.firings) == deliveries.emitted + repeated, "the one that stopped had acknowledged all"
    sink.assert_in_order()


@pytest.mark.long
def test_the_transaction_of_a_deliverer_that_was_killed_in_it_is_ended_by_the_next_one(
    deliveries: Deliveries, eventually: Callable[..., Any]
) -> None:
    sink, bench = deliveries.sink, deliveries.bench
    victim = bench.process(VICTIM + PROCESS)
    with bench.engine():
        deliveries.emit(1)
        eventually("it is killed in its transaction", lambda: victim.poll() == 42)
        assert deliveries.acknowledged() == set()
        with deliveries.delivering():
            deliveries.eventually_acknowledged()
    assert [*Counter(sink.firings).values()] == [2]


@pytest.mark.long
def test_a_deliverer_that_hangs_in_a_transaction_is_replaced_and_its_late_commit_is_refused(
    deliveries: Deliveries, eventually: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with deliveries.bench.engine():
        deliveries.emit(KEYS)
        deliveries.bench.eventually_fired(deliveries.subscription, KEYS)
    monkeypatch.setattr(watchdog, "SILENT_S", 3.0)
    monkeypatch.setattr(kafka_bus, "MAX_POLL_INTERVAL_MS", 6000)
    hang = Hang(deliveries.bench)
    monkeypatch.setattr(Transactions, "commit", hang.around(Transactions.commit))
    with deliveries.delivering() as deliverer:
        assert hang.hangs.wait(60)
        deliveries.eventually_acknowledged()
        assert not hang.refused.is_set()
        hang.returns.set()
        assert hang.refused.wait(60)
        [loop] = deliverer._loops
        eventually("the old thread ends", lambda: loop.hung == 0)
        assert (loop.replaced, loop.failures) == (1, 0)
    assert {*Counter(deliveries.sink.firings).values()} <= {1, 2}


@pytest.mark.long
def test_deliverers_that_are_killed_again_and_again_lose_nothing_and_keep_the_order(
    deliveries: Deliveries, eventually: Callable[..., Any]
) -> None:
    """One key fails throughout, and comes back at the end; the sink refuses another one."""
    sink, bench, rng = deliveries.sink, deliveries.bench, Random(commit_number())
    sink.statuses |= {"k1": 503, "k2": 400}
    processes = [bench.process(PROCESS) for _ in range(3)]
    with bench.engine():
        for _ in range(KILLS):
            wanted = len(sink.accepted) + rng.randrange(1, 30)
            deliveries.emit(60)
            eventually("some are accepted", lambda wanted=wanted: len(sink.accepted) >= wanted)
            bench.sigkill(processes.pop(rng.randrange(len(processes))))
            processes.append(bench.process(PROCESS))
        del sink.statuses["k1"]
        deliveries.eventually_acknowledged()
    sink.assert_in_order()
    dead_letters = [dead_letter.json()["firing"]["id"] for dead_letter in bench.records("dead-letter")]
    assert len({*dead_letters}) == len(dead_letters) == deliveries.emitted // KEYS
    assert {*sink.accepted} == deliveries.acknowledged() - {*dead_letters}
    assert len(sink.accepted) - len({*sink.accepted}) <= KILLS * KEYS


def _shares(admin: Admin) -> list[tuple[TopicPartition, ...]]:
    return [member.partitions for member in admin.group_members()]
