"""The clients of an engine: none stays open after an engine was closed or could not begin."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.errors import EngineError

from tests.kit import pool as pools
from tests.kit.bus import SimulatedReader
from tests.kit.pool import STATE, Pool


class Readers:
    """What was made of them, in order; `open` are not closed. Those numbered in `refuses` fail to close."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.made = 0
        self.most = 100
        self.refuses: set[int] = set()

    def make(self, bus: pools.RecordingBus) -> SimulatedReader:
        if self.made == self.most:
            raise EngineError("There are no more clients.")
        self.made += 1
        self.open.add(self.made)
        return _Reader(bus, self, self.made)


class _Reader(SimulatedReader):
    def __init__(self, bus: pools.RecordingBus, readers: Readers, number: int) -> None:
        super().__init__(bus)
        self._readers, self._number = readers, number

    def close(self) -> None:
        super().close()
        self._readers.open.discard(self._number)
        if self._number in self._readers.refuses:
            raise EngineError("It does not close.")


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    made = Readers()
    monkeypatch.setattr(pools.RecordingBus, "reader", lambda bus: made.make(bus))
    return made


def taking_over(pool: Pool) -> None:
    """An engine in the middle of reading state."""
    pool.open_transaction("nobody", TopicPartition("b-action", 0), STATE)
    pool.start(passes=5)
    assert not pool.engines["one"].is_open


def test_an_engine_that_is_closed_while_it_reads_state_leaves_no_reader_open(readers: Readers) -> None:
    pool = Pool()
    taking_over(pool)
    assert len(readers.open) == 3
    pool.engines["one"].close()
    assert readers.open == set()


def test_a_reader_that_does_not_close_keeps_no_engine_in_the_group(readers: Readers) -> None:
    pool = Pool()
    taking_over(pool)
    readers.refuses = set(readers.open)
    with pytest.raises(EngineError, match="does not close"):
        pool.engines["one"].close()
    assert pool.buses["one"].closed
    assert readers.open == set()


@pytest.mark.parametrize("most", [0, 1])
def test_an_engine_that_gets_too_few_readers_leaves_none_open(readers: Readers, most: int) -> None:
    readers.most = most
    with pytest.raises(EngineError, match="no more clients"):
        Pool().boot()
    assert readers.open == set()


def test_an_engine_that_cannot_subscribe_leaves_no_reader_open(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_bus: pools.RecordingBus, _topics: object) -> None:
        raise EngineError("You may not.")

    monkeypatch.setattr(pools.RecordingBus, "subscribe", refuses)
    with pytest.raises(EngineError, match="You may not"):
        Pool().boot()
    assert readers.made == 2
    assert readers.open == set()


def test_a_takeover_that_cannot_ask_for_ends_leaves_no_reader_open(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool()
    engine = pool.boot()
    ends = pools.RecordingBus.end_offsets

    def refuses(bus: pools.RecordingBus, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        asked = list(partitions)
        if STATE in asked:
            raise EngineError("No answer.")
        return ends(bus, asked)

    monkeypatch.setattr(pools.RecordingBus, "end_offsets", refuses)
    with pytest.raises(EngineError, match="No answer"):
        pool.run(10)
    engine.close()
    assert readers.open == set()
