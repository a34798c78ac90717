"""`airflow interlock tail`: when it ends, and what it says about that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.reading import sources
from interlock.engine.registry.registry import Registry
from interlock.events import Event
from interlock.events.kafka import encode
from msgspec.structs import replace

PLACE, OTHER = TopicPartition("interlock-event", 0), TopicPartition("interlock-event", 1)


def record(number: int, subject: str | None = None) -> Record:
    key, value, headers = encode(Event.of("done", "/shop", id=f"e{number}", subject=subject))
    return Record(PLACE, number, 1000 + number, key, value, headers)


class Bus:
    """A bus with records; `follow` ends after them instead of waiting."""

    def __init__(self, *records: Record) -> None:
        self.records = records
        self.unread: list[TopicPartition] = []
        self.since: list[int | None] = []

    def follow(
        self, _config: Any, _registry: Any, since: int | None, stop: Any, reached: Callable[[], None]
    ) -> Iterator[Record]:
        self.since.append(since)
        yield from self.records if since is not None else ()
        reached()

    def existing(
        self, _config: Any, _registry: Any, since: int | None, stop: Any, unread: Callable[..., None]
    ) -> Iterator[Record]:
        self.since.append(since)
        yield from self.records
        for tp in self.unread:
            unread(tp)


@pytest.fixture
def tail(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": "one:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    monkeypatch.setattr("interlock.engine.kafka.reachability.require_answer", lambda *_: None)
    monkeypatch.setattr("interlock.engine.kafka.topics.read_registry", lambda *_: Registry())

    def run(bus: Bus, *arguments: str) -> tuple[list[str], str]:
        monkeypatch.setattr(sources, "follow", bus.follow)
        monkeypatch.setattr(sources, "existing", bus.existing)
        args = get_parser().parse_args(["interlock", "tail", *arguments])
        args.func(args)
        out, err = capsys.readouterr()
        return out.splitlines(), err

    return run


def test_without_follow_it_prints_what_exists_and_stops(tail: Any) -> None:
    """`tail --since 1h --limit 8` with 7 events waited for ever."""
    bus = Bus(*map(record, range(7)))
    out, err = tail(bus, "--since", "1h", "--no-follow", "--limit", "8")
    assert len(out) == 7
    assert err == "7 events; there are no more.\n"
    out, err = tail(bus, "--no-follow", "--limit", "3")
    assert ([line.split()[-1] for line in out], err) == (["e0", "e1", "e2"], "")
    assert bus.since[-1] is None
    assert tail(bus, "other", "--no-follow") == ([], "0 events; there are no more.\n")


def test_a_record_without_a_timestamp_is_shown_without_one(tail: Any) -> None:
    """It was shown as of 1969 (SOHU-Co/kafka-node#812)."""
    [line], _ = tail(Bus(replace(record(7), timestamp_ms=-1)), "--no-follow")
    assert line.startswith("(no timestamp) interlock-event[0]@7 done /shop ")


def test_it_says_when_it_follows(tail: Any) -> None:
    """Nothing in the output said that the command had printed all there is, and waited."""
    out, err = tail(Bus(*map(record, range(7))), "--since", "1h", "--limit", "8")
    assert len(out) == 7
    assert err.startswith("7 events since ")
    assert err.endswith("Following: new events are printed as they arrive, until Ctrl-C or 1 more event.\n")
    assert tail(Bus()) == ([], "Following: new events are printed as they arrive, until Ctrl-C.\n")


def test_the_sentence_is_not_among_the_rows(tail: Any) -> None:
    out, _ = tail(Bus(record(1)), "--since", "1h", "--output", "json")
    assert [json.loads(line)["event"]["id"] for line in out] == ["e1"]


def test_a_partition_that_cannot_be_read_to_its_end_is_an_error(tail: Any) -> None:
    """Else what exists would look complete."""
    bus = Bus(record(1))
    bus.unread = [OTHER]
    with pytest.raises(SystemExit, match=r"not read to the end.* interlock-event\[1\]\."):
        tail(bus, "--no-follow")


def test_texts_with_outer_spaces_are_quoted(tail: Any) -> None:
    out, _ = tail(Bus(record(1, "orders ")), 'event("done", by="subject")', "--no-follow")
    assert out[0].endswith('e1 subject="orders " key="orders "')
