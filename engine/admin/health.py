"""The health of a bus, read from the cluster; it needs no engine.

`examine` returns the bus's state, and a sentence for each problem with what to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ...conditions.explanation.wording import counted
from ..bus import Topic, TopicPartition
from ..config import KINDS, BusConfig
from ..errors import EngineError, TopicsError
from ..kafka.admin import Admin, GroupMember
from ..kafka.positions import Position, positions
from ..kafka.topics import check, read_registry
from ..protocol.partitions.lifecycle import OPEN, RECOVERING, STOPPED, UNASSIGNED
from ..protocol.partitions.listed_topics import topic_not_read, why_unreadable
from ..protocol.partitions.missing_records import (
    ANOTHER_BUS,
    HALF_MET,
    REGISTRATIONS,
    inspect_commit,
    removed_records,
    reported_state,
    stopped_text,
)
from ..protocol.poison.suspects import suspect_text
from ..records import BUS_KEY, OffsetMetadata
from ..registry.lazy import LazyRegistry
from ..registry.registry import Registry
from .alerts import Kind, alert_for, kind_of_report, kind_of_topic, kind_of_unknown
from .dead_letters import counted as counted_letters
from .deliveries import deliveries, groups
from .undelivered import LATE_MS, late, left_behind, undelivered

# If a larger share of a source partition is unread, retention is about to remove unread records.
RETENTION_IN_DANGER: Final = 0.8
# A transaction that is open for longer is a problem. Engines' transactions end within 15 s.
OPEN_MS: Final = 60_000
FAILING_MS: Final = 300_000


@dataclass
class Health:
    """A bus at one moment. `problems` is empty if the bus is healthy; the rest is plain data for JSON.

    alerts: {problem: the alert rule that fires for it}, without problems that no rule fires for.
    dead_letters: how many are open and how many were sent again (redriven); complete: False if there may be
    more, because only the latest were counted; None if they cannot be read. dead_letters_at_most: all records
    of the topic, redrive and control records included. deliveries: see `deliveries`. sinks: see
    `Undelivered.row`.
    """

    bus: str
    cluster: str
    problems: list[str] = field(default_factory=list)
    alerts: dict[str, str] = field(default_factory=dict)
    engines: list[dict[str, Any]] = field(default_factory=list)
    partitions: list[dict[str, Any]] = field(default_factory=list)
    registrations: dict[str, Any] = field(default_factory=dict)
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    sinks: list[dict[str, Any]] = field(default_factory=list)
    dead_letters: dict[str, Any] | None = None
    dead_letters_at_most: int | None = None

    @property
    def ok(self) -> bool:
        return not self.problems

    def add(self, kind: Kind, *problems: str) -> None:
        self.problems += problems
        if alert := alert_for(kind):
            self.alerts.update(dict.fromkeys(problems, alert))


def examine(
    config: BusConfig, late_ms: int = LATE_MS, registry: Callable[[], LazyRegistry] | None = None
) -> Health:
    """Examine the bus. Raises UnreachableError if the cluster does not answer.

    late_ms: a firing that was not delivered to its sink for longer is a problem. registry: returns what is
    registered now; by default it is read, which takes a second for 100,000 registrations.
    """
    health = Health(config.name, config.bootstrap_servers)
    try:
        check(config)
    except TopicsError as e:
        for problem in e.problems:
            health.add(kind_of_topic(config, problem), problem)
    with closing(Admin(config)) as admin:
        read = registry or (lambda: read_registry(config, known=False))
        return _examine(health, config, admin, late_ms, read)


def _examine(
    health: Health, config: BusConfig, admin: Admin, late_ms: int, read: Callable[[], LazyRegistry]
) -> Health:
    topics = admin.topics([config.topic(kind) for kind in KINDS])
    if any(topics[config.topic(kind)] is None for kind in ("event", "trigger", "subscription")):
        return health
    registry = read()
    for key, text in registry.unknown.items():
        health.add(kind_of_unknown(key), text)
    if BUS_KEY in registry.unknown:  # a bus of a later version may have other rules
        _look_at_failing(health, registry, int(time.time() * 1000))
        _look_at_engines(health, config, registry, admin.group_members())
        return health
    if registry.bus is None:
        text = f"Bus {config.name!r} has no bus record. Run: {config.command('topics create')}"
        health.add(Kind.NO_BUS_RECORD, text)
    _look_at_registrations(health, registry)
    now_ms = int(time.time() * 1000)
    _look_at_deliveries(health, config, registry, now_ms, late_ms)
    _look_at_failing(health, registry, now_ms)
    members = admin.group_members()
    listed = () if registry.bus is None else registry.bus.topics
    _look_at_listed(health, config, admin, listed)
    found = positions(admin, config, listed)
    _look_at_engines(health, config, registry, members)
    _look_at_partitions(health, config, registry, members, found)
    sources = {position.tp for position in found}
    _look_for_open_transactions(health, config, admin, _ends(admin, topics, found), sources)
    dead_letters = config.topic("dead-letter")
    if (topic := topics[dead_letters]) is not None:
        partitions = [TopicPartition(dead_letters, number) for number in range(topic.partitions)]
        low, end = admin.start_offsets(partitions), admin.end_offsets(partitions)
        health.dead_letters_at_most = sum(end[tp] - low[tp] for tp in partitions)
        with suppress(EngineError):  # such as no right to read it: the rest of the health is worth seeing
            health.dead_letters = asdict(counted_letters(config, low, end))
    _look_for_alterations(health, config, registry, topics)
    _look_for_removed(health, config, admin, topics)
    return health


def _look_for_alterations(
    health: Health, config: BusConfig, registry: Registry, topics: Mapping[str, Topic | None]
) -> None:
    """Finds internal topics that were created again or altered since the bus was created."""
    if registry.bus is None:
        return
    for kind in KINDS:
        name = config.topic(kind)
        topic = topics[name]
        if topic is None:  # `check` reports it
            continue
        kept = kind not in ("event", "dead-letter")  # the protocols need no old records of these two
        if kept and registry.bus.topic_ids.get(kind, topic.id) != topic.id:
            text = f"Topic {name!r} was deleted and created again: its records are lost. {ANOTHER_BUS}"
            health.add(Kind.TOPIC, text)
        elif kind in ("trigger", "state", "action") and topic.partitions != registry.bus.partitions:
            health.add(
                Kind.TOPIC,
                f"Topic {name!r} has {counted(topic.partitions, 'partition', 'partitions')}, but the bus was "
                f"created with {registry.bus.partitions}: no engine runs. Create a bus with another name.",
            )


def _look_for_removed(
    health: Health, config: BusConfig, admin: Admin, topics: Mapping[str, Topic | None]
) -> None:
    """Finds compacted topics whose first records were removed."""
    for kind, contents in (("subscription", REGISTRATIONS), ("state", HALF_MET)):
        name = config.topic(kind)
        topic = topics[name]
        if topic is None:  # `check` reports it
            continue
        starts = admin.start_offsets([TopicPartition(name, number) for number in range(topic.partitions)])
        removed = (f"{text} {ANOTHER_BUS}" for text in removed_records(starts, contents))
        health.add(Kind.RECORDS_REMOVED, *removed)


def _look_at_registrations(health: Health, registry: LazyRegistry) -> None:
    all_of_them = registry.listed.values()
    one_shot = sum(1 for each in all_of_them if each.one_shot)
    oldest = min(all_of_them, key=lambda each: each.timestamp_ms, default=None)
    health.registrations = {
        "one_shot": one_shot,
        "durable": len(all_of_them) - one_shot,
        "oldest": None if oldest is None else oldest.subscription,
        "oldest_since": None if oldest is None else _moment(oldest.timestamp_ms),
    }


def _look_at_deliveries(
    health: Health, config: BusConfig, registry: Registry, now_ms: int, late_ms: int
) -> None:
    """Finds deployments whose firings nobody delivers, and sinks with a firing that waits for too long."""
    found = groups(config, registry)
    health.deliveries, problems = deliveries(config, registry, found)
    for kind, problem in problems:
        health.add(kind, problem)
    try:
        sinks = undelivered(config, registry, found)
    except EngineError as e:  # such as no right to read the topic: the rest of the health is worth seeing
        health.add(Kind.DELIVERIES_UNKNOWN, f"How many firings wait for sinks is not known: {e}")
        return
    health.sinks = [each.row(registry, now_ms) for each in sinks]
    health.add(Kind.NO_DELIVERER, *left_behind(config, registry, found, sinks))
    health.add(Kind.DELIVERY_LATE, *late(config, registry, found, sinks, now_ms, late_ms))


def _look_at_listed(health: Health, config: BusConfig, admin: Admin, listed: Sequence[str]) -> None:
    """Finds listed topics that no engine can read.

    Does not check the permission to read them, because the engines may have another user than this process.
    """
    for name, topic in admin.topics(listed, others=listed).items():
        reason = (
            why_unreadable(config, name, topic) if topic is None or topic.hidden or topic.leaderless else None
        )
        if reason is not None:
            health.add(Kind.LISTED_TOPIC, topic_not_read(name, reason))


def _look_at_engines(
    health: Health, config: BusConfig, registry: Registry, members: list[GroupMember]
) -> None:
    health.engines = [
        {"engine": member.name, "host": member.host, "partitions": len(member.partitions)}
        for member in sorted(members, key=lambda member: member.name)
    ]
    if not members and not registry.is_known:
        health.add(
            Kind.NO_ENGINE,
            f"No engine is a member of group {config.group!r}: engines of this version end, because they "
            "must not skip a record that they cannot read.",
        )
    elif not members and len(registry):
        health.add(
            Kind.NO_ENGINE,
            f"No engine is a member of group {config.group!r}; registrations in force: {len(registry)}. "
            f"Start a triggerer, or run: {config.command('engine')}",
        )


def _look_at_failing(health: Health, registry: Registry, now_ms: int) -> None:
    """Finds processes whose engine ends again and again."""
    for process, (written_ms, failing) in sorted(registry.failing.items()):
        if written_ms < now_ms - FAILING_MS:
            continue  # the process has ended: it writes the record every minute
        health.add(
            Kind.ENGINE_ENDS,
            f"The engine of process {process!r} on host {failing.host!r} (deployment {failing.deployment!r}) "
            f"ends again and again: {failing.count} times since {_moment(failing.since_ms)}. Its reason at "
            f"{_moment(written_ms)}: {failing.text}",
        )


def _look_at_partitions(
    health: Health,
    config: BusConfig,
    registry: Registry,
    members: list[GroupMember],
    found: list[Position],
) -> None:
    owners = {tp: member.name for member in members for tp in member.partitions}
    trigger, stopped_count = config.topic("trigger"), 0
    for position in found:
        tp, committed = position.tp, position.committed
        known = inspect_commit(
            committed,
            position.topic.id,
            position.low,
            position.end,
            in_use=tp in registry.sources,
            listed=tp.topic not in (config.topic("event"), trigger),
            registry_end=position.registry_end,
        )
        lost, stopped = known.lost, None
        if lost is not None and registry.resumption(tp) is None:
            stopped = stopped_text(config, tp, lost)
            health.add(Kind.NOT_READ, stopped)
            stopped_count += 1
        tried = suspect_text(tp, known.metadata)
        if lost is None and tried is not None:
            health.add(Kind.SUSPECT, tried)
        reported = _reported(registry, tp, stopped, lost is not None)
        if reported:
            by = "" if tp in owners else " Its last engine reported this."
            health.add(kind_of_report(config, tp, reported), reported + by)
        if members and tp not in owners:
            health.add(
                Kind.NO_OWNER,
                f"{tp} is assigned to no engine. That is normal for a moment after an engine joined or left, "
                "or partitions were added: check again in half a minute.",
            )
        # A listed partition that has lost its offset is stopped, so all that it holds is unread.
        lag = position.size if position.lag is None and lost is not None else position.lag
        # The engine itself deletes processed records of the trigger topic. If a partition begins at 0,
        # retention has removed nothing yet.
        in_danger = position.low > 0 and position.retention_used > RETENTION_IN_DANGER
        if lost is None and tp.topic != trigger and in_danger:
            health.add(
                Kind.RETENTION,
                f"{tp}: {lag} of its {counted(position.size, 'record', 'records')} are unread, and retention "
                "removes the oldest. Add engines, or raise the topic's retention.",
            )
        health.partitions.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "low": position.low,
                "committed": None if committed is None else committed.offset,
                "end": position.end,
                "lag": lag,
                "above_low": None if committed is None else committed.offset - position.low,
                "engine": owners.get(tp),
                "tries": _tries(known.metadata),
                "state": _state(tp, lost, reported, owned=tp in owners, committed=committed is not None),
            }
        )
    if stopped_count > 1:
        command = config.command("topics resume --all --from start|end")
        health.add(Kind.REMEDY, f"To resume all {stopped_count} stopped partitions: {command}")


def _reported(registry: Registry, tp: TopicPartition, stopped: str | None, lost: bool) -> str:
    """The problem that a partition's engine has recorded, without what this check has found itself."""
    reported = registry.problems.get(tp, "").removeprefix(stopped or "").strip()
    return "" if lost and reported_state(tp, reported) else reported


