"""Questions to the cluster, asked through the admin client: a consumer answers them between two fetches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from ..bus import Committed, Topic, TopicPartition
from ..config import BusConfig
from ..errors import UnreachableError
from ..log import log
from .clients import ClientErrors, connect

REQUEST_TIMEOUT_S = 10.0
T = TypeVar("T")


class Admin:
    """The admin client of a bus; each question is asked afresh and answered within REQUEST_TIMEOUT_S.

    Raises UnreachableError when there is no answer, or a refusal.
    """

    def __init__(self, config: BusConfig, errors: ClientErrors) -> None:
        from confluent_kafka.admin import AdminClient

        self._config, self._errors = config, errors
        self._client = connect(AdminClient, config, errors)
        errors.require_answer(self._client, config)

    # -- offsets (a fetching consumer takes 500 ms for each question, this client 0.3 ms)

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool
    ) -> dict[TopicPartition, Committed | None] | None:
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError
        from confluent_kafka import TopicPartition as Asked

        asked = ConsumerGroupTopicPartitions(
            self._config.group, [Asked(tp.topic, tp.partition) for tp in partitions]
        )
        if not asked.topic_partitions:
            return {}
        future = self._client.list_consumer_group_offsets(
            [asked], require_stable=stable, request_timeout=REQUEST_TIMEOUT_S
        )[self._config.group]
        found: dict[TopicPartition, Committed | None] = {}
        for p in self._result(future).topic_partitions:
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
        # read_committed would answer the last stable offset: the end of state that an open transaction of
        # the old owner is still to commit would be missed.
        futures = self._client.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_TIMEOUT_S
        )
        return {
            TopicPartition(p.topic, p.partition): self._result(future).offset for p, future in futures.items()
        }

    # -- topics and members

    def topics(self, names: Iterable[str]) -> dict[str, Topic | None]:
        from confluent_kafka import KafkaError, TopicCollection

        asked = list(dict.fromkeys(names))
        if not asked:
            return {}
        futures = self._client.describe_topics(TopicCollection(asked), request_timeout=REQUEST_TIMEOUT_S)
        found: dict[str, Topic | None] = {}
        for name, future in futures.items():
            description = self._result(future, missing=KafkaError.UNKNOWN_TOPIC_OR_PART)
            found[name] = (
                None if description is None else Topic(str(description.topic_id), len(description.partitions))
            )
        return found

    def members(self) -> frozenset[str]:
        from confluent_kafka import KafkaError

        future = self._client.describe_consumer_groups(
            [self._config.group], request_timeout=REQUEST_TIMEOUT_S
        )[self._config.group]
        group = self._result(future, missing=KafkaError.GROUP_ID_NOT_FOUND)
        return frozenset() if group is None else frozenset(m.client_id for m in group.members)

    def delete_below(self, offsets: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Asked

        if not offsets:
            return
        futures = self._client.delete_records(
            [Asked(tp.topic, tp.partition, offset) for tp, offset in offsets.items()],
            request_timeout=REQUEST_TIMEOUT_S,
        )

        def told(future: Future[Any]) -> None:
            error = future.exception()
            if error is not None:
                log.warning("Old records of the trigger topic were not removed: %s", error)

        for future in futures.values():
            future.add_done_callback(told)

    def _result(self, future: Future[Any], *, missing: int | None = None) -> Any:
        """The answer; None for an error with the code `missing`."""
        from confluent_kafka import KafkaException

        try:
            return self.call(lambda: future.result(REQUEST_TIMEOUT_S + 1))
        except UnreachableError as e:
            cause = e.__cause__
            if missing is not None and isinstance(cause, KafkaException) and cause.args[0].code() == missing:
                return None
            raise

    def call(self, call: Callable[[], T]) -> T:
        from concurrent.futures import TimeoutError as FutureTimeout

        from confluent_kafka import KafkaException

        try:
            return call()
        except (KafkaException, FutureTimeout) as e:
            raise self._errors.unreachable(self._config, e) from e
