"""Buses with many waits: of one condition or of conditions of their own, half of them with an open key."""

from __future__ import annotations

from typing import Final, Literal

from confluent_kafka import Producer
from interlock import Condition, Event, event
from interlock.conditions import EMPTY, Match, State, step
from interlock.engine.config import BusConfig
from interlock.engine.records import (
    ActionRecord,
    FiringRecord,
    LeaseRecord,
    MetaRecord,
    Registration,
    RegistrationKey,
    RenewalRecord,
    encode_json,
    encode_msgpack,
    partition_of,
    state_key,
)
from interlock.engine.registry.leases import lease_key, renewal_key
from interlock.engine.waiting.lease_writer import MOST_NAMED
from interlock.events.kafka import encode

from ..engine.load import PARTITIONS, PRODUCER, new_bus, put

Kind = Literal["shared", "distinct"]
KINDS: Final[tuple[Kind, ...]] = ("shared", "distinct")
DAGS: Final = 500
EVENTS: Final = 2000
FIRINGS: Final = 10_000
SHARED: Final = event("com.acme.orders.placed", by="data.date", label="orders") & event(
    "com.acme.rates.loaded", by="data.date", label="rates"
)


def name_of(n: int) -> str:
    """The name of wait `n`, as a task's."""
    return f"airflow/dag_{n % DAGS}/scheduled__2026-11-20T00:00:00+00:00/wait/{n}"


def _condition(kind: Kind, n: int) -> tuple[Condition, str | None]:
    """The condition and the key of wait `n`."""
    if kind == "shared":
        return SHARED, f"2026-{n}"
    orders = event("com.acme.orders.placed", subject=f"order-{n}", label="orders")
    return orders & event("com.acme.rates.loaded", source=f"/spark/{n}", label="rates"), None


def _order(n: int) -> Event:
    """An event that meets the first part of wait `n`."""
    attributes = {
        "specversion": "1.0",
        "id": f"order-{n}",
        "source": "/shop/orders",
        "type": "com.acme.orders.placed",
        "subject": f"order-{n}",
        "time": "2026-11-20T12:00:00Z",
        "datacontenttype": "application/json",
    }
    return Event(attributes, f'{{"date":"2026-{n}","amount":{n}}}'.encode())


def _half_met(condition: Condition, n: int, now_ms: int) -> State:
    match = Match(_order(n), (0,), "bus-event", n % PARTITIONS, n, now_ms)
    return step(condition, EMPTY, match)[0]


def crowded_bus(bootstrap_servers: str, kind: Kind, waits: int, open_keys: int, now_ms: int) -> BusConfig:
    """A bus with this many waits in force, which one process holds, and open keys of the first of them."""
    config = new_bus(f"crowd-{kind}", bootstrap_servers)
    producer = Producer({**config.client, **PRODUCER})
    topic, state = config.topic("subscription"), config.topic("state")
    named: list[str] = []
    for n in range(waits):
        condition, key = _condition(kind, n)
        registration = Registration.of(name_of(n), condition, key, now_ms)
        named.append(registration.incarnation)
        place = RegistrationKey(registration.incarnation, "ab12cd34").encode()
        put(producer, topic, encode_json(registration), place, partition=0)
        if n < open_keys:
            held = _half_met(condition, n, now_ms).encode()
            meta = MetaRecord(1, n + 1, {f"bus-event/{n % PARTITIONS}": n}, False, True, (None, held))
            number = partition_of("one-shot", name_of(n), key or "", PARTITIONS)
            put(
                producer,
                state,
                encode_msgpack(meta),
                state_key(registration.incarnation, None),
                partition=number,
            )
    for number, at in enumerate(range(0, waits, MOST_NAMED)):
        lease = LeaseRecord(deployment="airflow", incarnations=named[at : at + MOST_NAMED], host="worker-1")
        put(producer, topic, encode_json(lease), lease_key("triggerer", number), partition=0)
    put(producer, topic, encode_json(RenewalRecord()), renewal_key("triggerer"), partition=0)
    _put_past(producer, config)
    producer.flush()
    return config


def _put_past(producer: Producer, config: BusConfig) -> None:
    """Events, and firings of waits that have ended."""
    for n in range(EVENTS):
        key, value, headers = encode(_order(n))
        put(producer, config.topic("event"), value, key, headers=headers)
    for n in range(FIRINGS):
        name = f"airflow/dag_{n % DAGS}/scheduled__2026-11-19T00:00:00+00:00/wait/{n}"
        fired = FiringRecord(
            id=f"{n:032x}",
            outcome="met",
            key=None,
            fired_at="2026-11-20T12:00:01+00:00",
            events={"orders": [_order(n).to_json_dict()]},
            origins={"orders": [{"topic": "bus-event", "partition": 0, "offset": n, "timestamp_ms": 0}]},
        )
        action = ActionRecord(subscription=name, incarnation=f"{n:032x}", state="acked", firing=fired)
        number = partition_of("one-shot", name, "", PARTITIONS)
        put(producer, config.topic("action"), encode_json(action), action.key, partition=number)
