"""A record that the Kafka client cannot unpack, in each topic: no reader ends because of it.

A header whose name is not UTF-8 (confluent-kafka raises while it unpacks the record).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from interlock import event
from interlock.engine.admin.dead_letters import DeadLetters, Selection
from interlock.engine.admin.explaining import explain_subscription, why_not_met
from interlock.engine.admin.health import examine
from interlock.engine.admin.listed_topics import add_topics
from interlock.engine.admin.resuming import resumptions
from interlock.engine.admin.skipping import open_firing
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import KINDS
from interlock.engine.errors import EngineError, FetchError
from interlock.engine.following.kafka_view import KafkaView
from interlock.engine.following.subscriptions import Subscriptions
from interlock.engine.kafka.topics import read_registry
from interlock.engine.reading.emitted import Emitted
from interlock.engine.reading.references import referred_event
from interlock.engine.reading.sources import follow, last_events

from tests.integration.engine.raw_produce import produce

PAIR = event("orders") & event("rates")
HALF = event("orders") & event("stock")
NAME = b"caf\xe9"


def unreadable(bench: Any, topic: str, partition: int, key: bytes = b"k") -> TopicPartition:
    tp = TopicPartition(topic, partition)
    produce(bench.config.bootstrap_servers, tp, key, b"", [(NAME, b"v")])
    return tp


def test_each_reader_of_each_topic_gets_past_a_record_that_the_client_cannot_unpack(
    bench: Any, unique_name: Callable[[str], str], eventually: Any
) -> None:
    config, listed = bench.config, unique_name("listed")
    bench.admin.create_topics([NewTopic(listed, 1)])[listed].result(10)
    add_topics(config, [listed])
    bench.emit("rates", id="early")
    registration = bench.subscribe("all", event("orders"))
    for kind in KINDS:
        for partition in range(1 if kind == "subscription" else 4):
            unreadable(bench, config.topic(kind), partition)
    # In the registry and the action topic it looks like a removal, and like a firing.
    unreadable(bench, config.topic("subscription"), 0, f"{registration.incarnation}:test".encode())
    for partition in range(4):
        unreadable(bench, config.topic("action"), partition, b"all\0id")
    with bench.engine(), bench.waiting() as waiting:
        pair = waiting("pair", PAIR)  # it looks back
        bench.emit("orders", id="one")
        pair.firing()
        unreadable(bench, listed, 0)
        bench.eventually_fired("all", 1)
        dead = eventually(
            "dead letters", lambda: len(found := bench.records("dead-letter")) >= 4 + 9 and found
        )
        half = waiting("half", HALF)
        health = eventually("the wait is registered", lambda: _registered(config, "half") and examine(config))
    assert [p for p in health.problems if "failing" in p or "not read" in p] == []
    of_listed = [d for d in dead if d.header("interlock_origin") == f"{listed}[0]@0"]
    assert [d.header("interlock_missing") for d in of_listed] == ["headers"]
    assert half.firings == []
    _walk(bench, config, listed)


def _registered(config: Any, name: str) -> bool:
    return Subscriptions.read(config).by_name(name) is not None


def _walk(bench: Any, config: Any, listed: str) -> None:
    """Everything that reads records outside the engine."""
    registry = read_registry(config)
    assert registry.bus is not None
    assert {r.registration.subscription for r in Subscriptions.read(config).all()} >= {"all", "half"}
    events, without_event, _ = last_events(config, registry, 1000)
    assert sorted(seen.event.id for seen in events) == ["early", "one"]
    assert without_event == 5
    ends = time.monotonic() + 20
    taken: list[Record] = []
    for record in follow(config, registry, 1, lambda: len(taken) == 7 or time.monotonic() > ends):
        taken.append(record)
    assert sorted(bool(each.fault) for each in taken) == [False] * 2 + [True] * 5
    report = explain_subscription(KafkaView.read(config), "half")
    assert report.explanation is not None
    assert report.unread == 5
    assert "orders" in why_not_met(config, PAIR, None, 1, int(time.time() * 1000))
    half = registry.by_name("half")
    assert half is not None
    assert KafkaView.read(config).pending_of([half])[half.incarnation].unreadable == 0
    assert Emitted(config).among([("/test", "one"), ("/test", "none")], 1) == {("/test", "one")}
    with pytest.raises(FetchError, match="the Kafka client cannot read its headers"):
        referred_event(config, f"kafka:{listed}/0/0")
    with pytest.raises(EngineError, match="has no open firing 'id'"):
        open_firing(config, "all", "id")
    assert resumptions(config, "end") == []
    with closing(DeadLetters(config)) as dead_letters:
        found = dead_letters.find(Selection())
        assert len(list(dead_letters.records(found))) == len(found)
        readers = dead_letters.readers()
        refusals = {each.refusal(config, readers, to_event_topic=False, again=False) for each in found}
    assert "" not in refusals
    assert any("has no headers" in text for text in refusals)
    for kind in KINDS:
        assert bench.records(kind)  # the demo's own reader
