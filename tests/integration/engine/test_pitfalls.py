"""The pitfalls of Kafka's clients that a real broker can be made to show.

docs/understand/engine/pitfalls.md lists them.

The clients reach the broker through a proxy, which loses, delays and holds back single requests.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from interlock import event
from interlock.engine.bus import Batch, Committed, Output, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, LostRange, TransactionAborted, UnreachableError
from interlock.engine.kafka import admin, transactions
from interlock.engine.kafka.bus import KafkaBus
from interlock.engine.kafka.transactions import Transactions
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.ports import free_ports

from tests.chaos.proxy import API_KEYS, GROUP, LOADING, NOT_COORDINATOR, Proxy, Rule

from .conftest import set_topic
from .proxied_bus import HOUR_S, Place

pytestmark = pytest.mark.long  # facts of librdkafka and Kafka, which change with their versions alone

FETCH, FIND_COORDINATOR = 1, 10
# Asks the group's coordinator, which does not answer: some calls of librdkafka 2.16.0 then end the process.
ASKS = """
import sys
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka import admin
admin.REQUEST_TIMEOUT_S = 2.0
name, servers = sys.argv[1:]
asked = admin.Admin(BusConfig(name=name, client={"bootstrap.servers": servers}))
place = admin.TopicPartition(f"{name}-event", 0)
for question in (asked.members, lambda: asked.committed([place], stable=True)):
    try:
        print(question())
    except UnreachableError as e:
        print("UnreachableError")
"""


# Closes buses while an assignment of each waits to be served. Its callback makes many calls that the client
# has to answer, so that one of them comes while the client ends: in half of all cases.
CLOSES = """
import sys
import confluent_kafka
from interlock.engine.config import BusConfig
from interlock.engine.kafka.bus import KafkaBus

class Slow(confluent_kafka.Consumer):
    def consumer_group_metadata(self):
        for _ in range(20_000):
            self.memberid()
        return super().consumer_group_metadata()

confluent_kafka.Consumer = Slow
name, servers = sys.argv[1:]
# Each is alone in its group: a member that does not serve its assignment holds up the next rebalance.
configs = [BusConfig(name=f"{name}-{n}", client={"bootstrap.servers": servers}) for n in range(8)]
buses = [KafkaBus(config, [f"{name}-event"]) for config in configs]
sys.stdin.readline()
for bus in buses:
    bus.close()
print("closed", flush=True)
"""


# An engine whose pass lasts as long as a file exists. After six seconds the group excludes the engine.
SLOW = """
import json, pathlib, sys, threading, time
from interlock.engine.config import BusConfig
from interlock.engine.kafka import bus
from interlock.engine.protocol.tasks.source_task import SourceTask
from interlock.engine.runtime.runtime import run_engine
form, hold, reached = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
bus.MAX_POLL_INTERVAL_MS = bus.SESSION_TIMEOUT_MS
match = SourceTask.match
def slow(*args):
    while hold.exists():
        reached.touch()
        time.sleep(0.05)
    return match(*args)
SourceTask.match = slow
run_engine(BusConfig(**json.loads(form)), threading.Event())
"""


def finished(call: Callable[[], Any]) -> Any:
    """The result of a call that must come to an end by itself."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as e:  # reported to the test
            future.set_exception(e)

    threading.Thread(target=run, daemon=True).start()
    return future.result(60)


@pytest.fixture(scope="module")
def proxied(
    tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]
) -> Iterator[tuple[str, str, Proxy]]:
    """Where the broker answers itself, where it answers through the proxy, and the proxy."""
    direct, behind, controller, front = free_ports(4)
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{direct},PROXIED://127.0.0.1:{behind},"
        f"CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{direct},PROXIED://127.0.0.1:{front}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    folder = tmp_path_factory.mktemp("proxied")
    with (
        LocalBroker(folder, port=direct, properties=properties, report=say) as broker,
        Proxy(front, behind) as proxy,
    ):
        yield broker.bootstrap_servers, f"127.0.0.1:{front}", proxy


