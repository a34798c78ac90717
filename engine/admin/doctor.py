"""The doctor: checks once everything that a bus needs, and says what is wrong and what to do.

`airflow interlock doctor` shows its findings; docs/use/commands.md lists them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

from ...conditions.explanation.wording import counted
from ...events.attributes import format_timestamp
from ...events.proof import Proof
from ..config import KINDS, BusConfig
from ..errors import EngineError, TopicsError, UnknownVersion
from ..following.subscriptions import Subscriptions
from ..kafka import probe
from ..kafka.admin import Admin
from ..kafka.topics import bus_record, check, read_registry
from .access import USUAL_ROLES, Acl, Role, lacking, needed
from .alerts import Kind, alert_for, kind_of_topic
from .deployments import deployments
from .findings import AirflowInfo, Finding
from .health import examine
from .listed_topics import notes_of
from .sink_checks import check_sinks

CLOCK_NOTE_MS: Final = 1000
CLOCK_WRONG_MS: Final = 5000
LEAST_CLIENT: Final = (2, 15)
LEAST_BROKER: Final = (3, 3)
# Airflow's next major version is not supported either.
LEAST_AIRFLOW: Final = (3, 3)
_LOCAL: Final = ("localhost", "127.", "[::1]")


def diagnose(
    config: BusConfig,
    info: AirflowInfo,
    roles: Collection[Role] = USUAL_ROLES,
    begin: Callable[[str], None] = lambda _: None,
) -> Iterator[Finding]:
    """Yields the findings one after the other. A problem of the bus is a finding and raises nothing.

    begin: gets the name of each check that connects, before it begins: some take seconds.
    """
    yield from versions(info.version)
    yield from teams(config.connection, info)
    yield connection(config)
    begin("connection")
    try:
        cluster = probe.cluster(config)
    except EngineError as error:
        yield Finding("connection", "wrong", str(error), alert_for(Kind.UNREACHABLE))
        return
    brokers = counted(cluster.brokers, "broker", "brokers")
    yield Finding("connection", "ok", f"{config.describe()} answers; it has {brokers}.")
    yield broker(probe.broker_version(config))
    engine = "engine" in roles  # only engines may read all topics of the bus
    shown = []
    for finding in _guarded("topics", lambda: _topics(config, cluster), begin) if engine else ():
        shown.append(finding.text)
        yield finding
    if engine and config.topic("subscription") not in cluster.replicas:
        return  # the bus does not exist, and the findings about topics say so
    yield from _guarded("access", lambda: _access(config, roles), begin)
    if engine or "wait" in roles:
        yield from _guarded("clock", lambda: [clock(*probe.clock_difference_ms(config))], begin)
    if engine:
        yield from _guarded("bus", lambda: _bus(config, shown), begin)
        yield from _guarded("deployment", lambda: _deployments(config, info), begin)
    if "deliver" in roles:
        yield from _guarded("sinks", lambda: _sinks(config, info, roles), begin)


def _guarded(
    name: str, look: Callable[[], Iterable[Finding]], begin: Callable[[str], None]
) -> Iterator[Finding]:
    """Yields a check's findings. An error that ends the check is a finding too."""
    begin(name)
    try:
        yield from look()
    except EngineError as error:
        yield Finding(name, "wrong", str(error))


def versions(airflow: str) -> Iterator[Finding]:
    """Checks the versions of Airflow and the Kafka client."""
    import confluent_kafka

    found = (
        f"Airflow {airflow}, confluent-kafka {_text(confluent_kafka.version())}, "
        f"librdkafka {confluent_kafka.libversion()[0]}, Python {sys.version.split()[0]}."
    )
    problems = []
    if not LEAST_AIRFLOW <= _numbers(airflow) < (LEAST_AIRFLOW[0] + 1,):
        problems.append(
            f"Airflow {_dotted(LEAST_AIRFLOW)} or later, below {LEAST_AIRFLOW[0] + 1}, is needed."
        )
    if _numbers(confluent_kafka.libversion()[0]) < LEAST_CLIENT:
        least = _dotted(LEAST_CLIENT)
        problems.append(f"librdkafka {least} or later is needed: install confluent-kafka {least} or later.")
    yield Finding("settings", "wrong" if problems else "ok", " ".join([found, *problems]))


