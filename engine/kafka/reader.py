"""What consumers give, as the engine's types, and the reader without a group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from operator import methodcaller
from typing import TYPE_CHECKING, cast

from ..bus import End, Reader, Record, TopicPartition
from ..config import BusConfig
from ..errors import NotReadable, UnreachableError
from .clients import ClientErrors, connect

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

QUEUED_KBYTES = 16_384  # fetched ahead, per client: librdkafka's default is 64 MiB
# How soon a client that had that much looks whether there is room again. By default it is a second, longer
# than the engine takes over what was fetched ahead: with many waiting it stood still for the rest of each.
FETCH_BACKOFF_MS = 10
# How long a fetch waits at the broker when there is nothing: an end is told, and a moved position read, after
# it (by default 500 ms). An idle client costs 0.4 % of a core.
FETCH_WAIT_MS = 50
# Of engines, which read what anybody writes. With fetch.min.bytes=1, the default, each append answers a fetch
# and the client sends the next: so many, each over all partitions, take the broker's time from the
# transactions, and firings come later. So a fetch waits for more, but no longer than this. The shorter it is,
# the more an idle client costs. Readers of firings do not gather: transactions answer their fetches,
# of which an engine writes a few dozen a second at most, and what several write meanwhile comes together.
GATHER_MS = 10
GATHER_BYTES = 100_000
# Of clients that must not take much memory. Of what is fetched ahead librdkafka counts values only, and the
# brokers count it compressed: 600 events with 900 kB of attributes each took 800 MB, and 130 MB this way.
SPARING_MESSAGES = 10
SPARING_BYTES = 64 * 1024
STALL_S = 30.0
_DRAINED = 1000  # records at a time
_place = lru_cache(10_000)(TopicPartition)  # of each record: a look-up takes a third of making it anew


# Where a header's name is not UTF-8, `headers()` of confluent_kafka 2.16.1 sets an error and still returns a
# list, which has a null in it and ends the process when it is read. The interpreter's own call of a method
# does not always see such an error; this call always raises it. It must not be repeated: the client keeps the
# list and returns it again, without an error.
_headers = methodcaller("headers")


def record(message: Message) -> Record:
    """A consumed message without an error. Called for each event: nothing is read twice.

    Never raises because of what the message holds: see `Record.fault`.
    """
    try:
        headers, fault = _headers(message), ""
    except Exception as e:  # noqa: BLE001  # else one record would end every engine that reads it
        headers, fault = None, f"the Kafka client cannot read its headers: {_cause(e)}"
    try:
        return Record(
            _place(message.topic(), message.partition()),
            message.offset(),  # type: ignore[arg-type]  # the stub serves messages that were never sent
            message.timestamp()[1],
            message.key(),
            message.value(),
            headers,
            fault,
        )
    except Exception as e:  # noqa: BLE001  # as above
        fault = f"the Kafka client cannot read its timestamp, key or value: {_cause(e)}"
        return Record(*place(message), -1, None, None, None, fault)


def _cause(error: Exception) -> str:
    return repr(error.__cause__ or error)  # a SystemError of the client's says less than its cause


class Messages:
    """Consumed messages and ends (see `bus.Polled`); each is made a record when its turn comes, and let go.

    Thousands of records that live at once make the garbage collector go through them again and again, and
    through all that is registered with them: the more is registered, the longer each event takes.
    """

    def __init__(self, items: list[Message | End]) -> None:
        self._items = items
        items.reverse()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Record | End]:
        items = self._items
        while items:
            item = items.pop()
            yield item if isinstance(item, End) else record(item)


def place(message: Message) -> tuple[TopicPartition, int]:
    """The partition and offset that a consumer's error or end is about."""
    return (
        _place(cast(str, message.topic()), cast(int, message.partition())),
        cast(int, message.offset()),
    )


def consume(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """What is there: consume(n, t) alone would wait out its timeout to fill n."""
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *consumer.consume(most - 1, 0)] if most > 1 else [first]


def passes(error: KafkaError) -> bool:
    """Whether the consumer goes on by itself after this error."""
    return error.retriable() or error.code() in _transient()


