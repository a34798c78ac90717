"""The last events of a bus: which they are, their order, and how much of them is held."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from interlock.engine.bus import End, Record, Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import TopicsError
from interlock.engine.reading import sources as module
from interlock.engine.reading.sources import event_of, last_events
from interlock.engine.records import BusRecord
from interlock.engine.registry.registry import Registry
from interlock.events import Event, EventError
from interlock.events.kafka import encode

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})


class Log:
    """What the topics hold: by partition, (timestamp, size of the data) of each record from offset 0 on."""

    def __init__(self, **topics: list[list[tuple[int, int]]]) -> None:
        self.topics = {name.replace("_", "-"): partitions for name, partitions in topics.items()}
        self.asked: dict[TopicPartition, int] = {}
        self.leaderless: dict[str, tuple[int, ...]] = {}
        self.refused: dict[str, str] = {}

    def topics_of(self, names: Any) -> dict[str, Topic | None]:
        return {
            name: Topic(
                "i", len(self.topics[name]), self.refused.get(name, ""), self.leaderless.get(name, ())
            )
            if name in self.topics
            else None
            for name in names
        }

    def ends(self, partitions: Any) -> dict[TopicPartition, int]:
        return {tp: len(self.topics[tp.topic][tp.partition]) for tp in partitions}

    def read(
        self,
        _config: BusConfig,
        starts: dict[TopicPartition, int],
        ends: dict[TopicPartition, int],
        *,
        sparing: bool,
    ) -> Iterator[Record]:
        self.asked = starts
        for tp, start in starts.items():
            for offset in range(start, ends[tp]):
                stamp, size = self.topics[tp.topic][tp.partition][offset]
                if tp.topic == "b-event":
                    key, value, headers = encode(Event.of("t", "/s", id=str(stamp), data=b"x" * size))
                else:
                    key, value, headers = b"k", b"x" * size, None
                yield Record(tp, offset, stamp, key, value, headers)


def last(monkeypatch: pytest.MonkeyPatch, log: Log, count: int, listed: tuple[str, ...] = ()) -> Any:
    class Admin:
        def __init__(self, *_: Any) -> None: ...

        def topics(self, names: Any, *, others: Any) -> Any:
            assert tuple(others) == listed
            return log.topics_of(names)

        def start_offsets(self, partitions: Any) -> Any:
            return dict.fromkeys(partitions, 0)

        def end_offsets(self, partitions: Any) -> Any:
            return log.ends(partitions)

        def close(self) -> None: ...

    monkeypatch.setattr(module, "Admin", Admin)
    monkeypatch.setattr(module, "read_between", log.read)
    registry = Registry()
    registry.bus = BusRecord(partitions=1, topics=listed)
    return last_events(CONFIG, registry, count)


def test_each_partition_gives_its_share_and_the_latest_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(b_event=[[(n, 1) for n in (10, 20, 30)], [(15, 1), (25, 1)]])
    events, unreadable, _ = last(monkeypatch, log, 4)
    assert ([seen.timestamp_ms for seen in events], unreadable) == ([30, 25, 20, 15], 0)
    assert set(log.asked.values()) == {1, 0}


def test_plain_records_of_listed_topics_are_events_and_of_the_event_topic_they_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log(b_event=[[(10, 1)]], raw=[[(20, 1)]])
    events, *_ = last(monkeypatch, log, 10, ("raw", "gone"))
    assert [(seen.topic, seen.event.type) for seen in events] == [
        ("raw", "org.apache.kafka.record"),
        ("b-event", "t"),
    ]


def test_a_listed_topic_that_no_engine_can_read_is_left_out_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(b_event=[[(10, 1)]], raw=[[(20, 1)]], closed=[[(30, 1)]])
    log.leaderless["raw"], log.refused["closed"] = (0,), "Read"
    events, *_ = last(monkeypatch, log, 10, ("raw", "gone", "closed"))
    assert [seen.topic for seen in events] == ["b-event"]
    assert "Topic 'closed' is not read: the brokers refuse Read" in caplog.text
    assert "Topic 'raw' is not read: no broker leads its partitions 0." in caplog.text
    assert "Topic 'gone' is not read: the topic does not exist." in caplog.text


def test_no_more_than_the_bytes_allowed_are_held_and_the_last_read_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 7000)
    log = Log(b_event=[[(n, 1000) for n in range(10)]])
    events, *_ = last(monkeypatch, log, 100)
    assert [seen.timestamp_ms for seen in events] == [9, 8, 7]


@pytest.mark.parametrize("where", ["key", "header"])
def test_what_is_held_counts_whichever_part_of_a_record_is_large(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def read(_config: BusConfig, starts: Any, _ends: Any, **_: Any) -> Iterator[Record]:
        for tp in starts:
            for n in range(10):
                key, value, headers = encode(Event.of("t", "/s", id=str(n)))
                if where == "key":
                    key = b"k" * 1000
                else:
                    headers = [*(headers or ()), ("ce_note", b"n" * 1000)]
                yield Record(tp, n, n, key, value, headers)

    log = Log(b_event=[[(n, 0) for n in range(10)]])
    monkeypatch.setattr(log, "read", read)
    monkeypatch.setattr(module, "MAX_BYTES", 10_000)
    events, *_ = last(monkeypatch, log, 100)
    assert 2 <= len(events) < 10
    assert [seen.timestamp_ms for seen in events] == list(range(9, 9 - len(events), -1))


@pytest.mark.parametrize("log", [Log(), Log(raw=[[(20, 1)]])], ids=["no topic", "a listed topic"])
def test_a_missing_event_topic_is_an_error_with_the_command(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    with pytest.raises(TopicsError, match=r"Topic 'b-event' is missing.*topics create --bus b"):
        last(monkeypatch, log, 10, ("raw",))


class Fetches:
    """A reader that gives what it was made with, one list for each fetch, and the time that goes by."""

    def __init__(self, *fetches: list[Record | End]) -> None:
        self.left = list(fetches)
        self.now = 0.0

    def take(self, _most: int, timeout_s: float) -> list[Record | End]:
        self.now += timeout_s
        return self.left.pop(0) if self.left else []

    def monotonic(self) -> float:
        return self.now


ONE, TWO = TopicPartition("b-event", 0), TopicPartition("b-event", 1)


def records(tp: TopicPartition, *stamps: int, first: int = 0, size: int = 0) -> list[Record | End]:
    return [Record(tp, at, stamp, None, b"x" * size, None) for at, stamp in enumerate(stamps, first)]


def by_time(ends: dict[TopicPartition, int], *fetches: list[Record | End]) -> list[int]:
    reader: Any = Fetches(*fetches)
    given = module._by_time(reader, ends, lambda: False, reader.monotonic)
    return [record.timestamp_ms for record in given]


def test_existing_records_come_in_the_order_of_their_timestamps_however_they_are_fetched() -> None:
    ends = {ONE: 3, TWO: 2}
    assert by_time(ends, records(ONE, 1, 4, 5), records(TWO, 2, 3)) == [1, 2, 3, 4, 5]
    assert by_time(ends, records(TWO, 2), records(ONE, 1, 4, 5), records(TWO, 6, first=1)) == [1, 2, 4, 5, 6]
    # what comes meanwhile has its place too, and an end may lie below the one asked for
    assert by_time(ends, [*records(ONE, 1, 4, 5), *records(ONE, 9, first=3), End(TWO, 0)]) == [1, 4, 5, 9]


def test_beyond_the_bytes_that_may_be_held_the_earliest_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 3000)
    fetches = records(ONE, 1, 4, 5, size=1000), records(TWO, 2, 3)
    assert by_time({ONE: 3, TWO: 2}, *fetches) == [1, 2, 3, 4, 5]
    assert by_time({ONE: 4, TWO: 2}, records(ONE, 4, 5, 6, 7, size=1000), records(TWO, 2, 3)) == [
        4, 5, 2, 3, 6, 7,
    ]  # fmt: skip


def test_a_partition_that_gives_nothing_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALL_S", 0.3)
    assert by_time({ONE: 3, TWO: 2}, records(ONE, 1, 4, 5)) == [1, 4, 5]


def test_a_partition_that_returns_nothing_does_not_block_the_others_for_ever() -> None:
    """For example when its leader goes away after its end was read, and others have traffic."""
    live = [records(ONE, 100 + n, first=3 + n) for n in range(100)]
    reader: Any = Fetches(records(ONE, 1, 4, 5), *live)
    given = module._by_time(reader, {ONE: 3, TWO: 2}, lambda: False, reader.monotonic)
    assert [record.timestamp_ms for record in islice(given, 4)] == [1, 4, 5, 100]
    assert module.STALL_S < reader.now < module.STALL_S + 1
    assert reader.left


def test_a_record_stamped_before_one_that_its_partition_gave_first_comes_when_it_is_read() -> None:
    assert by_time({ONE: 3, TWO: 1}, records(ONE, 5), records(TWO, 6), records(ONE, 2, 7, first=1)) == [
        5,
        2,
        6,
        7,
    ]


@pytest.mark.parametrize("topic", ["b-event", "listed"])
def test_a_record_that_the_client_could_not_unpack_holds_no_event(topic: str) -> None:
    """Not even a plain one: of a listed topic any readable record without CloudEvents headers is an event."""
    with pytest.raises(EventError, match="cannot read its headers"):
        event_of(
            CONFIG, (), Record(TopicPartition(topic, 0), 0, 0, b"k", b"v", None, "cannot read its headers")
        )


def test_of_the_records_that_exist_only_those_since_a_time_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Producers of a listed topic may stamp later records with earlier times (apache/kafka#1466)."""

    class Admin:
        def __init__(self, *_: Any) -> None: ...

        def end_offsets(self, partitions: Any) -> Any:
            return {ONE: 4}

        stable_offsets = end_offsets

        def offsets_since(self, partitions: Any, since_ms: int) -> Any:
            return {ONE: 1}

        def close(self) -> None: ...

    class Reader(Fetches):
        def __init__(self, *_: Any) -> None:
            super().__init__(records(ONE, 50, 20, 60, first=1), records(ONE, 30, first=4))

        def read(self, positions: Any) -> None:
            assert positions == {ONE: 1}

        def close(self) -> None: ...

    monkeypatch.setattr(module, "Admin", Admin)
    monkeypatch.setattr(module, "KafkaReader", Reader)
    monkeypatch.setattr(module, "source_partitions", lambda *_: [ONE])
    given = module.existing(CONFIG, Registry(), 40, lambda: False, pytest.fail)
    assert [record.timestamp_ms for record in given] == [50, 60]
    followed = module.follow(CONFIG, Registry(), 40, lambda: False)
    assert [record.timestamp_ms for record in islice(followed, 3)] == [50, 60, 30]  # the last one is new
