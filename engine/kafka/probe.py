"""Checks of a cluster by trying: permissions, a transaction, the broker's clock and version."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

from ..config import BusConfig
from ..errors import UnreachableError
from .admin import Admin
from .clients import ClientErrors, ask, connect, one_request_logger, settings

TIMEOUT_S: Final = 10.0
DOCTOR_KEY: Final = b"doctor"  # a registry key that every reader ignores
# (API, its highest version is at least this, the version of Kafka that introduced it).
# https://kafka.apache.org/protocol
_SINCE: Final = (
    ("Fetch", 18, "4.1"),
    ("Metadata", 13, "4.0"),
    ("Fetch", 17, "3.9"),
    ("Fetch", 16, "3.7"),
    ("Fetch", 15, "3.5"),
    ("Fetch", 13, "3.1"),
    ("Fetch", 12, "2.7"),
)
_API: Final = re.compile(r"ApiKey (\w+) \(\d+\) Versions \d+\.\.(\d+)")


@dataclass(frozen=True)
class Cluster:
    """How many brokers there are, and the visible topics: {name: the fewest replicas of a partition}."""

    brokers: int
    replicas: Mapping[str, int]


def cluster(config: BusConfig) -> Cluster:
    """The cluster's brokers and topics. Raises UnreachableError if no broker answers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors = ClientErrors()
    client = connect(AdminClient, config, errors, logger=one_request_logger(config))
    errors.require_answer(client, config)
    try:
        found = client.list_topics(timeout=TIMEOUT_S)
    except KafkaException as error:
        raise errors.unreachable(config, error.args[0].str()) from error
    replicas = {
        name: min((len(p.replicas) for p in topic.partitions.values()), default=0)
        for name, topic in found.topics.items()
        if topic.error is None
    }
    return Cluster(len(found.brokers), replicas)


def broker_version(config: BusConfig) -> str | None:
    """The oldest version of Kafka with the broker's protocol, such as "4.1"; "" if older than 2.7.

    None if unknown. Read from the API versions that librdkafka logs.
    """
    from confluent_kafka.admin import AdminClient

    versions = _ApiVersions()
    # Not `connect`: its logger drops similar lines for a minute.
    properties = settings(config, ClientErrors(), debug="feature")
    properties["logger"] = versions.logger
    client = AdminClient(properties)
    ask(client, config, TIMEOUT_S)
    client.poll(0)
    return _version(versions.highest)


def _version(highest: Mapping[str, int]) -> str | None:
    if not highest:
        return None
    return next((kafka for api, least, kafka in _SINCE if highest.get(api, -1) >= least), "")


def allowed(config: BusConfig, names: Collection[str]) -> dict[str, set[str] | str]:
    """The ACL operations that this connection may do on each topic, or a text with why they are unknown."""
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    client = connect(AdminClient, config, ClientErrors())
    futures = client.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    found: dict[str, set[str] | str] = {}
    for name, future in futures.items():
        try:
            operations = future.result(TIMEOUT_S + 1).authorized_operations
        except KafkaException as error:
            found[name] = error.args[0].str()
            continue
        except RuntimeError as error:  # of confluent_kafka, for an answer that is not about what was asked
            found[name] = str(error)
            continue
        found[name] = {_word(operation.name) for operation in operations or ()}
    return found


def transaction_refused(config: BusConfig) -> str | None:
    """Why no transaction can begin in the group of the configuration; None if one can.

    Begins a transaction with a new transactional id and aborts it.
    """
    from confluent_kafka import KafkaError, KafkaException, Producer
    from confluent_kafka import TopicPartition as Asked

    errors = ClientErrors()
    producer = connect(
        Producer,
        config,
        errors,
        transactional_id=f"{config.group}-doctor-{uuid.uuid4().hex[:12]}",
        transaction_timeout_ms=10_000,
    )
    with closing(Admin(config, errors)) as admin:
        try:
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
            # The broker checks permission on the group first. A group with members then refuses the offset.
            offset = Asked(config.topic("dead-letter" if config.members == "engines" else "action"), 0, 0)
            producer.send_offsets_to_transaction([offset], admin.outsider(), TIMEOUT_S)
        except KafkaException as error:
            refused: KafkaError = error.args[0]
            return None if refused.code() in _not_a_member() else refused.str()
        finally:
            with suppress(KafkaException):
                producer.abort_transaction(TIMEOUT_S)
    return None


def clock_difference_ms(config: BusConfig) -> tuple[int, int]:
    """(How far the broker's clock is ahead of this machine's, the most that this may be wrong), in ms.

    Writes empty records with the key DOCTOR_KEY to the registry. Raises UnreachableError if one is refused.
    """
    from confluent_kafka import KafkaException, Producer

    errors = ClientErrors()
    reports: list[Any] = []
    producer = connect(Producer, config, errors, acks="all", delivery_timeout_ms=int(TIMEOUT_S * 1000))
    tries: list[tuple[int, int]] = []
    for _ in range(3):  # the first waits for connections
        before = time.time()
        try:
            producer.produce(
                config.topic("subscription"),
                None,
                DOCTOR_KEY,
                partition=0,
                on_delivery=lambda error, message: reports.append((error, message)),
            )
            producer.flush(TIMEOUT_S)
        except KafkaException as error:
            raise errors.unreachable(config, error.args[0].str()) from error
        after = time.time()
        if not reports:
            raise errors.unreachable(config)
        refused, message = reports.pop()
        if refused is not None:
            raise UnreachableError(
                f"Topic {config.topic('subscription')!r} refuses a record: {refused.str()}."
            )
        middle, within_ms = (before + after) / 2 * 1000, int((after - before) * 500) + 1
        tries.append((within_ms, int(message.timestamp()[1] - middle)))
    within_ms, ahead_ms = min(tries)
    return ahead_ms, within_ms


def _not_a_member() -> frozenset[int]:
    """The errors with which a group that has members refuses the transaction of another producer."""
    from confluent_kafka import KafkaError

    return frozenset(
        {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID}
    )


def _word(name: str) -> str:
    """An operation's name as in Kafka's ACLs: DescribeConfigs for DESCRIBE_CONFIGS."""
    return "".join(part.capitalize() for part in name.split("_"))


class _ApiVersions:
    """A logger that keeps the highest version of each API that a client logs, and drops all lines."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        self.logger = logging.Logger("interlock.probe", logging.DEBUG)  # outside the logging hierarchy
        handler = logging.Handler()
        handler.emit = self._note  # type: ignore[method-assign]
        self.logger.addHandler(handler)

    def _note(self, record: logging.LogRecord) -> None:
        found = _API.search(record.getMessage())
        if found is not None:
            api, highest = found[1], int(found[2])
            self.highest[api] = min(highest, self.highest.get(api, highest))  # the oldest broker's
