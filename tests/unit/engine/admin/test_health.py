"""Health: the problems that it finds in the cluster and the registry, and that it closes its clients."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest
from interlock import event
from interlock.engine.admin import health as module
from interlock.engine.admin.alerts import ALERTS, Kind
from interlock.engine.admin.health import Health, examine
from interlock.engine.bus import Committed, End, Record, Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import TopicsError, UnreachableError
from interlock.engine.kafka.admin import GroupMember
from interlock.engine.kafka.positions import Position
from interlock.engine.records import (
    BUS_KEY,
    BusRecord,
    FailingRecord,
    LeaseRecord,
    OffsetMetadata,
    ProblemRecord,
    Registration,
    RegistrationKey,
    ResumeRecord,
    SourceRecord,
    encode_json,
    registry_key,
)
from interlock.engine.registry.lazy import LazyRegistry

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
EVENT, OTHER = TopicPartition("b-event", 0), TopicPartition("b-event", 1)
PAUSED = "b-event[0] is paused: it has a record that can neither be processed nor written as a dead letter."
REGISTRY = TopicPartition("b-subscription", 0)
GAP = "b-event[0]: records below 3 were removed (retention); 1 subscription looks back further."


class Cluster:
    """A bus that is well: one engine has read ten records of each of two partitions."""

    def __init__(self) -> None:
        self.registry = LazyRegistry()
        self.owner: tuple[TopicPartition, ...] = (EVENT, OTHER)
        self.committed = dict.fromkeys((EVENT, OTHER), 10)
        self.stable = dict.fromkeys((EVENT, OTHER), 10)
        self.stamps = [0] * 10  # of the records of each
        self.low = 0
        self.ends: dict[TopicPartition, int] = {}  # of partitions that the engines' group does not read
        self.listed: dict[str, Topic | None] = {}  # topics of others
        self.write(BUS_KEY, BusRecord(partitions=1))
        for tp in (EVENT, OTHER):
            self.write(registry_key("source", *tp), SourceRecord(topic_id="t"))

    def write(self, key: bytes, record: Any) -> None:
        value = None if record is None else encode_json(record)
        self.registry.apply(Record(REGISTRY, self.registry.position, 0, key, value, None))

    def read(self) -> LazyRegistry:
        self.registry.apply(End(REGISTRY, self.registry.position))
        return self.registry

    def report(self, text: str) -> None:
        self.write(registry_key("problem", *EVENT), ProblemRecord(text=text))

    def positions(self) -> list[Position]:
        text = encode_json(OffsetMetadata(applied=1, topic_id="t")).decode()
        return [
            Position(tp, Committed(self.committed[tp], text), self.low, 10, Topic("t", 1))
            for tp in (EVENT, OTHER)
        ]

    # -- as the admin client

    def topics(self, names: Iterable[str], *, others: Iterable[str] = ()) -> dict[str, Topic | None]:
        return {name: self.listed.get(name, Topic("t", 1)) for name in names}

    def group_members(self) -> list[GroupMember]:
        return [GroupMember("one", "here", self.owner)] if self.owner else []

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends.get(tp, 0) for tp in partitions}

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.stable.get(tp, 10) for tp in partitions}

    def offsets_since(
        self, partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> dict[TopicPartition, int | None]:
        first = next((n for n, stamp in enumerate(self.stamps) if stamp >= timestamp_ms), None)
        return dict.fromkeys(partitions, first)

    def close(self) -> None: ...


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(module, "Admin", lambda *_: cluster)
    monkeypatch.setattr(module, "check", lambda _config: None)
    monkeypatch.setattr(module, "read_registry", lambda _config, **_: cluster.read())
    monkeypatch.setattr(module, "positions", lambda *_: cluster.positions())
    return cluster


ALERT_OF = {
    "no engine": "InterlockNoEngine",
    "a topic was made again": "InterlockRestarts",
    "a topic has other partitions": "InterlockRestarts",
    "a topic is missing": "InterlockRestarts",
    "the dead-letter topic is missing": None,
    "registrations were removed": "InterlockRestarts",
    "a lease of a later version": "InterlockRestarts",
    "a sink of a later version": "InterlockDeliveriesLate",
    "no bus record": "InterlockRestarts",
    "an engine ends": "InterlockRestarts",
    "a listed topic is missing": "InterlockPartitionsNotRead",
    "a partition is stopped": "InterlockPartitionsNotRead",
    "a partition is paused": "InterlockPartitionsNotRead",
    "a look-back is cut": "InterlockLookBackCut",
    "a wait is full": "InterlockDeadLetters",
    "retention is near": "InterlockRetentionNear",
    "no owner": None,
    "a transaction hides events": "InterlockLagGrows",
    "a transaction hides firings": None,
    "nobody delivers": "InterlockNoDeliverer",
    "a deliverer is stuck": "InterlockDeliveriesLate",
    "a delivery is late": "InterlockDeliveriesLate",
    "a suspect": None,
}


def state(health: Health, tp: TopicPartition = EVENT) -> str:
    [found] = [p for p in health.partitions if (p["topic"], p["partition"]) == tp]
    return str(found["state"])


def test_a_bus_that_is_well_has_no_problems(cluster: Cluster) -> None:
    health = examine(CONFIG)
    assert health.problems == []
    assert (state(health), state(health, OTHER)) == ("open", "open")


@pytest.mark.parametrize(("kind", "matters"), [("dead-letter", False), ("event", False), ("state", True)])
def test_a_topic_that_was_created_again_is_a_problem_where_the_protocols_need_what_it_held(
    cluster: Cluster, kind: str, matters: bool
) -> None:
    cluster.write(BUS_KEY, BusRecord(partitions=1, topic_ids={kind: "another"}))
    named = [problem for problem in examine(CONFIG).problems if "was deleted and created again" in problem]
    assert bool(named) == matters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(PAUSED, "paused", id="paused for the dead-letter topic"),
        pytest.param(GAP, "open", id="read, and a look-back is cut short by retention"),
    ],
)
def test_a_partition_with_a_problem_is_shown_as_its_engine_reported_it(
    cluster: Cluster, text: str, shown: str
) -> None:
    cluster.report(text)
    health = examine(CONFIG)
    assert health.problems == [text]
    assert (state(health), state(health, OTHER)) == (shown, "open")


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (None, "the topic does not exist. Create it again, or remove it from the bus: "),
        (Topic("", 0, "Describe"), "the brokers refuse Describe on the topic to this user. "),
    ],
    ids=["not there", "refused"],
)
def test_a_listed_topic_that_no_engine_can_read_is_named_with_what_to_do(
    cluster: Cluster, topic: Topic | None, reason: str
) -> None:
    cluster.write(BUS_KEY, BusRecord(partitions=1, topics=("orders", "rates")))
    cluster.listed["orders"] = topic
    [problem] = examine(CONFIG).problems
    assert problem.startswith(f"Topic 'orders' is not read: {reason}")
    assert "airflow interlock topics remove orders --bus b" in problem


def test_offsets_that_the_group_lost_leave_all_there_is_unread(cluster: Cluster) -> None:
    """Of a listed topic as well: that it was read before is in the registry."""
    orders, rates = TopicPartition("orders", 0), TopicPartition("rates", 0)
    cluster.write(registry_key("source", *orders), SourceRecord(topic_id="t"))
    gone = [Position(tp, None, 4, 10, Topic("t", 1), listed=tp != EVENT) for tp in (EVENT, orders, rates)]
    cluster.positions = lambda: gone  # type: ignore[method-assign]
    lags = {row["topic"]: row["lag"] for row in examine(CONFIG).partitions}
    assert lags == {"b-event": 6, "orders": 6, "rates": None}


def test_a_problem_that_a_former_engine_reported_is_shown_as_such(cluster: Cluster) -> None:
    cluster.report(PAUSED)
    cluster.owner = (OTHER,)
    problems = examine(CONFIG).problems
    assert f"{PAUSED} Its last engine reported this." in problems


def test_a_reported_problem_of_a_removed_topic_is_not_shown(cluster: Cluster) -> None:
    cluster.write(registry_key("problem", "orders", 0), ProblemRecord(text="orders[0] is stopped."))
    assert examine(CONFIG).ok


def test_a_problem_that_is_found_and_reported_is_shown_once(cluster: Cluster) -> None:
    cluster.low, cluster.committed[EVENT] = 8, 5
    [stopped] = examine(CONFIG).problems
    assert stopped.startswith("b-event[0] is stopped: records 5 to 7 were removed")
    for reported, problems in (
        (stopped, [stopped]),
        (f"{stopped} {GAP}", [stopped, GAP]),
        ("b-event[0] is stopped: records 5 to 6 were removed.", [stopped]),  # fewer, when it was reported
    ):
        cluster.report(reported)
        assert examine(CONFIG).problems == problems
    cluster.write(registry_key("resume", *EVENT), ResumeRecord(topic_id="t", offset=8))
    cluster.report(stopped)
    health = examine(CONFIG)
    assert health.ok
    assert state(health) == "stopped"


def test_several_partitions_that_lost_records_have_one_command(cluster: Cluster) -> None:
    cluster.low, cluster.committed = 8, {EVENT: 5, OTHER: 5}
    problems = examine(CONFIG).problems
    assert len(problems) == 3
    assert problems[-1].startswith("To resume all 2 stopped partitions: airflow interlock topics ")
    assert "resume --all --from start|end --bus b" in problems[-1]


def test_records_that_a_transaction_of_others_holds_back_for_long_are_named_with_how_to_end_it(
    cluster: Cluster,
) -> None:
    cluster.stable[EVENT] = 4
    [problem] = examine(CONFIG).problems
    assert problem.startswith(
        "b-event[0]: a transaction of another producer has been open for more than 60 s"
    )
    assert "if this machine's clock agrees with the brokers'" in problem
    assert "from offset 4 on" in problem
    assert "kafka-transactions.sh --bootstrap-server one:1 abort" in problem
    assert "--topic b-event --partition 0 --start-offset 4" in problem
    now_ms = time.time() * 1000
    cluster.stamps[5:] = [int(now_ms)] * 5
    assert len(examine(CONFIG).problems) == 1
    cluster.stamps[4] = int(now_ms)
    assert examine(CONFIG).ok  # it may just be under way


@pytest.mark.parametrize("kind", ["action", "state", "subscription", "dead-letter"])
def test_an_open_transaction_is_named_on_topics_that_the_engines_group_does_not_read_too(
    cluster: Cluster, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits, dispatchers and deliverers came no further on the action topic, and all looked well."""

    def unread(*_: object) -> None:
        raise UnreachableError("no records")  # else a real client would wait 30 s for dead letters

    monkeypatch.setattr(module, "counted_letters", unread)
    tp = TopicPartition(f"b-{kind}", 0)
    cluster.ends[tp], cluster.stable[tp] = 10, 4
    [problem] = examine(CONFIG).problems
    assert problem.startswith(f"{tp}: a transaction of another producer has been open")
    assert "from offset 4 on" in problem


