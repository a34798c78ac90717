"""The interface through which protocols and waits use Kafka.

`engine.protocol` and `engine.delivery` use `Bus`, waits use `Clients`. Both have two implementations: over
librdkafka (`kafka.bus.KafkaBus`, `kafka.wait_clients.KafkaClients`) and the tests' simulation.
docs/understand/engine/kafka.md lists what both guarantee; tests/contract runs one suite against both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from .errors import EngineError

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


# One is made for each record. A Struct is made in a fifth of a named tuple's time, and the garbage collector
# does not look at it.
class Record(msgspec.Struct, frozen=True, gc=False):
    """A record that was read. `timestamp_ms`: the record's own timestamp (LogAppendTime on the bus's topics).

    fault: why the client could not unpack a part of the record, "" if it could. That part is None (-1 for the
    timestamp). Do not read an event from such a record.
    """

    source: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    fault: str = ""

    def __str__(self) -> str:
        return f"{self.source}@{self.offset}"


class End(NamedTuple):
    """A reader has returned every committed record of a partition below `offset`, the next offset it reads.

    `offset` is past control records and aborted records. Comes once each time the reader reaches the end.
    """

    source: TopicPartition
    offset: int


class Output(msgspec.Struct, frozen=True, gc=False):
    """A record to write. `partition` None: the client's partitioner (murmur2) chooses."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


class Committed(NamedTuple):
    """A committed offset (the next one to read) and its metadata."""

    offset: int
    metadata: str


class Topic(NamedTuple):
    """A topic as it is now. A topic that is deleted and created again gets another id.

    refused and leaderless are set for listed topics only. refused: the operation that the brokers deny this
    client, "Read" or "Describe"; with "Describe" nothing else is known of the topic. leaderless: the
    partitions without a leader; requests about them time out.
    """

    id: str
    partitions: int
    refused: str = ""
    leaderless: tuple[int, ...] = ()

    @property
    def hidden(self) -> bool:
        """Whether the brokers answer no request about the topic."""
        return self.refused == "Describe"

    @property
    def has_offsets(self) -> bool:
        """Whether the brokers answer requests for the offsets of its partitions."""
        return not (self.hidden or self.leaderless)


class Polled(Protocol):
    """Records and ends in the order in which they arrived. Can be iterated once."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Record | End]: ...


@dataclass(frozen=True)
class Batch:
    """The result of one poll of the group's consumer.

    `assigned`: the partitions of a new assignment, which replaces earlier ones; None if it did not change.
    `lost`: the old assignment ended. `membership`: fences a transaction over these records; pass it to
    `Bus.commit` unchanged. It is valid until the next poll.
    """

    records: Polled
    assigned: tuple[TopicPartition, ...] | None = None
    lost: bool = False
    membership: object = None


class Reader(Protocol):
    """Reads committed records without a consumer group. Not thread-safe."""

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets, and only these."""

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        """Read one of the partitions from another offset. False if it is not being read now: use `read`."""

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        """Returns at most `most` items that have arrived. Waits up to the timeout for the first one."""

    def close(self) -> None: ...


