"""What a cluster allows and is, asked by doing: rights, a transaction, the broker's clock and version."""

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
from .clients import ClientErrors, connect, log_of_a_question, settings

TIMEOUT_S: Final = 10.0
DOCTOR_KEY: Final = b"doctor"  # of the registry; no reader knows it, so each passes it over
# What a broker's protocol has from which version of Kafka on: (API, its highest version at least, Kafka).
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
    """The brokers there are, and the topics that can be seen: {name: the fewest replicas of a partition}."""

    brokers: int
    replicas: Mapping[str, int]


def cluster(config: BusConfig) -> Cluster:
    """UnreachableError when nobody answers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors = ClientErrors()
    client = connect(AdminClient, config, errors, logger=log_of_a_question(config))
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
    """From which version of Kafka on a broker speaks as this one does: "4.1"; "" for one older than 2.7.

    None where it does not tell. Read from what librdkafka logs of the versions that it agrees on.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    heard = _Heard()
    # Not by `connect`: its logger passes alike lines once a minute.
    properties = settings(config, ClientErrors(), debug="feature")
    properties["logger"] = heard.logger
    client = AdminClient(properties)
    with suppress(KafkaException):
        client.list_topics(timeout=TIMEOUT_S)
        client.poll(0)
    return _version(heard.highest)


def _version(highest: Mapping[str, int]) -> str | None:
    if not highest:
        return None
    return next((kafka for api, least, kafka in _SINCE if highest.get(api, -1) >= least), "")


def allowed(config: BusConfig, names: Collection[str]) -> dict[str, set[str] | str]:
    """What this connection may do with each topic, in the words of ACLs; a text says why that is not told."""
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
        found[name] = {_word(operation.name) for operation in operations or ()}
    return found


def transaction_refused(config: BusConfig) -> str | None:
    """Why no transaction of an engine could begin in the engines' group; None when one could.

    It begins under an id of its own, and is aborted; nobody sees anything of it.
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
            # The group is asked about before the offset is: one that has members then refuses an outsider's.
            offset = Asked(config.topic("dead-letter"), 0, 0)
            producer.send_offsets_to_transaction([offset], admin.outsider(), TIMEOUT_S)
        except KafkaException as error:
            refused: KafkaError = error.args[0]
            return None if refused.code() in _outsider() else refused.str()
        finally:
            with suppress(KafkaException):
                producer.abort_transaction(TIMEOUT_S)
    return None


def clock_difference_ms(config: BusConfig) -> tuple[int, int]:
    """How far the broker's clock is ahead of this machine's, and by how much that may be wrong.

    Writes one empty record to the registry, under DOCTOR_KEY. UnreachableError when it is not taken.
    """
    from confluent_kafka import KafkaException, Producer

    errors = ClientErrors()
    told: list[Any] = []
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
                on_delivery=lambda error, message: told.append((error, message)),
            )
            producer.flush(TIMEOUT_S)
        except KafkaException as error:
            raise errors.unreachable(config, error.args[0].str()) from error
        after = time.time()
        if not told:
            raise errors.unreachable(config)
        refused, message = told.pop()
        if refused is not None:
            raise UnreachableError(
                f"Topic {config.topic('subscription')!r} takes no record: {refused.str()}."
            )
        middle, within_ms = (before + after) / 2 * 1000, int((after - before) * 500) + 1
        tries.append((within_ms, int(message.timestamp()[1] - middle)))
    within_ms, ahead_ms = min(tries)
    return ahead_ms, within_ms


def _outsider() -> frozenset[int]:
    """What a group with members says to a transaction that does not come from one of them."""
    from confluent_kafka import KafkaError

    return frozenset(
        {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID}
    )


def _word(name: str) -> str:
    """Of ACLs: DESCRIBE_CONFIGS is DescribeConfigs."""
    return "".join(part.capitalize() for part in name.split("_"))


class _Heard:
    """Keeps the highest version of each API that a client logs, and nothing else of what it logs."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}
        self.logger = logging.Logger(
            "interlock.probe", logging.DEBUG
        )  # in no hierarchy: it goes nowhere else
        handler = logging.Handler()
        handler.emit = self._hear  # type: ignore[method-assign]
        self.logger.addHandler(handler)

    def _hear(self, record: logging.LogRecord) -> None:
        found = _API.search(record.getMessage())
        if found is not None:
            api, highest = found[1], int(found[2])
            self.highest[api] = min(highest, self.highest.get(api, highest))  # of brokers the oldest
