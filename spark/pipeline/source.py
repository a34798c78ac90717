"""The bus's topics as DataFrames of records: (key, value, topic, partition, offset, timestamp, headers)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..settings import FOLDER, JAVA_FILE, PREFIX, read_settings
from . import PipelineError, packages
from .connector import connector_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SENTENCES: Final = {
    "GroupAuthorizationException": "the brokers do not permit to read: give Read on groups <bus>-pipeline*",
    "SaslAuthenticationException": "the brokers refuse the login: correct the connection",
    "SslAuthenticationException": "brokers and job do not trust each other: correct the certificates",
    "TimeoutException": "the brokers do not answer: are they up, and bootstrap.servers right?",
    "TopicAuthorizationException": "the brokers do not permit to read a topic: give Read and Describe",
    "UnknownTopicOrPartitionException": (
        "a topic is not there: name the bus with spark.interlock.bus, make it by `airflow interlock topics"
        " create`, or take the topic off its list"
    ),
}


@dataclass(frozen=True)
class Bus:
    """A bus as a job reads it. `options`: of the connector, valid as long as `connected` lasts."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    def topic(self, kind: str) -> str:
        """The name of one of its own topics: "event", "action", "subscription", ..."""
        return f"{self.name}-{kind}"

    def batch(
        self,
        spark: SparkSession,
        topics: Sequence[str],
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> DataFrame:
        """The committed records of these topics, up to their end of now.

        since_ms, until_ms: only those stamped so. What lies before the first record stamped `since_ms` or
        later is not fetched.
        """
        options = {**self._options(topics), "startingOffsets": "earliest"}
        if since_ms is not None:
            # "latest": nothing of a partition all of whose records are earlier
            options |= {"startingTimestamp": str(since_ms), "startingOffsetsByTimestampStrategy": "latest"}
        found = spark.read.format("kafka").options(**options).load()
        stamp = "unix_millis(timestamp)"
        if since_ms is not None:
            found = found.where(f"{stamp} >= {since_ms}")
        return found if until_ms is None else found.where(f"{stamp} < {until_ms}")

    def stream(self, spark: SparkSession, topics: Sequence[str], **more: str) -> DataFrame:
        """The committed records of these topics as a stream. more: options of the connector."""
        options = {**self._options(topics), "startingOffsets": "earliest", **more}
        return spark.readStream.format("kafka").options(**options).load()

    def sources(self, spark: SparkSession) -> tuple[str, ...]:
        """The event topic and the topics that the bus lists; PipelineError where there is no such bus."""
        from pyspark.sql import functions as f

        registry = self.batch(spark, [self.topic("subscription")])
        last = (
            registry.where(f.col("key") == f.lit("bus").cast("binary"))
            .orderBy(f.desc("offset"))
            .select("value")
            .head()
        )
        if last is None or last.value is None:
            raise PipelineError(
                f"topic {self.topic('subscription')!r} has no record of a bus: name the bus with"
                " spark.interlock.bus, or make it: airflow interlock topics create"
            )
        listed: Sequence[str] = json.loads(bytes(last.value)).get("topics", ())
        return (self.topic("event"), *listed)

    def _options(self, topics: Sequence[str]) -> dict[str, str]:
        if not topics or any("," in topic for topic in topics):
            raise PipelineError(f"topics {list(topics)!r}: name one or more")
        return {
            **self.options,
            "subscribe": ",".join(topics),
            "includeHeaders": "true",
            "groupIdPrefix": f"{self.name}-pipeline",
            "kafka.isolation.level": "read_committed",
        }


@contextmanager
def connected(spark: SparkSession) -> Iterator[Bus]:
    """The bus of the session's settings (`spark.interlock.*`), inside the block.

    CompletionError and ConnectorError for settings that are missing or wrong; PipelineError, in place of
    Spark's own error, where Kafka cannot be reached, refuses, or lacks a topic.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    configuration = spark.conf
    names = ("bootstrap.servers", "bus", "client.config.file")
    known = {f"{PREFIX}{name}": configuration.get(f"{PREFIX}{name}", None) for name in names}
    java_file, folder = configuration.get(JAVA_FILE, None), configuration.get(FOLDER, None)
    name = known[f"{PREFIX}bus"] or "interlock"
    if java_file is None:
        client = read_settings({key: value for key, value in known.items() if value is not None}).client
    else:
        client = {}
    with connector_options(client, java_file=java_file, folder=folder) as options:
        try:
            yield Bus(name, options)
        except (Py4JJavaError, PySparkException) as error:
            if "find data source: kafka" in str(error):
                raise PipelineError(f"Spark has no Kafka connector: give --packages {packages()}") from None
            if (sentence := _of_kafka(error)) is None:
                raise
            raise PipelineError(f"bus {name!r}: {sentence}") from error


def _of_kafka(error: Exception) -> str | None:
    """What Kafka's client said, where one of its errors is among the causes."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        for kind, sentence in _SENTENCES.items():
            if java.getClass().getName() == f"org.apache.kafka.common.errors.{kind}":
                return f"{sentence} ({java.getMessage()})"
        java = java.getCause()
    return None
