"""Requests to the cluster through an admin client: a fetching consumer would delay them."""

from __future__ import annotations

import struct
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from structlog.contextvars import bound_contextvars, get_contextvars
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from ...events.kafka import is_topic
from ..bus import Committed, Topic, TopicPartition
from ..config import BusConfig
from ..errors import NotReadable, UnreachableError
from ..log import log
from .clients import ClientErrors, connect
from .reader import leader_change_codes, not_readable_codes

if TYPE_CHECKING:
    from confluent_kafka import Consumer

REQUEST_TIMEOUT_S = 10.0
STABLE_TIMEOUT_S = 0.5
_NONE_SINCE = -1  # the broker's answer if no record has the given time or a later one
T = TypeVar("T")


class GroupMember(NamedTuple):
    """A member of the group: its transactional id, its host, and its assigned partitions."""

    name: str
    host: str
    partitions: tuple[TopicPartition, ...]


class Admin:
    """The admin client of a bus. Nothing is cached; each request takes at most REQUEST_TIMEOUT_S.

    Methods raise UnreachableError if the cluster does not answer or refuses, and NotReadable if the error
    concerns one topic.
    """

    def __init__(self, config: BusConfig, errors: ClientErrors | None = None) -> None:
        from confluent_kafka.admin import AdminClient

        self._config, self._errors = config, errors or ClientErrors()
        self._consumers: dict[str, Consumer] = {}
        self._client = connect(AdminClient, config, self._errors)
        self._errors.require_answer(self._client, config)

    # -- the group
    #
    # Do not use `list_consumer_group_offsets` and `describe_consumer_groups`: if they time out while the
    # client looks for the coordinator, librdkafka 2.16.0 fails an assertion and ends the process
    # (rd_kafka_enq_once_del_source_return; in 32 of 32 tries).

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool
    ) -> dict[TopicPartition, Committed | None] | None:
        """See `bus.Bus.committed`. Waits at most STABLE_TIMEOUT_S for stable offsets."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka import TopicPartition as Asked

        asked = [Asked(tp.topic, tp.partition) for tp in partitions]
        if not asked:
            return {}
        consumer = self._consumer("read_committed" if stable else "read_uncommitted")
        consumer.poll(0)  # the client reports errors only here
        try:
            found = consumer.committed(asked, timeout=STABLE_TIMEOUT_S if stable else REQUEST_TIMEOUT_S)
        except KafkaException as e:
            if stable and e.args[0].code() == KafkaError._TIMED_OUT:
                # The client retries while an offset is unstable. If the coordinator answers this second
                # request, an unstable offset was the reason for the timeout.
                self.committed([TopicPartition(p.topic, p.partition) for p in asked], stable=False)
                return None
            raise self._errors.unreachable(self._config, e) from e
        for p in found:
            if p.error is not None:
                text = f"Committed offset of {p.topic}[{p.partition}]: {p.error.str()}."
                refused = p.error.code() in not_readable_codes()
                raise NotReadable(p.topic, text) if refused else UnreachableError(text)
        return {
            TopicPartition(p.topic, p.partition): Committed(p.offset, p.metadata or "")
            if p.offset >= 0
            else None
            for p in found
        }

    def _consumer(self, isolation_level: str) -> Consumer:
        """A consumer that never joins the group or fetches."""
        from confluent_kafka import Consumer

        found = self._consumers.get(isolation_level)
        if found is None:
            found = self._consumers[isolation_level] = connect(
                Consumer,
                self._config,
                self._errors,
                group_id=self._config.group,
                enable_auto_commit=False,
                isolation_level=isolation_level,
                retry_backoff_ms=10,
                retry_backoff_max_ms=50,
            )
        return found

    def outsider(self) -> object:
        """Group metadata of a consumer that is not a member of the group."""
        return self._consumer("read_committed").consumer_group_metadata()

    def members(self) -> frozenset[str]:
        return frozenset(member.name for member in self.group_members())

    def group_members(self) -> list[GroupMember]:
        """The current members of the group, from its coordinator."""
        from confluent_kafka import KafkaException

        with _without_warnings:
            groups = self.call(lambda: self._client.list_groups(self._config.group, REQUEST_TIMEOUT_S))
        if not groups:
            self._require_that_all_brokers_listed_groups()
        for group in groups:
            if group.error is not None:  # such a group lists no members: all engines would look dead
                raise self._errors.unreachable(self._config, KafkaException(group.error))
        return [_member(member) for group in groups for member in group.members]

    def _require_that_all_brokers_listed_groups(self) -> None:
        """Raises UnreachableError if a broker refuses to list its groups, e.g. because it loads them.

        `list_groups` forgets such an error (no. 23 in docs/understand/engine/pitfalls.md).
        """
        listed = self._result(self._client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S))
        for error in listed.errors:
            raise self._errors.unreachable(self._config, error)

    # -- offsets of partitions (a fetching consumer takes 500 ms for each request, this client 0.3 ms)

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.earliest(), least=0)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.latest(), least=0)

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where readers of committed records stop: the start of the first open transaction, or the end."""
        from confluent_kafka.admin import OffsetSpec

        return self._offsets(partitions, OffsetSpec.latest(), least=0, stable=True)

    def offsets_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        from confluent_kafka.admin import OffsetSpec

        found = self._offsets(partitions, OffsetSpec.for_timestamp(max(timestamp_ms, 0)), least=_NONE_SINCE)
        return {tp: None if offset == _NONE_SINCE else offset for tp, offset in found.items()}

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: Any, *, least: int, stable: bool = False
    ) -> dict[TopicPartition, int]:
        from confluent_kafka import IsolationLevel
        from confluent_kafka import TopicPartition as Asked

        asked = {Asked(tp.topic, tp.partition): spec for tp in partitions}
        if not asked:
            return {}
        # With read_committed the broker answers the last stable offset. Recovery would then miss state that
        # an open transaction of the previous owner may still commit.
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict[TopicPartition, int]:
            futures = self._client.list_offsets(
                asked, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S
            )
            return {
                TopicPartition(p.topic, p.partition): self._offset(p.topic, future)
                for p, future in futures.items()
            }

        try:
            found = _retried(ask)
        except _NoLeader as e:
            raise NotReadable(e.topic, f"Offsets of topic {e.topic!r}: {e}") from e.__cause__
        for tp, offset in found.items():
            # A request that timed out returns "invalid", a negative number, without an error. As an offset
            # that would mean that there is nothing to recover.
            if offset < least:
                raise self._errors.unreachable(self._config, f"no answer about the offsets of {tp}")
        return found

    def _offset(self, topic: str, future: Future[Any]) -> int:
        from confluent_kafka import KafkaError

        try:
            return int(self._result(future).offset)
        except UnreachableError as e:
            code = _code(e)
            if code == KafkaError._NOENT:  # the client reports a missing topic with this code as well
                found = self.topics([topic], others=[topic])[topic]
                if found is not None and not found.hidden:
                    raise _NoLeader(topic, str(e)) from e.__cause__
            elif code in leader_change_codes():
                raise _NoLeader(topic, str(e)) from e.__cause__
            elif code not in not_readable_codes():
                raise
            raise NotReadable(topic, f"Offsets of topic {topic!r}: {e}") from e.__cause__

    # -- topics

    def topics(self, names: Iterable[str], *, others: Collection[str] = ()) -> dict[str, Topic | None]:
        """See `bus.Bus.topics`. others: topics whose refusal is a result (`Topic.refused`), not an error."""
        from confluent_kafka import KafkaError, TopicCollection
        from confluent_kafka.admin import AclOperation

        # A command's argument, or a damaged bus record, may have any text. A lone surrogate ends the process
        # in the client, and a broker's refusal of a name would look like a cluster that does not answer.
        wanted = list(dict.fromkeys(names))
        asked = [name for name in wanted if is_topic(name)]
        if not asked:
            return dict.fromkeys(wanted)

        def described(name: str, future: Future[Any]) -> Topic | None:
            try:
                description = self._result(future, missing=KafkaError.UNKNOWN_TOPIC_OR_PART)
            except UnreachableError as e:
                if name in others and _code(e) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    return Topic("", 0, "Describe")
                raise
            if description is None:
                return None
            allowed = set(description.authorized_operations or ()) if name in others else set()
            refused = allowed and not allowed & {AclOperation.READ, AclOperation.ALL}
            leaderless = [p.id for p in description.partitions if name in others and p.leader is None]
            return Topic(
                str(description.topic_id),
                len(description.partitions),
                "Read" if refused else "",
                tuple(leaderless),
            )

        def ask() -> dict[str, Topic | None]:
            futures = self._client.describe_topics(
                TopicCollection(asked),
                include_authorized_operations=bool(others),
                request_timeout=REQUEST_TIMEOUT_S,
            )
            return {name: described(name, future) for name, future in futures.items()}

        return {**dict.fromkeys(wanted), **_retried(ask)}

    def settings(self, topic: str) -> dict[str, str] | None:
        """The effective settings of a topic that have a value; None if this client may not see them."""
        from confluent_kafka import KafkaError
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, topic)
        futures = self._client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        found = self._result(futures[resource], missing=KafkaError.TOPIC_AUTHORIZATION_FAILED)
        if found is None:
            return None
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Asked

        if not offsets:
            return
        futures = self._client.delete_records(
            [Asked(tp.topic, tp.partition, offset) for tp, offset in offsets.items()],
            request_timeout=REQUEST_TIMEOUT_S,
        )

        fields = get_contextvars()  # `report` runs in a thread of the client

        def report(future: Future[Any]) -> None:
            error = future.exception()
            if error is not None:
                with bound_contextvars(**fields):
                    log.warning("Old records of the trigger topic were not removed: %s", error)

        for future in futures.values():
            future.add_done_callback(report)

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _result(self, future: Future[Any], *, missing: int | None = None) -> Any:
        """The future's result; None for an error with the code `missing`."""
        try:
            return self.call(lambda: future.result(REQUEST_TIMEOUT_S + 1))
        except RuntimeError as e:  # of confluent_kafka, for an answer that is not about what was asked
            raise self._errors.unreachable(self._config, e) from e
        except UnreachableError as e:
            if missing is not None and _code(e) == missing:
                return None
            raise

    def call(self, call: Callable[[], T]) -> T:
        """The result of a request to the brokers. Raises UnreachableError if it fails."""
        from concurrent.futures import TimeoutError as FutureTimeout

        from confluent_kafka import KafkaException

        try:
            return call()
        except (KafkaException, FutureTimeout) as e:
            raise self._errors.unreachable(self._config, e) from e


