"""Listed topics that cannot be read: every engine reports them, and nothing else waits for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from interlock import event
from interlock.engine.bus import Committed, Topic, TopicPartition
from interlock.engine.errors import NotReadable, TransactionAborted
from interlock.engine.protocol.context import Clocks, EngineContext
from interlock.engine.protocol.partitions.listed_topics import FAILED_S, MOST_FAILED_S, ListedTopics
from interlock.engine.protocol.parts import EngineParts
from interlock.engine.protocol.timers import cut
from interlock.engine.records import BusRecord, Registration, registry_key

from tests.kit.pool import CONFIG, EVENT, REGISTRY, Pool

ORDERS = TopicPartition("orders", 0)
EACH = Registration.of("each", event("x"), None, 0, kind="durable")
ORDER = Registration.of("order", event(source="orders"), None, 0, kind="durable")
ENDS = Registration.of("ends", event("never").expires(after="1m"), None, 0)


class Refusal:
    """The refusals of `orders` that the clients of a pool's engines get."""

    def __init__(self, pool: Pool, patch: pytest.MonkeyPatch, operation: str) -> None:
        self.operation = operation
        describe = pool.cluster.describe

        def described(name: str) -> Topic | None:
            found = describe(name)
            if name != "orders" or found is None or not self.operation:
                return found
            return (
                Topic("", 0, "Describe") if self.operation == "Describe" else found._replace(refused="Read")
            )

        patch.setattr(pool.cluster, "describe", described)
        for bus in pool.buses.values():
            self._refuse(bus, patch)

    def _refuse(self, bus: object, patch: pytest.MonkeyPatch) -> None:
        for name in ("committed", "start_offsets", "end_offsets", "offsets_since"):
            ask = getattr(bus, name)

            def asked(tps, *args, _ask=ask, **kwargs):  # type: ignore[no-untyped-def]
                tps = list(tps)
                if self.operation == "Describe" and any(tp.topic == "orders" for tp in tps):
                    raise NotReadable("orders", "Topic authorization failed.")
                return _ask(tps, *args, **kwargs)

            patch.setattr(bus, name, asked)
        poll, raised = bus.poll, [False]  # type: ignore[attr-defined]

        def polled(most: int, timeout_s: float):  # type: ignore[no-untyped-def]
            fetches = ORDERS in bus._fetching.positions  # type: ignore[attr-defined]
            if self.operation and fetches and not raised[0]:
                raised[0] = True  # once, as the client does
                raise NotReadable("orders", "orders[0]: Topic authorization failed.")
            raised[0] = raised[0] and fetches
            return poll(most, timeout_s)

        patch.setattr(bus, "poll", polled)


def two_engines(*registrations: Registration) -> Pool:
    pool = Pool(*registrations, events=2, topics=("orders",))
    pool.boot("one")
    pool.start("two", passes=60)
    return pool


def notices(pool: Pool) -> list[str]:
    """The engines' notices about the topic, which must be the same for all engines."""
    texts = {" ".join((*e.problems.unread(), *e.problems.elsewhere())) for e in pool.engines.values()}
    assert len(texts) == 1
    return [text for text in texts if text]


def owned(pool: Pool) -> bool:
    return any(ORDERS in engine.partitions for engine in pool.engines.values())


def test_every_engine_reports_a_deleted_topic_and_reads_the_others() -> None:
    pool = two_engines(EACH)
    pool.cluster.delete("orders")
    pool.emit("x", times=3)
    pool.run(300, pass_ms=200)
    [text] = notices(pool)
    assert text.startswith(
        "Topic 'orders' is not read: the topic does not exist. Create it again, or remove it"
    )
    assert "airflow interlock topics remove orders --bus b" in text
    assert pool.fired() == [("each", "met")] * 3