@pytest.fixture
def place(
    proxied: tuple[str, str, Proxy],
    unique_name: Callable[[str], str],
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    monkeypatch.setattr(transactions, "TIMEOUT_S", 2.0)  # else each loss costs ten seconds
    found = Place(unique_name("bus"), *proxied, eventually)
    yield found
    found.close()


def test_a_commit_whose_answer_is_lost_is_unknown_and_the_committed_offset_shows_its_outcome(
    place: Place,
) -> None:
    bus, member = place.member()
    place.commit(bus, member, 1)
    rule = place.rule("drop-reply", "EndTxn")
    with pytest.raises(EngineError) as caught:
        finished(lambda: place.commit(bus, member, 2))
    assert not isinstance(caught.value, TransactionAborted)
    assert rule.hits
    place.pass_all()
    bus.close()
    other, member = place.member()
    assert place.committed(other) == 2
    place.commit(other, member, 3)
    assert place.written(other) == [b"1", b"2", b"3"]


def test_a_commit_that_arrives_after_its_producer_was_abandoned_commits_nothing(place: Place) -> None:
    bus, member = place.member()
    place.commit(bus, member, 1)
    rule = place.rule("late", "EndTxn", delay_s=6.0)
    with pytest.raises(EngineError):
        finished(lambda: place.commit(bus, member, 2))
    bus.close()
    assert rule.hits
    place.pass_all()  # what is put aside already still comes late
    other, member = place.member()
    assert place.committed(other) == 1
    number = 2

    def late_one_arrived() -> bool:
        nonlocal number
        place.commit(other, member, number)
        number += 1
        return time.monotonic() > arrives

    arrives = time.monotonic() + 8.0
    place.eventually("the late request arrives", late_one_arrived)
    assert place.committed(other) == number - 1
    assert place.written(other) == [str(n).encode() for n in range(1, number)]


def test_an_end_that_the_client_has_sent_twice_does_not_end_the_next_transaction(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is on its way while the client, on another connection, repeats it and continues."""
    bus, member = place.member()
    place.commit(bus, member, 1)
    rule = place.rule("late", "EndTxn", delay_s=1.0, reset=True, most=1)
    place.commit(bus, member, 2)
    assert (rule.hits, rule.passed) == (1, 0)

    def crash_when_it_has_arrived(self: Transactions, *_: object) -> None:
        assert self._producer.flush(10) == 0, "the record is written"
        place.eventually("the first end arrives", lambda: rule.passed)
        raise RuntimeError("the process ends before its offsets are sent")

    monkeypatch.setattr(Transactions, "send_offsets", crash_when_it_has_arrived)
    with pytest.raises(RuntimeError):
        place.commit(bus, member, 3)
    bus.close()
    other, _ = place.member()
    assert place.committed(other) == 2
    assert place.written(other) == [b"1", b"2"]


@pytest.mark.parametrize(
    "api", ["AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
)
@pytest.mark.parametrize("kind", ["black-hole", "cut"])
def test_a_transaction_whose_requests_are_lost_does_not_hang_and_leaves_nothing_open(
    place: Place, api: str, kind: str
) -> None:
    bus, member = place.member()
    place.commit(bus, member, 1)
    rule = place.rule(kind, api)
    with pytest.raises(EngineError):
        finished(lambda: place.commit(bus, member, 2))
    assert rule.hits
    place.pass_all()
    finished(bus.close)
    other, member = place.member()
    reached = place.committed(other)
    assert reached == 1 or (reached == 2 and api == "EndTxn"), "only the commit itself may have arrived"
    place.commit(other, member, 3)
    assert place.written(other) == [*[b"1", b"2"][:reached], b"3"]


def test_a_bus_whose_broker_says_nothing_any_more_can_be_closed(place: Place) -> None:
    bus, member = place.member()
    reader = bus.reader()
    reader.read({place.source: 0})
    place.rule("black-hole")
    with pytest.raises(EngineError):
        finished(lambda: place.commit(bus, member, 1))
    finished(reader.close)
    finished(bus.close)


def test_a_bus_that_is_closed_before_it_has_seen_its_assignment_does_not_stop_its_process(
    place: Place, eventually: Any
) -> None:
    asked = AdminClient(dict(place.config.client))

    def is_assigned() -> bool:
        found = asked.list_consumer_groups(states={ConsumerGroupState.STABLE}).result()
        return sum(f"{place.config.name}-" in group.group_id for group in found.valid) == 8

    command = [sys.executable, "-c", CLOSES, place.config.name, place.config.bootstrap_servers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as closing:
        try:
            eventually("the members have their partitions", is_assigned)
            output, _ = closing.communicate("\n", timeout=60)
        finally:
            closing.kill()
    assert output == "closed\n"


def test_a_question_without_an_answer_does_not_end_the_process(place: Place) -> None:
    rule = place.proxy.add(Rule("black-hole", time.monotonic() + HOUR_S, apis=frozenset({FIND_COORDINATOR})))
    try:
        arguments = [place.config.name, place.config.bootstrap_servers]
        command = [sys.executable, "-c", ASKS, *arguments]
        asking = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    finally:
        rule.until = 0.0
    assert asking.returncode == 0
    assert asking.stdout.splitlines() == ["frozenset()", "UnreachableError"]


def test_offsets_that_could_not_be_queried_are_an_error_and_no_number(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "REQUEST_TIMEOUT_S", 2.0)
    bus, _ = place.member()
    assert bus.end_offsets([place.source]) == {place.source: 0}
    assert bus.offsets_since([place.source], 0) == {place.source: None}
    place.rule("black-hole")
    for question in (
        lambda: bus.start_offsets([place.source]),
        lambda: bus.end_offsets([place.source]),
        lambda: bus.offsets_since([place.source], 0),
    ):
        with pytest.raises(UnreachableError):
            finished(question)


def test_a_member_that_was_cut_off_cannot_commit_what_it_polled_before(place: Place) -> None:
    paused, member = place.member()
    place.commit(paused, member, 1)
    place.rule("black-hole", "Heartbeat", client=paused.transactional_id)
    other, theirs = place.member()
    assert other.members() == {other.transactional_id}
    place.commit(other, theirs, 2)
    with pytest.raises(TransactionAborted):
        place.commit(paused, member, 2)
    assert place.committed(other) == 2
    place.pass_all()
    lost = place.eventually("the paused one loses its partitions", lambda: _lost(paused))
    assert not lost.records
    place.eventually("both are members", lambda: _poll_both(paused, other) and len(other.members()) == 2)
    assert place.written(other) == [b"1", b"2"]


def test_a_coordinator_that_is_loading_or_has_moved_costs_time_and_nothing_else(place: Place) -> None:
    bus, member = place.member()
    place.commit(bus, member, 1)
    for number, code in ((2, LOADING), (3, NOT_COORDINATOR)):
        rules = [place.rule("refuse", api, code=code, most=2) for api in ("AddOffsetsToTxn", "EndTxn")]
        finished(lambda n=number: place.commit(bus, member, n))
        assert [rule.hits for rule in rules] == [2, 2]
    heartbeats = place.rule("refuse", "Heartbeat", most=2)
    place.eventually("heartbeats are refused", lambda: _poll_both(bus) and heartbeats.hits == 2)
    assert bus.members() == {bus.transactional_id}
    assert place.committed(bus) == 3
    assert place.written(bus) == [b"1", b"2", b"3"]


def test_the_chaos_proxy_finds_all_clients_of_an_engine(place: Place) -> None:
    """Its consumer in the group goes by the transactional id; a rule that misses it breaks nothing."""
    direct = place.config.client
    place.config = BusConfig(place.config.name, "engine-7", {**direct, "client.id": "engine-7"})
    others = place.rule("delay", client="engine-70")
    rule = place.rule("delay", client="engine-7")
    bus, member = place.member()
    place.commit(bus, member, 1)
    wanted = {FETCH, *GROUP, *(API_KEYS[api] for api in ("Produce", "AddOffsetsToTxn", "EndTxn"))}
    place.eventually("all kinds of requests were met", lambda: _poll_both(bus) and rule.touched >= wanted)
    assert others.hits == 0


def test_a_pass_that_takes_too_long_loses_its_place_in_the_group_and_nothing_else(
    bench: Any, eventually: Any, tmp_path: Path
) -> None:
    """Longer than max.poll.interval.ms: others have its partitions, and its commit is refused."""
    bench.subscribe("s", event("e", by="subject"))
    sent = 0

    def emit() -> None:
        nonlocal sent
        for _ in range(20):
            bench.emit("e", subject=f"k{sent}", id=str(sent))
            sent += 1

    def fired() -> list[str]:
        bench.eventually_fired("s", sent)
        return sorted(f["firing"]["events"]["e"][0]["id"] for f in bench.firings())

    hold, reached = tmp_path / "hold", tmp_path / "reached"
    slow = bench.process(SLOW, str(hold), str(reached))
    emit()
    assert fired() == sorted(map(str, range(sent)))
    hold.touch()
    emit()
    eventually("the pass is held", reached.exists)
    bench.engine_process()
    assert fired() == sorted(map(str, range(sent))), "another engine has the partitions"
    emit()
    hold.unlink()
    asked = admin.Admin(bench.config)
    eventually("the slow one is back", lambda: len(asked.members()) == 2)
    emit()
    assert fired() == sorted(map(str, range(sent)))
    assert slow.poll() is None


def _lost(bus: KafkaBus) -> Batch | None:
    batch = bus.poll(10, 0.1)
    return batch if batch.lost else None


def _poll_both(*buses: KafkaBus) -> bool:
    for bus in buses:
        bus.poll(10, 0.1)
    return True


def test_a_record_that_its_topic_does_not_take_aborts_and_the_bus_continues(place: Place) -> None:
    bus, member = place.member()
    state = place.config.topic("state")
    set_topic(place.admin, state, "max.message.bytes", "2000")
    large = random.Random(1).randbytes(50_000)  # else it is compressed
    outputs = [Output(state, 0, b"k", large), *[Output(place.action, 0, b"k", b"never")] * 2000]

    def refused() -> str | None:
        try:
            bus.commit(outputs, {place.source: Committed(1, "")}, member.membership)
        except TransactionAborted as e:
            return str(e)
        return None  # the broker follows its new setting a little later

    text = place.eventually("the broker refuses the record", refused)
    assert state in text
    assert "max.message.bytes" in text
    place.commit(bus, member, 5)
    assert place.committed(bus) == 5
    assert place.written(bus)[-1] == b"5"


def test_records_removed_below_a_reader_of_the_group_are_a_lost_range_of_that_partition(place: Place) -> None:
    bus, member = place.member()
    trigger = TopicPartition(place.config.topic("trigger"), 0)
    for number in range(1, 5):
        bus.commit([Output(*trigger, None, b"m")], {place.source: Committed(number, "")}, member.membership)
    for future in place.admin.delete_records([KafkaPartition(*trigger, 4)]).values():
        future.result(30)
    bus.start({trigger: 1, place.source: 0})

    def lost() -> TopicPartition | None:
        try:
            bus.poll(10, 0.1)
        except LostRange as e:
            return e.partition
        return None

    assert place.eventually("the lost range is reported", lost) == trigger
    bus.start({place.source: 0})
    assert place.commit(bus, member, 9)
