"""The configuration of a bus: its names, and the client properties that reach its cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from ..events.proof import Proof, ProofError
from ..events.properties import refused
from .errors import ConfigError

# Properties that the protocols set themselves, and callbacks that Airflow's own Kafka operators take from a
# connection. A connection's values for them are ignored.
_RESERVED = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "error_cb",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "log_cb",
        "on_commit",
        "partition.assignment.strategy",
        "partitioner",
        "request.required.acks",
        "stats_cb",
        "throttle_cb",
        "transactional.id",
        "transaction.timeout.ms",
    }
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
DEFAULT_PARTITIONS = 16
KINDS = ("event", "trigger", "state", "action", "subscription", "dead-letter")  # the kinds of a bus's topics


def is_valid_name(text: str) -> bool:
    """Whether this can be the name of a bus or a deployment."""
    return _NAME.match(text) is not None


@dataclass(frozen=True)
class BusConfig:
    """A bus: its name, the Airflow installation that uses it, and the client properties of its cluster.

    `client` holds librdkafka properties, at least `bootstrap.servers`. Properties that run programs, disable
    certificate checks, or accept tokens that anybody can forge or read raise ConfigError unless
    `allowed_client_properties` names them. Properties that the protocols set themselves are ignored.
    `repr` and `describe()` show no property but `bootstrap.servers`. members: who uses this configuration;
    each kind has a consumer group of its own.
    """

    name: str = "interlock"
    deployment: str = "airflow"
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    connection: str = "kafka_default"  # where `client` came from, for messages only
    allowed_client_properties: frozenset[str] = frozenset()
    members: Literal["engines", "deliverers"] = "engines"

    def __post_init__(self) -> None:
        for what, value in (("bus", self.name), ("deployment", self.deployment)):
            if not is_valid_name(value):
                raise ConfigError(
                    f"[interlock] {what} = {value!r}: use letters, digits, '.', '_' and '-', at most 100."
                )
        if not self.client.get("bootstrap.servers"):
            raise ConfigError(
                f"Connection {self.connection!r} has no 'bootstrap.servers': "
                'add it to the connection\'s extra, e.g. {"bootstrap.servers": "broker:9092"}.'
            )
        names = refused(self.client, self.allowed_client_properties)
        if names:
            raise ConfigError(
                f"Connection {self.connection!r} sets {', '.join(names)}: Interlock refuses properties "
                "that run a program, disable verification, or accept tokens that anybody can forge or read. "
                "Remove it from the connection's extra (a token endpoint needs an https:// address), or let "
                "an administrator add it to [interlock] allowed_client_properties."
            )
        try:
            _ = self.proof
        except ProofError as error:
            raise ConfigError(f"Connection {self.connection!r}: {error}.") from None

    @classmethod
    def from_extra(
        cls,
        extra: Mapping[str, object],
        *,
        name: str,
        deployment: str,
        connection: str,
        allowed_client_properties: Collection[str] = (),
    ) -> BusConfig:
        """The bus of an Airflow kafka connection, whose `extra` holds client properties."""
        client: dict[str, str] = {}
        for key, value in extra.items():
            if key in _RESERVED:
                continue
            if isinstance(value, bool):
                client[key] = "true" if value else "false"
            elif isinstance(value, (str, int, float)):
                client[key] = str(value)
            else:
                raise ConfigError(
                    f"Connection {connection!r}, property {key!r}: expected a string or a number, "
                    f"got {type(value).__name__}."
                )
        return cls(name, deployment, client, connection, frozenset(allowed_client_properties))

    @property
    def bootstrap_servers(self) -> str:
        return self.client["bootstrap.servers"]

    @property
    def group(self) -> str:
        """The consumer group: of the bus's engines, or of the deployment's deliverers."""
        if self.members == "engines":
            return f"{self.name}-engine"
        return f"{self.name}-deliver-{self.deployment}"

    @property
    def id_prefix(self) -> str:
        """The beginning of the transactional ids of the group's members that belong to this deployment."""
        return f"{self.group}-{self.deployment}" if self.members == "engines" else self.group

    @property
    def member(self) -> str:
        """What log lines and errors call a member of the group."""
        return "The engine" if self.members == "engines" else "The deliverer"

    @property
    def of_deliverers(self) -> BusConfig:
        """The same bus, as a deliverer uses it."""
        return replace(self, members="deliverers")

    @cached_property
    def proof(self) -> Proof | None:
        """What proves that an emitter of this bus made an event; None if the connection has no secret."""
        return Proof.of(self.client, self.topic("event"))

    @cached_property
    def contents(self) -> str:
        """Equal for equal buses with equal client properties. Contains secrets: never show it."""
        return json.dumps([self.name, self.deployment, sorted(self.client.items())])

    def command(self, words: str) -> str:
        """The command line of an Interlock command on this bus."""
        return f"airflow interlock {words} --bus {self.name}"

    def topic(self, kind: str) -> str:
        """The topic of one kind: event, trigger, state, action, subscription or dead-letter."""
        return f"{self.name}-{kind}"

    def describe(self) -> str:
        return f"bus {self.name!r} at {self.bootstrap_servers} (connection {self.connection!r})"
