"""Positions: of which partitions brokers are asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlock.engine.bus import Committed, Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.positions import positions

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})


class Admin:
    """Brokers that answer what they are asked, and note it."""

    def __init__(self, **listed: Topic | None) -> None:
        own = {CONFIG.topic(kind): Topic("t", 1) for kind in ("event", "trigger")}
        self._topics = {**own, **listed}
        self.asked: set[str] = set()

    def topics(self, names: Iterable[str], *, others: Any) -> dict[str, Topic | None]:
        return {name: self._topics[name] for name in names}

    def committed(self, partitions: Iterable[TopicPartition], *, stable: bool) -> dict[Any, Committed | None]:
        return dict.fromkeys(partitions)

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked |= {tp.topic for tp in partitions}
        return dict.fromkeys(partitions, 0)

    end_offsets = start_offsets


def test_topics_whose_offsets_no_broker_answers_are_left_out() -> None:
    admin: Any = Admin(
        gone=None,
        hidden=Topic("", 0, "Describe"),
        unled=Topic("t", 2, leaderless=(1,)),
        led=Topic("t", 1, "Read"),
    )
    found = positions(admin, CONFIG, ("gone", "hidden", "unled", "led"))
    assert {each.tp.topic for each in found} == {"b-event", "led", "b-trigger"}
    assert admin.asked == {"b-event", "led", "b-trigger", "b-subscription"}
