"""Who delivers, as health shows it; and where a subscription delivers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from interlock import event
from interlock.engine.admin import deliveries as module
from interlock.engine.admin.alerts import Kind
from interlock.engine.admin.deliveries import DelivererGroup, deliveries, groups
from interlock.engine.admin.sinks import destination, is_delivered, sink_of
from interlock.engine.bus import Committed, Record, Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.errors import UnreachableError
from interlock.engine.kafka.admin import GroupMember
from interlock.engine.records import (
    BUS_KEY,
    BusRecord,
    Registration,
    RegistrationKey,
    encode_json,
    sink_key,
)
from interlock.engine.registry.registry import Registry

CONFIG = BusConfig(name="b", deployment="other", client={"bootstrap.servers": "one:1"})
METADATA = '{"v":1,"t":"id","c":"deliverer"}'


class Cluster:
    """Three action partitions with ten records each, and the groups of deliverers."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.members: dict[str, int] = {}
        self.committed_to: dict[int, Committed | None] = {}
        self.closed = 0
        self.metadata = METADATA  # the metadata of the second partition's offset
        self.write(BUS_KEY, encode_json(BusRecord(partitions=3)))

    def write(self, key: bytes, value: bytes | None) -> None:
        place = TopicPartition("b-subscription", 0)
        self.registry.apply(Record(place, self.registry.position, 0, key, value, None))

    def register(self, *names: str, sink: bool = True) -> None:
        for name in names:
            registration = Registration.of(name, event("a"), None, 0, kind="durable")
            key = RegistrationKey(registration.incarnation, "n").encode()
            self.write(key, encode_json(registration))
            if sink:
                record = SinkRecord(subscription=name, connection="crm", path="/a?token=secret")
                self.write(record.key, encode_json(record))

    def admin(self, config: BusConfig) -> Admin:
        return Admin(self, config.group)


class Admin:
    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster, self._group = cluster, group

    def group_members(self) -> list[GroupMember]:
        if self._group not in self._cluster.members:
            raise UnreachableError(f"Group {self._group!r}: not authorised.")
        return [GroupMember(f"m{n}", "here", ()) for n in range(self._cluster.members[self._group])]

    def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool
    ) -> dict[TopicPartition, Committed | None]:
        offsets = {
            0: Committed(10, METADATA),
            1: Committed(4, self._cluster.metadata),
            2: None,
            **self._cluster.committed_to,
        }
        return {tp: offsets[tp.partition] for tp in partitions}

    def topics(self, names: Iterable[str]) -> dict[str, Topic | None]:
        return {name: Topic("id", 3) for name in names}

    def start_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 3)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def close(self) -> None:
        self._cluster.closed += 1


def reported(
    cluster: Cluster, only: str | None = None
) -> tuple[list[dict[str, Any]], list[tuple[Kind, str]]]:
    return deliveries(CONFIG, cluster.registry, groups(CONFIG, cluster.registry, only))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(module, "Admin", made.admin)
    return made


def test_each_deployment_with_sinks_is_shown_and_one_that_nobody_delivers_is_a_problem(
    cluster: Cluster,
) -> None:
    cluster.register("one/deliver/a", "one/deliver/b", "two/deliver/a")
    cluster.register("two/dispatch/d", "two/deliver/without", sink=False)
    cluster.members = {"b-deliver-one": 0, "b-deliver-two": 3}
    rows, [(kind, problem)] = reported(cluster)
    assert kind is Kind.NO_DELIVERER
    assert rows == [
        {"deployment": "one", "sinks": 2, "deliverers": 0, "behind": 13},
        {"deployment": "two", "sinks": 1, "deliverers": 3, "behind": 13},
    ]
    assert problem.startswith(
        "No process delivers the firings of deployment 'one', which has 2 sinks. In that Airflow run: "
        "airflow interlock deliver --bus b; or start a triggerer"
    )
    assert cluster.closed == 2


