"""The bus over librdkafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from tenacity import Retrying, retry_if_exception, stop_after_attempt

from ..bus import Batch, Committed, End, Output, Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, TransactionAborted, UnreachableError
from ..log import log
from ..sizes import MAX_INTERNAL_BYTES
from .clients import ClientErrors, connect

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

REQUEST_TIMEOUT_S = 10.0
# Shorter than a wait for a person, longer than a broker's restart of a second or two. An engine that is
# killed inside a transaction holds readers of committed records back for this long (KIP-447 has 10 s).
TRANSACTION_TIMEOUT_MS = 15_000
SESSION_TIMEOUT_MS = 10_000


def _place(message: Message) -> tuple[TopicPartition, int]:
    """Where a consumed message stands; the stubs also serve messages that were never sent."""
    return TopicPartition(cast(str, message.topic()), cast(int, message.partition())), cast(
        int, message.offset()
    )


def _record(message: Message) -> Record:
    place, offset = _place(message)
    return Record(
        place,
        offset,
        message.timestamp()[1],
        message.key(),
        message.value(),
        message.headers(),  # type: ignore[arg-type]  # the stub allows a dict, which consumers never return
    )


class KafkaReader:
    """A consumer without a group (see `bus.Reader`)."""

    def __init__(self, config: BusConfig, errors: ClientErrors) -> None:
        from confluent_kafka import Consumer

        self._config, self._errors = config, errors
        self._consumer = connect(
            Consumer,
            config,
            errors,
            group_id=config.group,  # librdkafka wants one, and asks for it; nothing is committed here
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",  # a compacted or purged start has nothing below it
            enable_partition_eof=True,
            queued_max_messages_kbytes=16384,
        )

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Assigned

        self._consumer.assign([Assigned(tp.topic, tp.partition, offset) for tp, offset in positions.items()])

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        taken: list[Record | End] = []
        for message in _consume(self._consumer, most, timeout_s):
            error = message.error()
            if error is None:
                taken.append(_record(message))
            elif error.code() == error._PARTITION_EOF:
                taken.append(End(*_place(message)))
            elif not error.retriable() and error.code() not in _transient():
                raise UnreachableError(f"Reading the topics of {self._config.describe()}: {error.str()}.")
        return taken

    def close(self) -> None:
        self._consumer.close()


class KafkaBus:
    """One member of the engines' group, and its transactional producer (see `bus.Bus`).

    Made only where `topics.check` passed: a subscription to a missing topic is silent in librdkafka.
    """

    def __init__(self, config: BusConfig, topics: Sequence[str]) -> None:
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient

        self._config = config
        self._errors = ClientErrors()
        self._assigned: tuple[TopicPartition, ...] | None = None
        self._lost = False
        self.transactional_id = f"{config.group}-{config.deployment}-{uuid.uuid4().hex[:12]}"
        self._admin = connect(AdminClient, config, self._errors)
        self._errors.require_answer(self._admin, config)
        self._producer = connect(
            Producer,
            config,
            self._errors,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            # The coordinator answers CONCURRENT_TRANSACTIONS while the last transaction's markers are
            # written; the default of 100 ms makes that the cost of every transaction.
            retry_backoff_ms=1,
            retry_backoff_max_ms=10,
            delivery_timeout_ms=10_000,
            socket_timeout_ms=10_000,
            linger_ms=0,
            compression_type="lz4",
            message_max_bytes=MAX_INTERNAL_BYTES,
            partitioner="murmur2_random",
        )
        self._call(lambda: self._producer.init_transactions(REQUEST_TIMEOUT_S))
        self._consumer = connect(
            Consumer,
            config,
            self._errors,
            group_id=config.group,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            isolation_level="read_committed",
            auto_offset_reset="error",  # positions are always explicit; anything else is a lost range
            partition_assignment_strategy="range",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=2000,
            queued_max_messages_kbytes=16384,
        )
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_gone, on_lost=self._on_gone
        )

    # -- the group

    def _on_assign(self, consumer: Consumer, partitions: list[Any]) -> None:
        self._assigned = tuple(TopicPartition(p.topic, p.partition) for p in partitions)
        # Nothing is fetched before the state of these partitions is there: see `start`.
        consumer.assign([])

    def _on_gone(self, _consumer: Consumer, _partitions: list[Any]) -> None:
        self._lost = True
        self._assigned = None

    def poll(self, most: int, timeout_s: float) -> Batch:
        records: list[Record] = []
        messages = _consume(self._consumer, most, timeout_s)
        # Right after the poll that gave the batch: taken later, it could sign these records with the
        # generation of the next assignment.
        # The metadata first: a member that is thrown out meanwhile has no id afterwards, and gets a new one
        # only once it was polled again. Metadata without an id would commit unfenced.
        metadata = self._consumer.consumer_group_metadata()
        membership = metadata if self._consumer.memberid() else None
        assigned, lost = self._assigned, self._lost
        self._assigned, self._lost = None, False
        if lost or assigned is not None:
            messages = []  # of an assignment that is gone
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() == error._AUTO_OFFSET_RESET:
                raise EngineError(
                    f"{message.topic()}[{message.partition()}]: the committed offset is out of range "
                    f"({error.str()}): records were removed before they were read, or the topic is a new one."
                )
            elif not error.retriable() and error.code() not in _transient():
                raise UnreachableError(f"{message.topic()}[{message.partition()}]: {error.str()}.")
        return Batch(records, assigned, lost, membership)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Assigned

        self._consumer.assign([Assigned(tp.topic, tp.partition, offset) for tp, offset in positions.items()])

    # -- offsets: through the admin client, which does not fetch (a fetching client takes 500 ms for each)

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed | None] | None:
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError
        from confluent_kafka import TopicPartition as Asked

        asked = ConsumerGroupTopicPartitions(
            self._config.group, [Asked(tp.topic, tp.partition) for tp in partitions]
        )
        if not asked.topic_partitions:
            return {}
        future = self._admin.list_consumer_group_offsets(
            [asked], require_stable=True, request_timeout=REQUEST_TIMEOUT_S
        )[self._config.group]
        answer = self._call(lambda: future.result(REQUEST_TIMEOUT_S + 1))
        found: dict[TopicPartition, Committed | None] = {}
        for p in answer.topic_partitions:
            if p.error is not None:
                if p.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
                    return None
                raise UnreachableError(f"Committed offset of {p.topic}[{p.partition}]: {p.error.str()}.")
            tp = TopicPartition(p.topic, p.partition)
            found[tp] = Committed(p.offset, p.metadata or "") if p.offset >= 0 else None
        return found

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.earliest())

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.latest())

    def offsets_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        from confluent_kafka.admin import OffsetSpec

        found = self._offsets(partitions, OffsetSpec.for_timestamp(max(timestamp_ms, 0)))
        return {tp: offset if offset >= 0 else None for tp, offset in found.items()}

    def _offsets(self, partitions: Iterable[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
        from confluent_kafka import IsolationLevel
        from confluent_kafka import TopicPartition as Asked

        asked = {Asked(tp.topic, tp.partition): spec for tp in partitions}
        if not asked:
            return {}
        futures = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_TIMEOUT_S
        )

        def result() -> dict[TopicPartition, int]:
            return {
                TopicPartition(p.topic, p.partition): future.result(REQUEST_TIMEOUT_S + 1).offset
                for p, future in futures.items()
            }

        found: dict[TopicPartition, int] = self._call(result)
        return found

    def reader(self) -> KafkaReader:
        return KafkaReader(self._config, self._errors)

    # -- transactions

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Sent

        # Without a real offset, or with the metadata of a consumer that never joined, the broker would
        # accept the transaction of a member that has lost its partitions (KIP-447).
        if not offsets or membership is None:
            raise TransactionAborted("A transaction without offsets or membership is not fenced; not sent.")
        sent = [
            Sent(tp.topic, tp.partition, committed.offset, committed.metadata)
            for tp, committed in offsets.items()
        ]
        producer = self._producer
        try:
            producer.begin_transaction()
            for output in outputs:
                self._produce(output)
            _retrying(producer.send_offsets_to_transaction, sent, membership, REQUEST_TIMEOUT_S)
            _retrying(producer.commit_transaction, REQUEST_TIMEOUT_S)
        except KafkaException as e:
            error = e.args[0]
            if error.txn_requires_abort():
                self._call(lambda: _retrying(producer.abort_transaction, REQUEST_TIMEOUT_S))
                raise TransactionAborted(f"Transaction aborted: {error.str()}.") from e
            # Fatal, fenced, timed out or unknown: only new clients and the committed offset tell.
            raise UnreachableError(
                f"A transaction on {self._config.describe()} failed ({error.name()}: {error.str()}). "
                "The engine starts again from the committed offsets."
            ) from e

    def _produce(self, output: Output) -> None:
        partition = -1 if output.partition is None else output.partition
        headers: Any = None if output.headers is None else list(output.headers)
        while True:
            try:
                self._producer.produce(
                    output.topic, output.value, output.key, partition=partition, headers=headers
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Asked

        futures = self._admin.delete_records(
            [Asked(tp.topic, tp.partition, offset) for tp, offset in offsets.items()],
            request_timeout=REQUEST_TIMEOUT_S,
        )

        def told(future: Any) -> None:
            error = future.exception()
            if error is not None:
                log.warning("Old records of the trigger topic were not removed: %s", error)

        for future in futures.values():
            future.add_done_callback(told)

    def close(self) -> None:
        with suppress(Exception):  # what is closed is given up; its last words help nobody
            self._consumer.close()
        with suppress(Exception):
            self._producer.purge()
            self._producer.close()

    def _call(self, call: Callable[[], Any]) -> Any:
        from concurrent.futures import TimeoutError as FutureTimeout

        from confluent_kafka import KafkaException

        try:
            return call()
        except (KafkaException, FutureTimeout) as e:
            raise self._errors.unreachable(self._config, e) from e


def _is_retriable(error: BaseException) -> bool:
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException) and bool(error.args[0].retriable())


# The transactional calls of KIP-447 clients may be repeated after a retriable error, and must be.
_retrying = Retrying(retry=retry_if_exception(_is_retriable), stop=stop_after_attempt(5), reraise=True)


def _consume(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """What is there: consume(n, t) alone would wait out its timeout to fill n."""
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *consumer.consume(most - 1, 0)] if most > 1 else [first]


def _transient() -> frozenset[int]:
    """Codes a consumer reports while it goes on by itself."""
    from confluent_kafka import KafkaError

    return frozenset(
        {
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TIMED_OUT,
            KafkaError._RESOLVE,
            KafkaError._MAX_POLL_EXCEEDED,
        }
    )
