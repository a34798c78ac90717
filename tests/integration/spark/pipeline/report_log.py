"""A log of a bus, for reports: its records in order of their append, and what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from interlock.conditions import Condition, event
from interlock.conditions.filters import Prefix
from interlock.engine import records as engine
from interlock.events import kafka
from interlock.events.event import Event
from interlock.spark.pipeline.rows import TopicRow, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUS = "b"
T0 = int(datetime(2026, 11, 20, 10, tzinfo=UTC).timestamp() * 1000)
ORDERS, RATES, CART, OPS = (
    "com.shop.orders.done",
    "com.bank.rates.published",
    "com.shop.cart.touched",
    "com.ops.up",
)
BOTH = event(ORDERS, by="data.date", label="orders") & event(RATES, by="data.date", label="rates")
LIMITED = BOTH.expires(after="1h")
ANY_OPS = event(filters=[Prefix(type="com.ops.")], by="subject", label="ops")


class Log:
    """Records of a bus in order of their append."""

    def __init__(self) -> None:
        self.records: list[TopicRow] = []

    def append(
        self, kind: str, at: int, key: bytes | None, value: bytes | None, headers: Sequence[Any] = ()
    ) -> TopicRow:
        record = TopicRow(f"{BUS}-{kind}", 0, len(self.records), at, 1, key, value, list(headers))
        self.records.append(record)
        return record

    def event(
        self, type_: str, at: int, *, time_ms: int | None = None, **more: Any
    ) -> tuple[Event, TopicRow]:
        time = None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)
        sent = Event.of(
            type_, "/shop", id=str(len(self.records)), time=time, data={"date": "2026-11-20"}, **more
        )
        key, value, headers = kafka.encode(sent)
        return sent, self.append("event", at, key, value, headers)

    def registered(
        self, at: int, subscription: str, condition: Condition, **more: Any
    ) -> engine.Registration:
        made = engine.Registration.of(subscription, condition, more.pop("key", None), T0, **more)
        key = engine.RegistrationKey(made.incarnation, "nonce").encode()
        self.append("subscription", at, key, engine.encode_json(made))
        return made

    def removed(self, at: int, made: engine.Registration, *, leftover: bool = False) -> None:
        key = engine.RegistrationKey(made.incarnation, "nonce").encode()
        self.append("subscription", at, key, None, engine.LEFTOVER if leftover else ())

    def firing(
        self,
        made: engine.Registration,
        parts: dict[str, tuple[Event, TopicRow]],
        fired: int | None,
        acked: int | None = None,
        **more: Any,
    ) -> engine.ActionRecord:
        origins = {
            label: [
                {
                    "topic": at.topic,
                    "partition": at.partition,
                    "offset": at.offset,
                    "timestamp_ms": at.timestamp_ms,
                }
            ]
            for label, (_, at) in parts.items()
        }
        decided = {
            "id": f"firing-{len(self.records)}",
            "outcome": "met",
            "key": "2026-11-20",
            "fired_at": datetime.fromtimestamp((fired or T0) / 1000, UTC).isoformat(timespec="milliseconds"),
            **more,
        }
        firing = engine.FiringRecord(
            events={label: [sent.to_json_dict()] for label, (sent, _) in parts.items()},
            origins=origins,
            **decided,
        )
        action = engine.ActionRecord(
            subscription=made.subscription,
            kind=made.kind,
            incarnation=made.incarnation,
            state="fired",
            firing=firing,
        )
        if fired is not None:
            self.append("action", fired, action.key, engine.encode_json(action))
        if acked is not None:
            acknowledged = msgspec.structs.replace(action, state="acked")
            self.append("action", acked, action.key, engine.encode_json(acknowledged))
        return action


def wait(dag: str, run: str = "r", task: str = "ready", *index: int) -> str:
    return "/".join(["airflow", dag, run, task, *map(str, index)])


def rows_in(spark: SparkSession, records: Sequence[TopicRow]) -> DataFrame:
    """The rows of the records, read as by the archive job."""
    columns = (
        "topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT, key BINARY,"
        " value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )
    raw = [
        each._replace(timestamp_ms=datetime.fromtimestamp(each.timestamp_ms / 1000, UTC))  # type: ignore[arg-type]
        for each in records
    ]
    return rows_of(spark.createDataFrame(raw, columns), BUS)
