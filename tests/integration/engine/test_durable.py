"""Durable subscriptions and other topics on a real broker."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions, NewTopic
from interlock import event
from interlock.engine.admin.health import examine
from interlock.engine.kafka.topics import create

PAIR = event("orders", by="data.day") & event("rates", by="data.day")


def test_a_durable_subscription_fires_for_every_key_again_and_again(bench: Any) -> None:
    bench.subscribe("pairs", PAIR)
    with bench.engine():
        for turn in range(2):
            for day in ("a", "b", "c"):
                bench.emit("orders", id=f"o{turn}{day}", data={"day": day})
                bench.emit("rates", id=f"r{turn}{day}", data={"day": day})
        fired = bench.eventually_fired("pairs", 6)
    assert Counter(f["firing"]["key"] for f in fired) == {"a": 2, "b": 2, "c": 2}
    assert len({f["firing"]["id"] for f in fired}) == 6


def test_a_changed_durable_subscription_drops_what_it_had_half_met(bench: Any, eventually: Any) -> None:
    bench.subscribe("s", PAIR)
    with bench.engine():
        bench.emit("orders", id="before", data={"day": "d"})
        eventually("the half is kept", lambda: any(r.value for r in bench.records("state")))
        [before] = bench.records("event")
        bench.subscribe("s", PAIR.within("1h"), before.timestamp_ms + 1)
        eventually(
            "what was half met is nulled", lambda: any(r.value is None for r in bench.records("state"))
        )
        bench.emit("rates", data={"day": "d"})
        bench.emit("orders", id="after", data={"day": "d"})
        [fired] = bench.eventually_fired("s", 1)
    assert [e["id"] for e in fired["firing"]["events"]["orders"]] == ["after"]


def test_plain_records_of_a_listed_topic_are_events_and_added_partitions_are_found(
    bench: Any, unique_name: Any, eventually: Any
) -> None:
    topic = unique_name("raw")
    producer = Producer(dict(bench.config.client))
    bench.admin.create_topics([NewTopic(topic, 1)])[topic].result()
    bench.subscribe("done", event(source=topic, where="data.status == 'done'", by="subject"))
    with bench.engine():
        bench.list_topics(topic)
        producer.produce(topic, b'{"status": "done"}', b"first", partition=0)
        producer.produce(topic, b'{"status": "open"}', b"second", partition=0)
        producer.produce(topic, b"no JSON \xff", b"third", partition=0)
        producer.flush(10)
        [fired] = bench.eventually_fired("done", 1)
        assert fired["firing"]["key"] == "first"
        bench.admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
        eventually(
            "the producer knows", lambda: len(producer.list_topics(topic).topics[topic].partitions) == 3
        )
        producer.produce(topic, b'{"status": "done"}', b"added", partition=2)
        producer.flush(10)
        fired = bench.eventually_fired("done", 2)
    assert {f["firing"]["key"] for f in fired} == {"first", "added"}
    assert bench.records("dead-letter") == []


@pytest.mark.long
def test_an_event_topic_that_is_created_again_stops_its_partitions_until_they_are_resumed(
    bench: Any, eventually: Any
) -> None:
    topic = bench.config.topic("event")
    bench.subscribe("s", event("x", by="subject"))
    with bench.engine(allow_restarts=True):
        bench.emit("x", subject="k", id="before")
        bench.eventually_fired("s", 1)
        bench.admin.delete_topics([topic])[topic].result()
        eventually("it is gone", lambda: topic not in bench.admin.list_topics(timeout=10).topics)
        assert create(bench.config, partitions=bench.partitions)[0] == [topic]
        _, partition, _ = bench.emit("x", subject="k", id="after")
        expected_text = f"{topic}[{partition}] is stopped"
        eventually(
            "health names it", lambda: any(expected_text in text for text in examine(bench.config).problems)
        )
        assert len(bench.firings()) == 1
        for number in range(bench.partitions):
            bench.resume("event", number)
        fired = bench.eventually_fired("s", 2)
    assert [each["id"] for each in fired[-1]["firing"]["events"]["x"]] == ["after"]
    assert len(bench.firings()) == 2


def test_a_lost_range_stops_its_partition_alone_until_an_administrator_says_where_to_continue(
    bench: Any, eventually: Any
) -> None:
    bench.subscribe("s", event("x", by="subject"))
    with bench.engine():
        places = {}
        for n in range(12):
            _, partition, offset = bench.emit("x", subject=f"k{n}", id=f"a{n}")
            places[partition] = offset
        bench.eventually_fired("s", 12)
        lost, kept = sorted(places)[:2]
        eventually("offsets are committed", lambda: bench.committed("event", lost) > places[lost])
    names = {p: [n for n in range(12) if bench.partition_of(f"k{n}") == p] for p in (lost, kept)}
    for n in names[lost]:
        bench.emit("x", subject=f"k{n}", id=f"gone{n}")
    bench.delete_records("event")
    with bench.engine(), bench.waiting() as waiting:
        assert waiting
        bench.emit("x", subject=f"k{names[kept][0]}", id="goes-on")
        bench.emit("x", subject=f"k{names[lost][0]}", id="waits")
        bench.eventually_fired("s", 13)
        assert bench.committed("event", lost) == places[lost] + 1
        bench.resume("event", lost)
        fired = bench.eventually_fired("s", 14)
    assert fired[-1]["firing"]["events"]["x"][0]["id"] == "waits"
