"""Consumed messages as the engine's types, and a reader without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from operator import methodcaller
from random import randrange
from typing import TYPE_CHECKING, Any, cast

from ..bus import End, Headers, Reader, Record, TopicPartition
from ..config import BusConfig
from ..errors import NotReadable, UnreachableError
from .clients import ClientErrors, connect
from .lost_brokers import LostBrokers

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

QUEUED_KBYTES = 16_384  # fetched ahead, per client: librdkafka's default is 64 MiB
# How soon a client whose queue was full fetches again. With the default, a second, an engine with a backlog
# would process the full queue and be idle for the rest of each second.
FETCH_BACKOFF_MS = 10
# How long a fetch waits at a broker without new records (default 500 ms). Only then does the client report
# the end of a partition, or read from a new position. An idle client costs 0.4 % of a core.
FETCH_WAIT_MS = 50
BRIEF_WAIT_MS = 1  # for readers that only read single records at changing positions
# For engines. With the default fetch.min.bytes=1 each append answers a fetch, and the client sends the next.
# Producers may append so often that the fetches delay transactions, and firings come later. So a fetch waits
# for this many bytes, but no longer than this time; a shorter time makes an idle client cost more. Readers of
# firings, deliverers too, keep the default: only transactions answer their fetches, at most a few dozen a
# second per member.
GATHER_MS = 10
GATHER_BYTES = 100_000
# For clients that must not use much memory. librdkafka's limit for prefetched data counts values only, and
# brokers count them compressed: 600 events with 900 kB of attributes took 800 MB, with these limits 130 MB.
SPARING_MESSAGES = 10
SPARING_BYTES = 64 * 1024
# The client copies each message that it hands over. So do not take all messages of a batch at once: it may
# unpack to a thousand times its size. A chunk's size is known only when it is in memory, so the first is
# small, and the next ones grow only while the messages are small.
TAKEN_BYTES = 16 * 1024 * 1024
FIRST_CHUNK = 4
MOST_CHUNK = 64
SMALL_BYTES = 256 * 1024  # of a chunk
_HEADER_BYTES = 64  # of a header, beside name and value
STALL_S = 30.0
ANSWER_S = 2.0
_DRAIN_AT_ONCE = 1000  # records at a time
_partition = lru_cache(10_000)(TopicPartition)  # cached: a look-up takes a third of the time


# If a header's name is not UTF-8, `headers()` of confluent_kafka 2.16.1 sets an error but also returns a list
# with a null pointer, and reading that list ends the process. A plain method call does not always raise the
# error; this call does. Call it once for a message: a second call returns the list without an error.
_headers = methodcaller("headers")


def record(message: Message) -> Record:
    """The record in a consumed message that is not an error. Never raises: see `Record.fault`."""
    try:
        headers, fault = _headers(message), ""
    except Exception as e:  # noqa: BLE001  # else one record would end every engine that reads it
        headers, fault = None, f"the Kafka client cannot read its headers: {_cause(e)}"
    try:
        return Record(
            _partition(message.topic(), message.partition()),
            message.offset(),  # type: ignore[arg-type]  # the stub allows None: not all messages were sent
            message.timestamp()[1],
            message.key(),
            message.value(),
            headers,
            fault,
        )
    except Exception as e:  # noqa: BLE001  # as above
        fault = f"the Kafka client cannot read its timestamp, key or value: {_cause(e)}"
        return Record(*partition_and_offset(message), -1, None, None, None, fault)


def _cause(error: Exception) -> str:
    return repr(error.__cause__ or error)  # the cause of the client's SystemError is more precise


class Messages:
    """Consumed messages and ends (see `bus.Polled`). Iteration converts each to a record and frees it.

    Thousands of records alive at once would make the garbage collector scan them, and with them all
    registrations, again and again: events would take longer the more is registered.
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


def partition_and_offset(message: Message) -> tuple[TopicPartition, int]:
    """The partition and offset of a message, also of one that reports an error or an end."""
    return (
        _partition(cast(str, message.topic()), cast(int, message.partition())),
        cast(int, message.offset()),
    )


