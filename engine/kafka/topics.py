"""The topics of a bus: their settings, creating them, checking them, and reading and writing the registry."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from ...events.sizes import MAX_EVENT_BYTES
from ..bus import End, TopicPartition
from ..config import DEFAULT_PARTITIONS, KINDS, BusConfig
from ..errors import TopicsError, UnknownVersion, UnreachableError
from ..records import BUS_KEY, BusRecord, encode_json
from ..records.sizes import MAX_INTERNAL_BYTES
from ..registry.about import About
from ..registry.lazy import LazyRegistry

if TYPE_CHECKING:
    import logging

    from confluent_kafka.admin import AdminClient

_DAY_MS = 24 * 3600 * 1000
# Small segments: the log cleaner never cleans the active one, and a recovery reads all uncleaned records.
_COMPACT = {
    "cleanup.policy": "compact",
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}
_AT_LEAST = frozenset({"max.message.bytes"})  # a higher value is fine
_CORRECT = "Correct the topics' settings, or create a bus with another name."
TIMEOUT_S = 15.0
TAKE = 10_000  # records at a time: each time the client hands over few at first
MAX_PARTITIONS = 1000
MAX_REPLICAS = 1000


@dataclass(frozen=True)
class TopicSpec:
    """A topic of a bus. `check` compares the `required` settings; `create` sets all."""

    name: str
    partitions: int
    settings: Mapping[str, str]
    required: frozenset[str]


def specs(config: BusConfig, partitions: int = DEFAULT_PARTITIONS) -> tuple[TopicSpec, ...]:
    """The topics of the bus in the order of their creation. Raises TopicsError for a wrong `partitions`."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise TopicsError(f"A bus cannot have {partitions} partitions: use 1 to {MAX_PARTITIONS}.")
    internal = {"max.message.bytes": str(MAX_INTERNAL_BYTES)}

    def spec(kind: str, count: int, required: dict[str, str], **other: str) -> TopicSpec:
        settings = {**required, **{key.replace("_", "."): value for key, value in other.items()}}
        return TopicSpec(config.topic(kind), count, settings, frozenset(required))

    # The brokers' clock alone decides whether an event counts, when timers fire and when leases end.
    stamped = {"message.timestamp.type": "LogAppendTime"}
    retention = {"cleanup.policy": "delete", **stamped}
    compact = {**_COMPACT, **stamped}
    month = str(30 * _DAY_MS)
    return (
        spec(
            "event",
            partitions,
            retention,
            retention_ms=month,
            max_message_bytes=str(MAX_EVENT_BYTES),
        ),
        # No retention: the engine deletes records below its committed offset.
        spec("trigger", partitions, {**retention, "retention.ms": "-1", "retention.bytes": "-1", **internal}),
        spec("state", partitions, {**compact, **internal}),
        # Old firings are deleted (`latest_firings.KEPT_MS`). A wait that is opened again after that registers
        # again and looks for its events.
        spec(
            "action",
            partitions,
            {**compact, **internal, "cleanup.policy": "compact,delete"},
            retention_ms=month,
        ),
        # A reader that lags less than this misses no removal of a registration.
        spec("subscription", 1, {**compact, "min.compaction.lag.ms": str(_DAY_MS)}),
        spec(
            "dead-letter",
            partitions,
            retention,
            retention_ms=month,
            max_message_bytes=str(MAX_INTERNAL_BYTES),
        ),
    )


