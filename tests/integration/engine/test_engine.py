"""What the engine promises, on a real broker: counted in the log, not in its memory."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions
from interlock import count, event, sequence
from interlock.engine.bus import TopicPartition
from interlock.engine.errors import TopicsError
from interlock.engine.kafka.topics import check, read_registry
from interlock.engine.reading.sources import last_events
from interlock.engine.runtime.runtime import run_engine
from interlock.engine.waiting.acknowledge import acknowledge

from .raw_produce import produce

PAIR = event("orders", by="data.day") & event("rates", by="data.day")


def test_a_pair_fires_once_when_its_second_half_arrives(bench: Any, eventually: Any) -> None:
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("w", PAIR, "2026-11-20")
        bench.emit("orders", data={"day": "2026-11-20", "rows": 7}, id="o1")
        bench.emit("rates", data={"day": 20261120}, id="r1")
        firing = wait.firing().action.firing
        assert firing.key == "2026-11-20"
        assert [e["id"] for e in firing.events["orders"]] == ["o1"]
        assert firing.events["orders"][0]["data"]["rows"] == 7
        assert [e["id"] for e in firing.events["rates"]] == ["r1"]
        assert len(bench.firings()) == 1


def test_a_pair_does_not_fire_when_the_keys_differ(bench: Any, eventually: Any) -> None:
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("w", PAIR, "2026-11-20")
        bench.emit("orders", data={"day": "2026-11-20"})
        bench.emit("rates", data={"day": "2026-11-21"})
        # a later event of another wait shows that the two before were judged
        other = waiting("other", event("marker"))
        bench.emit("marker")
        other.firing()
        assert wait.firings == []
        bench.emit("rates", data={"day": "2026-11-20"})
        wait.firing()


def test_counts_windows_filters_and_composite_keys_are_decided_by_the_engine(
    bench: Any, eventually: Any
) -> None:
    failed = event(
        filters=[{"prefix": {"type": "com.bank."}}, {"sql": "type LIKE '%.failed'"}], label="failed"
    )
    trades = event("trades", where="data.rows > 0", by=("data.day", "data.market"))
    prices = event("prices", by=("data.day", "data.market"))
    with bench.engine(), bench.waiting() as waiting:
        third = waiting("third", count(failed, 3).within("1h"))
        both = waiting("both", (trades & prices).within("2h"), '["2026-11-20","lse"]')
        order = waiting("order", sequence(event("open"), event("close"), ordered=False))
        for n, minute in enumerate((0, 50, 70, 75)):
            time_ = f"2026-11-20T{10 + minute // 60}:{minute % 60:02}:00Z"
            bench.emit("com.bank.load.failed", id=f"f{n}", time=time_)
        bench.emit("close", id="early", time="2026-11-20T08:00:00Z")
        bench.emit("trades", id="none", data={"day": "2026-11-20", "market": "lse", "rows": 0})
        bench.emit("trades", id="other", data={"day": "2026-11-20", "market": "nyse", "rows": 3})
        bench.emit("prices", id="p1", data={"day": 20261120, "market": "lse"})
        bench.emit("open", id="o1", time="2026-11-20T09:00:00Z")
        bench.emit("trades", id="t1", data={"day": "2026-11-20", "market": "lse", "rows": 3})
        bench.emit("close", id="c1", time="2026-11-20T17:00:00Z")
        firing = third.firing().action.firing
        assert [e["id"] for e in firing.events["failed"]] == ["f1", "f2", "f3"]
        firing = both.firing().action.firing
        assert firing.key == '["2026-11-20","lse"]'
        assert [e["id"] for label in ("trades", "prices") for e in firing.events[label]] == ["t1", "p1"]
        firing = order.firing().action.firing
        assert [e["id"] for label in ("open", "close") for e in firing.events[label]] == ["o1", "c1"]


def test_without_a_key_each_value_has_its_own_state(bench: Any, eventually: Any) -> None:
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("any-day", PAIR)
        bench.emit("orders", data={"day": "2026-11-19"})
        bench.emit("rates", data={"day": "2026-11-20"})
        bench.emit("orders", data={"day": "2026-11-20"})
        assert wait.firing().action.firing.key == "2026-11-20"
        bench.emit("rates", data={"day": "2026-11-19"})
        other = waiting("other", event("marker"))
        bench.emit("marker")
        other.firing()
        assert len([f for f in bench.firings() if f["subscription"] == "any-day"]) == 1


def test_an_event_counts_by_its_record_timestamp_whether_before_or_after_the_registration(
    bench: Any, eventually: Any
) -> None:
    bench.emit("orders", data={"day": "d"}, id="too-early")
    [early] = bench.records("event")
    since_ms = early.timestamp_ms + 1
    eventually("the clock moves on", lambda: time.time() * 1000 > since_ms + 1)
    bench.emit("orders", data={"day": "d"}, id="in-time")
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("back", event("orders", by="data.day"), "d", since_ms)
        assert [e["id"] for e in wait.firing().action.firing.events["orders"]] == ["in-time"]


def test_a_wait_registered_while_no_engine_runs_is_served_by_the_next_one(
    bench: Any, eventually: Any
) -> None:
    with bench.waiting() as waiting:
        wait = waiting("w", PAIR, "d")
        bench.emit("orders", data={"day": "d"})
        bench.emit("rates", data={"day": "d"})
        eventually("the registration is in the topic", lambda: bench.records("subscription"))
        with bench.engine():
            wait.firing()
    assert len(bench.firings()) == 1


def test_a_new_wait_finds_its_earlier_firing_acknowledged_or_not(bench: Any, eventually: Any) -> None:
    with bench.engine(), bench.waiting() as waiting:
        first = waiting("w", event("solo")).firing() if bench.emit("solo") else None
        again = waiting("w", event("solo")).firing()
        assert again.action.firing.id == first.action.firing.id
        acknowledge(bench.config, again.action, again.registration_keys)

        def states() -> list[Any]:
            return [m for m in bench.records("state") if m.value is None]

        eventually("the state of the wait is nulled", states)
        after = waiting("w", event("solo")).firing()
        assert after.action.state == "acked"
        assert after.action.firing.id == first.action.firing.id
    assert len(bench.firings()) == 1


def test_a_process_that_waits_for_hundreds_of_firings_again_gets_each(bench: Any) -> None:
    names = [f"w-{n}" for n in range(300)]
    bench.emit("solo")
    with bench.engine(), bench.waiting() as waiting:
        first = {name: waiting(name, event("solo")) for name in names}
        ids = {name: wait.firing().action.firing.id for name, wait in first.items()}
    with bench.waiting() as waiting:  # a triggerer that started again
        again = {name: waiting(name, event("solo")) for name in names}
        assert {name: wait.firing().action.firing.id for name, wait in again.items()} == ids
    assert len(bench.firings()) == len(names)


def test_a_duplicate_event_changes_nothing(bench: Any, eventually: Any) -> None:
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("w", PAIR, "d")
        for _ in range(3):
            bench.emit("orders", id="same", data={"day": "d"})
        bench.emit("rates", data={"day": "d"})
        wait.firing()
        bench.emit("rates", data={"day": "d"})
        other = waiting("other", event("marker"))
        bench.emit("marker")
        other.firing()
    assert Counter(f["subscription"] for f in bench.firings()) == {"w": 1, "other": 1}


def test_a_half_met_condition_survives_retention_and_a_killed_engine(bench: Any, eventually: Any) -> None:
    """Offsets advance past a pending half; its record may go; the state topic alone completes it."""
    with bench.waiting() as waiting:
        victim = bench.engine_process()
        wait = waiting("w", PAIR, "d")
        _, partition, offset = bench.emit("orders", data={"day": "d"}, id="first-half")
        eventually("the half is in the state topic", lambda: bench.records("state"))
        eventually("the offset is past it", lambda: bench.committed("event", partition) > offset)
        bench.delete_records("event")
        bench.delete_records("trigger")
        assert bench.records("event") == []
        assert bench.records("trigger") == []
        bench.sigkill(victim)
        bench.engine_process()
        bench.emit("rates", data={"day": "d"}, id="second-half")
        firing = wait.firing().action.firing
        assert firing.events["orders"][0]["id"] == "first-half"
        assert firing.events["rates"][0]["id"] == "second-half"
    assert len(bench.firings()) == 1


def test_engines_that_come_and_go_under_load_lose_and_repeat_nothing(bench: Any, eventually: Any) -> None:
    """Two hundred pairs while one engine joins, one is killed and another one takes over."""
    days = [f"day-{n}" for n in range(200)]
    with bench.waiting() as waiting:
        victim = bench.engine_process()
        waits = {}
        for n, day in enumerate(days):
            waits[day] = waiting(f"w-{day}", PAIR, day)
            bench.emit("orders", data={"day": day}, subject=day)
            if n == 60:
                bench.engine_process()
            if n == 120:
                bench.sigkill(victim)
            if n == 140:
                bench.engine_process()
        for day in reversed(days):
            bench.emit("rates", data={"day": day}, subject=day)
        for wait in waits.values():
            wait.firing()
    counts = Counter(f["firing"]["key"] for f in bench.firings())
    assert counts == Counter(days)


def test_a_record_that_is_no_cloudevent_goes_to_the_dead_letters_and_stops_nothing(
    bench: Any, eventually: Any
) -> None:
    from confluent_kafka import Producer

    producer = Producer(dict(bench.config.client))
    producer.produce(
        bench.config.topic("event"), b"payload", b"key", partition=0, headers=[("ce_type", b"orders")]
    )
    producer.flush(10)
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("w", event("orders"))
        bench.emit("orders")
        wait.firing()
        [dead] = eventually("the dead letter", lambda: bench.records("dead-letter"))
    assert (dead.key, dead.value, dead.header("ce_type")) == (b"key", b"payload", "orders")
    assert dead.header("interlock_stage") == "event"
    assert dead.header("interlock_origin") == f"{bench.config.topic('event')}[0]@0"
    assert "id" in dead.header("interlock_reason")


def test_a_record_that_the_client_cannot_unpack_goes_to_the_dead_letters_and_stops_nothing(
    bench: Any, eventually: Any
) -> None:
    """A header whose name is not UTF-8: read live, by a scan, and among the last events."""
    source = TopicPartition(bench.config.topic("event"), 0)
    offset = produce(bench.config.bootstrap_servers, source, b"key", b"payload", [(b"\xff", b"orders")])
    with bench.engine(), bench.waiting() as waiting:
        first = waiting("first", event("orders"))
        bench.emit("orders")
        first.firing()
        waiting("second", event("orders")).firing()
        [dead] = eventually("the dead letter", lambda: bench.records("dead-letter"))
    assert (dead.key, dead.value) == (b"key", b"payload")
    assert dead.header("interlock_stage") == "event"
    assert dead.header("interlock_origin") == f"{source}@{offset}"
    assert "headers" in dead.header("interlock_reason")
    assert "UnicodeDecodeError" in dead.header("interlock_reason")
    events, unreadable, _ = last_events(bench.config, read_registry(bench.config), 100)
    assert ([seen.event.type for seen in events], unreadable) == (["orders"], 1)


def test_many_waits_on_one_event_all_fire(bench: Any, eventually: Any) -> None:
    with bench.engine(), bench.waiting() as waiting:
        waits = [waiting(f"w{n}", event("shared", by="data.day"), "d") for n in range(300)]
        bench.emit("shared", data={"day": "d"})
        assert len({wait.firing().action.firing.id for wait in waits}) == 300


def test_what_lies_below_the_committed_offset_of_the_trigger_topic_is_removed(
    bench: Any, eventually: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("interlock.engine.protocol.housekeeping.PURGE_S", 0.2)
    with bench.engine(), bench.waiting() as waiting:
        wait = waiting("w", PAIR, "d")
        bench.emit("orders", data={"day": "d"})
        bench.emit("rates", data={"day": "d"})
        wait.firing()
        for n in range(3):  # the purge looks at the clock after a commit
            waiting(f"more-{n}", event("more")) and bench.emit("more")
            eventually("fired", lambda n=n: any(f["subscription"] == f"more-{n}" for f in bench.firings()))
        eventually("the trigger topic is empty", lambda: len(bench.records("trigger")) <= 1)


def test_an_engine_refuses_a_bus_whose_trigger_topic_was_given_more_partitions(
    bench: Any, eventually: Any
) -> None:
    """Its subscriptions would be looked for on other partitions than their states are."""
    for kind in ("trigger", "state", "action"):
        [future] = bench.admin.create_partitions([NewPartitions(bench.config.topic(kind), 5)]).values()
        future.result()
    eventually("all see it", lambda: set(check(bench.config).values()) == {1, 4, 5})
    with pytest.raises(TopicsError, match=r"has 5 partitions, but the bus was created with 4"):
        run_engine(bench.config, threading.Event())