def connection(config: BusConfig) -> Finding:
    """Checks how the connection is protected. Shows no values of its properties."""
    protocol = config.client.get("security.protocol", "plaintext").upper()
    text = f"Connection {config.connection!r}: {protocol}"
    if mechanism := config.client.get("sasl.mechanism", config.client.get("sasl.mechanisms")):
        text += f", {mechanism}"
    excepted = ", ".join(sorted(config.allowed_client_properties & config.client.keys()))
    text += f"; allowed only by [interlock] allowed_client_properties: {excepted}." if excepted else "."
    if config.proof is not None:
        text += _about(config.proof)
    remote = not all(server.strip().startswith(_LOCAL) for server in config.bootstrap_servers.split(","))
    if remote and not protocol.endswith("SSL"):
        text += " Anybody on the network can read and change the traffic: configure TLS on the brokers."
        return Finding("connection", "note", text)
    return Finding("connection", "ok", text)


def _about(proof: Proof) -> str:
    if proof.from_ms is None:
        return " Interlock's own events get a proof; none needs one, since interlock.proof.from is not set."
    since = format_timestamp(datetime.fromtimestamp(proof.from_ms / 1000, UTC))
    return f" Interlock's own events need a proof from {since} on."


def broker(version: str | None) -> Finding:
    """Checks whether Interlock is tested with the brokers' version."""
    least = _dotted(LEAST_BROKER)
    tested = f"Interlock is tested with {least} and later."
    if version is None:
        return Finding("broker", "note", f"The broker's version is unknown. {tested}")
    if not version or _numbers(version) < LEAST_BROKER:
        if version == "3.1":
            return Finding("broker", "ok", f"The broker has the protocol of Kafka 3.1 to 3.4. {tested}")
        text = f"has the protocol of Kafka {version}" if version else "is older than Kafka 2.7"
        return Finding("broker", "note", f"The broker {text}. {tested}")
    return Finding("broker", "ok", f"The broker has the protocol of Kafka {version} or later.")


def clock(ahead_ms: int, error_ms: int) -> Finding:
    """Checks the broker's clock. ahead_ms: how far it is ahead. error_ms: how inaccurate that is."""
    apart = max(0, abs(ahead_ms) - error_ms)
    where = "ahead of" if ahead_ms > 0 else "behind"
    text = f"The broker's clock is {abs(ahead_ms) / 1000:.1f} s {where} this machine's (+- {error_ms} ms)."
    if apart <= CLOCK_NOTE_MS:
        return Finding("clock", "ok", text)
    text += (
        " This machine's clock decides when a wait begins, the broker's clock when an event was recorded: "
        "synchronise both with the same time service."
    )
    return Finding("clock", "wrong" if apart > CLOCK_WRONG_MS else "note", text)


def teams(connection: str, info: AirflowInfo) -> Iterator[Finding]:
    """Checks Airflow's teams and triggerer queues, if they are in use."""
    if info.team is not None:
        yield Finding(
            "teams",
            "wrong",
            f"Connection {connection!r} belongs to team {info.team!r}, but triggerers read only connections "
            "without a team: waits with it do not start. Create one without a team; the brokers' ACLs can "
            "give each team a bus of its own.",
        )
    elif info.multi_team:
        yield Finding("teams", "ok", f"Connection {connection!r} belongs to no team: triggers read it.")
    if info.queues:
        yield Finding(
            "teams", "ok", "Triggerer queues are on: each queue whose tasks wait needs a triggerer."
        )


def access(acls: Iterable[Acl], allowed: dict[str, set[str] | str]) -> Iterator[Finding]:
    """Checks which of the topics' ACLs are missing. allowed: from `probe.allowed`."""
    missing = 0
    for acl in acls:
        rights = allowed.get(acl.name, set())
        if isinstance(rights, str):
            yield Finding("access", "wrong", f"{acl.role}: topic {acl.name!r} cannot be described: {rights}.")
            missing += 1
        elif lacks := lacking(acl, rights):
            yield Finding(
                "access",
                "wrong",
                f"{acl.role}: allow {', '.join(lacks)} on topic {acl.name!r} to the user of this connection.",
            )
            missing += 1
    if not missing:
        yield Finding("access", "ok", "All needed operations on the topics are allowed.")