def test_a_topic_without_a_leader_is_reported_and_no_engine_waits_for_an_answer_about_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = two_engines(EACH, ORDER, ENDS)
    describe, leads = pool.cluster.describe, False

    def described(name: str) -> Topic | None:
        found = describe(name)
        return found._replace(leaderless=(0,)) if found and name == "orders" and not leads else found

    monkeypatch.setattr(pool.cluster, "describe", described)
    for bus in pool.buses.values():
        bus.calls.clear()
    pool.run(10, pass_ms=5000)
    pool.emit("x")
    pool.run(300, pass_ms=200)
    [text] = notices(pool)
    assert text.startswith(
        "Topic 'orders' is not read: no broker leads its partitions 0. The engine reads it again"
    )
    assert pool.fired() == [("each", "met")], "timers wait for what the topic may hold"
    assert not any("end orders" in bus.calls for bus in pool.buses.values())
    leads = True
    pool.write(ORDERS, b"k", b"v")
    pool.run(300, pass_ms=200)
    assert sorted(pool.fired()) == [("each", "met"), ("ends", "expired"), ("order", "met")]
    assert not notices(pool)


@pytest.mark.parametrize("question", ["end_offsets", "offsets_since", "committed"])
def test_a_question_about_a_topic_that_was_deleted_a_moment_ago_ends_no_engine(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = two_engines()
    pool.cluster.delete("orders")
    for bus in pool.buses.values():
        ask, left = getattr(bus, question), [1]

        def asked(tps, *args, _ask=ask, _left=left, **kwargs):  # type: ignore[no-untyped-def]
            if _left[0]:
                _left[0] -= 1
                raise NotReadable("orders", "orders[0] is not there.")
            return _ask(tps, *args, **kwargs)

        monkeypatch.setattr(bus, question, asked)
    pool.register(EACH)
    pool.emit("x")
    pool.run(300, pass_ms=200)
    assert pool.fired() == [("each", "met")]
    assert len(notices(pool)) == 1


def test_a_topic_that_is_removed_from_the_bus_is_no_longer_reported() -> None:
    pool = two_engines()
    pool.cluster.delete("orders")
    pool.run(300, pass_ms=200)
    assert notices(pool)
    pool.write_bus_record(BusRecord(partitions=1))
    pool.run(300, pass_ms=200)
    assert notices(pool) == []


def test_a_topic_that_never_existed_is_reported_and_read_as_soon_as_it_is_created() -> None:
    pool = two_engines(ORDER)
    pool.write_bus_record(BusRecord(partitions=1, topics=("orders", "late")))
    pool.run(200, pass_ms=200)
    assert "Topic 'late' is not read: the topic does not exist." in notices(pool)[0]
    pool.cluster.create("late", 1)
    pool.run(300, pass_ms=200)
    assert notices(pool) == []
    assert any(TopicPartition("late", 0) in engine.partitions for engine in pool.engines.values())


@pytest.mark.parametrize("operation", ["Read", "Describe"])
def test_a_topic_whose_reading_is_refused_is_reported_and_continues_once_it_is_allowed_again(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = two_engines(EACH, ORDER)
    pool.write(ORDERS, b"k", b"{}")
    pool.run(30)
    assert pool.fired() == [("order", "met")]
    refusal = Refusal(pool, monkeypatch, operation)
    pool.write(ORDERS, b"k", b'{"n": 2}')
    for _ in range(3):
        pool.emit("x")
        pool.run(100, pass_ms=200)
    [text] = notices(pool)
    assert text.startswith(f"Topic 'orders' is not read: the brokers refuse {operation} on the topic")
    assert not owned(pool)
    assert sorted(pool.fired()) == [("each", "met")] * 3 + [("order", "met")]
    refusal.operation = ""
    pool.run(300, pass_ms=200)
    assert notices(pool) == []
    assert pool.fired().count(("order", "met")) == 2


def test_a_topic_whose_offsets_the_brokers_refuse_is_left_out_before_the_engine_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Its records were fetched before the right was taken, and are fetched again: no fetch is refused.
    pool = two_engines(EACH, ORDER)
    describe, allowed = pool.cluster.describe, False
    monkeypatch.setattr(
        pool.cluster,
        "describe",
        lambda name: (
            (t := describe(name)) and t._replace(refused="Read" if name == "orders" and not allowed else "")
        ),
    )
    for bus in pool.buses.values():

        def committed(outputs, offsets, membership, _commit=bus.commit):  # type: ignore[no-untyped-def]
            if ORDERS in offsets and not allowed:
                raise TransactionAborted("Topic authorization failed.", unreadable=True)
            return _commit(outputs, offsets, membership)

        monkeypatch.setattr(bus, "commit", committed)
    pool.write(ORDERS, b"k", b"{}")
    pool.emit("x")
    pool.run(300, pass_ms=200)
    assert "Topic 'orders' is not read: the brokers refuse Read" in notices(pool)[0]
    assert pool.fired() == [("each", "met")]
    assert [engine.stats.aborted for engine in pool.engines.values()].count(1) == 1
    allowed = True
    pool.run(300, pass_ms=200)
    assert sorted(pool.fired()) == [("each", "met"), ("order", "met")]


def test_the_owner_reports_that_a_partition_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = two_engines()
    Refusal(pool, monkeypatch, "Read")
    pool.run(200)
    key = registry_key("problem", *ORDERS)
    [record] = [value for found, value in pool.records(REGISTRY) if found == key]
    assert b"orders[0] is paused: the brokers refuse Read" in (record or b"")


def test_a_refusal_without_an_error_of_the_brokers_is_tried_again_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = two_engines(ORDER)
    refusal = Refusal(pool, monkeypatch, "Read")
    describe = pool.cluster.describe
    monkeypatch.setattr(
        pool.cluster, "describe", lambda name: (t := describe(name)) and t._replace(refused="")
    )
    pool.write(ORDERS, b"k", b"{}")
    pool.run(50, pass_ms=20)
    assert any("It is tried again" in text for e in pool.engines.values() for text in e.problems.unread())
    refusal.operation = ""
    pool.run(100, pass_ms=200)
    assert notices(pool) == []
    assert pool.fired() == [("order", "met")]


@pytest.mark.parametrize("operation", ["Read", "Describe"])
def test_timers_wait_for_a_topic_that_may_not_be_read_and_then_fire_marked_incomplete(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = two_engines()
    Refusal(pool, monkeypatch, operation)
    pool.write(ORDERS, b"k", b"{}")
    pool.register(ENDS)
    pool.emit("x")
    pool.run(400, pass_ms=1000)
    assert pool.fired() == []
    pool.run(int(cut.PATIENCE_S), pass_ms=1000)
    assert [action["firing"].get("incomplete") for action in pool.actions()] == [True]


def test_timers_do_not_wait_any_longer_when_the_topic_may_be_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = two_engines()
    refusal = Refusal(pool, monkeypatch, "Describe")
    pool.register(ENDS)
    pool.run(400, pass_ms=1000)
    assert pool.fired() == []
    refusal.operation = ""
    pool.run(60, pass_ms=1000)
    assert pool.fired() == [("ends", "expired")]
    assert not pool.actions()[0]["firing"].get("incomplete")


def test_the_engine_does_not_continue_without_the_buss_own_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    engine = pool.start()

    def refused(*_: object) -> Committed:
        raise NotReadable(EVENT.topic, "Topic authorization failed.")

    monkeypatch.setattr(pool.buses["one"], "poll", refused)
    with pytest.raises(NotReadable):
        engine.run_pass()


def test_a_topic_whose_reading_fails_although_its_description_is_good_pauses_for_longer_each_time() -> None:
    now, described = 0.0, Topic("t", 1)
    bus: Any = SimpleNamespace(topics=lambda names: dict.fromkeys(names, described))
    parts = EngineParts(clocks=Clocks(monotonic=lambda: now))
    context = EngineContext.of(bus, CONFIG, parts)
    context.registry.bus = BusRecord(partitions=1, topics=("orders",))
    listed = ListedTopics(context)
    apart = []
    for _ in range(10):
        assert listed.set_unreadable(NotReadable("orders", "no answer."))
        assert listed.problems() == ["Topic 'orders' is not read: no answer. It is tried again."]
        began = now
        while listed.unreadable:
            now += 5
            listed.check()
        apart.append(now - began)
    assert apart == [5, 10, 20, 40, 80, 160, 320, 640, 1200, 1200]
    now += MOST_FAILED_S
    assert listed.set_unreadable(NotReadable("orders", "no answer."))
    now += FAILED_S
    assert listed.check() == {"orders"}
