"""The speed of the archive job, compared with Spark's connector alone, which writes nothing."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create

from ..folders import folder
from ..lines import progress, report
from ..sizes import number
from .session import session

PARTITIONS = 8
TYPES = 10


def run(bootstrap_servers: str) -> None:
    events = number("EVENTS", 500_000)
    config = BusConfig(name="bench-archive", client={"bootstrap.servers": bootstrap_servers})
    create(config, partitions=PARTITIONS)
    _produce(config, events // 10)
    with (
        folder() as place,
        session(
            2, spark_interlock_bootstrap_servers=bootstrap_servers, spark_interlock_bus=config.name
        ) as spark,
    ):
        from interlock.spark.pipeline.archive.ingest import IngestOptions, archive
        from interlock.spark.pipeline.rows import BATCH_RECORDS
        from interlock.spark.pipeline.source import connected

        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", BATCH_RECORDS)
        wanted = IngestOptions(str(place / "archive"))
        with connected(spark) as bus:

            def alone() -> float:
                """Seconds of the connector for all events."""
                begin = time.perf_counter()
                bus.batch(spark, [bus.topic("event")]).write.format("noop").mode("overwrite").save()
                return time.perf_counter() - begin

            archive(spark, bus, wanted)  # not counted: the JVM still compiles
            alone()
            progress(f"archive: {events} events")
            _produce(config, events)
            begin = time.perf_counter()
            archived = archive(spark, bus, wanted)
            took_s = time.perf_counter() - begin
            alone_s = alone()
    connector = (events + events // 10) / alone_s
    rate = archived / took_s
    report("Spark's Kafka connector alone, two cores", connector, "events/s")
    report("archive, two cores", rate, "events/s", rate / connector)


def _produce(config: BusConfig, count: int) -> None:
    """Events of some 300 bytes, ten types."""
    producer = Producer({**config.client, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    data = b'{"day": "2026-11-20", "rows": 7, "output": "' + b"x" * 150 + b'"}'
    for n in range(count):
        headers: list[tuple[str, str | bytes | None]] = [
            ("ce_specversion", b"1.0"),
            ("ce_id", f"{count}-{n}".encode()),
            ("ce_source", b"/bench"),
            ("ce_type", f"com.example.type{n % TYPES}".encode()),
            ("ce_subject", f"{n % 1000}".encode()),
            ("content-type", b"application/json"),
        ]
        producer.produce(config.topic("event"), data, f"{n % 1000}".encode(), headers=headers)
        if n % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the broker did not take all events")