class _NoLeader(UnreachableError):
    """A partition of the topic has no leader, or its leader has moved to another broker."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(reason)
        self.topic = topic


def _retried(ask: Callable[[], T]) -> T:
    """The result of `ask`, retried for at most REQUEST_TIMEOUT_S while partition leaders move."""
    again = Retrying(
        retry=retry_if_exception(_is_leader_change),
        stop=stop_after_delay(REQUEST_TIMEOUT_S),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return again(ask)


def _is_leader_change(error: BaseException) -> bool:
    """Whether the error says that a partition's leader has just moved, or is not elected yet."""
    from confluent_kafka import KafkaError

    # _NOENT: librdkafka's own "No leaders found", for a topic that was created a moment ago
    return not isinstance(error, NotReadable) and _code(error) in leader_change_codes() | {KafkaError._NOENT}


def _code(error: BaseException) -> int | None:
    """The code of the KafkaException that caused one of our errors."""
    from confluent_kafka import KafkaException

    cause = error.__cause__
    return int(cause.args[0].code()) if isinstance(cause, KafkaException) else None


def _member(listed: Any) -> GroupMember:
    try:
        assigned = tuple(_assigned(listed.assignment))
    except (struct.error, UnicodeDecodeError) as e:  # a client of another kind joined the group
        log.warning("The assignment of %r in its group cannot be read: %s", listed.client_id, e)
        assigned = ()
    return GroupMember(listed.client_id, listed.client_host.lstrip("/"), assigned)


def _assigned(form: bytes) -> Iterator[TopicPartition]:
    """The partitions in Kafka's ConsumerProtocolAssignment; none if the member has no assignment yet."""
    if not form:
        return
    (topics,) = struct.unpack_from(">i", form, 2)
    at = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", form, at)
        topic = form[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (count,) = struct.unpack_from(">i", form, at)
        for partition in struct.unpack_from(f">{count}i", form, at + 4):
            yield TopicPartition(topic, partition)
        at += 4 + 4 * count


class _WithoutWarnings:
    """Hides the deprecation warning of `list_groups`; its replacements can end the process, see `Admin`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # warning filters are shared by the whole process

    def __enter__(self) -> None:
        self._lock.acquire()
        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        warnings.simplefilter("ignore", DeprecationWarning)

    def __exit__(self, *error: Any) -> None:
        self._caught.__exit__(*error)
        self._lock.release()


_without_warnings = _WithoutWarnings()