def create(
    config: BusConfig, *, partitions: int = DEFAULT_PARTITIONS, replication_factor: int = -1
) -> tuple[list[str], list[str]]:
    """Create the missing topics. Returns (names created, names that existed). Safe to repeat.

    `partitions`: of each topic but the registry, which has one. `replication_factor` -1: the broker's
    default. Raises TopicsError if a topic cannot be created, UnreachableError if the cluster does not answer.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    from .clients import one_request_logger

    wanted = specs(config, partitions)
    if replication_factor != -1 and not 1 <= replication_factor <= MAX_REPLICAS:
        allowed = f"1 to {MAX_REPLICAS}, or -1 for the broker's default"
        raise TopicsError(f"A topic cannot have {replication_factor} replicas: use {allowed}.")
    admin = admin_client(config, one_request_logger(config))
    futures = admin.create_topics(
        [
            NewTopic(s.name, s.partitions, replication_factor=replication_factor, config=dict(s.settings))
            for s in wanted
        ],
        operation_timeout=TIMEOUT_S,
        request_timeout=TIMEOUT_S + 2,  # less than `result` waits, so that an error names the topic
    )
    created: list[str] = []
    existing: list[str] = []
    problems: list[str] = []
    for name, future in futures.items():
        try:
            future.result(TIMEOUT_S + 5)
            created.append(name)
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                existing.append(name)
            else:
                problems.append(f"Topic {name!r} cannot be created: {error.str()}.")
    if problems:
        raise TopicsError(*problems)
    if created:
        _wait_until_known(admin, config, created)
    if bus_record(config) is None:  # an earlier call may have created topics, and ended before it wrote this
        trigger = config.topic("trigger")
        if trigger in existing:
            partitions = _partition_counts(admin, config, [trigger]).get(trigger, 0)
            if not partitions:
                raise UnreachableError(f"The brokers do not describe topic {trigger!r} now. Run this again.")
        write_bus_record(config, BusRecord(partitions=partitions, topic_ids=topic_ids(config)))
    return created, existing


def _partition_counts(admin: AdminClient, config: BusConfig, names: Sequence[str]) -> dict[str, int]:
    """{topic: partition count}, without topics that are missing or that this user may not describe.

    Raises UnreachableError if the cluster does not answer.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    counts = {}
    # Not `list_topics`, which is answered with each partition of the cluster.
    for name, future in admin.describe_topics(
        TopicCollection(list(names)), request_timeout=TIMEOUT_S
    ).items():
        try:
            counts[name] = len(future.result().partitions)
        except KafkaException as e:
            error: KafkaError = e.args[0]
            if error.code() < 0:  # of the client: the brokers did not answer
                raise UnreachableError(f"{config.describe()} does not answer: {error.str()}.") from e
        except RuntimeError as e:  # of confluent_kafka, for an answer that is not about what was asked
            raise UnreachableError(
                f"{config.describe()} describes other topics than those it was asked for: {e}."
            ) from e
    return counts


def _wait_until_known(admin: AdminClient, config: BusConfig, names: list[str]) -> None:
    """Wait at most ten seconds until the created topics are in the brokers' metadata."""

    def unknown() -> bool:
        counts = _partition_counts(admin, config, names)
        return not all(counts.get(name) for name in names)

    Retrying(
        retry=retry_if_result(bool),
        wait=wait_fixed(0.1),
        stop=stop_after_delay(10),
        retry_error_callback=lambda _: None,  # the next request to a missing topic reports it
    )(unknown)


def bus_record(config: BusConfig) -> BusRecord | None:
    """The bus record, read from the registry; None if there is none.

    Raises UnknownVersion if another version wrote it; other records may be of any version.
    """
    registry = read_registry(config, known=False)
    if BUS_KEY in registry.unknown:
        raise UnknownVersion(registry.unknown[BUS_KEY])
    return registry.bus


def read_registry(config: BusConfig, *, known: bool = True, about: str | None = None) -> LazyRegistry:
    """The registry, read to its current end. Raises UnreachableError if nothing arrives for STALL_S.

    known: raise UnknownVersion as `Registry.require_known`. False: return what can be read;
    `Registry.unknown` has the rest. about: read only registrations whose names contain this text (see
    `About`), which takes less time.
    """
    from .chosen import ChosenReader
    from .clients import ClientErrors
    from .reader import STALL_S, KafkaReader

    registry = LazyRegistry(once=True)
    errors = ClientErrors()
    if about is None:
        reader = KafkaReader(config, errors)
    else:
        reader = ChosenReader(config, errors, About(about).is_wanted)
    with closing(reader):
        reader.read({TopicPartition(config.topic("subscription"), 0): 0})
        arrived_at = time.monotonic()
        is_read = False
        while not is_read:
            items = reader.take(TAKE, 0.5)
            if items:
                arrived_at = time.monotonic()
            elif time.monotonic() - arrived_at > STALL_S:
                reason = f"topic {config.topic('subscription')!r} cannot be read to its end"
                raise errors.unreachable(config, reason)
            for item in items:
                registry.apply(item)
                is_read = is_read or isinstance(item, End)
    if known:
        registry.require_known()
    return registry


def write_bus_record(config: BusConfig, record: BusRecord) -> None:
    """Write the bus record. Raises UnreachableError if the cluster does not accept it."""
    write_registry(config, {BUS_KEY: encode_json(record)})


def write_registry(config: BusConfig, records: Mapping[bytes, bytes | None]) -> None:
    """Write records {key: value} to the registry, in this order.

    Raises UnreachableError if the cluster does not accept all; the first ones may have been written.
    """
    from confluent_kafka import KafkaException, Producer

    from .clients import ClientErrors, connect

    errors = ClientErrors()
    refused: list[str] = []
    producer = connect(Producer, config, errors, acks="all", enable_idempotence=True)
    try:
        for key, value in records.items():
            producer.produce(
                config.topic("subscription"),
                value,
                key,
                partition=0,
                on_delivery=lambda error, _: refused.append(error.str()) if error is not None else None,
            )
        left = producer.flush(TIMEOUT_S)
    except (KafkaException, SystemError) as e:  # SystemError: a callback ran while a fatal error was raised
        fatal = e if isinstance(e, KafkaException) else e.__cause__
        reason = fatal.args[0].str() if isinstance(fatal, KafkaException) else str(e)
        raise UnreachableError(f"{config.describe()} refuses registry records: {reason}.") from e
    if left or refused:
        raise errors.unreachable(config, *refused[:1])