class Bus(Protocol):
    """A member of a consumer group, of engines or of deliverers, with one transactional producer.

    Not thread-safe.

    Every method may raise UnreachableError: close the bus and create a new one. Its subclass NotReadable
    says that one topic cannot be read: the bus remains usable without it. `commit` never raises NotReadable.
    """

    @property
    def transactional_id(self) -> str:
        """The producer's id, and the name under which `members` lists this member."""

    def subscribe(self, topics: Sequence[str], before_loss: Callable[[object], None] | None = None) -> None:
        """Join the group for these topics, including partitions that are added to them later.

        before_loss: a poll calls it with the membership when others wait for this member to give up its
        partitions. It may still commit with this membership. Keep it short: the whole group waits. A member
        that the group has excluded loses its partitions without this call.
        """

    def poll(self, most: int, timeout_s: float) -> Batch:
        """Returns records and ends of the started partitions, or a change of the assignment.

        Never waits to fill a batch. A batch with a change of the assignment has no records.
        """

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Fetch these partitions from these offsets, and only these."""

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        """Fetch one of the partitions from another offset. False if it is not being fetched: use `start`."""

    def fetched_end(self, tp: TopicPartition) -> int:
        """The partition's end when it was last fetched; 0 if unknown. Sends no request."""

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool = True
    ) -> dict[TopicPartition, Committed | None] | None:
        """The group's committed offsets; None for a partition without one.

        stable: return None while a transaction with an offset for one of the partitions is open. Without
        stable, return the offsets from before that transaction.
        """

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The low watermarks."""

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks, open transactions included."""

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offsets: where readers of committed records stop."""

    def offsets_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        """The first offset with a timestamp at or after the given one; None if there is none."""

    def topics(self, names: Iterable[str]) -> dict[str, Topic | None]:
        """The topics as the brokers describe them now; None for a topic that does not exist."""

    def members(self) -> frozenset[str]:
        """The transactional ids of the group's current members, from its coordinator."""

    def fence(self, transactional_id: str) -> None:
        """Fence the producer with this transactional id, which ends its open transaction."""

    def reader(self, *, brief: bool = False) -> Reader:
        """A new reader. brief: for one record at a time, at changing positions. The caller closes it."""

    def commit(
        self,
        outputs: Sequence[Output],
        offsets: Mapping[TopicPartition, Committed],
        membership: object,
    ) -> int | None:
        """Commit outputs and offsets in one transaction, fenced by the membership.

        Returns the broker's append time (ms since the epoch) of one of the records, if one went to a topic
        with LogAppendTime. Raises TransactionAborted if the transaction had no effect; the bus remains
        usable. Any other EngineError: the outcome is unknown or the producer is unusable. Close the bus; the
        committed offsets show the outcome.
        """

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Request the deletion of records below these offsets. A failure is logged; it only costs disk."""

    def close(self) -> None:
        """End the open transaction and leave the group, so that others take over at once. Never raises."""


TOO_LARGE: Final = "The record is larger than its topic accepts"  # the reason that `Writer.write` reports


class Writer(Protocol):
    """Writes records without transactions, each once, in order per partition. Not thread-safe.

    Headers are not written: waits need none. A record may still be delivered after `flush` has timed out.
    """

    def write(self, output: Output, on_delivery: Callable[[str | None], None] | None = None) -> None:
        """Send a record. A later `serve` or `flush` calls `on_delivery` with None, or with why it failed.

        The reason is TOO_LARGE if the brokers refuse the record's size: retrying does not help until the
        topic is altered. Raises NotSent if the client refuses this record, UnreachableError if it refuses
        all records.
        """

    def serve(self, timeout_s: float = 0) -> None:
        """Call the delivery callbacks that are due; wait up to the timeout for the first one.

        Raises UnreachableError, as `flush` does, if the client can write nothing more.
        """

    def flush(self, timeout_s: float) -> int:
        """Wait until all records are delivered. Returns how many are not when the timeout has passed."""

    def partitions(self, topic: str, timeout_s: float) -> int:
        """The topic's partition count, 0 if it is missing.

        Raises UnreachableError without an answer, or if the brokers refuse to describe the topic.
        """

    def outage(self) -> str | None:
        """Send the cluster a request. Returns why it does not answer, or None if it does."""


class Clients(Protocol):
    """The Kafka clients that waits use, all of one connection. Each is created on first use."""

    @property
    def has_error(self) -> bool:
        """Whether one of the clients reported an error since `Writer.outage` last returned None."""

    def check(self) -> Mapping[str, int]:
        """{topic: partition count} of the topics that waits need. Raises EngineError if one is not set up."""

    def reader(self) -> Reader:
        """A new reader. The caller closes it."""

    def writer(self, delivery_s: float | None = None) -> Writer:
        """delivery_s: how long a record is retried. None: the connection's setting, with batching."""

    def unreachable(self, reason: str) -> EngineError:
        """The error to raise for `reason`; it names the clients' own error if they reported one."""