def _topics(config: BusConfig, cluster: probe.Cluster) -> Iterator[Finding]:
    try:
        counts = check(config)
        yield Finding(
            "topics", "ok", f"All {len(counts)} topics of bus {config.name!r} are set up correctly."
        )
    except TopicsError as error:
        for problem in error.problems:
            yield Finding("topics", "wrong", problem, alert_for(kind_of_topic(config, problem)))
    if config.topic("subscription") in cluster.replicas:
        for name in _listed(config):
            if name not in cluster.replicas:
                yield Finding(
                    "topics",
                    "wrong",
                    f"The listed topic {name!r} does not exist, or this connection may not describe it: "
                    "create it again, allow Describe on it, or run: "
                    f"{config.command(f'topics remove {name}')}",
                    alert_for(Kind.LISTED_TOPIC),
                )
        with closing(Admin(config)) as admin:
            for name in _listed(config):
                if name in cluster.replicas:
                    yield from (Finding("topics", "note", n) for n in notes_of(name, admin.settings(name)))
    own = {config.topic(kind) for kind in KINDS}
    single = sorted(name for name in own if cluster.replicas.get(name) == 1)
    if single and cluster.brokers > 1:
        yield Finding(
            "topics",
            "note",
            f"{', '.join(single)}: only one replica on {cluster.brokers} brokers; if that broker fails, the "
            "bus stops. Use three replicas and min.insync.replicas=2.",
        )
    suffixes = ("-subscription", "-event", "-trigger")
    buses = sorted(
        name.removesuffix(suffixes[0])
        for name in cluster.replicas
        if name.endswith(suffixes[0])
        and all(name.removesuffix(suffixes[0]) + suffix in cluster.replicas for suffix in suffixes)
    )
    if buses and buses != [config.name]:
        yield Finding("topics", "ok", f"Buses of this cluster: {', '.join(buses)}.")


def _access(config: BusConfig, roles: Collection[Role]) -> Iterator[Finding]:
    registry = config.topic("subscription")
    acls = _of_topics(needed(config, roles=roles))
    allowed = probe.allowed(config, {acl.name for acl in acls})
    if any(acl.name == registry for acl in acls):  # emitters need neither the registry nor listed topics
        if {"Read", "All"} & set(allowed[registry]):
            acls = _of_topics(needed(config, _listed(_reader(config, roles)), roles))
            if others := {acl.name for acl in acls} - allowed.keys():
                allowed |= probe.allowed(config, others)
        else:
            yield Finding(
                "access", "note", f"Listed topics are not checked: Read on {registry!r} is not allowed."
            )
    yield from access(acls, allowed)
    if "engine" in roles:
        yield _transaction("engine", config)
    if "deliver" in roles:
        yield _transaction("deliver", config.of_deliverers)


def _transaction(role: Role, config: BusConfig) -> Finding:
    """Whether a transaction begins in the group of the configuration."""
    refused = probe.transaction_refused(config)
    if refused is None:
        return Finding("access", "ok", f"A transaction with group {config.group!r} works.")
    return Finding(
        "access",
        "wrong",
        f"{role}: a transaction cannot begin: {refused}. Allow Write on transactional ids with the "
        f"prefix '{config.group}-' and Read on group {config.group!r} to the user of this connection.",
    )


def _sinks(config: BusConfig, info: AirflowInfo, roles: Collection[Role]) -> Iterator[Finding]:
    if info.sinks is None:
        yield Finding("sinks", "note", "Not checked: a setting of deliveries is invalid (see settings).")
        return
    registry = read_registry(_reader(config, roles), known=False)
    yield from check_sinks(registry, config.deployment, info.sinks)


def _reader(config: BusConfig, roles: Collection[Role]) -> BusConfig:
    """The bus with a group that these roles may use: a client that reads must name one."""
    return config if {"engine", "wait"} & set(roles) else config.of_deliverers


def _of_topics(acls: Iterable[Acl]) -> list[Acl]:
    return [acl for acl in acls if acl.resource == "topic"]


def _listed(config: BusConfig) -> tuple[str, ...]:
    """The listed topics of the bus."""
    bus = bus_record(config)
    return () if bus is None else bus.topics


def _bus(config: BusConfig, shown: Collection[str]) -> Iterator[Finding]:
    """The problems that `health` finds. `shown`: texts to leave out, because earlier findings have them."""
    health = examine(config)
    problems = [problem for problem in health.problems if problem not in shown]
    for problem in problems:
        yield Finding("bus", "wrong", problem, health.alerts.get(problem))
    if not problems:
        registered = sum(health.registrations.get(kind, 0) for kind in ("one_shot", "durable"))
        lag = sum(partition["lag"] or 0 for partition in health.partitions)
        yield Finding(
            "bus",
            "ok",
            f"{counted(len(health.engines), 'engine', 'engines')}, "
            f"{counted(registered, 'registration', 'registrations')}; "
            f"{counted(lag, 'record', 'records')} not processed yet.",
        )


def _deployments(config: BusConfig, info: AirflowInfo) -> Iterator[Finding]:
    try:
        subscriptions = Subscriptions.read(config)
    except UnknownVersion:  # the check of the bus has named the record
        return
    yield from deployments(subscriptions, info)


def _numbers(version: str) -> tuple[int, ...]:
    found = []
    for part in version.split(".")[:2]:
        digits = "".join(character for character in part if character.isdigit())
        found.append(int(digits or 0))
    return tuple(found)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _text(version: object) -> str:
    """The version as a text: confluent_kafka.version() returned a pair in earlier releases."""
    return str(version[0]) if isinstance(version, tuple) else str(version)
