"""The archive on a real Spark and a real broker: each record once, whatever it holds and whichever run
died."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from interlock import Event
from interlock.events import Emitter
from interlock.events.proof import FROM, SECRET, Proof
from interlock.events.taxonomy import DAG_RUN_SUCCEEDED
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.archive import ingest, read
from interlock.spark.pipeline.archive.compaction import compact
from interlock.spark.pipeline.archive.files import Files
from interlock.spark.pipeline.archive.ingest import IngestOptions, archive
from interlock.spark.pipeline.archive.layout import MARKER, Folder, write_folder
from interlock.spark.pipeline.archive.retention import first_day, remove_before
from interlock.spark.pipeline.archive.runs import begin
from interlock.spark.pipeline.backtest.backtest import Log
from interlock.spark.pipeline.rows import KINDS

from local.topics import read_all

from .conftest import Site, headers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 86_400_000


def send(site: Site, ids: range, topic: str = "", type_: str = "com.example.rates", **record: Any) -> None:
    producer = site.producer()
    for number in ids:
        producer.produce(
            topic or site.topic(),
            b'{"n": %d}' % number,
            b"k%d" % (number % 7),
            headers=headers(str(number), type_),
            **record,
        )
    assert producer.flush(30) == 0


def places(
    spark: SparkSession, folder: Path, kinds: tuple[str, ...] = KINDS
) -> Counter[tuple[str, int, int]]:
    rows = read(spark, str(folder), kinds).select("topic", "partition", "offset").collect()
    return Counter((row.topic, row.partition, row.offset) for row in rows)


def expected(site: Site, *topics: str) -> Counter[tuple[str, int, int]]:
    """The positions of the records that a plain consumer reads."""
    found = [record for topic in topics for record in read_all(site.servers, topic)]
    return Counter((record.topic, record.partition, record.offset) for record in found)


def batches(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.glob("batch=*"))


def test_every_committed_record_is_archived_once_and_later_runs_add_new_ones(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    listed = f"{site.name}.clicks"
    site.list(listed)
    send(site, range(300))
    send(site, range(5), listed)
    producer = site.producer(**{"transactional.id": site.name})
    producer.init_transactions(15)
    for outcome in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(site.topic(), b"{}", b"a", headers=headers(outcome.__name__))
        producer.flush()
        outcome(15)
    odd: list[tuple[bytes | None, list[tuple[str, str | bytes | None]] | None]] = [
        (None, None),
        (b"\xff\x00", [("ce_", b"\xff"), ("ce_id", None), ("", b"")]),
        (b'{"id":"\\ud800"}', [("content-type", b"application/cloudevents+json")]),
        (b"{}", headers("x", "t" * 900_000)),
        (b"{}", headers("y", "type/with=odd{characters}\u00e9")),
    ]
    plain = site.producer()
    for value, its in odd:
        plain.produce(site.topic(), value, headers=its)
        plain.produce(listed, value, headers=its)
    plain.produce(site.topic("action"), b"\x00not an action", b"\xff")
    assert plain.flush(30) == 0
    folder = tmp_path / "archive"
    topics = (site.topic(), listed, site.topic("action"), site.topic("subscription"))
    there = expected(site, *topics)
    assert archive(spark, site.bus, IngestOptions(str(folder), max_offsets=200)) == there.total()
    assert places(spark, folder) == there
    kinds = Counter(row.kind for row in read(spark, str(folder), KINDS).select("kind").collect())
    assert kinds["event"] == 301 + 5 + 2 + 2 + 1  # and the null value of the listed topic, a plain record
    assert kinds["unreadable"] == 3 + 2
    unreadable = read(spark, str(folder), ["unreadable"]).where("value = X'FF00'").first()
    assert unreadable is not None
    assert (unreadable.headers[0].key, bytes(unreadable.headers[0].value)) == ("ce_", b"\xff")
    assert "ce_" in unreadable.problem or "attribute" in unreadable.problem
    for wanted in (IngestOptions(str(folder)), IngestOptions(str(folder))):
        assert archive(spark, site.bus, wanted) == 0
    send(site, range(300, 310))
    assert archive(spark, site.bus, IngestOptions(str(folder))) == 10
    assert places(spark, folder) == expected(site, *topics)


def test_an_event_is_archived_unchanged(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    producer = site.producer()
    sent = headers("1", time="2026-11-20T06:00:00.5Z", region="eu", subject="EUR")
    producer.produce(
        site.topic(), b"\x00\xff", b"key", 1, headers=[*sent, ("trace", b"\xfe"), ("content-type", "a/b")]
    )
    assert producer.flush(30) == 0
    archive(spark, site.bus, IngestOptions(str(tmp_path), topics=[site.topic()]))
    [row] = read(spark, str(tmp_path)).collect()
    [record] = read_all(site.servers, site.topic())
    found = row.asDict(recursive=True)
    assert found.pop("date") == datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).date()
    assert found == {
        "kind": "event",
        "type_key": "com.example.rates",
        "topic": site.topic(),
        "partition": 1,
        "offset": 0,
        "appended_ms": record.timestamp_ms,
        "timestamp_type": 1,
        "id": "1",
        "source": "/tests",
        "type": "com.example.rates",
        "subject": "EUR",
        "time_us": 1_795_154_400_500_000,
        "attributes": {
            "specversion": "1.0",
            "id": "1",
            "source": "/tests",
            "type": "com.example.rates",
            "time": "2026-11-20T06:00:00.5Z",
            "region": "eu",
            "subject": "EUR",
            "datacontenttype": "a/b",
        },
        "data": b"\x00\xff",
        "key": b"key",
        "value": None,
        "headers": [{"key": "trace", "value": b"\xfe"}],
        "problem": None,
    }


@pytest.mark.long
def test_a_completion_without_the_proof_that_the_bus_asks_for_is_no_event_and_spark_shows_no_secret(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    secret = {SECRET: "canary" * 8}
    proof = Proof.of({**secret, FROM: "2020-01-01T00:00:00Z"}, site.topic())
    bus = replace(site.bus, proof=proof)
    send(site, range(1), type_=DAG_RUN_SUCCEEDED)  # forged
    with Emitter({"bootstrap.servers": site.servers, **secret}, site.topic()) as emitter:
        emitter.emit(Event.of(DAG_RUN_SUCCEEDED, "/prod/ledger", id="real"))
    archive(spark, bus, IngestOptions(str(tmp_path), topics=[site.topic()]))
    rows = read(spark, str(tmp_path), KINDS).collect()
    assert {(row.kind, row.id) for row in rows} == {("unreadable", None), ("event", "real")}
    log = Log.of_records(bus.batch(spark, [site.topic()]), site.name, proof=proof)
    assert [row.id for row in log.rows.where("kind = 'event'").collect()] == ["real"]
    plan = log.rows._jdf.queryExecution().toString()  # type: ignore[operator, misc]  # as the UI shows it
    assert "MapInArrow" in plan
    assert "canary" not in plan
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert not [each for each in files if b"canary" in each.read_bytes()]


@pytest.mark.parametrize(
    "marked",
    [
        pytest.param(True, id="after its marker", marks=pytest.mark.long),
        pytest.param(False, id="before its marker"),
    ],
)
def test_a_batch_whose_run_died_is_archived_once(
    spark: SparkSession, site: Site, tmp_path: Path, marked: bool
) -> None:
    send(site, range(20))
    wanted = IngestOptions(str(tmp_path), topics=[site.topic()])
    archive(spark, site.bus, wanted)
    [before] = batches(tmp_path)
    (tmp_path / "_checkpoint/commits/0").unlink()
    (tmp_path / "_checkpoint/commits/.0.crc").unlink()
    if not marked:
        (tmp_path / before / MARKER).unlink()
        assert places(spark, tmp_path) == Counter()
    send(site, range(20, 30))
    archive(spark, site.bus, wanted)
    assert places(spark, tmp_path) == expected(site, site.topic())
    assert len(batches(tmp_path)) == (2 if marked else 3)


@pytest.mark.long
def test_a_run_continues_although_an_earlier_one_was_writing_the_same_batch(
    spark: SparkSession, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(site, range(20))
    done = tmp_path / "_checkpoint/commits/0"

    def store_beside_another_run(rows: DataFrame, files: Files, folder: Folder) -> None:
        write_folder(rows, files, folder)
        if folder.first == 0:
            done.parent.mkdir(exist_ok=True)
            done.write_text('v1\n{"nextBatchWatermarkMs":0}')

    monkeypatch.setattr(ingest, "write_folder", store_beside_another_run)
    archive(spark, site.bus, IngestOptions(str(tmp_path), topics=[site.topic()], max_offsets=10))
    assert places(spark, tmp_path) == expected(site, site.topic())
    assert len(batches(tmp_path)) == 2


@pytest.mark.long
def test_a_batch_without_committed_records_is_a_batch(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    producer = site.producer(**{"transactional.id": site.name})
    producer.init_transactions(15)
    producer.begin_transaction()
    producer.produce(site.topic(), b"{}", headers=headers("1"))
    producer.flush()
    producer.abort_transaction(15)
    wanted = IngestOptions(str(tmp_path), topics=[site.topic()])
    for _ in range(2):
        assert archive(spark, site.bus, wanted) == 0
    assert places(spark, tmp_path) == Counter()
    send(site, range(3))
    archive(spark, site.bus, wanted)
    assert places(spark, tmp_path) == expected(site, site.topic())


def test_lost_records_are_an_error_until_the_loss_is_accepted(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    send(site, range(40))
    wanted = IngestOptions(str(tmp_path), topics=[site.topic()])
    archive(spark, site.bus, wanted)
    send(site, range(40, 80))
    left = {place[1]: place[2] for place in sorted(expected(site, site.topic()))}
    admin = AdminClient({"bootstrap.servers": site.servers})
    upto = [TopicPartition(site.topic(), partition, last) for partition, last in left.items()]
    for done in admin.delete_records(upto).values():
        done.result(15)
    with pytest.raises(PipelineError, match=r"were lost before they were archived.*--accept-loss"):
        archive(spark, site.bus, wanted)
    archive(spark, site.bus, IngestOptions(str(tmp_path), topics=[site.topic()], accept_loss=True))
    archived = places(spark, tmp_path)
    assert archived.total() == len(archived) == 40 + len(left)


def test_a_listed_topic_that_was_created_again_is_an_error_until_the_loss_is_accepted(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    """Also if the new one is longer than what was read of the old one: the offset alone tells nothing."""
    listed = f"{site.name}.clicks"
    site.list(listed)
    send(site, range(3), listed)
    wanted = IngestOptions(str(tmp_path), topics=[listed, site.topic()])
    archive(spark, site.bus, wanted)
    assert json.loads((tmp_path / "_topics.json").read_text()).keys() == {listed, site.topic()}
    admin = AdminClient({"bootstrap.servers": site.servers})
    admin.delete_topics([listed])[listed].result(15)
    site.list(listed)
    send(site, range(5), listed)
    with pytest.raises(PipelineError, match=rf"created again since: {listed}\. .*--accept-loss"):
        archive(spark, site.bus, wanted)
    assert archive(spark, site.bus, replace(wanted, accept_loss=True)) == 2
    assert archive(spark, site.bus, wanted) == 0


def test_a_missing_topic_is_an_error(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"does not exist in Kafka: create it"):
        archive(spark, site.bus, IngestOptions(str(tmp_path), topics=[f"{site.name}.none"]))


def test_an_archive_without_its_checkpoint_or_the_reverse_is_an_error_that_writes_nothing(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    send(site, range(4))
    folder, checkpoint = tmp_path / "archive", tmp_path / "checkpoint"
    wanted = IngestOptions(str(folder), str(checkpoint), [site.topic()])
    archive(spark, site.bus, wanted)
    there = batches(folder)
    checkpoint.rename(tmp_path / "away")
    with pytest.raises(PipelineError, match="archive records twice"):
        archive(spark, site.bus, wanted)
    assert batches(folder) == there
    (tmp_path / "away").rename(checkpoint)
    shutil.rmtree(folder)
    with pytest.raises(PipelineError, match="is missing"):
        archive(spark, site.bus, wanted)
    assert batches(folder) == []


@pytest.mark.long
def test_a_topic_that_the_bus_lists_later_is_read_from_its_beginning(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    send(site, range(4))
    archive(spark, site.bus, IngestOptions(str(tmp_path)))
    listed = f"{site.name}.clicks"
    site.list(listed, partitions=2)
    send(site, range(4, 8), listed)
    archive(spark, site.bus, IngestOptions(str(tmp_path)))
    topics = (site.topic(), site.topic("subscription"), listed)
    assert places(spark, tmp_path) == expected(site, *topics)


@pytest.mark.long
def test_a_small_batch_makes_a_file_for_each_type_and_a_large_type_is_split(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    for number in range(20):
        send(site, range(number * 10, number * 10 + 10), type_=f"t{number}")
    archive(spark, site.bus, IngestOptions(str(tmp_path), topics=[site.topic()]))
    [folder] = batches(tmp_path)
    assert Counter(file.parent.name for file in (tmp_path / folder).rglob("*.parquet")) == {
        f"type_key=t{number}": 1 for number in range(20)
    }
    producer = site.producer()
    for number in range(4000):  # in both partitions, since the rows of one task are not divided
        value, partition = os.urandom(1000), number % 2
        producer.produce(site.topic(), value, headers=headers(str(number), "large"), partition=partition)
    assert producer.flush(30) == 0
    with setting(spark, "spark.sql.adaptive.advisoryPartitionSizeInBytes", "1m"):
        archive(spark, site.bus, IngestOptions(str(tmp_path), topics=[site.topic()]))
    *_, folder = batches(tmp_path)
    assert len(list((tmp_path / folder).rglob("*.parquet"))) > 1


@pytest.mark.long
def test_a_read_selects_by_append_time(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    topic, day = f"{site.name}.clicks", 20_000 * DAY_MS
    site.list(topic)
    for number, stamp in enumerate((day - 1, day, day + 1, day + DAY_MS)):
        send(site, range(number, number + 1), topic, timestamp=stamp)
    archive(spark, site.bus, IngestOptions(str(tmp_path), topics=[topic]))

    def ids(since_ms: int | None = None, until_ms: int | None = None) -> set[str]:
        return {row.id for row in read(spark, str(tmp_path), since_ms=since_ms, until_ms=until_ms).collect()}

    assert ids() == {"0", "1", "2", "3"}
    assert ids(since_ms=day) == {"1", "2", "3"}
    assert ids(until_ms=day + 1) == {"0", "1"}
    assert ids(day, day + DAY_MS) == {"1", "2"}
    found = read(spark, str(tmp_path), since_ms=day, until_ms=day + DAY_MS)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters" in plan
    assert "date" in plan.split("PartitionFilters: [", 1)[1].split("]", 1)[0]


def test_retention_removes_days_and_the_rest_can_be_read(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    topic, day = f"{site.name}.clicks", 20_000 * DAY_MS
    site.list(topic)
    for number in range(4):
        send(site, range(number, number + 1), topic, timestamp=day + number * DAY_MS)
    wanted = IngestOptions(str(tmp_path), topics=[topic])
    archive(spark, site.bus, wanted)
    since = first_day(datetime.fromtimestamp(day / 1000 + 4 * 86_400, UTC), 2)
    assert remove_before(Files(spark, str(tmp_path)), since) == 2
    assert {row.id for row in read(spark, str(tmp_path)).collect()} == {"2", "3"}
    assert archive(spark, site.bus, wanted) == 0


def compacted(spark: SparkSession, folder: Path, **options: Any) -> Any:
    files = Files(spark, str(folder))
    now_ms = int(datetime.now(UTC).timestamp() * 1000) + 60_000
    return compact(spark, begin(files, "_compactions"), now_ms=now_ms, size=2, **options)


@pytest.mark.long
def test_rows_stay_the_same_while_their_files_are_compacted_and_removed(
    spark: SparkSession, site: Site, tmp_path: Path
) -> None:
    wanted = IngestOptions(str(tmp_path), topics=[site.topic()])
    for number in range(5):
        send(site, range(number * 10, number * 10 + 10), type_=f"t{number % 2}")
        archive(spark, site.bus, wanted)
    there = expected(site, site.topic())
    planned = read(spark, str(tmp_path)).select("topic", "partition", "offset")
    before = batches(tmp_path)

    done = compacted(spark, tmp_path)
    assert (len(done.written), done.removed) == (2, ())
    assert places(spark, tmp_path) == there
    assert Counter(map(tuple, planned.collect())) == there  # earlier readers still find the replaced folders

    [first, second] = done.written
    shutil.copytree(tmp_path / first, tmp_path / first.replace("-1.", "-3."))  # like one of a killed run
    (tmp_path / first.replace("-1.", "-3.") / MARKER).unlink()
    (tmp_path / second / MARKER).unlink()  # like one just before its end
    assert places(spark, tmp_path) == there

    done = compacted(spark, tmp_path, grace_ms=0)
    assert len(done.written) == 1
    assert set(before) - set(batches(tmp_path)) == set(before[:4])
    assert places(spark, tmp_path) == there
    assert archive(spark, site.bus, wanted) == 0
    assert compacted(spark, tmp_path, grace_ms=0).written == ()
    assert places(spark, tmp_path) == there


@pytest.mark.long
def test_a_compaction_drops_days_that_are_not_kept(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    topic, day = f"{site.name}.clicks", 20_000 * DAY_MS
    site.list(topic)
    for number in range(2):
        send(site, range(number, number + 1), topic, timestamp=day + number * DAY_MS)
        archive(spark, site.bus, IngestOptions(str(tmp_path), topics=[topic]))
    since = datetime.fromtimestamp(day / 1000 + 86_400, UTC).date()
    [written] = compacted(spark, tmp_path, since=since).written
    assert json.dumps(sorted(each.name for each in (tmp_path / written / "kind=event").iterdir())) == (
        json.dumps([f"date={since}"])
    )


def test_a_path_without_an_archive_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no archive"):
        read(spark, str(tmp_path / "none"))
    with pytest.raises(PipelineError, match="not a path of a file system"):
        read(spark, "nowhere://x/y")
    with pytest.raises(PipelineError, match=r"unknown kinds \['events'\]"):
        read(spark, str(tmp_path), ["events"])


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)
