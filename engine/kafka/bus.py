"""`bus.Bus` over librdkafka."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..bus import Batch, Committed, End, Output, Topic, TopicPartition
from ..config import KINDS, BusConfig
from ..errors import EngineError, LostRange, NotReadable, UnreachableError
from ..identity import ProcessName
from ..log import log
from .admin import Admin
from .clients import ClientErrors, connect
from .lost_brokers import LostBrokers
from .reader import (
    FETCH_BACKOFF_MS,
    FETCH_WAIT_MS,
    GATHER_BYTES,
    GATHER_MS,
    QUEUED_KBYTES,
    KafkaReader,
    Messages,
    consume,
    is_transient,
    partition_and_offset,
    seek,
)
from .transactions import Transactions

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

# Brokers allow no less than 6 s by default (group.min.session.timeout.ms). A rebalance waits for the next
# heartbeat of each member.
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 500
# A thread that hangs longer loses its partitions, because as a member it would delay every rebalance. Passes
# of the loop are bounded (`protocol/loop.py` MOST_S), and the watchdog replaces the thread soon after.
MAX_POLL_INTERVAL_MS = 45_000
# How soon the client finds added partitions, and a topic that was created just before the subscription.
TOPICS_REFRESH_MS = 5_000


def consumer_settings(config: BusConfig) -> dict[str, object]:
    """Settings of the group's consumers, without connection and names."""
    gathers = config.members == "engines"
    return {
        "group_protocol": "classic",
        "enable_auto_commit": False,
        "enable_auto_offset_store": False,
        "isolation_level": "read_committed",
        "auto_offset_reset": "error",  # positions are always explicit; a missing one is a lost range
        "enable_partition_eof": True,
        "partition_assignment_strategy": "range",
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "fetch_wait_max_ms": GATHER_MS if gathers else FETCH_WAIT_MS,
        "fetch_min_bytes": GATHER_BYTES if gathers else 1,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
        "topic_metadata_refresh_interval_ms": TOPICS_REFRESH_MS,
        "queued_max_messages_kbytes": QUEUED_KBYTES,
        "fetch_queue_backoff_ms": FETCH_BACKOFF_MS,
    }


