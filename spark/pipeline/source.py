"""The bus's topics as DataFrames of records: (key, value, topic, partition, offset, timestamp, headers)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...events.kafka import TOPIC_RULE, is_topic
from ...events.proof import Proof
from ..settings import CLIENT_FILE, FOLDER, JAVA_FILE, PREFIX, proof_in, read_settings
from . import PipelineError, packages
from .connector import connector_options
from .topic_ids import topic_ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READS: Final = (1,)  # versions of the bus's own records, as `engine.records.versions` has them
_SENTENCES: Final = {
    "GroupAuthorizationException": "the brokers deny access to the group: grant Read on <bus>-pipeline*",
    "SaslAuthenticationException": "the brokers refuse the login: correct the connection",
    "SslAuthenticationException": "the TLS handshake with the brokers failed: correct the certificates",
    "TimeoutException": "the brokers do not answer: check that they run and that bootstrap.servers is right",
    "TopicAuthorizationException": "the brokers deny access to a topic: grant Read and Describe on it",
    "UnknownTopicOrPartitionException": (
        "a topic does not exist: set the bus's name with spark.interlock.bus, create its topics with `airflow"
        " interlock topics create`, or remove the topic from the bus's list"
    ),
}


# In the messages of Spark's exceptions, which may come from an executor without their cause.
DATA_LOSS: Final = ("KAFKA_DATA_LOSS", "data may have been lost")


@dataclass(frozen=True)
class BusTopics:
    """Reads the topics of a bus. options: the connector's, valid inside `connected`.

    proof: what its events are checked by, as in the engine.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)
    proof: Proof | None = None
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

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
        """The committed records of these topics, up to their present end.

        since_ms, until_ms: only records with timestamps from `since_ms` to before `until_ms`. Of a partition,
        records before the first one with such a timestamp are not fetched.
        """
        options = {**self._options(topics), "startingOffsets": "earliest"}
        if since_ms is not None:
            # "latest": read nothing of a partition whose records are all earlier
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
        """The event topic and the listed topics of the bus. Raises PipelineError if there is no bus."""
        record = self._bus_record(spark)
        if record is None:
            raise PipelineError(
                f"topic {self.topic('subscription')!r} has no record of a bus: set the bus's name with"
                " spark.interlock.bus, or create it: airflow interlock topics create"
            )
        # As engines do, leave out names that no topic can have.
        return (self.topic("event"), *dict.fromkeys(filter(is_topic, record.get("topics", ()))))

    def cloudevents(self, spark: SparkSession) -> tuple[str, ...]:
        """The listed topics that hold CloudEvents, according to the bus record."""
        return tuple((self._bus_record(spark) or {}).get("cloudevents", ()))

    def topic_ids(self, spark: SparkSession, topics: Sequence[str]) -> dict[str, str]:
        """{topic: id} of those of the topics that exist. Needs a classic session."""
        return topic_ids(spark, self.options, topics)

    def _bus_record(self, spark: SparkSession) -> Mapping[str, Sequence[str]] | None:
        """The bus record, read once; None without one. Raises PipelineError if another version wrote it."""
        from pyspark.sql import functions as f

        if "bus" not in self._cache:
            registry = self.batch(spark, [self.topic("subscription")])
            last = (
                registry.where(f.col("key") == f.lit("bus").cast("binary"))
                .orderBy(f.desc("offset"))
                .select("value", "offset")
                .head()
            )
            if last is None or last.value is None:
                self._cache["bus"] = None
            else:
                place = f"{self.topic('subscription')}[0]@{last.offset}"
                self._cache["bus"] = bus_record_of(bytes(last.value), place)
        found: Mapping[str, Sequence[str]] | None = self._cache["bus"]
        return found

    def _options(self, topics: Sequence[str]) -> dict[str, str]:
        if not topics or not all(map(is_topic, topics)):
            raise PipelineError(f"topics {list(topics)!r}: name one or more, each as {TOPIC_RULE}")
        return {
            # Java's consumer would let brokers create a topic that was deleted meanwhile.
            "kafka.allow.auto.create.topics": "false",
            **self.options,
            "subscribe": ",".join(topics),
            "includeHeaders": "true",
            "groupIdPrefix": f"{self.name}-pipeline",
            "kafka.isolation.level": "read_committed",
        }


def bus_record_of(value: bytes, place: str) -> Mapping[str, Sequence[str]]:
    """The bus record in this value.

    Raises PipelineError if it is damaged, or if another version wrote it: its bus has other rules.
    """
    try:
        record = json.loads(value.decode())
    except (ValueError, RecursionError):
        record = None
    version = record.get("v") if isinstance(record, dict) else None
    is_known = type(version) is int and version in READS
    if not isinstance(record, dict) or (is_known and not all(map(_are_names, _lists(record)))):
        raise PipelineError(
            f"{place} holds a damaged record of the bus, not a JSON object with lists of topics. Engines use"
            " the one before it; airflow interlock topics add or remove writes it again"
        )
    if not is_known:
        raise PipelineError(
            f"{place} holds a BusRecord of version {record.get('v')!r}; this Interlock reads "
            f"{', '.join(map(str, READS))}. Upgrade this job's Interlock to the release that wrote it, or a "
            "later one"
        )
    return record


def _lists(record: Mapping[str, object]) -> Iterator[object]:
    yield from (record.get(name, []) for name in ("topics", "cloudevents"))


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


@contextmanager
def connected(spark: SparkSession) -> Iterator[BusTopics]:
    """The bus of the session's settings (`spark.interlock.*`), inside the block.

    Raises CompletionError and ConnectorError for wrong settings, and PipelineError instead of Spark's error
    if Kafka does not answer, denies access or lacks a topic.
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
    proof = proof_in(known[CLIENT_FILE], name)
    with connector_options(client, java_file=java_file, folder=folder) as options:
        try:
            yield BusTopics(name, options, proof)
        except (Py4JJavaError, PySparkException) as error:
            if "find data source: kafka" in str(error):
                raise PipelineError(
                    f"Spark has no Kafka connector: add --packages {packages(spark.version)}"
                ) from None
            if any(mark in str(error) for mark in DATA_LOSS):
                raise PipelineError(
                    f"bus {name!r}: records were removed while they were read: by retention, or with their"
                    " topic. Run the job again, with a later --since if it happens again, or read an archive"
                ) from error
            if (sentence := _kafka_error(error)) is None:
                raise
            raise PipelineError(f"bus {name!r}: {sentence}") from error


def _kafka_error(error: Exception) -> str | None:
    """The sentence for the first error of Kafka's client among the causes; None if there is none."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while java is not None:
        for kind, sentence in _SENTENCES.items():
            if java.getClass().getName() == f"org.apache.kafka.common.errors.{kind}":
                return f"{sentence} ({java.getMessage()})"
        java = java.getCause()
    return None
