"""The doctor: looks once at all that a bus needs, and says what is wrong and what to do.

`airflow interlock doctor` shows its findings; docs/use/commands.md lists them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from ...conditions.explanation.wording import counted
from ..config import KINDS, BusConfig
from ..errors import EngineError, TopicsError
from ..kafka import probe
from ..kafka.topics import bus_record, check
from .access import ROLES, Acl, Role, lacking, needed
from .deployments import deployments
from .findings import Finding, Host
from .health import examine
from .subscriptions import Subscriptions

CLOCK_NOTE_MS: Final = 1000
CLOCK_WRONG_MS: Final = 5000
LEAST_CLIENT: Final = (2, 15)
LEAST_BROKER: Final = (3, 3)
# Of Airflow, the next major version is not supported either.
LEAST_AIRFLOW: Final = (3, 3)
_LOCAL: Final = ("localhost", "127.", "[::1]")


def diagnose(config: BusConfig, host: Host, roles: Collection[Role] = ROLES) -> Iterator[Finding]:
    """The findings, one after the other. Raises nothing for what is wrong with the bus."""
    yield from versions(host.airflow)
    yield from teams(config.connection, host)
    yield connection(config)
    try:
        cluster = probe.cluster(config)
    except EngineError as error:
        yield Finding("connection", "wrong", str(error))
        return
    brokers = counted(cluster.brokers, "broker", "brokers")
    yield Finding("connection", "ok", f"{config.describe()} answers; it has {brokers}.")
    yield broker(probe.broker_version(config))
    engine = "engine" in roles  # who may look at all of the bus
    told = []
    for finding in _guarded("topics", lambda: _topics(config, cluster)) if engine else ():
        told.append(finding.text)
        yield finding
    if engine and config.topic("subscription") not in cluster.replicas:
        return  # nothing to look at, and the topics said so
    yield from _guarded("access", lambda: _access(config, roles))
    if engine or "wait" in roles:
        yield from _guarded("clock", lambda: [clock(*probe.clock_difference_ms(config))])
    if engine:
        yield from _guarded("bus", lambda: _bus(config, told))
        yield from _guarded("deployment", lambda: deployments(Subscriptions.read(config), host))


def _guarded(name: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What a check finds; what stops it is a finding too, and the next one goes on."""
    try:
        yield from look()
    except EngineError as error:
        yield Finding(name, "wrong", str(error))


def versions(airflow: str) -> Iterator[Finding]:
    """Of Airflow and the Kafka client."""
    import confluent_kafka

    told = (
        f"Airflow {airflow}, confluent-kafka {_text(confluent_kafka.version())}, "
        f"librdkafka {confluent_kafka.libversion()[0]}, Python {sys.version.split()[0]}."
    )
    problems = []
    if not LEAST_AIRFLOW <= _numbers(airflow) < (LEAST_AIRFLOW[0] + 1,):
        problems.append(f"Airflow {_dotted(LEAST_AIRFLOW)} or later of {LEAST_AIRFLOW[0]} is needed.")
    if _numbers(confluent_kafka.libversion()[0]) < LEAST_CLIENT:
        problems.append(f"librdkafka {_dotted(LEAST_CLIENT)} is needed: install confluent-kafka of it.")
    yield Finding("settings", "wrong" if problems else "ok", " ".join([told, *problems]))


def connection(config: BusConfig) -> Finding:
    """How the connection is protected, without its values."""
    protocol = config.client.get("security.protocol", "plaintext").upper()
    told = f"Connection {config.connection!r}: {protocol}"
    if mechanism := config.client.get("sasl.mechanism", config.client.get("sasl.mechanisms")):
        told += f", {mechanism}"
    let = ", ".join(sorted(config.allowed_client_properties & config.client.keys()))
    told += f"; set although refused otherwise: {let}." if let else "."
    away = not all(server.strip().startswith(_LOCAL) for server in config.bootstrap_servers.split(","))
    if away and not protocol.endswith("SSL"):
        told += " Whoever is on the network can read and change what is sent: give the brokers TLS."
        return Finding("connection", "note", told)
    return Finding("connection", "ok", told)


def broker(version: str | None) -> Finding:
    """Whether the brokers are of a version that is claimed."""
    least = _dotted(LEAST_BROKER)
    if version is None:
        return Finding("broker", "note", f"The broker does not tell its version; {least} is the least.")
    if not version or _numbers(version) < LEAST_BROKER:
        told = f"It speaks as Kafka {version}" if version else "It is older than Kafka 2.7"
        if version == "3.1":
            return Finding("broker", "ok", f"{told} to 3.4 do; {least} is the oldest that is tried.")
        return Finding("broker", "note", f"{told}; {least} is the oldest that is tried.")
    return Finding("broker", "ok", f"It speaks as Kafka {version} or later.")


def clock(ahead_ms: int, error_ms: int) -> Finding:
    """ahead_ms: by how much the broker's clock is ahead; error_ms: by how much that may be wrong."""
    apart = max(0, abs(ahead_ms) - error_ms)
    where = "ahead of" if ahead_ms > 0 else "behind"
    told = f"The broker's clock is {abs(ahead_ms) / 1000:.1f} s {where} this machine's (+- {error_ms} ms)."
    if apart <= CLOCK_NOTE_MS:
        return Finding("clock", "ok", told)
    told += (
        " Whether an event counts for a wait is decided by the broker's clock, and since when, by this one: "
        "let both follow the same time service."
    )
    return Finding("clock", "wrong" if apart > CLOCK_WRONG_MS else "note", told)