def test_what_a_deliverer_has_said_of_its_partition_is_a_problem(cluster: Cluster) -> None:
    cluster.register("one/deliver/a")
    cluster.members = {"b-deliver-one": 1}
    cluster.metadata = '{"v":1,"t":"id","c":"d","p":"It holds a record of version 9."}'
    _, [(kind, problem)] = reported(cluster)
    assert kind is Kind.DELIVERY_STUCK
    assert problem == ("b-action[1], which deployment 'one' delivers: It holds a record of version 9.")
    for metadata in ("", "no JSON", '{"v":1}', '{"p":5}', "[]"):
        cluster.metadata = metadata
        assert reported(cluster)[1] == []


def test_what_a_deliverer_has_said_of_a_topic_that_was_deleted_is_no_problem(cluster: Cluster) -> None:
    """It was one until the next commit, although the new topic has no such record."""
    cluster.register("one/deliver/a")
    cluster.members = {"b-deliver-one": 1}
    cluster.metadata = '{"v":1,"t":"deleted","c":"d","p":"It holds a record of version 9."}'
    assert reported(cluster)[1] == []


def test_a_group_that_cannot_be_seen_is_unknown_and_no_problem(cluster: Cluster) -> None:
    cluster.register("one/deliver/a", "no name!/deliver/a")
    rows, problems = reported(cluster)
    assert [(row["deployment"], row["deliverers"], row["behind"]) for row in rows] == [
        ("no name!", None, None),
        ("one", None, None),
    ]
    assert problems == []


def test_only_the_deployment_that_is_asked_for_is_looked_at(cluster: Cluster) -> None:
    cluster.register("one/deliver/a", "two/deliver/a")
    cluster.members = {"b-deliver-one": 0, "b-deliver-two": 0}
    [row], [(_, problem)] = reported(cluster, "two")
    assert (row["deployment"], "'two'" in problem, cluster.closed) == ("two", True, 1)


@pytest.mark.parametrize(
    ("committed", "begins"),
    [
        (Committed(8, METADATA), 8),
        (Committed(1, METADATA), 3),  # retention has removed what lies below
        (Committed(99, METADATA), 10),
        (Committed(8, METADATA.replace("id", "of a deleted topic")), 3),
        (Committed(8, ""), 3),  # of a tool
    ],
)
def test_a_committed_offset_says_from_where_on_firings_may_be_open(
    cluster: Cluster, committed: Committed, begins: int
) -> None:
    cluster.register("one/deliver/a")
    cluster.members, cluster.committed_to = {"b-deliver-one": 1}, {0: committed}
    [group] = groups(CONFIG, cluster.registry).values()
    assert isinstance(group, DelivererGroup)
    place = TopicPartition("b-action", 0)
    assert (group.open_from[place], group.ends[place]) == (begins, 10)
    assert (place in group.committed) == ("id" in committed.metadata and "deleted" not in committed.metadata)


def test_without_sinks_nothing_is_asked(cluster: Cluster) -> None:
    cluster.register("one/dispatch/a", sink=False)
    assert reported(cluster) == ([], [])
    assert cluster.closed == 0


def test_a_deployment_whose_subscriptions_were_all_cancelled_is_shown_and_not_a_problem_by_itself(
    cluster: Cluster,
) -> None:
    """It was left out, although its sinks stay so that open firings are delivered."""
    cluster.write(sink_key("one/deliver/cancelled"), b"{}")
    cluster.members = {"b-deliver-one": 0}
    assert reported(cluster) == ([{"deployment": "one", "sinks": 1, "deliverers": 0, "behind": 13}], [])


def test_where_a_subscription_delivers_is_shown_as_connection_and_path(cluster: Cluster) -> None:
    cluster.register("one/deliver/a")
    cluster.write(sink_key("one/deliver/b"), encode_json(SinkRecord(subscription="x", connection="crm")))
    cluster.write(sink_key("one/deliver/c"), b'{"v": 99}')
    shown = [destination(cluster.registry, f"one/deliver/{name}") for name in "abcd"]
    assert shown == ["connection crm, path /a?token=***", "connection crm", "unreadable", ""]
    assert sink_of(cluster.registry, "one/deliver/c") is None
    assert [is_delivered(name) for name in ("one/deliver/a", "one/dispatch/deliver", "deliver/a/b")] == [
        True,
        False,
        False,
    ]