class KafkaBus:
    """A member of the config's group, and its transactional producer (see `bus.Bus`).

    Create it only after `topics.check` passed: librdkafka silently accepts a subscription to a missing topic.
    identity: pass the same one to each bus that a process creates.
    """

    def __init__(
        self, config: BusConfig, topics: Sequence[str] = (), *, identity: ProcessName | None = None
    ) -> None:
        from confluent_kafka import Consumer

        self._config = config
        self._errors = ClientErrors()
        self._subscribed: frozenset[str] = frozenset()
        self._assigned: tuple[TopicPartition, ...] | None = None
        self._lost = False
        self._membership: object = None
        self._before_loss: Callable[[object], None] | None = None
        self._pending_errors: deque[EngineError] = deque()  # to be raised by the next polls
        self.transactional_id = (identity or ProcessName()).next(config)
        self._admin = Admin(config, self._errors)
        self._transactions = Transactions(config, self._errors, self.transactional_id)
        self._consumer = connect(
            Consumer,
            config,
            self._errors,
            group_id=config.group,
            client_id=self.transactional_id,  # `members` returns this name
            **consumer_settings(config),
        )
        self._lost_brokers = LostBrokers(config, self._consumer)
        if topics:
            self.subscribe(topics)

    # -- the group
    #
    # The fence. With an eager assignor librdkafka joins the next generation only after `_on_gone` was called
    # (rdkafka_cgrp.c: rd_kafka_cgrp_revoke_all_rejoin enqueues the revocation and waits for it in
    # WAIT_UNASSIGN_CALL; rd_kafka_cgrp_unassign_done rejoins), and each joined generation ends in
    # `_on_assign` (rd_kafka_cgrp_handle_assignment). So the group metadata read in `_on_assign` belong to the
    # assignment under which all records until the next `_on_gone` are polled. They are not read after each
    # poll, because librdkafka changes them in the background: to another member id, or to generation -1 when
    # the coordinator no longer knows the member. The broker accepts a transaction with generation -1 when the
    # group is empty; it refuses one with old metadata.

    def subscribe(self, topics: Sequence[str], before_loss: Callable[[object], None] | None = None) -> None:
        self._before_loss = before_loss
        wanted = frozenset(topics)
        if wanted == self._subscribed:
            return  # subscribing again would rebalance the group
        self._subscribed = wanted
        self._consumer.subscribe(
            sorted(wanted), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_gone
        )

    def _on_assign(self, consumer: Consumer, partitions: list[Any]) -> None:
        self._assigned = tuple(TopicPartition(p.topic, p.partition) for p in partitions)
        self._pending_errors.clear()
        metadata, member = consumer.consumer_group_metadata(), consumer.memberid()
        # A commit with metadata without a member id would not be fenced.
        self._membership = metadata if member and member.encode() in metadata else None
        # `start` begins fetching, after the state of these partitions was recovered.
        consumer.assign([])

    def _on_revoke(self, consumer: Consumer, partitions: list[Any]) -> None:
        # The client joins the next generation after this call, and sends heartbeats meanwhile. Until the last
        # member has joined, brokers accept offsets of the old generation.
        try:
            if self._before_loss is not None and self._membership is not None:
                self._before_loss(self._membership)
        finally:
            self._on_gone(consumer, partitions)

    def _on_gone(self, _consumer: Consumer, _partitions: list[Any]) -> None:
        self._lost = True
        self._assigned = None
        self._membership = None
        self._pending_errors.clear()

    def poll(self, most: int, timeout_s: float) -> Batch:
        """See `bus.Bus.poll`. Raises LostRange for a partition whose position is out of range.

        After LostRange or NotReadable, `start` the other partitions again. No polled record is lost.
        """
        from confluent_kafka import KafkaException

        if self._pending_errors:
            raise self._pending_errors.popleft()
        try:
            messages = consume(self._consumer, most, timeout_s)
        except KafkaException as e:  # the poll reports a fatal error
            raise self._errors.unreachable(self._config, e) from e
        self._lost_brokers.check(silent=not messages)
        assigned, lost = self._assigned, self._lost
        self._assigned, self._lost = None, False
        if lost or assigned is not None:
            return Batch((), assigned, lost, self._membership)  # the messages belong to the old assignment
        items: list[Message | End] = []
        for message in messages:
            error = message.error()
            if error is None:
                items.append(message)
            elif error.code() == error._PARTITION_EOF:
                items.append(End(*partition_and_offset(message)))
            else:
                self._note_error(error, message)
        if self._pending_errors and not items:
            raise self._pending_errors.popleft()
        return Batch(Messages(items), None, False, self._membership)

    def _note_error(self, error: KafkaError, message: Message) -> None:
        if error.code() == error._AUTO_OFFSET_RESET:
            self._pending_errors.append(LostRange(partition_and_offset(message)[0], error.str()))
        elif error.code() == error.UNKNOWN_TOPIC_OR_PART:
            # Deleting a listed topic pauses only its own partitions; the engine sees it in `topics`.
            log.warning("%s", error.str())
        elif not is_transient(error):
            topic = message.topic()
            if topic:  # refused, or a batch that the client or the broker cannot unpack: others continue
                place = f"{topic}[{message.partition()}]"
                self._pending_errors.append(NotReadable(topic, f"{place}: {error.str()}."))
            else:
                self._pending_errors.append(UnreachableError(f"{error.str()}."))

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Assigned

        self._pending_errors.clear()  # they concern the previous positions
        self._consumer.assign([Assigned(tp.topic, tp.partition, offset) for tp, offset in positions.items()])

    def seek(self, tp: TopicPartition, offset: int) -> bool:
        self._pending_errors = deque(
            e for e in self._pending_errors if not (isinstance(e, LostRange) and e.partition == tp)
        )
        return seek(self._consumer, tp, offset)

    def fetched_end(self, tp: TopicPartition) -> int:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Asked

        try:
            known = self._consumer.get_watermark_offsets(Asked(tp.topic, tp.partition), cached=True)
        except KafkaException:  # the partition is not fetched
            return 0
        return 0 if known is None else max(0, known[1])

    def members(self) -> frozenset[str]:
        return self._admin.members()

    # -- offsets and topics

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool = True
    ) -> dict[TopicPartition, Committed | None] | None:
        return self._admin.committed(partitions, stable=stable)

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._admin.start_offsets(partitions)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._admin.end_offsets(partitions)

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._admin.stable_offsets(partitions)

    def offsets_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        return self._admin.offsets_since(partitions, timestamp_ms)

    def topics(self, names: Iterable[str]) -> dict[str, Topic | None]:
        own = {self._config.topic(kind) for kind in KINDS}
        asked = set(names)
        return self._admin.topics(asked, others=asked - own)

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._admin.delete_below(offsets)

    def reader(self, *, brief: bool = False) -> KafkaReader:
        return KafkaReader(self._config, self._errors, sparing=brief, brief=brief)

    # -- transactions

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        return self._transactions.commit(outputs, offsets, membership)

    def fence(self, transactional_id: str) -> None:
        self._transactions.fence(transactional_id)

    def close(self) -> None:
        self._before_loss = None
        # The transaction first: the next owner waits for its end.
        self._transactions.close()
        with suppress(Exception):  # an error while closing does not matter
            self._leave_group()
        with suppress(Exception):
            self._consumer.close()
        with suppress(Exception):
            self._admin.close()

    def _leave_group(self) -> None:
        """Leave the group while the client still answers; after it the client can be closed.

        If an assignment waits to be served, `Consumer.close` calls `_on_assign`, and librdkafka 2.16.0 may
        never answer the calls made there (librdkafka issue 4884). They hold Python's lock, so no thread of
        the process continues.
        """
        self._consumer.unsubscribe()  # when it returns, no new assignment can come
        while self._consumer.poll(0.0) is not None:
            pass  # a poll calls the callbacks only after it has returned the fetched messages