def topic_ids(config: BusConfig) -> dict[str, str]:
    """{kind: id} of the bus's topics. A topic that is deleted and created again gets another id."""
    from .admin import Admin

    found = Admin(config).topics([config.topic(kind) for kind in KINDS])
    return {kind: topic.id for kind in KINDS if (topic := found[config.topic(kind)]) is not None and topic.id}


def check(config: BusConfig, *, dead_letters: bool = True) -> dict[str, int]:
    """{topic: partition count}, if all topics exist and have the settings that the protocols need.

    dead_letters: False skips the dead-letter topic. Engines and waits do so, because only writing a dead
    letter needs it. Raises TopicsError naming each topic that is missing or differs, and what to do;
    UnreachableError if the cluster does not answer.
    """
    admin = admin_client(config)
    wanted = specs(config) if dead_letters else _without_dead_letters(config)
    found = _partition_counts(admin, config, [s.name for s in wanted])
    missing = [s.name for s in wanted if s.name not in found]
    if missing:
        raise TopicsError(
            # Brokers leave out a topic that this user may not describe.
            *(f"Topic {name!r} is missing, or this user may not describe it." for name in missing),
            f"If {config.name!r} is the right bus, run: {config.command('topics create')}",
        )
    counts = {s.name: found[s.name] for s in wanted}
    problems = []
    # A trigger partition, its state partition and its action partition have the same number.
    same = [config.topic(kind) for kind in ("trigger", "state", "action")]
    if len({counts[name] for name in same}) != 1:
        listing = ", ".join(f"{name!r} has {counts[name]}" for name in same)
        problems.append(f"These topics must have the same number of partitions: {listing}.")
    if counts[config.topic("subscription")] != 1:
        problems.append(f"Topic {config.topic('subscription')!r} must have exactly one partition.")
    problems += _differing_settings(admin, wanted)
    if problems:
        raise TopicsError(*problems, _CORRECT)
    return counts


def check_settings(config: BusConfig) -> None:
    """Raises TopicsError if a required setting of a topic differs. Skips the dead-letter topic.

    Raises UnreachableError if a topic's settings cannot be read.
    """
    problems = _differing_settings(admin_client(config), _without_dead_letters(config))
    if problems:
        raise TopicsError(*problems, _CORRECT)


def _without_dead_letters(config: BusConfig) -> tuple[TopicSpec, ...]:
    """The topics that every engine and wait needs."""
    return tuple(s for s in specs(config) if s.name != config.topic("dead-letter"))


def _differing_settings(admin: AdminClient, wanted: tuple[TopicSpec, ...]) -> list[str]:
    """A sentence for each required setting that differs."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    resources = {s.name: ConfigResource(ResourceType.TOPIC, s.name) for s in wanted}
    futures = admin.describe_configs(list(resources.values()), request_timeout=TIMEOUT_S)
    problems = []
    for s in wanted:
        try:
            actual = futures[resources[s.name]].result(TIMEOUT_S + 5)
        except KafkaException as e:
            raise UnreachableError(
                f"The settings of topic {s.name!r} cannot be read: {e.args[0].str()}. The engine needs the "
                "right to describe the configuration of the bus's topics."
            ) from e
        for key in sorted(s.required):
            value = actual[key].value if key in actual else None
            needed = s.settings[key]
            if key in _AT_LEAST:
                fits, needed = int(value or 0) >= int(needed), f"{needed} or more"
            elif key == "cleanup.policy":
                policies = set((value or "").split(","))
                fits = needed.split(",")[0] in policies <= set(needed.split(","))  # "delete" may be missing
            else:
                fits = value == needed
            if value is None:
                problems.append(
                    f"Topic {s.name!r}: the brokers do not name the setting {key}, and the engine needs"
                    f" {key}={needed}. Other brokers than Apache Kafka may lack it: use Apache Kafka."
                )
            elif not fits:
                problems.append(f"Topic {s.name!r} has {key}={value}, the engine needs {key}={needed}.")
    return problems


def admin_client(config: BusConfig, logger: logging.Logger | None = None) -> AdminClient:
    """A client for requests about topics. Raises UnreachableError if the cluster does not answer."""
    from confluent_kafka.admin import AdminClient

    from .clients import ClientErrors, client_log, connect

    errors = ClientErrors()
    admin = connect(AdminClient, config, errors, logger=logger or client_log)
    # A client that cannot connect raises nothing, requests just time out. So send one request here.
    errors.require_answer(admin, config)
    return admin
