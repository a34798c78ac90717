"""The alert rules for Prometheus, and which of them fires for which problem that `health` and `doctor` find.

plugin/monitoring/alerts.yaml has the rules, docs/operate/alerts.md what each means and what to do.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Final

from ..bus import TopicPartition
from ..config import BusConfig
from ..protocol.partitions.missing_records import reported_state


class Alert(StrEnum):
    """The name of an alert rule."""

    NO_ENGINE = "InterlockNoEngine"
    PARTITIONS_NOT_READ = "InterlockPartitionsNotRead"
    RETENTION_NEAR = "InterlockRetentionNear"
    LAG_GROWS = "InterlockLagGrows"
    RESTARTS = "InterlockRestarts"
    TIMERS_LATE = "InterlockTimersLate"
    DEAD_LETTERS = "InterlockDeadLetters"
    LOOK_BACK_CUT = "InterlockLookBackCut"
    NO_DELIVERER = "InterlockNoDeliverer"
    SINK_PAUSED = "InterlockSinkPaused"
    DELIVERIES_LATE = "InterlockDeliveriesLate"
    RECEIVER_REFUSES = "InterlockReceiverRefuses"
    EVENTS_NOT_EMITTED = "InterlockEventsNotEmitted"
    RELAY_FAILS = "InterlockRelayFails"


class Kind(Enum):
    """What a problem is about."""

    UNREACHABLE = auto()
    TOPIC = auto()
    DEAD_LETTER_TOPIC = auto()
    LATER_VERSION = auto()
    LATER_SINK = auto()
    LATER_REPORT = auto()
    NO_BUS_RECORD = auto()
    RECORDS_REMOVED = auto()
    LISTED_TOPIC = auto()
    NO_ENGINE = auto()
    ENGINE_ENDS = auto()
    NOT_READ = auto()
    NO_OWNER = auto()
    SUSPECT = auto()
    LOOK_BACK = auto()
    FULL_WAIT = auto()
    RETENTION = auto()
    TRANSACTION_ON_SOURCE = auto()
    TRANSACTION_ELSEWHERE = auto()
    NO_DELIVERER = auto()
    DELIVERY_STUCK = auto()
    DELIVERY_LATE = auto()
    DELIVERIES_UNKNOWN = auto()
    SINK_CONNECTION = auto()
    REMEDY = auto()


ALERTS: Final[dict[Kind, Alert | None]] = {
    Kind.UNREACHABLE: Alert.RESTARTS,  # engines end, and try again every 15 s
    Kind.TOPIC: Alert.RESTARTS,  # an engine ends if a topic is missing or has other settings
    Kind.DEAD_LETTER_TOPIC: None,  # a partition is paused when it has a dead letter
    Kind.LATER_VERSION: Alert.RESTARTS,  # engines end, because they must not skip the record
    Kind.LATER_SINK: Alert.DELIVERIES_LATE,
    Kind.LATER_REPORT: None,
    Kind.NO_BUS_RECORD: Alert.RESTARTS,
    Kind.RECORDS_REMOVED: Alert.RESTARTS,
    Kind.LISTED_TOPIC: Alert.PARTITIONS_NOT_READ,
    Kind.NO_ENGINE: Alert.NO_ENGINE,
    Kind.ENGINE_ENDS: Alert.RESTARTS,
    Kind.NOT_READ: Alert.PARTITIONS_NOT_READ,
    Kind.NO_OWNER: None,  # normal for a moment; if it lasts, the lag grows
    Kind.SUSPECT: None,  # a process that was killed counts nothing; after five, the record is a dead letter
    Kind.LOOK_BACK: Alert.LOOK_BACK_CUT,
    Kind.FULL_WAIT: Alert.DEAD_LETTERS,  # so do events of further keys
    Kind.RETENTION: Alert.RETENTION_NEAR,
    Kind.TRANSACTION_ON_SOURCE: Alert.LAG_GROWS,
    Kind.TRANSACTION_ELSEWHERE: None,
    Kind.NO_DELIVERER: Alert.NO_DELIVERER,
    Kind.DELIVERY_STUCK: Alert.DELIVERIES_LATE,
    Kind.DELIVERY_LATE: Alert.DELIVERIES_LATE,
    Kind.DELIVERIES_UNKNOWN: None,
    Kind.SINK_CONNECTION: Alert.SINK_PAUSED,  # as soon as it has a firing
    Kind.REMEDY: None,  # what to do about the problems before it
}


def alert_for(kind: Kind) -> str | None:
    """The name of the alert rule that fires for such a problem; None if none does."""
    alert = ALERTS[kind]
    return None if alert is None else alert.value


def kind_of_topic(config: BusConfig, problem: str) -> Kind:
    """What a problem of TopicsError is about: its last one says what to do."""
    if not problem.startswith(("Topic ", "These topics ")):
        return Kind.REMEDY
    return Kind.DEAD_LETTER_TOPIC if repr(config.topic("dead-letter")) in problem else Kind.TOPIC


def kind_of_unknown(key: bytes) -> Kind:
    """What a record of the registry with a later version is about, by its key."""
    of = {b"sink": Kind.LATER_SINK, b"problem": Kind.LATER_REPORT, b"failing": Kind.LATER_REPORT}
    return of.get(key.partition(b"/")[0], Kind.LATER_VERSION)


def kind_of_report(config: BusConfig, tp: TopicPartition, problem: str) -> Kind:
    """What an engine has reported of its partition."""
    if reported_state(tp, problem) is not None:
        return Kind.NOT_READ
    return Kind.FULL_WAIT if tp.topic == config.topic("trigger") else Kind.LOOK_BACK
