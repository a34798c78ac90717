"""Records that claim other offsets than those of their batches, in logs of all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import NotReadable, UnreachableError
from interlock.engine.protocol.context import Clocks, EngineContext
from interlock.engine.protocol.partitions.offsets import (
    END_S,
    IN_S,
    MOST_S,
    STALL_S,
    OffsetChecks,
    last_true,
)
from interlock.engine.protocol.parts import EngineParts

TP = TopicPartition("b-event", 0)
CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})


class Log:
    """Batches of one record each: {offset: what it claims}. Other offsets below `end` hold markers."""

    def __init__(self, claims: Mapping[int, int], end: int) -> None:
        self.claims, self.end = claims, end
        self.at: int | None = None
        self.now, self.looked_up, self.asked = 0.0, 0, 0
        self.silent = False
        self.twins: dict[int, int] = {}  # {offset: of the record that it equals}
        self.fetch_most = 0  # records in a response, 0 for all
        self.fetched = end
        bus: Any = SimpleNamespace(
            reader=lambda **_: self, stable_offsets=self.stable_offsets, fetched_end=lambda _: self.fetched
        )
        context = EngineContext.of(
            bus, CONFIG, EngineParts(clocks=Clocks(lambda: self.now, lambda: self.now))
        )
        self.checks = OffsetChecks(context)

    def record(self, at: int) -> Record:
        return Record(TP, self.claims[at], 5, None, b"%d" % self.twins.get(at, at), [])

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
        some = from_here[: self.fetch_most or most]
        return [*map(self.record, some), *([End(TP, self.end)] if len(from_here) <= most else [])]

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
def test_a_record_that_claims_another_offset_is_refused_and_reading_continues_after_its_batch(
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
    """Believed without a look-up, it could hide as many events."""
    log = Log({0: 0, 1: 500, **{at: at for at in range(2, 502)}}, 502)
    log.checks._took = MOST_S
    assert log.checks.refusal(log.record(1), 1) is not None


def test_a_record_that_an_earlier_one_jumped_over_is_still_processed() -> None:
    log = Log({0: 0, 1: 5, 2: 2, 9: 9}, 10)
    assert log.checks.refusal(log.record(2), 6) is None


def test_a_growing_topic_of_a_transactional_producer_costs_no_request_for_its_end() -> None:
    """The client knows the end from its fetches."""
    log = Log({at: at for at in range(0, 400, 2)}, 1)
    for at in range(2, 400, 2):
        log.end = log.fetched = at + 1
        assert log.checks.refusal(log.record(at), at - 1) is None
    assert log.asked == 0


def test_the_end_is_queried_where_the_client_does_not_know_it() -> None:
    log = Log({0: 0, 4: 4}, 5)
    log.fetched = 0
    assert log.checks.refusal(log.record(4), 1) is None
    assert log.asked == 1


@pytest.mark.parametrize("fetch_most", [0, 1])
@pytest.mark.parametrize(
    ("claims", "bad", "twin", "position"),
    [
        ({0: 0, 1: 5, 2: 2, 3: 3, 4: 4, 5: 5}, 1, 5, 1),
        ({0: 0, 1: 5, 4: 4, 5: 5}, 1, 5, 1),
        ({0: 0, 1: 5, 2: 2, 5: 5}, 1, 5, 1),
        ({0: 0, 2: 5, 3: 3, 4: 4, 5: 5}, 2, 5, 1),
        ({0: 0, 1: 3, 2: 2, 3: 3}, 1, 3, 1),
        ({0: 0, 1: 400, **{at: at for at in range(2, 402)}}, 1, 400, 1),
    ],
    ids=["alone", "hides the last", "hides the first", "behind a marker", "hides one", "hides hundreds"],
)
def test_a_twin_at_the_claimed_offset_does_not_make_a_malformed_record_believed(
    claims: dict[int, int], bad: int, twin: int, position: int, fetch_most: int
) -> None:
    """Two equal records (CreateTime, the same timestamp), of which the first claims the second's offset."""
    log = Log(claims, max(claims) + 2)
    log.twins, log.fetch_most = {twin: bad}, fetch_most
    refusal = log.checks.refusal(log.record(bad), position)
    assert refusal is not None
    assert refusal.position == bad + 1


