"""Where the jobs of the pipeline get the proof of a bus from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from interlock.engine.records import BusRecord, encode_json
from interlock.engine.records.versions import versions_read
from interlock.spark.pipeline import PipelineError
from interlock.spark.pipeline.source import READS, BusTopics, bus_record_of, connected
from interlock.spark.settings import CompletionError
from pyspark.errors import PySparkException

CANARY = "canary-secret-" + "c" * 32
CONF = "spark.interlock."


def session(folder: Path, text: str, *, java: bool) -> Any:
    """A session that has a client file with this text."""
    client, java_file = folder / "client.properties", folder / "java.properties"
    client.write_text(text)
    java_file.write_text("bootstrap.servers=a:1\n")
    conf = {f"{CONF}bus": "bank", f"{CONF}client.config.file": str(client)}
    if java:
        conf[f"{CONF}java.client.config.file"] = str(java_file)
    return SimpleNamespace(conf=conf)


@pytest.mark.parametrize("java", [False, True], ids=["", "beside a Java file"])
def test_the_proof_is_in_the_client_file_and_spark_gets_nothing_of_it(tmp_path: Path, java: bool) -> None:
    text = f"bootstrap.servers=a:1\ninterlock.proof.secret={CANARY}\n"
    with connected(session(tmp_path, text, java=java)) as bus:
        assert bus.proof is not None
        assert bus.proof.topic == "bank-event"
        assert "interlock.proof" not in str(dict(bus.options))
        assert CANARY not in repr(bus)


def test_without_a_secret_there_is_no_proof(tmp_path: Path) -> None:
    with connected(session(tmp_path, "bootstrap.servers=a:1\n", java=False)) as bus:
        assert bus.proof is None


def test_a_secret_that_cannot_be_used_is_refused_beside_a_java_file_too(tmp_path: Path) -> None:
    with (
        pytest.raises(CompletionError, match=r"interlock\.proof\.secret is not usable"),
        connected(session(tmp_path, "interlock.proof.secret=short\n", java=True)),
    ):
        pass


@pytest.mark.parametrize(
    "message",
    [
        "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Could not read records in offset [3, 9)",
        "Cannot fetch offset 3. Some data may have been lost because they are not available any more",
    ],
)
def test_records_that_retention_removes_while_they_are_read_are_an_error_with_what_to_do(
    tmp_path: Path, message: str
) -> None:
    """apache/spark#24932: a batch query fails too, with a stack trace that advises a setting of streams."""
    with (
        pytest.raises(PipelineError, match=r"records were removed while they were read.*Run the job again"),
        connected(session(tmp_path, "bootstrap.servers=a:1\n", java=False)),
    ):
        raise PySparkException(message)


def test_no_job_lets_a_broker_create_a_topic_again() -> None:
    """Java's consumer does by default, for a topic that was deleted while it is read."""
    name = "kafka.allow.auto.create.topics"
    assert BusTopics("b", {})._options(["b-event"])[name] == "false"
    assert BusTopics("b", {name: "true"})._options(["b-event"])[name] == "true"


def test_jobs_read_the_versions_that_the_engine_reads() -> None:
    assert list(READS) == list(versions_read())


def test_a_bus_of_a_later_version_is_refused_with_what_to_do() -> None:
    """Its listed topics may be written in another way."""
    assert bus_record_of(encode_json(BusRecord(partitions=1, topics=("raw",))), "x")["topics"] == ["raw"]
    with pytest.raises(
        PipelineError, match=r"b-subscription\[0\]@7 holds a BusRecord of version 9; .* Upgrade"
    ):
        bus_record_of(encode_json(BusRecord(v=9, partitions=1)), "b-subscription[0]@7")


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"v":1,"partitions":1,"topics":5}',
        b'{"v":1,"partitions":1,"topics":"orders"}',
        b'{"v":1,"partitions":1,"topics":null}',
        b'{"v":1,"partitions":1,"topics":["a",5]}',
        b'{"v":1,"partitions":1,"cloudevents":{"a":1}}',
    ],
)
def test_a_damaged_record_of_the_bus_is_refused_with_its_place(value: bytes) -> None:
    with pytest.raises(PipelineError, match=r"b-subscription\[0\]@7 holds a damaged record of the bus"):
        bus_record_of(value, "b-subscription[0]@7")


@pytest.mark.parametrize("version", ["true", "1.0", '"1"', "[]", "{}"])
def test_a_version_that_engines_do_not_read_is_not_read_here_either(version: str) -> None:
    with pytest.raises(PipelineError, match="holds a BusRecord of version"):
        bus_record_of(b'{"v":%s,"partitions":1}' % version.encode(), "x")


@pytest.mark.parametrize("topic", ["", ".", "..", "a,b", "a b", "a/b", "é", "a" * 250])
def test_what_is_no_name_of_a_topic_is_refused_before_spark_reads_it(topic: str) -> None:
    with pytest.raises(PipelineError, match="name one or more, each as a topic's name"):
        BusTopics("b", {})._options(["orders", topic])


def test_listed_names_that_no_topic_can_have_are_left_out_as_engines_do() -> None:
    topics = BusTopics("b", {})
    topics._cache["bus"] = {"topics": ["orders", "", "a b", "orders", "é"]}
    assert topics.sources(None) == ("b-event", "orders")  # type: ignore[arg-type]  # the record is known