@pytest.mark.parametrize("answers", [True, False])
def test_no_client_stays_open_whether_the_cluster_answers_or_not(
    monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    closed = []

    class Admin:
        def __init__(self, *_: Any) -> None: ...

        def topics(self, names: list[str]) -> dict[str, None]:
            if not answers:
                raise UnreachableError("No answer.")
            return dict.fromkeys(names)

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr(module, "Admin", Admin)
    monkeypatch.setattr(module, "check", lambda _config: None)
    if answers:
        module.examine(CONFIG)
    else:
        with pytest.raises(UnreachableError):
            module.examine(CONFIG)
    assert len(closed) == 1


@pytest.mark.parametrize("since_ms", [2**62, -(2**62)])
def test_a_failing_record_with_a_time_that_no_calendar_has_is_shown(cluster: Cluster, since_ms: int) -> None:
    cluster.write(
        b"failing/p", FailingRecord(deployment="d", host="h", count=1, since_ms=since_ms, text="Odd.")
    )
    module._look_at_failing(health := Health("b", ""), cluster.registry, module.FAILING_MS)
    [problem] = health.problems
    assert f"since {since_ms} ms" in problem


def test_an_engine_that_ends_again_and_again_is_a_problem_with_its_reason(cluster: Cluster) -> None:
    """Such an engine is no member of the group, so nothing else shows it."""
    cluster.owner = ()
    failing = FailingRecord(deployment="d", host="worker-7", count=12, since_ms=60_000, text="State is odd.")
    cluster.write(b"failing/p", failing)
    now_ms = module.FAILING_MS
    module._look_at_failing(health := Health("b", ""), cluster.registry, now_ms)
    [problem] = health.problems
    assert problem == (
        "The engine of process 'p' on host 'worker-7' (deployment 'd') ends again and again: 12 times since "
        "1970-01-01T00:01:00+00:00. Its reason at 1970-01-01T00:00:00+00:00: State is odd."
    )
    assert [problem for problem in examine(CONFIG).problems if "worker-7" in problem] == [], "long ago"
    at_ms = int(time.time() * 1000)
    place = TopicPartition("b-subscription", 0)
    cluster.registry.apply(
        Record(place, cluster.registry.position, at_ms, b"failing/p", encode_json(failing), None)
    )
    assert [problem for problem in examine(CONFIG).problems if "worker-7" in problem] != []


LATER = BusRecord(v=9, partitions=1)


def test_a_record_of_a_later_version_is_named_as_the_reason_why_no_engine_works(cluster: Cluster) -> None:
    """Health did not name it: the engines ended, and it said to start one."""
    cluster.owner = ()
    cluster.write(b"lease/p/0", LeaseRecord(v=9, deployment="d", incarnations=[], host="h"))
    record, engines, *_ = examine(CONFIG).problems
    assert record.startswith(
        "b-subscription[0]@3 holds a LeaseRecord of version 9; this Interlock reads 1. Upgrade this process"
    )
    assert engines == (
        "No engine is a member of group 'b-engine': engines of this version end, because they must not "
        "skip a record that they cannot read."
    )


def test_of_a_bus_of_a_later_version_nothing_else_is_said(cluster: Cluster) -> None:
    cluster.write(BUS_KEY, LATER)
    health = examine(CONFIG)
    [problem] = health.problems
    assert problem.startswith("b-subscription[0]@3 holds a BusRecord of version 9; this Interlock reads 1.")
    assert health.partitions == []


def test_a_problem_that_a_later_version_reported_is_named(cluster: Cluster) -> None:
    cluster.write(registry_key("problem", *EVENT), ProblemRecord(v=9, text="anything"))
    [problem] = examine(CONFIG).problems
    assert "holds a ProblemRecord of version 9" in problem


def test_an_offset_of_a_later_version_is_named_with_what_a_resumption_would_lose(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = encode_json(OffsetMetadata(v=9, applied=1, topic_id="t")).decode()
    at = Position(EVENT, Committed(7, text), 0, 10, Topic("t", 1))
    monkeypatch.setattr(module, "positions", lambda *_: [at])
    [problem] = examine(CONFIG).problems
    assert problem.startswith(
        "b-event[0] is stopped: its committed offset holds an OffsetMetadata of version 9"
    )
    assert "`topics resume` would drop the metadata committed with offset 7." in problem


def test_where_the_action_topic_cannot_be_read_the_rest_of_the_health_is_shown(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> list[object]:
        raise UnreachableError("The brokers refuse Read on b-action.")

    monkeypatch.setattr(module, "undelivered", refused)
    health = examine(CONFIG)
    assert health.problems == [
        "How many firings wait for sinks is not known: The brokers refuse Read on b-action."
    ]
    assert (state(health), state(health, OTHER)) == ("open", "open")


class Troubled:
    """Makes one problem of ALERT_OF in a cluster that is well."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.patch = cluster, monkeypatch

    def make(self, problem: str) -> None:
        getattr(self, problem.replace(" ", "_").replace("-", "_"))()

    def no_engine(self) -> None:
        self.cluster.owner = ()
        registration = Registration.of("d/dag/run/task", event("x"), None, 0)
        self.cluster.write(RegistrationKey(registration.incarnation, "n").encode(), registration)

    def a_topic_was_made_again(self) -> None:
        self.cluster.write(BUS_KEY, BusRecord(partitions=1, topic_ids={"state": "another"}))

    def a_topic_has_other_partitions(self) -> None:
        self.cluster.write(BUS_KEY, BusRecord(partitions=2))

    def a_topic_is_missing(self) -> None:
        self.topics("Topic 'b-state' is missing, or this user may not describe it.")

    def the_dead_letter_topic_is_missing(self) -> None:
        self.topics("Topic 'b-dead-letter' is missing, or this user may not describe it.")

    def topics(self, text: str) -> None:
        def check(_config: BusConfig) -> None:
            raise TopicsError(text, "If 'b' is the right bus, run: airflow interlock topics create")

        self.patch.setattr(module, "check", check)

    def registrations_were_removed(self) -> None:
        self.patch.setattr(self.cluster, "start_offsets", lambda tps: dict.fromkeys(tps, 3))
        self.patch.setattr(module, "counted_letters", self.unreadable)

    @staticmethod
    def unreadable(*_: object) -> None:
        raise UnreachableError("no records")  # else a real client would wait 30 s for dead letters

    def a_lease_of_a_later_version(self) -> None:
        self.cluster.write(b"lease/p/0", LeaseRecord(v=9, deployment="d", incarnations=[], host="h"))

    def a_sink_of_a_later_version(self) -> None:
        self.cluster.registry.unknown[b"sink/d/deliver/crm"] = "It has version 9."

    def no_bus_record(self) -> None:
        self.cluster.registry.bus = None

    def an_engine_ends(self) -> None:
        failing = FailingRecord(deployment="d", host="h", count=12, since_ms=0, text="Odd.")
        place, at_ms = TopicPartition("b-subscription", 0), int(time.time() * 1000)
        record = Record(
            place, self.cluster.registry.position, at_ms, b"failing/p", encode_json(failing), None
        )
        self.cluster.registry.apply(record)

    def a_listed_topic_is_missing(self) -> None:
        self.cluster.write(BUS_KEY, BusRecord(partitions=1, topics=("orders",)))
        self.cluster.listed["orders"] = None

    def a_partition_is_stopped(self) -> None:
        self.cluster.low, self.cluster.committed[EVENT] = 8, 5

    def a_partition_is_paused(self) -> None:
        self.cluster.report(PAUSED)

    def a_look_back_is_cut(self) -> None:
        self.cluster.report(GAP)

    def a_wait_is_full(self) -> None:
        trigger = TopicPartition("b-trigger", 0)
        text = "'d/dag/run/task' has 100000 open keys: it takes no further key."
        self.cluster.write(registry_key("problem", *trigger), ProblemRecord(text=text))
        self.cluster.owner += (trigger,)
        at = Position(trigger, Committed(1, ""), 0, 1, Topic("t", 1))
        found = self.cluster.positions()
        self.patch.setattr(module, "positions", lambda *_: [*found, at])

    def retention_is_near(self) -> None:
        self.cluster.low, self.cluster.committed[EVENT] = 1, 2

    def no_owner(self) -> None:
        self.cluster.owner = (OTHER,)

    def a_transaction_hides_events(self) -> None:
        self.cluster.stable[EVENT] = 4

    def a_transaction_hides_firings(self) -> None:
        action = TopicPartition("b-action", 0)
        self.cluster.ends[action], self.cluster.stable[action] = 10, 4

    def nobody_delivers(self) -> None:
        self.delivering([(Kind.NO_DELIVERER, "No process delivers.")])

    def a_deliverer_is_stuck(self) -> None:
        self.delivering([(Kind.DELIVERY_STUCK, "b-action[0]: it has a record of a later version.")])

    def a_delivery_is_late(self) -> None:
        self.patch.setattr(module, "late", lambda *_: ["Firing f was not delivered for 1h."])

    def delivering(self, problems: list[tuple[Kind, str]]) -> None:
        self.patch.setattr(module, "deliveries", lambda *_: ([], problems))

    def a_suspect(self) -> None:
        self.patch.setattr(module, "suspect_text", lambda tp, _: f"{tp}: a record." if tp == EVENT else None)


@pytest.mark.parametrize("problem", ALERT_OF)
def test_each_problem_has_the_alert_that_fires_for_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    Troubled(cluster, monkeypatch).make(problem)
    health = examine(CONFIG)
    assert health.problems != []
    alert = ALERT_OF[problem]
    assert {*health.alerts.values()} == ({alert} if alert else set())


def test_each_kind_of_problem_says_whether_an_alert_fires_for_it() -> None:
    assert ALERTS.keys() == {*Kind}


def test_what_to_do_about_problems_is_no_problem_with_an_alert(cluster: Cluster) -> None:
    cluster.low, cluster.committed = 8, {EVENT: 5, OTHER: 5}
    health = examine(CONFIG)
    assert [health.alerts.get(problem) for problem in health.problems] == [
        *["InterlockPartitionsNotRead"] * 2,
        None,
    ]