@cache
def _transient() -> frozenset[int]:
    from confluent_kafka import KafkaError

    return frozenset(
        {
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TIMED_OUT,
            KafkaError._RESOLVE,
            KafkaError._MAX_POLL_EXCEEDED,
            KafkaError.NOT_COORDINATOR,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.REBALANCE_IN_PROGRESS,
        }
        | leader_moves()
    )


@cache
def leader_moves() -> frozenset[int]:
    """What is answered while a partition gets another leader, which the clients then look for."""
    from confluent_kafka import KafkaError

    return frozenset(
        {
            KafkaError.FENCED_LEADER_EPOCH,
            KafkaError.UNKNOWN_LEADER_EPOCH,
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.REPLICA_NOT_AVAILABLE,
            KafkaError.OFFSET_NOT_AVAILABLE,  # of a leader that does not know yet how far its followers are
            KafkaError.KAFKA_STORAGE_ERROR,  # of one that has lost a disk, and its partitions with it
        }
    )


@cache
def not_readable() -> frozenset[int]:
    """What brokers say of a topic that is not there, or may not be read."""
    from confluent_kafka import KafkaError

    return frozenset(
        {
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError.UNKNOWN_TOPIC_ID,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
        }
    )


class KafkaReader:
    """A consumer without a group (see `bus.Reader`).

    sparing: with little fetched ahead.
    """

    def __init__(self, config: BusConfig, errors: ClientErrors, *, sparing: bool = False) -> None:
        from confluent_kafka import Consumer

        self._config, self._errors = config, errors
        ahead = {
            "queued_min_messages": SPARING_MESSAGES,
            "fetch_message_max_bytes": SPARING_BYTES,
        }
        self._consumer = connect(
            Consumer,
            config,
            errors,
            group_id=config.group,  # librdkafka wants one, and asks for it; nothing is committed here
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",  # a compacted or purged start has nothing below it
            enable_partition_eof=True,
            queued_max_messages_kbytes=QUEUED_KBYTES,
            fetch_queue_backoff_ms=FETCH_BACKOFF_MS,
            fetch_wait_max_ms=FETCH_WAIT_MS,
            fetch_min_bytes=1,  # what is there is read at once; see GATHER_MS
            **(ahead if sparing else {}),
        )

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Assigned

        self._consumer.assign([Assigned(tp.topic, tp.partition, offset) for tp, offset in positions.items()])

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        from confluent_kafka import KafkaException

        taken: list[Record | End] = []
        try:
            messages = consume(self._consumer, most, timeout_s)
        except KafkaException as e:  # a fatal error, told through the poll
            raise self._errors.unreachable(self._config, e) from e
        for message in messages:
            error = message.error()
            if error is None:
                taken.append(record(message))
            elif error.code() == error._PARTITION_EOF:
                taken.append(End(*place(message)))
            elif message.topic() and error.code() in not_readable():
                topic = cast(str, message.topic())
                raise NotReadable(topic, f"Reading topic {topic!r}: {error.str()}.")
            elif not passes(error):
                raise UnreachableError(f"Reading the topics of {self._config.describe()}: {error.str()}.")
        return taken

    def close(self) -> None:
        self._consumer.close()


def drain(
    reader: Reader,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int] | None = None,
    stall_s: float = STALL_S,
) -> Iterator[Record]:
    """The committed records of partitions from `starts` up to `ends`, or up to where each of them ends now.

    Closes nothing. UnreachableError when nothing comes for `stall_s`.
    """
    left = {tp: at for tp, at in starts.items() if ends is None or at < ends[tp]}
    if not left:
        return
    reader.read(left)
    deadline = time.monotonic() + stall_s
    while left:
        items = reader.take(_DRAINED, 0.5)
        if items:
            deadline = time.monotonic() + stall_s
        elif time.monotonic() > deadline:
            raise UnreachableError(f"{', '.join(map(str, sorted(left)))} cannot be read to the end.")
        for item in items:
            end = None if ends is None else ends[item.source]
            if isinstance(item, Record) and (end is None or item.offset < end):
                yield item
            # An end may lie below the one asked for: an open transaction holds the rest back.
            if isinstance(item, End) or (end is not None and item.offset >= end - 1):
                left.pop(item.source, None)
