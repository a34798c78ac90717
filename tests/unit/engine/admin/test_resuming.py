"""What resuming a stopped partition says about skipped and repeated records, and what it writes."""

from __future__ import annotations

from typing import Any

import pytest
from interlock import event
from interlock.engine.admin import listed_topics, resuming
from interlock.engine.bus import Committed, Record, Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import TopicsError
from interlock.engine.kafka.positions import Position
from interlock.engine.records import (
    BUS_KEY,
    BusRecord,
    OffsetMetadata,
    ProblemRecord,
    Registration,
    RegistrationKey,
    ResumeRecord,
    SourceRecord,
    decode_json,
    encode_json,
    registry_key,
)
from interlock.engine.registry.lazy import LazyRegistry

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
EVENT, OTHER, TRIGGER, ORDERS = (
    TopicPartition("b-event", 0),
    TopicPartition("b-event", 1),
    TopicPartition("b-trigger", 0),
    TopicPartition("orders", 0),
)
PARTITIONS = (EVENT, OTHER, TRIGGER, ORDERS)


class Cluster:
    """The group's positions, of partitions with records 10 to 19; and what is written to the registry.

    unread: listed topics that are there, and have no positions.
    """

    def __init__(self) -> None:
        self.registry = LazyRegistry()
        self.write(BUS_KEY, encode_json(BusRecord(partitions=1, topics=("orders", "gone"))))
        for tp in PARTITIONS:
            self.write(registry_key("source", *tp), encode_json(SourceRecord(topic_id="t")))
        self.committed: dict[TopicPartition, Committed | None] = {
            tp: Committed(15, metadata()) for tp in PARTITIONS
        }
        self.written: dict[bytes, bytes | None] = {}
        self.unread: dict[str, Topic] = {}

    def write(self, key: bytes, value: bytes | None) -> None:
        place = TopicPartition("b-subscription", 0)
        self.registry.apply(Record(place, self.registry.position, 0, key, value, None))

    def register(self, name: str) -> None:
        registration = Registration.of(name, event("x"), None, 0)
        self.write(RegistrationKey(registration.incarnation, "n").encode(), encode_json(registration))

    def positions(self) -> list[Position]:
        return [Position(tp, self.committed[tp], 10, 20, Topic("t", 1)) for tp in PARTITIONS]


def metadata(**fields: Any) -> str:
    return encode_json(OffsetMetadata(**{"applied": 5, "topic_id": "t", **fields})).decode()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()

    class Admin:
        def __init__(self, *_: object) -> None: ...
        def close(self) -> None: ...

        def topics(self, names: list[str], **_: object) -> dict[str, Topic | None]:
            return {name: cluster.unread.get(name) for name in names}

    monkeypatch.setattr(resuming, "Admin", Admin)
    monkeypatch.setattr(resuming, "positions", lambda *_: cluster.positions())
    for module in (resuming, listed_topics):
        monkeypatch.setattr(module, "read_registry", lambda _: cluster.registry)
        monkeypatch.setattr(module, "write_registry", lambda _, records: cluster.written.update(records))
    return cluster


def consequence(start: str, tp: TopicPartition = EVENT) -> str:
    return resuming.resumption(CONFIG, *tp, start).consequence


def test_records_that_are_skipped_for_a_lost_offset_are_skipped_for_all_existing_waits(
    cluster: Cluster,
) -> None:
    cluster.register("w")
    cluster.committed[EVENT] = None
    assert consequence("start") == (
        "All existing records are read; each condition ignores those that it has already processed."
    )
    assert consequence("end") == (
        "Records 10 to 19 (10) are skipped, whether they were read before or not. Waits that are already "
        "registered do not look back to them either; later ones do."
    )
    assert consequence("12").startswith("Records 10 to 11 (2) are skipped")


def test_registrations_that_look_back_to_skipped_records_are_counted(cluster: Cluster) -> None:
    cluster.committed[EVENT] = Committed(7, metadata())
    assert consequence("start") == "Records 7 to 9 are lost. No existing record is skipped."
    assert consequence("end") == "Records 7 to 9 are lost. Records 10 to 19 (10) are skipped."
    cluster.register("v")
    cluster.register("w")
    behind = "Registrations that are new to the partition may look back to them: 2."
    assert consequence("end").endswith(behind)
    cluster.committed[EVENT] = Committed(7, metadata(applied=7, scans=[[5, 7, 3]]))
    assert consequence("end").endswith(behind)
    cluster.committed[EVENT] = Committed(7, metadata(applied=7))
    assert consequence("end").endswith("are skipped.")