def _tries(metadata: OffsetMetadata) -> int:
    """How many engine processes have ended on the suspect that is tried alone."""
    suspected = metadata.suspects
    return len(suspected.ended) if suspected else 0


def _state(tp: TopicPartition, lost: str | None, reported: str, *, owned: bool, committed: bool) -> str:
    """A partition's state, as far as it shows on the cluster."""
    if lost is not None:
        return STOPPED.value
    read = UNASSIGNED if not owned else OPEN if committed else RECOVERING
    return (reported_state(tp, reported) or read).value


def _ends(
    admin: Admin, topics: Mapping[str, Topic | None], found: Sequence[Position]
) -> dict[TopicPartition, int]:
    """The ends of all partitions of the bus and of listed topics. topics: those of the bus."""
    ends = {position.tp: position.end for position in found}
    others = [
        TopicPartition(name, number)
        for name, topic in topics.items()
        for number in range(0 if topic is None else topic.partitions)
    ]
    return {**admin.end_offsets([tp for tp in others if tp not in ends]), **ends}


def _look_for_open_transactions(
    health: Health,
    config: BusConfig,
    admin: Admin,
    ends: Mapping[TopicPartition, int],
    sources: Collection[TopicPartition],
) -> None:
    """Finds partitions where a transaction, open for longer than OPEN_MS, hides records from readers.

    sources: those that engines read.
    """
    stable = admin.stable_offsets(ends)
    hidden = [tp for tp in ends if stable[tp] < ends[tp]]
    recent = admin.offsets_since(hidden, int(time.time() * 1000) - OPEN_MS)
    for tp in hidden:
        at, since = stable[tp], recent[tp]
        if since is not None and since <= at:
            continue  # the transaction began less than OPEN_MS ago
        tool = f"kafka-transactions.sh --bootstrap-server {config.bootstrap_servers}"
        place = f"--topic {tp.topic} --partition {tp.partition}"
        health.add(
            Kind.TRANSACTION_ON_SOURCE if tp in sources else Kind.TRANSACTION_ELSEWHERE,
            f"{tp}: a transaction of another producer has been open for more than {OPEN_MS // 1000} s, if "
            f"this machine's clock agrees with the brokers', and hides the records from offset {at} on from "
            f"all readers. To see its producer: {tool} describe-producers {place}. To end it: {tool} abort "
            f'{place} --start-offset {at}. On Kafka 4.3 and 4.4 read "Brokers" in docs/operate/operating.md '
            "first: it may have been committed.",
        )


def _moment(timestamp_ms: int) -> str:
    try:  # anybody who may write to the registry chooses it
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="seconds")
