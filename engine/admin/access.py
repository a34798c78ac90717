"""The rights that each role needs on the topics, group and transactional ids of a bus.

`airflow interlock topics create --dry-run` prints them, `airflow interlock doctor` compares them with what
the brokers allow. That they are enough is tested on a broker that checks them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from ..config import KINDS, BusConfig

Role: TypeAlias = Literal["emit", "wait", "engine"]
Operation: TypeAlias = Literal["Read", "Write", "Describe", "DescribeConfigs", "Delete"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
# What Kafka allows besides to whoever may do something of a topic.
_IMPLY_DESCRIBE: Final = frozenset({"Read", "Write", "Delete"})


class Acl(NamedTuple):
    """A right that a role needs: operations on a resource, in the words of Kafka's ACLs.

    role: `emit`, tasks and jobs that emit; `wait`, workers that run tasks which wait or dispatch; `engine`,
    triggerers and `airflow interlock engine`. pattern: whether `name` is the whole name or its beginning.
    """

    role: Role
    resource: Literal["topic", "group", "transactional-id"]
    name: str
    pattern: Literal["literal", "prefixed"]
    operations: tuple[Operation, ...]


def needed(config: BusConfig, listed: Sequence[str] = (), roles: Collection[Role] = ROLES) -> list[Acl]:
    """All that these roles need. `listed`: the topics that the bus reads beside its own."""
    return [acl for acl in _all(config, listed) if acl.role in roles]


def _all(config: BusConfig, listed: Sequence[str]) -> Iterator[Acl]:
    event = config.topic("event")
    yield Acl("emit", "topic", event, "literal", ("Write",))
    # A firing has the place of an event whose data are large, and the task reads them there.
    for name in (event, *listed):
        yield Acl("wait", "topic", name, "literal", ("Read", "Describe"))
    # Read: the firings that a dispatcher's task makes runs of.
    yield Acl("wait", "topic", config.topic("action"), "literal", ("Read", "Write", "Describe"))
    # Read: which topics the bus lists, where an event is fetched, or told of a wait that is over.
    yield Acl("wait", "topic", config.topic("subscription"), "literal", ("Read", "Write", "Describe"))
    yield Acl("wait", "group", config.group, "literal", ("Describe",))
    reads: tuple[Operation, ...] = ("Read", "Describe", "DescribeConfigs")
    for kind in KINDS:
        writes: tuple[Operation, ...] = () if kind == "event" else ("Write",)
        deletes: tuple[Operation, ...] = ("Delete",) if kind == "trigger" else ()  # old records
        yield Acl("engine", "topic", config.topic(kind), "literal", (*reads, *writes, *deletes))
    for name in listed:
        yield Acl("engine", "topic", name, "literal", reads)
    yield Acl("engine", "group", config.group, "literal", ("Read",))
    yield Acl("engine", "transactional-id", f"{config.group}-", "prefixed", ("Write",))


def lacking(acl: Acl, allowed: Collection[str]) -> list[Operation]:
    """Which of its operations are not among those allowed, by Kafka's names or "All"."""
    if "All" in allowed:
        return []
    implied = {"Describe"} if _IMPLY_DESCRIBE & set(allowed) else set()
    return [operation for operation in acl.operations if operation not in {*allowed, *implied}]
