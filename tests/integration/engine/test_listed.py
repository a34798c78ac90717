"""A listed topic that is deleted, on a real broker: reported, while the rest continues."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from confluent_kafka.admin import NewTopic
from interlock import event
from interlock.engine.admin.health import examine
from interlock.engine.admin.listed_topics import sources
from interlock.engine.kafka.topics import bus_record, write_bus_record
from interlock.engine.records import Registration

from .conftest import running


@pytest.mark.long
def test_a_listed_topic_that_is_deleted_is_reported_until_it_is_created_again_and_stops_nothing(
    bench: Any, unique_name: Any, eventually: Any
) -> None:
    topic = unique_name("raw")
    stamped = {"message.timestamp.type": "LogAppendTime"}
    bench.admin.create_topics([NewTopic(topic, 2, config=stamped)])[topic].result()
    bench.list_topics(topic)
    bench.subscribe("each", event("x", by="subject"))
    expected_text = f"Topic '{topic}' is not read: the topic does not exist."
    received: list[Any] = []
    with running(bench.config) as runtime:
        runtime.waits.open(Registration.of("w", event("never"), None, 0), received.append)
        bench.emit("x", subject="before")
        bench.eventually_fired("each", 1)
        bench.admin.delete_topics([topic])[topic].result()
        eventually(
            "the wait gets a notice", lambda: any(expected_text in (notice.text or "") for notice in received)
        )
        assert any(expected_text in problem for problem in examine(bench.config).problems)
        bench.emit("x", subject="after")
        bench.eventually_fired("each", 2)
        bench.admin.create_topics([NewTopic(topic, 2, config=stamped)])[topic].result()
        eventually("the problem passes", lambda: expected_text not in (received[-1].text or ""))
        assert runtime._counts()["restarts"] == 0


@pytest.mark.parametrize("name", ["", "a b", "a\0b"])
def test_a_listed_name_that_no_topic_can_have_is_left_out_and_stops_nothing(bench: Any, name: str) -> None:
    """Whoever may write to the registry chooses it. With it, no engine of the bus did anything any more."""
    record = bus_record(bench.config)
    assert record is not None
    write_bus_record(bench.config, msgspec.structs.replace(record, topics=(name,)))
    bench.subscribe("each", event("x", by="subject"))
    with bench.engine():
        bench.emit("x", subject="a")
        bench.eventually_fired("each", 1)
    assert [source.topic for source in sources(bench.config)] == [bench.config.topic("event")]