def test_with_unreadable_metadata_the_text_says_what_is_read_again_and_what_no_wait_looks_back_to(
    cluster: Cluster,
) -> None:
    cluster.committed[EVENT] = Committed(15, "nonsense")
    assert consequence("12") == (
        "Records from 12 on are read again; each condition ignores those that it has already processed."
    )
    assert consequence("15") == "No existing record is skipped."
    assert consequence("17") == (
        "Records 15 to 16 (2) are skipped. Waits that are already registered do not look back to them "
        "either; later ones do."
    )


def test_the_earlier_offsets_of_a_topic_that_was_created_again_do_not_count(cluster: Cluster) -> None:
    cluster.committed[EVENT] = Committed(15, metadata(topic_id="another"))
    assert consequence("end").startswith(
        "Records 10 to 19 (10) are skipped, whether they were read before or not. Waits"
    )


def test_skipped_matches_are_not_read_by_any_look_back(cluster: Cluster) -> None:
    cluster.register("w")
    cluster.committed[TRIGGER] = None
    assert consequence("end", TRIGGER) == (
        "Records 10 to 19 (10) are skipped, whether they were read before or not."
    )
    cluster.committed[TRIGGER] = Committed(7, metadata())
    assert consequence("end", TRIGGER) == "Records 7 to 9 are lost. Records 10 to 19 (10) are skipped."


def test_all_stopped_partitions_or_those_of_a_topic_are_resumed_with_one_command(cluster: Cluster) -> None:
    cluster.committed |= {OTHER: None, TRIGGER: None, ORDERS: Committed(3, metadata())}
    found = resuming.resumptions(CONFIG, "start")
    assert [(each.partition, each.offset) for each in found] == [(OTHER, 10), (TRIGGER, 10), (ORDERS, 10)]
    assert [each.partition for each in resuming.resumptions(CONFIG, "end", "b-event")] == [OTHER]
    assert resuming.resumptions(CONFIG, "start", "b-trigger")[0].matches
    resuming.write(CONFIG, found)
    assert cluster.written.keys() == {registry_key("resume", *tp) for tp in (OTHER, TRIGGER, ORDERS)}
    record = decode_json(ResumeRecord, cluster.written[registry_key("resume", *OTHER)] or b"", "it")
    assert (record.offset, record.topic_id) == (10, "t")


def test_where_nothing_stopped_there_is_nothing_to_resume(cluster: Cluster) -> None:
    assert resuming.resumptions(CONFIG, "start") == []
    with pytest.raises(TopicsError, match=r"b-event\[0\] is not stopped: it is read from offset 15"):
        consequence("end")


def test_a_listed_topic_that_cannot_be_read_is_an_error_with_the_reason(cluster: Cluster) -> None:
    cluster.unread["gone"] = Topic("t", 2, leaderless=(1,))
    with pytest.raises(TopicsError, match="Topic 'gone' is not read: no broker leads its partitions 1"):
        resuming.resumptions(CONFIG, "start", "gone")


@pytest.mark.parametrize(
    ("start", "topic", "problem"),
    [
        ("12", None, "for several partitions, use start or end"),
        ("start", "elsewhere", "does not read 'elsewhere'"),
        ("start", "gone", "Topic 'gone' is not read: the topic does not exist"),
    ],
)
def test_options_for_a_single_partition_are_refused_for_several(
    cluster: Cluster, start: str, topic: str | None, problem: str
) -> None:
    with pytest.raises(TopicsError, match=problem):
        resuming.resumptions(CONFIG, start, topic)


def test_a_topic_that_is_removed_leaves_nothing_in_the_registry_that_stops_it_when_it_is_listed_again(
    cluster: Cluster,
) -> None:
    cluster.write(registry_key("resume", *ORDERS), encode_json(ResumeRecord(topic_id="t", offset=3)))
    cluster.write(registry_key("problem", *ORDERS), encode_json(ProblemRecord(text="orders[0] is stopped.")))
    cluster.write(registry_key("problem", *EVENT), encode_json(ProblemRecord(text="b-event[0] is stopped.")))
    listed_topics.remove_topics(CONFIG, ["orders"])
    [(key, bus), *nulled] = cluster.written.items()
    assert key == BUS_KEY
    assert decode_json(BusRecord, bus or b"", "it").topics == ("gone",)
    assert dict(nulled) == dict.fromkeys(
        [registry_key(kind, *ORDERS) for kind in ("source", "resume", "problem")]
    )
    for key, value in cluster.written.items():
        cluster.write(key, value)
    assert ORDERS not in cluster.registry.sources
    assert cluster.registry.problems.keys() == {EVENT}
    with pytest.raises(TopicsError, match="'orders' is not listed"):
        listed_topics.remove_topics(CONFIG, ["orders"])
