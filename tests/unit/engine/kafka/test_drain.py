"""Reading partitions to an end, with a reader that gives what a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka.reader import drain

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Given:
    def __init__(self, *taken: Sequence[Record | End]) -> None:
        self.left = list(taken)
        self.asked: dict[TopicPartition, int] = {}

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self.asked = dict(positions)

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        return list(self.left.pop(0)) if self.left else []

    def close(self) -> None: ...


def at(tp: TopicPartition, offset: int) -> Record:
    return Record(tp, offset, 0, None, b"", None)


def offsets(
    reader: Given, starts: Mapping[TopicPartition, int], ends: object = None
) -> list[tuple[int, int]]:
    return [(r.source.partition, r.offset) for r in drain(reader, starts, ends, stall_s=0)]  # type: ignore[arg-type]


def test_partitions_are_read_up_to_the_ends_given_and_no_further() -> None:
    reader = Given([at(A, 3), at(B, 7)], [at(A, 4), at(A, 5)])
    assert offsets(reader, {A: 3, B: 7}, {A: 5, B: 8}) == [(0, 3), (1, 7), (0, 4)]


def test_the_end_of_a_partition_that_is_at_its_end_is_not_queried() -> None:
    reader = Given([at(A, 3)])
    assert offsets(reader, {A: 3, B: 7}, {A: 4, B: 7}) == [(0, 3)]
    assert reader.asked == {A: 3}
    assert offsets(Given(), {B: 7}, {B: 7}) == []


def test_an_open_transaction_ends_the_read_of_a_partition_below_the_given_end() -> None:
    assert offsets(Given([at(A, 3), End(A, 4)]), {A: 3}, {A: 9}) == [(0, 3)]


def test_without_ends_a_partition_is_read_to_where_it_ends_now() -> None:
    assert offsets(Given([at(A, 3), End(B, 7)], [at(A, 9), End(A, 10)]), {A: 3, B: 7}) == [(0, 3), (0, 9)]


def test_a_cluster_that_returns_nothing_is_an_error_with_the_remaining_partitions() -> None:
    with pytest.raises(UnreachableError, match=r"t\[1\] cannot be read to the end"):
        offsets(Given([at(A, 3)]), {A: 3, B: 7}, {A: 4, B: 8})


def test_what_arrives_in_a_partition_after_its_end_is_not_yielded() -> None:
    reader = Given([at(A, 3), End(A, 4), at(A, 4)], [at(A, 5), at(B, 7), End(B, 8)])
    assert offsets(reader, {A: 3, B: 7}) == [(0, 3), (1, 7)]


def test_a_partition_that_returns_nothing_is_an_error_although_another_one_grows_beyond_its_end() -> None:
    """The other one's new records kept the read waiting for ever."""
    reader = Given([at(A, 3)], *([at(A, offset)] for offset in range(4, 1000)))
    with pytest.raises(UnreachableError, match=r"^t\[1\] cannot be read to the end"):
        offsets(reader, {A: 3, B: 7}, {A: 4, B: 8})
    assert reader.left, "it did not wait until the other one was silent too"