def test_a_twin_with_markers_on_both_sides_of_what_it_hides_is_found_in_one_response() -> None:
    log = Log({0: 0, 3: 9, 5: 5, 9: 9}, 10)
    log.twins = {9: 3}
    refusal = log.checks.refusal(log.record(3), 1)
    assert refusal is not None
    assert refusal.position == 4


def test_a_jump_that_is_longer_than_those_before_is_looked_up_although_the_time_is_used_up() -> None:
    """The jumps of one offset before it were markers; a longer one may hide events."""
    log = Log({0: 0, 2: 2, 3: 60, **{at: at for at in range(4, 62)}}, 62)
    assert log.checks.refusal(log.record(2), 1) is None
    log.checks._took = MOST_S
    assert log.checks.refusal(log.record(3), 3) is not None


def test_a_record_beyond_the_end_is_refused_although_the_time_is_used_up() -> None:
    """Else the partition would stop there."""
    log = Log({0: 0, 2: 2, 3: 4}, 4)
    assert log.checks.refusal(log.record(2), 1) is None
    log.checks._took = MOST_S
    assert log.checks.refusal(log.record(3), 3) is not None


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
    log = Log({0: 0, 2: 2}, 3)
    taken = iter([[End(TP, 1)], [], [log.record(2)]])
    log.take = lambda most, timeout_s: next(taken)  # type: ignore[method-assign,assignment]
    assert log.checks.refusal(log.record(2), 1) is None


def test_where_only_the_end_is_found_there_is_no_record() -> None:
    log = Log({0: 0, 1: 3}, 6)
    refusal = log.checks.refusal(log.record(1), 1)
    assert refusal is not None
    assert refusal.position == 2
    assert log.now >= END_S


def test_a_partition_that_does_not_answer_is_not_readable() -> None:
    log = Log({0: 0, 4: 4}, 5)
    log.silent = True
    with pytest.raises(NotReadable, match=r"b-event\[0\] could not be read at offset 4 within 10 s"):
        log.checks.refusal(log.record(4), 1)
    assert log.now > STALL_S


@pytest.mark.parametrize("fails", ["take", "stable_offsets"])
def test_an_error_of_one_partition_is_no_error_of_the_cluster(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the engine pauses the topic, and continues with the others."""

    def fail(*_: object) -> NoReturn:
        raise UnreachableError("its leader is gone")

    log = Log({0: 0, 4: 4}, 5)
    monkeypatch.setattr(log, fails, fail)
    log.checks._bus.stable_offsets = log.stable_offsets  # type: ignore[method-assign]
    log.fetched = 0 if fails == "stable_offsets" else 5
    with pytest.raises(NotReadable, match="its leader is gone") as raised:
        log.checks.refusal(log.record(4), 1)
    assert raised.value.topic == TP.topic


def test_after_an_error_of_its_client_the_next_look_up_has_a_new_reader() -> None:
    """After a fatal one each look-up failed, so the topic was paused again and again, until a new engine."""

    def fail(*_: object) -> NoReturn:
        raise UnreachableError("a fatal error")

    log = Log({0: 0, 4: 4}, 5)
    closed: list[None] = []
    broken: Any = SimpleNamespace(read=log.read, take=fail, close=lambda: closed.append(None))
    readers = iter([broken, log])
    log.checks._bus.reader = lambda **_: next(readers)  # type: ignore[method-assign]
    with pytest.raises(NotReadable, match="a fatal error"):
        log.checks.refusal(log.record(4), 1)
    assert len(closed) == 1
    assert log.checks.refusal(log.record(4), 1) is None
    log.checks.close()
    assert len(closed) == 1


@given(st.integers(0, 1000), st.integers(1, 1000), st.data())
def test_the_last_number_that_holds_is_found(low: int, size: int, data: st.DataObject) -> None:
    found = low + data.draw(st.integers(0, size - 1))
    assert last_true(lambda number: number <= found, low, low + size) == found
