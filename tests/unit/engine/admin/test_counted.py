"""How many dead letters there are: as the list shows them, without redrive and control records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from interlock.engine.admin import dead_letters as module
from interlock.engine.admin.dead_letters import REDRIVEN, DeadLetterCount, counted
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
ZERO, ONE = TopicPartition("b-dead-letter", 0), TopicPartition("b-dead-letter", 1)


def dead_letter(tp: TopicPartition, offset: int, value: bytes = b"x") -> Record:
    return Record(tp, offset, 0, None, value, [("interlock_reason", b"r")])


def redrive_record(tp: TopicPartition, offset: int, place: str) -> Record:
    return Record(tp, offset, 0, None, None, [(REDRIVEN, place.encode())])


def counted_of(
    monkeypatch: pytest.MonkeyPatch, *records: Record, low: int = 0, end: int = 100
) -> DeadLetterCount:
    def read(
        _config: Any, starts: Mapping[TopicPartition, int], ends: Any, *, sparing: bool
    ) -> Iterator[Record]:
        assert sparing
        yield from (each for each in records if each.offset >= starts[each.source])

    monkeypatch.setattr(module, "read_between", read)
    return counted(CONFIG, {ZERO: low, ONE: low}, {ZERO: end, ONE: end})


def test_dead_letters_are_open_or_redriven_and_other_records_are_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six dead letters, three of them sent again, one of these twice; the other records say so."""
    dead_letters = [dead_letter(ZERO, n) for n in range(3)] + [dead_letter(ONE, n) for n in range(3)]
    sent = [redrive_record(ZERO, 10 + n, f"{ZERO}@{n}") for n in (0, 1, 1)] + [
        redrive_record(ONE, 10, f"{ONE}@2")
    ]
    assert counted_of(monkeypatch, *dead_letters, *sent) == DeadLetterCount(3, 3, True)
    assert counted_of(monkeypatch) == DeadLetterCount(0, 0, True)


def test_a_redrive_record_of_a_dead_letter_that_retention_removed_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert counted_of(
        monkeypatch, dead_letter(ZERO, 50), redrive_record(ZERO, 51, f"{ZERO}@3"), low=40
    ) == DeadLetterCount(1, 0, True)


def test_only_the_latest_are_counted_and_the_text_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COUNTED", 20)
    assert counted_of(monkeypatch, *(dead_letter(ZERO, n) for n in range(100))) == DeadLetterCount(
        10, 0, False
    )
    monkeypatch.setattr(module, "MOST_COUNTED", 1000)
    monkeypatch.setattr(module, "MAX_COUNTED_BYTES", 50)
    large = [dead_letter(ZERO, n, b"x" * 20) for n in range(9)]
    assert counted_of(monkeypatch, *large) == DeadLetterCount(2, 0, False)
