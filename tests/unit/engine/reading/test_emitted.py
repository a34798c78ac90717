"""Whether records may have been removed, and when that is unknown: E1 to E4 of `reading/emitted.py`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from interlock.engine.bus import Record, Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError
from interlock.engine.reading import emitted as module
from interlock.engine.reading.emitted import CLOCK_MARGIN_MS, Emitted
from interlock.events import Event
from interlock.events.kafka import encode
from interlock.events.proof import Proof
from interlock.events.taxonomy import DAG_RUN_SUCCEEDED

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
HOUR, DAY = 3_600_000, 86_400_000
NOW = 100 * DAY
SINCE = NOW - 3 * HOUR
MONTH = {"retention.ms": str(30 * DAY), "retention.bytes": "-1"}


class Log:
    """The event topic: of each partition the offset of its first record, and the stamps of all."""

    def __init__(self, *partitions: tuple[int, list[int]]) -> None:
        self.partitions = partitions
        self.settings: dict[str, str] | None = MONTH
        self.settings_asked = 0
        self.type = "t"
        self.proof: Proof | None = None  # of the events at odd offsets

    def low(self, tp: TopicPartition) -> int:
        return self.partitions[tp.partition][0]

    def stamps(self, tp: TopicPartition) -> list[int]:
        return self.partitions[tp.partition][1]

    def end(self, tp: TopicPartition) -> int:
        return self.low(tp) + len(self.stamps(tp))

    def since(self, tp: TopicPartition, ms: int) -> int | None:
        later = (self.low(tp) + n for n, stamp in enumerate(self.stamps(tp)) if stamp >= ms)
        return next(later, None)

    def read(self, _config: BusConfig, starts: Any, ends: Any) -> Iterator[Record]:
        for tp, start in starts.items():
            for offset in range(start, ends[tp]):
                stamp = self.stamps(tp)[offset - self.low(tp)]
                event = Event.of(self.type, "/s", id=f"{tp.partition}@{offset}")
                if self.proof is not None and offset % 2:
                    event = self.proof.signed(event)
                yield Record(tp, offset, stamp, *encode(event))


def ids_found(
    monkeypatch: pytest.MonkeyPatch, log: Log, since_ms: int = SINCE, config: BusConfig = CONFIG
) -> set[str]:
    """The ids of the events that lie there since then."""

    class Admin:
        def __init__(self, *_: Any) -> None: ...

        def topics(self, names: Any) -> Any:
            return {name: Topic("i", len(log.partitions)) for name in names}

        def start_offsets(self, partitions: Any) -> Any:
            return {tp: log.low(tp) for tp in partitions}

        def end_offsets(self, partitions: Any) -> Any:
            return {tp: log.end(tp) for tp in partitions}

        def offsets_since(self, partitions: Any, ms: int) -> Any:
            return {tp: log.since(tp, ms) for tp in partitions}

        def settings(self, topic: str) -> dict[str, str] | None:
            assert topic == "b-event"
            log.settings_asked += 1
            return log.settings

        def close(self) -> None: ...

    monkeypatch.setattr(module, "Admin", Admin)
    monkeypatch.setattr(module, "read_between", log.read)
    wanted = [("/s", f"{p}@{offset}") for p in range(len(log.partitions)) for offset in range(10)]
    return {id_ for _, id_ in Emitted(config, lambda: NOW / 1000).among(wanted, since_ms)}


def test_where_nothing_was_removed_no_settings_are_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log((0, [SINCE - HOUR, SINCE + HOUR]), (0, [SINCE + HOUR]), (0, []))
    assert ids_found(monkeypatch, log) == {"0@1", "1@0"}
    assert log.settings_asked == 0


def test_where_an_earlier_record_is_left_no_settings_are_queried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log((5, [SINCE - HOUR, SINCE + HOUR]), (7, [SINCE - HOUR]))
    log.settings = None
    assert ids_found(monkeypatch, log) == {"0@6"}
    assert log.settings_asked == 0


@pytest.mark.parametrize("left", [[], [SINCE + HOUR]], ids=["empty", "with its next event"])
def test_a_partition_that_was_idle_for_longer_than_records_are_kept_is_no_error(
    left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log((0, [SINCE + HOUR]), (5, left))
    assert ids_found(monkeypatch, log) == {"0@0", *(f"1@{5 + n}" for n in range(len(left)))}


@pytest.mark.parametrize("left", [[], [SINCE + HOUR]], ids=["empty", "with its next event"])
def test_where_retention_is_shorter_than_the_queried_time_the_answer_is_unknown(
    left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log((0, [SINCE + HOUR]), (5, left))
    log.settings = MONTH | {"retention.ms": str(HOUR)}
    with pytest.raises(EngineError, match=r"b-event\[1\]: no record from before .*retention\.ms=3600000"):
        ids_found(monkeypatch, log)


def test_retention_reaches_no_further_than_the_margin_of_the_clocks_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log((5, [NOW - 1]))
    oldest = NOW + CLOCK_MARGIN_MS - 30 * DAY
    assert ids_found(monkeypatch, log, oldest) == {"0@5"}
    with pytest.raises(EngineError, match="Use a later --since"):
        ids_found(monkeypatch, log, oldest - 1)


@pytest.mark.parametrize(
    ("settings", "left", "reason"),
    [
        (MONTH | {"retention.bytes": "1000"}, [SINCE + HOUR], "retention.bytes=1000"),
        (MONTH | {"retention.bytes": "0"}, [], "retention.bytes=0"),
        (MONTH | {"retention.ms": "-1"}, [SINCE + HOUR], "somebody has removed the records"),
        (MONTH | {"retention.ms": "-1"}, [], "somebody has removed the records"),
        ({"retention.ms": str(30 * DAY)}, [SINCE + HOUR], "do not name retention.bytes of the topic"),
        ({}, [], "do not name retention.ms and retention.bytes"),
        (None, [SINCE + HOUR], "allow DescribeConfigs"),
        (None, [], "allow DescribeConfigs"),
    ],
)
def test_where_records_are_not_removed_by_time_alone_the_answer_is_unknown(
    settings: dict[str, str] | None, left: list[int], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log((5, left))
    log.settings = settings
    with pytest.raises(EngineError, match=reason):
        ids_found(monkeypatch, log)


def test_a_size_never_empties_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log((5, []))
    log.settings = MONTH | {"retention.bytes": "1000"}
    assert ids_found(monkeypatch, log) == set()


def test_an_event_without_the_proof_that_it_needs_was_not_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone forged it, and reconcile should emit the real one."""
    since = datetime.fromtimestamp((SINCE + HOUR) / 1000, UTC).isoformat()
    client = {**CONFIG.client, "interlock.proof.secret": "s" * 32, "interlock.proof.from": since}
    config = BusConfig(name="b", client=client)
    log = Log((0, [SINCE, SINCE, SINCE + HOUR, SINCE + HOUR]))
    log.type, log.proof = DAG_RUN_SUCCEEDED, config.proof
    assert ids_found(monkeypatch, log, config=config) == {"0@0", "0@1", "0@3"}
    assert ids_found(monkeypatch, log) == {"0@0", "0@1", "0@2", "0@3"}