def consume(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """The messages that have arrived, of at most about TAKEN_BYTES (see `Chunk.size`)."""
    found: list[Message] = []
    size = 0
    for chunk in chunks(consumer, most, timeout_s):
        found += chunk
        size += chunk.size
        if size >= TAKEN_BYTES:
            break
    return found


class Chunk(list["Message"]):
    """Messages that the client handed over at once. `size`: the bytes of their values, keys and headers.

    Reading the keys and headers of all would take longer than all else here. So one message stands for all,
    chosen at random so that no producer can predict it. If many are large, about one chunk of them is in
    memory before this is noticed.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        super().__init__(messages)
        self.size = sum(map(len, self))
        if self:
            chosen = randrange(len(self))  # noqa: S311  # no secret
            known = _ReadOnce(self[chosen])
            self[chosen] = cast("Message", known)
            self.size += len(self) * known.size


class _ReadOnce:
    """A message whose headers are known: the client must not be asked for them twice (see `_headers`)."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._fault: Exception | None = None
        self._found: Headers | None = None
        try:
            self._found = _headers(message)
            self.size = len(message.key() or b"") + size_of(self._found)
        except Exception as e:  # noqa: BLE001  # `record` says what cannot be read
            self._fault, self.size = e, 0

    def headers(self) -> Headers | None:
        if self._fault is not None:
            raise self._fault
        return self._found

    def __len__(self) -> int:
        return len(self._message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)


def size_of(headers: Headers | None) -> int:
    """The bytes of names and values, and what the client takes for each header."""
    if not headers:
        return 0
    return sum(_HEADER_BYTES + len(name) + len(raw or b"") for name, raw in headers)


def chunks(consumer: Consumer, most: int, timeout_s: float) -> Iterator[Chunk]:
    """Yields the messages that have arrived, few at once while they are large.

    consume(n, t) alone would wait the whole t for n messages.
    """
    first = consumer.poll(timeout_s)
    if first is None:
        return
    chunk = Chunk([first])
    yield chunk
    left, wanted = most - 1, FIRST_CHUNK
    while left > 0:
        if chunk.size > SMALL_BYTES:
            wanted = 1
        wanted = min(left, wanted)
        chunk = Chunk(consumer.consume(wanted, 0))
        if chunk:
            yield chunk
        if len(chunk) < wanted:
            return
        left -= wanted
        wanted = min(2 * wanted, MOST_CHUNK)


def seek(consumer: Consumer, tp: TopicPartition, offset: int) -> bool:
    """Fetch an assigned partition from another offset, and drop what was fetched of it.

    False if the client does not fetch it now, as after an offset that was out of range.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka import TopicPartition as Assigned

    try:
        consumer.seek(Assigned(tp.topic, tp.partition, offset))
    except KafkaException:
        return False
    return True


def is_transient(error: KafkaError) -> bool:
    """Whether the consumer continues by itself after this error."""
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
        | leader_change_codes()
    )


@cache
def leader_change_codes() -> frozenset[int]:
    """The error codes of a partition that changes its leader; clients then look for the new one."""
    from confluent_kafka import KafkaError

    return frozenset(
        {
            KafkaError.FENCED_LEADER_EPOCH,
            KafkaError.UNKNOWN_LEADER_EPOCH,
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.REPLICA_NOT_AVAILABLE,
            KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know its high watermark yet
            KafkaError.KAFKA_STORAGE_ERROR,  # a broker has lost a disk with its partitions
        }
    )


@cache
def not_readable_codes() -> frozenset[int]:
    """The error codes for a topic that does not exist or may not be read."""
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

    sparing: prefetch little, to save memory. brief: read from a new position at once (see `bus.Bus.reader`).
    """

    def __init__(
        self,
        config: BusConfig,
        errors: ClientErrors | None = None,
        *,
        sparing: bool = False,
        brief: bool = False,
    ) -> None:
        from confluent_kafka import Consumer

        self._config, self._errors = config, errors or ClientErrors()
        ahead = {
            "queued_min_messages": SPARING_MESSAGES,
            "fetch_message_max_bytes": SPARING_BYTES,
        }
        self._consumer = connect(
            Consumer,
            config,
            self._errors,
            group_id=config.group,  # librdkafka requires one; this reader commits nothing
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",  # if the start was compacted or deleted, read from the first record
            enable_partition_eof=True,
            queued_max_messages_kbytes=QUEUED_KBYTES,
            fetch_queue_backoff_ms=FETCH_BACKOFF_MS,
            fetch_wait_max_ms=BRIEF_WAIT_MS if brief else FETCH_WAIT_MS,
            fetch_min_bytes=1,  # records are returned at once; see GATHER_MS
            **(ahead if sparing else {}),
        )
        self._lost_brokers = LostBrokers(config, self._consumer)

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Assigned

        self._consumer.assign([Assigned(tp.topic, tp.partition, offset) for tp, offset in positions.items()])

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        return seek(self._consumer, tp, offset)

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        from confluent_kafka import KafkaException

        taken: list[Record | End] = []
        size = 0
        try:
            for messages in chunks(self._consumer, most, timeout_s):
                size += self._add(messages, taken)
                if size >= TAKEN_BYTES:
                    break
        except KafkaException as e:  # the poll reports a fatal error
            raise self._errors.unreachable(self._config, e) from e
        self._lost_brokers.check(silent=not taken)
        return taken

    def _add(self, messages: list[Message], taken: list[Record | End]) -> int:
        """Add records and ends. Returns about how many bytes the records have."""
        size = 0
        for message in messages:
            error = message.error()
            if error is None:
                taken.append(found := record(message))
                size += len(found.value or b"") + len(found.key or b"") + size_of(found.headers)
            elif error.code() == error._PARTITION_EOF:
                taken.append(End(*partition_and_offset(message)))
            elif (topic := message.topic()) and (
                error.code() in not_readable_codes() or not is_transient(error)
            ):
                raise NotReadable(topic, f"Reading {topic}[{message.partition()}]: {error.str()}.")
            elif not is_transient(error):
                raise UnreachableError(f"Reading the topics of {self._config.describe()}: {error.str()}.")
        return size

    def outage(self) -> str | None:
        """Send the cluster a request. Returns why it does not answer within ANSWER_S, or None if it does."""
        from confluent_kafka import KafkaException

        try:
            self._consumer.list_topics(self._config.topic("subscription"), timeout=ANSWER_S)
        except KafkaException as e:
            return str(self._errors.unreachable(self._config, e.args[0].str()))
        self._errors.clear()
        return None

    def close(self) -> None:
        self._consumer.close()


def drain(
    reader: Reader,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int] | None = None,
    stall_s: float = STALL_S,
) -> Iterator[Record]:
    """Yields the committed records of partitions from `starts` up to `ends`, or to their current ends.

    Does not close the reader. Raises UnreachableError if nothing arrives for `stall_s` from the partitions
    that are not yet at their end.
    """
    left = {tp: at for tp, at in starts.items() if ends is None or at < ends[tp]}
    if not left:
        return
    reader.read(left)
    deadline = time.monotonic() + stall_s
    while left:
        arrived = False
        for item in reader.take(_DRAIN_AT_ONCE, 0.5):
            if item.source not in left:  # new records of a partition that is read: it stays assigned
                continue
            arrived = True
            end = None if ends is None else ends[item.source]
            if isinstance(item, Record) and (end is None or item.offset < end):
                yield item
            # The reader's end may be below `ends`, where an open transaction hides the rest.
            if isinstance(item, End) or (end is not None and item.offset >= end - 1):
                del left[item.source]
        if arrived:
            deadline = time.monotonic() + stall_s
        elif time.monotonic() > deadline:
            raise UnreachableError(f"{', '.join(map(str, sorted(left)))} cannot be read to the end.")
