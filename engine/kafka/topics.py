"""The topics of a bus: how each must be made, making them, and telling what differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from ...events.sizes import MAX_EVENT_BYTES
from ..bus import End, Record, TopicPartition
from ..config import DEFAULT_PARTITIONS, KINDS, BusConfig
from ..errors import TopicsError, UnreachableError
from ..records import BUS_KEY, BusRecord, encode_json
from ..records.sizes import MAX_INTERNAL_BYTES
from ..registry.first_read import FirstRead
from ..registry.registry import Registry

if TYPE_CHECKING:
    import logging

    from confluent_kafka.admin import AdminClient

_DAY_MS = 24 * 3600 * 1000
# Small segments: the cleaner never touches the active one, and a recovery reads all that is not cleaned.
_COMPACT = {
    "cleanup.policy": "compact",
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}
_AT_LEAST = frozenset({"max.message.bytes"})  # more does no harm
_MEND = "Mend the topics' settings, or make a bus of another name."
TIMEOUT_S = 15.0
MAX_PARTITIONS = 1000
MAX_REPLICAS = 1000


@dataclass(frozen=True)
class TopicSpec:
    """One topic of a bus. `required` settings are compared by `check`, the others only used by `create`."""

    name: str
    partitions: int
    settings: Mapping[str, str]
    required: frozenset[str]


def specs(config: BusConfig, partitions: int = DEFAULT_PARTITIONS) -> tuple[TopicSpec, ...]:
    """The topics of the bus, in the order they are made; TopicsError for a number that no bus has."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise TopicsError((f"A bus has 1 to {MAX_PARTITIONS} partitions, not {partitions}.",))
    internal = {"max.message.bytes": str(MAX_INTERNAL_BYTES)}

    def spec(kind: str, count: int, required: dict[str, str], **other: str) -> TopicSpec:
        settings = {**required, **{key.replace("_", "."): value for key, value in other.items()}}
        return TopicSpec(config.topic(kind), count, settings, frozenset(required))

    # One clock, the brokers': whether an event counts is decided by the time the log took it, and so are
    # timers and leases.
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
        # Never removed by time: the engine deletes below its committed offset.
        spec("trigger", partitions, {**retention, "retention.ms": "-1", "retention.bytes": "-1", **internal}),
        spec("state", partitions, {**compact, **internal}),
        # What every task has taken long ago goes: a wait that comes back later finds its events again, or
        # is told that there are none (`actions.KEPT_MS`).
        spec(
            "action",
            partitions,
            {**compact, **internal, "cleanup.policy": "compact,delete"},
            retention_ms=month,
        ),
        # A reader that lags less than this never misses a registration that was removed again.
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
    """Make what is missing: the names created and the names that were there already.

    `replication_factor` -1 takes the broker's default. Raises TopicsError when the cluster refuses one,
    UnreachableError when it does not answer. Safe to repeat.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    from .clients import log_of_a_question

    wanted = specs(config, partitions)
    if replication_factor != -1 and not 1 <= replication_factor <= MAX_REPLICAS:
        told = f"1 to {MAX_REPLICAS} replicas, or -1 for the broker's default"
        raise TopicsError((f"A partition has {told}, not {replication_factor}.",))
    admin = _admin(config, log_of_a_question(config))
    futures = admin.create_topics(
        [
            NewTopic(s.name, s.partitions, replication_factor=replication_factor, config=dict(s.settings))
            for s in wanted
        ],
        operation_timeout=TIMEOUT_S,
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
        raise TopicsError(tuple(problems))
    _until_known(admin, created)
    if bus_record(config) is None:
        trigger = config.topic("trigger")
        if trigger in existing:
            partitions = len(admin.list_topics(timeout=TIMEOUT_S).topics[trigger].partitions)
        write_bus_record(config, BusRecord(partitions=partitions, topic_ids=topic_ids(config)))
    return created, existing


def _until_known(admin: AdminClient, names: list[str]) -> None:
    """A created topic is in a broker's metadata a moment later: wait for that, ten seconds at most."""

    def unknown() -> bool:
        listed = admin.list_topics(timeout=TIMEOUT_S).topics
        return any(name not in listed or not listed[name].partitions for name in names)

    Retrying(
        retry=retry_if_result(bool),
        wait=wait_fixed(0.1),
        stop=stop_after_delay(10),
        retry_error_callback=lambda _: None,  # whoever uses the topics next says which one is missing
    )(unknown)


def bus_record(config: BusConfig) -> BusRecord | None:
    """What the registry says that the bus was made with; reads it to its end."""
    return read_registry(config).bus


