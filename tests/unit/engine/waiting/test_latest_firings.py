"""Reading firings at their places in the action topic: what is read for them, and what is not."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.errors import UnreachableError
from interlock.engine.waiting import latest_firings as module
from interlock.engine.waiting.latest_firings import FiringRef, LatestFirings, fetch

ONE, TWO = TopicPartition("b-action", 0), TopicPartition("b-action", 1)


class Log:
    """Clients with one reader, which gives three records of each partition at a time and then the ends."""

    def __init__(self, ends: dict[TopicPartition, int], missing: Any = ()) -> None:
        self.ends, self.missing = ends, set(missing)
        self.given: list[tuple[int, int]] = []
        self.closed = False
        self._at: dict[TopicPartition, int] = {}

    def reader(self) -> Log:
        return self

    def read(self, positions: dict[TopicPartition, int]) -> None:
        self._at = dict(positions)

    def take(self, _most: int, _timeout_s: float) -> list[Record | End]:
        items: list[Record | End] = []
        for tp, at in self._at.items():
            self._at[tp] = min(at + 3, self.ends[tp])
            for offset in range(at, self._at[tp]):
                if (tp.partition, offset) not in self.missing:
                    self.given.append((tp.partition, offset))
                    items.append(Record(tp, offset, 0, b"k", f"{tp.partition}:{offset}".encode(), None))
            if at < self.ends[tp] == self._at[tp]:
                items.append(End(tp, self.ends[tp]))
        return items

    def close(self) -> None:
        self.closed = True


def fetched(log: Log, *places: tuple[TopicPartition, int]) -> dict[tuple[int, int], str | None]:
    clients: Any = log
    now = iter(range(10**6))
    found = fetch(clients, [FiringRef("", tp, offset, 0) for tp, offset in places], lambda: float(next(now)))
    return {
        (place.source.partition, place.offset): None if value is None else value.decode()
        for place, value in found
    }


def test_each_place_gives_its_firing_or_that_it_is_gone() -> None:
    log = Log({ONE: 10, TWO: 10}, missing=[(0, 5), (1, 9)])
    assert fetched(log, (ONE, 5), (TWO, 2), (ONE, 1), (TWO, 9)) == {
        (0, 1): "0:1", (0, 5): None, (1, 2): "1:2", (1, 9): None,
    }  # fmt: skip
    assert log.closed


def test_what_lies_between_places_far_apart_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a firing that a dispatcher has held for weeks, and others of today."""
    monkeypatch.setattr(module, "MOST_BETWEEN", 10)
    log = Log({ONE: 5000, TWO: 5000}, missing=[(0, 4000)])
    wanted = [(ONE, 2), (ONE, 4000), (ONE, 4003), (ONE, 4500), (TWO, 4), (TWO, 9)]
    assert fetched(log, *wanted) == {
        (0, 2): "0:2", (0, 4000): None, (0, 4003): "0:4003", (0, 4500): "0:4500",
        (1, 4): "1:4", (1, 9): "1:9",
    }  # fmt: skip
    assert len(log.given) < 30


def test_a_partition_that_gives_nothing_is_an_error() -> None:
    log = Log({ONE: 3})
    with pytest.raises(UnreachableError, match=r"b-action\[0\]"):
        fetched(log, (ONE, 1), (ONE, 7))


def test_a_partition_that_gives_nothing_is_an_error_although_another_one_goes_on_giving_records() -> None:
    """Those kept the waits' thread there until its watchdog came, and no task learned which one it was."""
    log = Log({ONE: 3000, TWO: 0})
    with pytest.raises(UnreachableError, match=r"\['b-action\[1\]'\] could not be read"):
        fetched(log, (ONE, 1), (TWO, 7))
    assert len(log.given) < 100


@pytest.mark.parametrize("value", [b'{"incarnation": "i"}', None])
def test_a_firing_that_the_client_cannot_unpack_is_named_and_not_delivered(
    value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A header whose name is not UTF-8 (confluent-kafka); without a value it looks like a removal."""
    firings = LatestFirings()
    firings.follow(Record(ONE, 0, 5, b"w", b'{"incarnation": "i"}', None))
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        assert firings.follow(Record(ONE, 1, 5, b"w", value, None, "cannot be unpacked")) is None
    assert firings.newest("w") == FiringRef("i", ONE, 0, 5)
    assert f"{ONE}@1 is not delivered: cannot be unpacked" in caplog.text


def test_a_firing_of_a_later_version_and_of_another_form_is_named_with_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    firings = LatestFirings()
    assert firings.follow(Record(ONE, 1, 5, b"w", b'{"v": 9}', None)) is None
    assert f"{ONE}@1 holds an ActionRecord of version 9; this Interlock reads 1. Upgrade" in caplog.text
