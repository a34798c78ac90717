"""The narrow interface between the engine's protocols, those who wait, and Kafka.

Everything in `engine.protocol` sees Kafka through `Bus`, and waits through `Clients`. Two implementations:
`kafka.bus.KafkaBus` and `kafka.wait_clients.KafkaClients` over librdkafka, and the simulation of the tests.
docs/understand/engine/kafka.md lists the facts that both must hold; one suite of tests asks both for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from .errors import EngineError

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Record(NamedTuple):
    """One record as read; `timestamp_ms` is the record's own (LogAppendTime on the bus's topics).

    fault: why the client could not unpack a part of it, "" if it could. Such a part is None here (-1 for the
    timestamp), and the record holds no event.
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
    """A reader of committed records has all there is of a partition below `offset`, the next one it reads.

    Control records and aborted records below it are passed. Comes once each time the end is reached.
    """

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


class Topic(NamedTuple):
    """A topic as it is now; a topic that is deleted and made again has another id.

    refused: of a topic that is none of the bus's own, what its brokers do not allow this client: "Read", or
    "Describe", and then nothing else is known of it. leaderless: of such a topic, the partitions that no
    broker leads now: questions about them wait until their time is up.
    """

    id: str
    partitions: int
    refused: str = ""
    leaderless: tuple[int, ...] = ()

    @property
    def hidden(self) -> bool:
        """Whether no question about it is answered."""
        return self.refused == "Describe"

    @property
    def has_offsets(self) -> bool:
        """Whether questions for the offsets of its partitions are answered."""
        return not (self.hidden or self.leaderless)


class Polled(Protocol):
    """Records and ends in the order in which they came. To be gone through once."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Record | End]: ...


@dataclass(frozen=True)
class Batch:
    """What one poll of the group's consumer gave.

    `assigned`: the partitions of a new assignment, which replaces all earlier ones, or None when it did
    not change. `lost`: the old assignment is gone. `membership`: the fence for a transaction over these
    records; it must be passed to `Bus.commit` as it is, and holds until the next poll.
    """

    records: Polled
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

    Every method may raise UnreachableError; the caller closes the bus and makes a new one. NotReadable among
    them, which no commit raises, says that one topic cannot be read: the bus can go on without it.
    """

    @property
    def transactional_id(self) -> str:
        """Of the producer; also the name under which `members` lists this member."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """The topics whose partitions the group shares, from now on; partitions added to them are found."""

    def poll(self, most: int, timeout_s: float) -> Batch:
        """Records and ends of the started partitions, and changes of the assignment.

        Never waits to fill a batch. A poll that tells of a change of the assignment gives no records.
        """

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Fetch these partitions from these offsets, and no others any more."""

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool = True
    ) -> dict[TopicPartition, Committed | None] | None:
        """Committed offsets of the group; None for a partition without one.

        stable: None in all while a transaction with an offset of one of them is open. Otherwise those of
        before it.
        """

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The low watermarks."""

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks, open transactions included."""

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offsets: up to there readers of committed records come."""

    def offsets_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        """The first offset whose timestamp is at or after the given one; None where there is none."""

    def topics(self, names: Iterable[str]) -> dict[str, Topic | None]:
        """The topics as they are now, asked afresh; None for one that is not there."""

    def members(self) -> frozenset[str]:
        """The transactional ids of the group's members, as its coordinator knows them now."""

    def fence(self, transactional_id: str) -> None:
        """End the open transaction of this id, if there is one, and fence its producer."""

    def reader(self) -> Reader: ...

    def commit(
        self,
        outputs: Sequence[Output],
        offsets: Mapping[TopicPartition, Committed],
        membership: object,
    ) -> int | None:
        """One transaction with outputs and offsets, fenced by the membership.

        Gives the time at which the broker appended one of the records to a topic with LogAppendTime (ms
        since the epoch), if one went there. Raises TransactionAborted when nothing of it happened and the bus
        can go on; any other EngineError when the outcome is unknown or the producer is unusable: close the
        bus, the committed offsets tell.
        """

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Ask for the removal of records below these offsets; a failure is logged, it only costs room."""

    def close(self) -> None:
        """Leave the group and end what is open, so that others take over at once. Never raises."""


TOO_LARGE: Final = "The record is larger than its topic takes"  # what a writer tells of it


class Writer(Protocol):
    """Writes records outside transactions, each once, those of a partition in order. One thread.

    Their headers are not written: nobody who waits has any. A record is on its way after `write`, and may
    still arrive when nobody waits for it any more.
    """

    def write(self, output: Output, told: Callable[[str | None], None] | None = None) -> None:
        """Send. `told` hears in a later `serve` or `flush` why it was not written, or None: it was.

        It hears TOO_LARGE where the brokers say so: until the topic is altered it is of no use to try again.
        NotSent where the client does not take this record, UnreachableError where it takes none any more.
        """

    def serve(self, timeout_s: float = 0) -> None:
        """Tell what became of records; waits up to the timeout for the first news."""

    def flush(self, timeout_s: float) -> int:
        """Wait until all have arrived, and tell; how many have not when the time is over."""

    def partitions(self, topic: str, timeout_s: float) -> int:
        """How many the topic has, 0 for one that is missing; UnreachableError without an answer."""

    def outage(self) -> str | None:
        """Ask the cluster for anything: why it does not answer, or None when it does."""


class Clients(Protocol):
    """What waits use of Kafka: one connection's clients, made on first use."""

    @property
    def has_error(self) -> bool:
        """Whether one of the clients reported an error since `Writer.outage` found none."""

    def check(self) -> Mapping[str, int]:
        """The partitions of the topics that waits need; an EngineError where one is not as it has to be."""

    def reader(self) -> Reader:
        """A reader of its own: whoever asks closes it."""

    def writer(self, delivery_s: float | None = None) -> Writer:
        """delivery_s: for how long a record is tried; None: as long as the connection says, gathered."""

    def unreachable(self, reason: str) -> EngineError:
        """The error for what the cluster did not do, with the clients' own reason where they have one."""