def read_registry(config: BusConfig, heard: Callable[[Record], None] | None = None) -> Registry:
    """The registry as it is now, read to its end; UnreachableError when nothing of it comes for a while.

    heard: gets each of its records, for what the registry does not keep of them.
    """
    from .clients import ClientErrors
    from .reader import STALL_S, KafkaReader

    registry = Registry()
    first = FirstRead(registry)
    errors = ClientErrors()
    reader = KafkaReader(config, errors)
    reader.read({TopicPartition(config.topic("subscription"), 0): 0})
    heard_at = time.monotonic()

    def ended() -> bool:
        nonlocal heard_at
        items = reader.take(1000, 0.5)
        if items:
            heard_at = time.monotonic()
        for item in items:
            first.take(item)
            if heard is not None and isinstance(item, Record):
                heard(item)
        return any(isinstance(item, End) for item in items)

    try:
        Retrying(
            retry=retry_if_result(lambda done: not done),
            stop=lambda _: time.monotonic() - heard_at > STALL_S,
        )(ended)
    except RetryError:
        reason = f"topic {config.topic('subscription')!r} cannot be read to its end"
        raise errors.unreachable(config, reason) from None
    finally:
        reader.close()
    first.finish()
    return registry


def write_bus_record(config: BusConfig, record: BusRecord) -> None:
    """Say what the bus is from now on; UnreachableError when the cluster has not taken it."""
    write_registry(config, BUS_KEY, encode_json(record))


def write_registry(config: BusConfig, key: bytes, value: bytes | None) -> None:
    """Write one record of the registry; UnreachableError when the cluster has not taken it."""
    write_registry_records(config, {key: value})


def write_registry_records(config: BusConfig, records: Mapping[bytes, bytes | None]) -> None:
    """Write records of the registry by their keys, in this order.

    UnreachableError when the cluster has not taken all of them; those before may be there.
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
    except (KafkaException, SystemError) as e:  # SystemError: a report served while a fatal error was raised
        fatal = e if isinstance(e, KafkaException) else e.__cause__
        reason = fatal.args[0].str() if isinstance(fatal, KafkaException) else str(e)
        raise UnreachableError(f"{config.describe()} does not take the bus's records: {reason}.") from e
    if left or refused:
        raise errors.unreachable(config, *refused[:1])


def topic_ids(config: BusConfig) -> dict[str, str]:
    """The ids of the bus's topics, by kind: one that is deleted and made again has another."""
    from .admin import Admin
    from .clients import ClientErrors

    found = Admin(config, ClientErrors()).topics([config.topic(kind) for kind in KINDS])
    return {kind: topic.id for kind in KINDS if (topic := found[config.topic(kind)]) is not None and topic.id}


def check(config: BusConfig, *, dead_letters: bool = True) -> dict[str, int]:
    """The partition count of each topic, when all are there and made as the protocols need.

    dead_letters: False leaves their topic out, as engines and waits do: what needs it waits, and nothing
    else. Raises TopicsError naming each topic that is missing or differs, and what to do; UnreachableError
    when the cluster does not answer.
    """
    from confluent_kafka import KafkaException

    admin = _admin(config)
    try:
        metadata = admin.list_topics(timeout=TIMEOUT_S)
    except KafkaException as e:
        raise UnreachableError(f"{config.describe()} does not answer: {e.args[0].str()}.") from e
    found = {name: len(t.partitions) for name, t in metadata.topics.items() if t.error is None}
    wanted = specs(config) if dead_letters else _working(config)
    missing = [s.name for s in wanted if s.name not in found]
    if missing:
        raise TopicsError(
            tuple(f"Topic {name!r} is missing." for name in missing)
            + (f"Is that the name of the bus? Then run: {config.command('topics create')}",)
        )
    counts = {s.name: found[s.name] for s in wanted}
    problems = []
    # A trigger partition, its states and the firings it writes have the same number.
    same = [config.topic(kind) for kind in ("trigger", "state", "action")]
    if len({counts[name] for name in same}) != 1:
        told = ", ".join(f"{name!r} has {counts[name]}" for name in same)
        problems.append(f"These topics must have the same number of partitions: {told}.")
    if counts[config.topic("subscription")] != 1:
        problems.append(f"Topic {config.topic('subscription')!r} must have exactly one partition.")
    problems += _differing_settings(admin, wanted)
    if problems:
        raise TopicsError((*problems, _MEND))
    return counts


def check_settings(config: BusConfig) -> None:
    """TopicsError where a topic that an engine works with is set otherwise than the protocols need.

    The dead-letter topic may be away or altered: what needs it waits. UnreachableError when a topic's
    settings cannot be read.
    """
    problems = _differing_settings(_admin(config), _working(config))
    if problems:
        raise TopicsError((*problems, _MEND))


def _working(config: BusConfig) -> tuple[TopicSpec, ...]:
    """The topics that nothing goes on without."""
    return tuple(s for s in specs(config) if s.name != config.topic("dead-letter"))


def _differing_settings(admin: AdminClient, wanted: tuple[TopicSpec, ...]) -> list[str]:
    """A sentence for each required setting that a topic has otherwise."""
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
                fits = needed.split(",")[0] in policies <= set(needed.split(","))  # without retention as well
            else:
                fits = value == needed
            if not fits:
                problems.append(f"Topic {s.name!r} has {key}={value}, the engine needs {key}={needed}.")
    return problems


def _admin(config: BusConfig, logger: logging.Logger | None = None) -> AdminClient:
    from confluent_kafka.admin import AdminClient

    from .clients import ClientErrors, client_log, connect

    errors = ClientErrors()
    admin = connect(AdminClient, config, errors, logger=logger or client_log)
    # A client that cannot connect only says so by waiting; ask once, with its own words for why.
    errors.require_answer(admin, config)
    return admin
