"""What a backtest says would be delivered is what a deliverer sends for the same events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from interlock import Condition, Event, count, event
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.delivery.firings import open_firing, subscription_of
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.kafka.topics import write_registry
from interlock.engine.records import encode_json
from interlock.engine.runtime.delivering import Delivering
from interlock.events import Emitter
from interlock.events.http import decode
from interlock.spark.pipeline.jobs import backtest as job

from local.topics import read_all
from tests.kit.arrivals import posts
from tests.kit.sinks import Received, Sink, answer

from .conftest import Site
from .test_backtest_and_engine import engine, subscribe

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

A, B = (event(name, by="subject", label=name) for name in "ab")
DAYS = event("day", by="data.day", label="day")
# Each condition with the arguments of `deliver_dag` for its sink.
SINKS: dict[str, tuple[Condition, dict[str, Any]]] = {
    "event": (A, {}),
    "structured": (A, {"format": "json", "replies": True}),
    "pairs": (A & B, {"order": "partition"}),
    "any": (event("b"), {"order": "key"}),  # without keys: lanes of subjects
    "large": (count(B, 3), {"format": "json", "order": "none"}),
    "days": (DAYS & count(DAYS, 2), {}),
}
OWN = ("prefer", "content-type", "traceparent")  # of a delivery, beside `ce-` headers


class Sent(NamedTuple):
    """A delivery as both have it. The sizes are those with a sequence of one digit."""

    firing: str
    id: str
    source: str
    type: str
    subject: str | None
    body_bytes: int
    header_bytes: int


def emit(config: BusConfig) -> None:
    with Emitter(config.client, config.topic("event")) as emitter:
        for number in range(60):
            name, key = "ab"[number % 2], f"kü{number % 5}"
            data = {"n": number, "x": "x" * (70_000 if number % 10 == 1 else number)}
            trace = {} if number % 7 else {"traceparent": f"00-{number + 1:032x}-{number + 1:016x}-01"}
            emitter.emit(Event.of(name, "/t", id=f"{name} {number}", subject=key, data=data, **trace))
        for number in range(8):  # one key, written in two ways
            day = "2026-11-20T06:00Z" if number % 2 else "2026-11-20T07:00+01:00"
            emitter.emit(Event.of("day", "/t", id=f"d{number}", data={"day": day}))


def sent(received: Received) -> Sent:
    own = {n: t for n, t in received.headers.items() if n.startswith("ce-") or n in OWN}
    [found] = decode([(name.encode(), text.encode()) for name, text in own.items()], received.body)
    more = len(found.attributes["interlocksequence"]) - 1
    is_json = "ce-id" not in own
    return Sent(
        found.attributes["interlockfiring"],
        found.id,
        found.source,
        found.type,
        found.subject,
        len(received.body) - (more if is_json else 0),
        sum(len(name) + len(text) + 4 for name, text in own.items()) - (0 if is_json else more),
    )


def lanes(site: Site, sink: SinkRecord) -> dict[str, str]:
    """{firing: its lane}, of the engine's records."""
    found = {}
    for record in read_all(site.servers, site.topic("action")):
        form = record.json()
        if form and form["state"] == "fired" and form["subscription"] == sink.subscription:
            place = TopicPartition(site.topic("action"), record.partition)
            read = Record(place, record.offset, 0, record.key, record.value, None)
            firing = open_firing(read, sink.subscription)
            assert firing is not None
            found[form["firing"]["id"]] = firing.lane(sink.order)
    return found


def backtested(
    spark: SparkSession, output: Path, condition: Condition, given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """(rows of the table of deliveries, the figures in the JSON summary)."""
    arguments = ["--kafka", "--condition", str(condition), "--deliver", json.dumps(given)]
    options = job.parse([*arguments, "--partitions", "2", "--output", str(output)])
    summary = json.loads(json.dumps(job.run(spark, options).to_json()))
    return spark.read.parquet(f"{output}/deliveries").collect(), summary["before"]["deliveries"]


@pytest.mark.long
def test_the_deliveries_of_a_backtest_are_those_that_a_deliverer_sends_for_the_same_events(
    spark: SparkSession, site: Site, eventually: Callable[..., Any], tmp_path: Path
) -> None:
    spark.conf.set("spark.interlock.bootstrap.servers", site.servers)
    spark.conf.set("spark.interlock.bus", site.name)
    with Sink(lambda _: answer(202)) as http:
        given: dict[str, dict[str, Any]] = {}
        records: dict[str, SinkRecord] = {}
        for name, (condition, more) in SINKS.items():
            given[name] = {"dag_id": name, "conn_id": http.url, "path": f"/{name}?x=1", **more}
            records[name] = SinkRecord(
                subscription=subscription_of(site.config.deployment, name),
                connection=http.url,
                path=f"/{name}?x=1",
                send="event" if name in ("event", "structured", "any") else "firing",
                **more,
            )
            write_registry(site.config, {records[name].key: encode_json(records[name])})
            subscribe(site.config, records[name].subscription, condition)
        emit(site.config)
        try:
            wanted = {
                name: backtested(spark, tmp_path / name, condition, given[name])
                for name, (condition, _) in SINKS.items()
            }
        finally:
            spark.conf.unset("spark.interlock.bootstrap.servers")
            spark.conf.unset("spark.interlock.bus")
        total = sum(figures["deliveries"] for _, figures in wanted.values())
        deliverer = Delivering(site.config, posts)
        deliverer.start()
        try:
            with engine(site.config):
                eventually(f"{total} deliveries", lambda: len(http.received) >= total)
                acknowledged = lambda: sum(  # noqa: E731
                    (record.json() or {}).get("state") == "acked"
                    for record in read_all(site.servers, site.topic("action"))
                )
                eventually("they are acknowledged", lambda: acknowledged() >= total)
        finally:
            deliverer.stop()
        assert len(http.received) == total  # each once
        by_path: dict[str, list[Received]] = {}
        for received in http.received:
            by_path.setdefault(received.path, []).append(received)
    for name, (rows, figures) in wanted.items():
        actual = by_path[f"/{name}?x=1"]
        fields = ("firing_id", *Sent._fields[1:])
        assert Counter(Sent(*(row[field] for field in fields)) for row in rows) == Counter(map(sent, actual))
        assert {row.firing_id: row.lane for row in rows} == lanes(site, records[name])
        assert {(row.method, row.path, row.refused) for row in rows} == {("POST", f"/{name}?x=1", None)}
        assert figures["deliveries"] == len(actual)
        assert figures["largest_body"] == max(sent(each).body_bytes for each in actual)
        assert figures["body_bytes"] == sum(sent(each).body_bytes for each in actual)
        if name != "large":
            assert figures["lanes"] == len({*lanes(site, records[name]).values()})
    found = {name: len(rows) for name, (rows, _) in wanted.items()}
    assert found == {"event": 30, "structured": 30, "pairs": 30, "any": 30, "large": 10, "days": 4}
    assert wanted["large"][1]["largest_body"] > 70_000  # data that were read from their record
