"""The narrow interface between the engine's decisions and Kafka.

The engine (`loop`, `source_task`, `trigger_task`, `registry`) only sees these types. `kafka.KafkaBus`
implements them with librdkafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Record(NamedTuple):
    """One record as read; `timestamp_ms` is the record's own (LogAppendTime on the bus's event topic)."""

    source: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None

    def __str__(self) -> str:
        return f"{self.source}@{self.offset}"


class End(NamedTuple):
    """A reader has read all there is of a partition; `offset` is the next one it would read."""

    source: TopicPartition
    offset: int


class Output(NamedTuple):
    """One record to write; `partition` None leaves the choice to the client's partitioner (murmur2)."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


class Committed(NamedTuple):
    """A committed offset (the next one to read) and the metadata that was committed with it."""

    offset: int
    metadata: str


@dataclass(frozen=True)
class Batch:
    """What one poll of the group's consumer gave.

    `assigned`: the partitions of a new assignment, which replaces all earlier ones, or None when it did
    not change. `lost`: the old assignment is gone. `membership`: the fence for a transaction over these
    records; it must be passed to `Bus.commit` as it is.
    """

    records: Sequence[Record]
    assigned: tuple[TopicPartition, ...] | None = None
    lost: bool = False
    membership: object = None


class Reader(Protocol):
    """Reads partitions without a group, committed records only. One thread."""

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, from these offsets, and no others any more."""

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        """What has arrived, at most `most`; waits up to the timeout for the first."""

    def close(self) -> None: ...


class Bus(Protocol):
    """A member of the engines' consumer group, with one transactional producer. One thread.

    Every method may raise UnreachableError; the caller closes the bus and makes a new one.
    """

    @property
    def transactional_id(self) -> str: ...

    def poll(self, most: int, timeout_s: float) -> Batch:
        """Records of the started partitions and changes of the assignment; never waits to fill a batch."""

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Fetch these partitions from these offsets."""

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed | None] | None:
        """Stable committed offsets; None for one without; None in all while a transaction is open on one."""

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The low watermarks."""

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks, open transactions included."""

    def offsets_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        """The first offset whose timestamp is at or after the given one; None where there is none."""

    def reader(self) -> Reader: ...

    def commit(
        self,
        outputs: Sequence[Output],
        offsets: Mapping[TopicPartition, Committed],
        membership: object,
    ) -> None:
        """One transaction with outputs and offsets, fenced by the membership.

        Raises TransactionAborted when nothing of it happened and the bus can go on; any other EngineError
        when the outcome is unknown or the producer is unusable: close the bus, the committed offsets tell.
        """

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Ask for the removal of records below these offsets; best effort."""

    def close(self) -> None:
        """Leave the group."""
