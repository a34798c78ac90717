"""The ACLs that each role needs on a bus's topics, group and transactional ids.

`airflow interlock topics create --dry-run` prints them. `airflow interlock doctor` compares them with what
the brokers allow. A test on a broker with ACLs shows that they suffice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from ..config import KINDS, BusConfig

Role: TypeAlias = Literal["emit", "wait", "engine", "deliver"]
Operation: TypeAlias = Literal["Read", "Write", "Describe", "DescribeConfigs", "Delete"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
# The roles that every installation has; not every one has sinks.
USUAL_ROLES: Final[tuple[Role, ...]] = ("emit", "wait", "engine")
# Kafka allows Describe on a topic to whoever has one of these operations.
_IMPLY_DESCRIBE: Final = frozenset({"Read", "Write", "Delete"})


class Acl(NamedTuple):
    """An ACL that a role needs: operations on a resource, with Kafka's names.

    role: `emit` (tasks and jobs that emit events), `wait` (workers that run waiting or dispatching tasks),
    `engine` (triggerers and `airflow interlock engine`), or `deliver` (triggerers with sinks and `airflow
    interlock deliver`). pattern: whether `name` is a whole name or a prefix.
    """

    role: Role
    resource: Literal["topic", "group", "transactional-id"]
    name: str
    pattern: Literal["literal", "prefixed"]
    operations: tuple[Operation, ...]


def needed(config: BusConfig, listed: Sequence[str] = (), roles: Collection[Role] = ROLES) -> list[Acl]:
    """All ACLs that these roles need. `listed`: the listed topics of the bus."""
    return [acl for acl in _all(config, listed) if acl.role in roles]


def _all(config: BusConfig, listed: Sequence[str]) -> Iterator[Acl]:
    event = config.topic("event")
    yield Acl("emit", "topic", event, "literal", ("Write",))
    # A firing refers to an event with large data by its offset, and the task reads the event there.
    for name in (event, *listed):
        yield Acl("wait", "topic", name, "literal", ("Read", "Describe"))
    # Read: a dispatcher's task reads the firings for which it creates DAG runs.
    yield Acl("wait", "topic", config.topic("action"), "literal", ("Read", "Write", "Describe"))
    # Read: a task that fetches an event, or explains why its wait was not met, must know the listed topics.
    yield Acl("wait", "topic", config.topic("subscription"), "literal", ("Read", "Write", "Describe"))
    yield Acl("wait", "group", config.group, "literal", ("Describe",))
    reads: tuple[Operation, ...] = ("Read", "Describe", "DescribeConfigs")
    for kind in KINDS:
        writes: tuple[Operation, ...] = () if kind == "event" else ("Write",)
        deletes: tuple[Operation, ...] = ("Delete",) if kind == "trigger" else ()  # deletes old records
        yield Acl("engine", "topic", config.topic(kind), "literal", (*reads, *writes, *deletes))
    for name in listed:
        yield Acl("engine", "topic", name, "literal", reads)
    yield Acl("engine", "group", config.group, "literal", ("Read",))
    yield Acl("engine", "transactional-id", f"{config.group}-", "prefixed", ("Write",))
    yield from _of_deliverers(config.of_deliverers, listed)


def _of_deliverers(config: BusConfig, listed: Sequence[str]) -> Iterator[Acl]:
    about: tuple[Operation, ...] = ("Describe", "DescribeConfigs")
    # Large data are read from the events; replies are written there.
    operations: dict[str, tuple[Operation, ...]] = {
        "event": ("Read", *about, "Write"),
        "subscription": ("Read", *about),
        "action": ("Read", *about, "Write"),
        "dead-letter": (*about, "Write"),
    }
    for kind in KINDS:
        yield Acl("deliver", "topic", config.topic(kind), "literal", operations.get(kind, about))
    for name in listed:
        yield Acl("deliver", "topic", name, "literal", ("Read", "Describe"))
    yield Acl("deliver", "group", config.group, "literal", ("Read",))
    yield Acl("deliver", "transactional-id", f"{config.group}-", "prefixed", ("Write",))


def lacking(acl: Acl, allowed: Collection[str]) -> list[Operation]:
    """The ACL's operations that are not allowed. allowed: Kafka's names, or "All"."""
    if "All" in allowed:
        return []
    implied = {"Describe"} if _IMPLY_DESCRIBE & set(allowed) else set()
    return [operation for operation in acl.operations if operation not in {*allowed, *implied}]