def teams(connection: str, host: Host) -> Iterator[Finding]:
    """Airflow's teams and triggerer queues, where they are in use."""
    if host.team is not None:
        yield Finding(
            "teams",
            "wrong",
            f"Connection {connection!r} belongs to team {host.team!r}, and triggerers read only connections "
            "without a team: waits on it do not begin. Make one without; by the brokers' ACLs, each team can "
            "have a bus of its own.",
        )
    elif host.multi_team:
        yield Finding("teams", "ok", f"Connection {connection!r} belongs to no team: triggers read it.")
    if host.queues:
        yield Finding(
            "teams", "ok", "Triggerer queues are on: each queue whose tasks wait needs a triggerer."
        )


def access(acls: Iterable[Acl], allowed: dict[str, set[str] | str]) -> Iterator[Finding]:
    """Which of the topics' ACLs are missing. allowed: as `probe.allowed` tells."""
    missing = 0
    for acl in acls:
        there = allowed.get(acl.name, set())
        if isinstance(there, str):
            yield Finding("access", "wrong", f"{acl.role}: topic {acl.name!r} cannot be described: {there}.")
            missing += 1
        elif lacks := lacking(acl, there):
            yield Finding(
                "access",
                "wrong",
                f"{acl.role}: allow {', '.join(lacks)} on topic {acl.name!r} to the user of this connection.",
            )
            missing += 1
    if not missing:
        yield Finding("access", "ok", "All that is needed of the topics is allowed.")


def _topics(config: BusConfig, cluster: probe.Cluster) -> Iterator[Finding]:
    try:
        counts = check(config)
        yield Finding("topics", "ok", f"All {len(counts)} topics of bus {config.name!r} are as they must be.")
    except TopicsError as error:
        for problem in error.problems:
            yield Finding("topics", "wrong", problem)
    if config.topic("subscription") in cluster.replicas:
        for name in _listed(config):
            if name not in cluster.replicas:
                yield Finding(
                    "topics",
                    "wrong",
                    f"Topic {name!r}, which the bus lists, is not there, or not to be seen: make it again, "
                    f"allow Describe on it, or say: {config.command(f'topics remove {name}')}",
                )
    own = {config.topic(kind) for kind in KINDS}
    single = sorted(name for name in own if cluster.replicas.get(name) == 1)
    if single and cluster.brokers > 1:
        yield Finding(
            "topics",
            "note",
            f"{', '.join(single)}: one replica on {cluster.brokers} brokers, and without that broker the bus "
            "stands still. Give them three, and min.insync.replicas=2.",
        )
    ends = ("-subscription", "-event", "-trigger")
    buses = sorted(
        name.removesuffix(ends[0])
        for name in cluster.replicas
        if name.endswith(ends[0])
        and all(name.removesuffix(ends[0]) + end in cluster.replicas for end in ends)
    )
    if buses and buses != [config.name]:
        yield Finding("topics", "ok", f"Buses of this cluster: {', '.join(buses)}.")


def _access(config: BusConfig, roles: Collection[Role]) -> Iterator[Finding]:
    registry = config.topic("subscription")
    acls = _of_topics(needed(config, roles=roles))
    allowed = probe.allowed(config, {acl.name for acl in acls})
    if any(acl.name == registry for acl in acls):  # emitters need nothing of it, or of what is listed
        if {"Read", "All"} & set(allowed[registry]):
            acls = _of_topics(needed(config, _listed(config), roles))
            if others := {acl.name for acl in acls} - allowed.keys():
                allowed |= probe.allowed(config, others)
        else:
            yield Finding(
                "access", "note", f"Without Read on {registry!r} nothing is known of listed topics."
            )
    yield from access(acls, allowed)
    if "engine" not in roles:
        return
    refused = probe.transaction_refused(config)
    if refused is None:
        yield Finding("access", "ok", f"A transaction begins, and group {config.group!r} takes it.")
    else:
        yield Finding(
            "access",
            "wrong",
            f"engine: no transaction begins: {refused}. Allow Write on transactional ids with the prefix "
            f"'{config.group}-' and Read on group {config.group!r} to the user of this connection.",
        )


def _of_topics(acls: Iterable[Acl]) -> list[Acl]:
    return [acl for acl in acls if acl.resource == "topic"]


def _listed(config: BusConfig) -> tuple[str, ...]:
    """The topics that the bus reads beside its own."""
    bus = bus_record(config)
    return () if bus is None else bus.topics


def _bus(config: BusConfig, told: Collection[str]) -> Iterator[Finding]:
    """What `health` says; `told`: what is said already."""
    health = examine(config)
    problems = [problem for problem in health.problems if problem not in told]
    for problem in problems:
        yield Finding("bus", "wrong", problem)
    if not problems:
        registered = sum(health.registrations.get(kind, 0) for kind in ("one_shot", "durable"))
        lag = sum(partition["lag"] or 0 for partition in health.partitions)
        yield Finding(
            "bus",
            "ok",
            f"{counted(len(health.engines), 'engine', 'engines')}, "
            f"{counted(registered, 'registration', 'registrations')}; "
            f"{counted(lag, 'record', 'records')} not worked through.",
        )


def _numbers(version: str) -> tuple[int, ...]:
    found = []
    for part in version.split(".")[:2]:
        digits = "".join(character for character in part if character.isdigit())
        found.append(int(digits or 0))
    return tuple(found)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _text(version: object) -> str:
    """confluent_kafka.version() is a text, and was a pair."""
    return str(version[0]) if isinstance(version, tuple) else str(version)
