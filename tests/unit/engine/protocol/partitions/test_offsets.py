"""Records that claim other offsets than those of their batches, in logs of all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnreachableError
from interlock.engine.protocol.context import Clocks, EngineContext
from interlock.engine.protocol.partitions.offsets import (
    END_S,
    IN_S,
    MOST_S,
    STALL_S,
    OffsetChecks,
    last_true,
)
from interlock.engine.protocol.parts import Parts

TP = TopicPartition("b-event", 0)
CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})


class Log:
    """Batches of one record each: {offset: what it claims}. Other offsets below `end` hold markers."""

    def __init__(self, claims: Mapping[int, int], end: int) -> None:
        self.claims, self.end = claims, end
        self.at: int | None = None
        self.now, self.looked_up, self.asked = 0.0, 0, 0
        self.silent = False
        bus: Any = SimpleNamespace(reader=lambda **_: self, stable_offsets=self.stable_offsets)
        context = EngineContext.of(bus, CONFIG, Parts(clocks=Clocks(lambda: self.now, lambda: self.now)))
        self.checks = OffsetChecks(context)

    def record(self, at: int) -> Record:
        return Record(TP, self.claims[at], 5, None, b"%d" % at, [])

    def stable_offsets(self, asked: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked += 1
        return dict.fromkeys(asked, self.end)

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self.at = positions.get(TP)
        self.looked_up += self.at is not None

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        self.now += timeout_s
        if self.silent or self.at is None:
            return []
        from_here = [at for at in sorted(self.claims) if at >= self.at and self.claims[at] >= self.at]
        return [*map(self.record, from_here[:most]), *([End(TP, self.end)] if len(from_here) <= most else [])]

    def close(self) -> None:
        self.at = None


@given(st.sets(st.integers(0, 40), min_size=1), st.integers(1, 5))
def test_records_behind_markers_and_removed_records_are_where_they_claim(places: set[int], more: int) -> None:
    log = Log({at: at for at in places}, max(places) + more)
    position = 0
    for at in sorted(places):
        if at != position:
            assert log.checks.refusal(log.record(at), position) is None
        position = at + 1


@given(st.data())
def test_a_record_that_claims_another_offset_is_refused_and_reading_continues_behind_its_batch(
    data: st.DataObject,
) -> None:
    places = sorted(data.draw(st.sets(st.integers(0, 40), min_size=1)))
    bad = data.draw(st.sampled_from(places))
    claimed = data.draw(st.integers(0, 60) | st.just(2**31).map(lambda delta: bad + delta))
    before = [at for at in places if at < bad]
    position = before[-1] + 1 if before else data.draw(st.integers(0, bad))
    # An earlier offset without a record between could as well be its own: then it hides nothing.
    assume(claimed not in (bad, position))
    assume(claimed > bad or any(claimed <= at < bad for at in places))
    log = Log({at: claimed if at == bad else at for at in places}, places[-1] + data.draw(st.integers(1, 5)))
    refusal = log.checks.refusal(log.record(bad), position)
    assert refusal is not None
    assert refusal.position == (bad + 1 if claimed > position else position)
    assert f"claims offset {claimed}" in refusal.reason


def test_a_record_at_or_beyond_the_end_is_refused_without_looking_for_it_there() -> None:
    log = Log({0: 0, 1: 1000}, 2)
    refusal = log.checks.refusal(log.record(1), 1)
    assert refusal is not None
    assert "the partition ends at 2" in refusal.reason
    assert "Reading continues at offset 2" in refusal.reason
    assert log.looked_up == 0


def test_a_record_that_was_removed_after_it_was_fetched_is_processed() -> None:
    """By compaction or retention: a good event must not become a dead letter."""
    log = Log({0: 0, 4: 4, 7: 7}, 8)
    fetched = log.record(4)
    del log.claims[4]
    assert log.checks.refusal(fetched, 1) is None


def test_a_long_jump_is_looked_up_although_the_time_for_look_ups_is_used_up() -> None:
    """Taken as it comes it could hide as many events."""
    log = Log({0: 0, 1: 500, **{at: at for at in range(2, 502)}}, 502)
    log.checks._took = MOST_S
    assert log.checks.refusal(log.record(1), 1) is not None


def test_a_record_that_an_earlier_one_jumped_over_is_still_processed() -> None:
    log = Log({0: 0, 1: 5, 2: 2, 9: 9}, 10)
    assert log.checks.refusal(log.record(2), 6) is None


def test_the_end_is_asked_for_only_when_a_record_lies_beyond_the_known_one() -> None:
    log = Log({at: at for at in range(0, 40, 2)}, 40)
    for at in range(2, 40, 2):
        log.checks.refusal(log.record(at), at - 1)
    assert log.asked == 1


def test_a_topic_that_jumps_all_the_time_is_looked_up_for_a_bounded_share_of_the_time() -> None:
    """A topic of a transactional producer: each transaction leaves a marker."""
    log = Log({at: at for at in range(0, 2000, 2)}, 2000)

    def take(most: int, timeout_s: float) -> list[Record]:
        log.now += 0.01
        assert log.at is not None
        return [log.record(log.at)]

    log.take = take  # type: ignore[method-assign,assignment]
    for at in range(2, 2000, 2):
        assert log.checks.refusal(log.record(at), at - 1) is None
    assert MOST_S / 0.01 <= log.looked_up <= MOST_S / 0.01 + 1
    log.now += IN_S
    log.checks.refusal(log.record(2), 1)
    assert log.looked_up >= MOST_S / 0.01 + 1


def test_a_refused_record_uses_up_no_look_up() -> None:
    log = Log({0: 0, 1: 100, **{at: at for at in range(2, 102)}}, 102)
    for _ in range(60):
        assert log.checks.refusal(log.record(1), 1) is not None


def test_a_replica_that_is_behind_is_waited_for() -> None:
    log = Log({0: 0, 4: 4}, 5)
    taken = iter([[End(TP, 2)], [], [log.record(4)]])
    log.take = lambda most, timeout_s: next(taken)  # type: ignore[method-assign,assignment]
    assert log.checks.refusal(log.record(4), 1) is None


def test_where_only_the_end_is_found_there_is_no_record() -> None:
    log = Log({0: 0, 1: 3}, 6)
    refusal = log.checks.refusal(log.record(1), 1)
    assert refusal is not None
    assert refusal.position == 2
    assert log.now >= END_S


def test_a_partition_that_does_not_answer_is_unreachable() -> None:
    log = Log({0: 0, 4: 4}, 5)
    log.silent = True
    with pytest.raises(UnreachableError, match=r"b-event\[0\] could not be read at offset 4 within 10 s"):
        log.checks.refusal(log.record(4), 1)
    assert log.now > STALL_S


@given(st.integers(0, 1000), st.integers(1, 1000), st.data())
def test_the_last_number_that_holds_is_found(low: int, size: int, data: st.DataObject) -> None:
    found = low + data.draw(st.integers(0, size - 1))
    assert last_true(lambda number: number <= found, low, low + size) == found
