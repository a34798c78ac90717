"""Each example fires in a real Airflow. tests/unit/dags_examples tests what their
conditions mean.

Elsewhere: `settle_on_trades` in test_dispatch.py, `interlock_reconcile` in tests/integration/plugin, and
those of the demo in tests/integration/demo.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.events import Emitter
from interlock.plugin.broker import LocalBroker
from interlock.testing import spark_application_end

from local.airflow import MIGRATED, LocalAirflow
from local.topics import read_all
from tests.integration.triggers.test_dispatch import registered
from tests.kit.sinks import Sink

pytestmark = pytest.mark.long  # an Airflow of its own; in `make test` the examples run without one

EXAMPLES = Path(__file__).parents[3] / "dags_examples"
FILES = (
    "absence_alert",
    "and_with_expiry",
    "asset_route",
    "data_backfill",
    "failure_reaction",
    "n_of_m",
    "plain_topic",
    "sequence",
    "ship_orders",
    "spark_completion",
    # It fails, because the variable that it reads is missing: failure_reaction waits for that.
    "rates_ingest",
    "spark_job",
)
TEN_MINUTES, SHORTER = '"10m"', '"3s"'
DAY, PAST = datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
DATE = {"date": "2026-11-20"}
DURABLE = (
    "dispatch/absence_alert",
    "dispatch/failure_reaction",
    "dispatch/sales_restated",
    "deliver/ship_orders",
    "asset/market_close",
)
WAITING = ("and_with_expiry", "n_of_m", "plain_topic", "spark_completion")
REST = ("sequence", "sales_report", "rates_ingest", "clean_up", "sales_again", "alert")


def sent(kind: str, event_id: str, source: str = "/test", subject: str | None = None, **data: Any) -> Event:
    time = "2026-11-20T06:00:00Z"
    return Event.of(f"com.example.{kind}", source, id=event_id, subject=subject, time=time, data=data)


# In this order.
WAITED_FOR = (
    sent("orders.done", "orders", **DATE, rows=7),
    sent("rates.published", "rates", **DATE),
    sent("market.closed", "tse", source="/markets/tse", **DATE),
    sent("market.closed", "nyse", source="/markets/nyse", **DATE),
    sent("batch.uploaded", "uploaded", batch="b7"),
    sent("batch.scanned", "scanned", batch="b7", clean=True),
    sent("batch.approved", "approved", batch="b7"),
    spark_application_end("orders", at="2026-11-20T05:00:00Z", data={**DATE, "output": "/data/orders"}),
    sent("sales.closed", "closed", date="2026-11-02"),
)
REACTED_TO = (
    Event.of("com.example.station.alive", "/test", subject="north"),
    sent("market.closed", "lse", source="/markets/lse", date="2026-11-21"),
    sent("sales.restated", "first", date="2026-11-02", reason="late bill"),
    sent("sales.restated", "second", date="2026-11-02", reason="typing error"),
    sent("order.paid", "paid", order="4711"),
    sent("order.packed", "packed", order="4711"),
)


@dataclass
class Site:
    """An Airflow with the examples, their bus, and the service to which one of them delivers."""

    airflow: LocalAirflow
    bus: BusConfig
    sink: Sink


@pytest.fixture(scope="module")
def examples(broker: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The examples as they are, except that their ten minutes are three seconds."""
    folder = tmp_path_factory.mktemp("examples")
    dags = folder / "dags"
    dags.mkdir()
    for name in FILES:
        text = (EXAMPLES / f"{name}.py").read_text()
        assert (TEN_MINUTES in text) == (name in ("absence_alert", "data_backfill"))
        (dags / f"{name}.py").write_text(text.replace(TEN_MINUTES, SHORTER))
    bus = BusConfig(name="examples", client={"bootstrap.servers": broker.bootstrap_servers})
    create(bus, partitions=2)
    admin = AdminClient(dict(bus.client))
    stamped = NewTopic("raw_orders", 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([stamped])["raw_orders"].result()
    with (
        Sink() as sink,
        LocalAirflow(
            folder / "home",
            dags,
            migrated=MIGRATED,
            connections={
                "kafka_default": {"conn_type": "kafka", "extra": dict(bus.client)},
                "shipping": {"conn_type": "http", "host": sink.url, "login": "shop", "password": "canary-99"},
            },
            settings={
                ("interlock", "delivery_networks"): "127.0.0.0/8",
                ("interlock", "bus"): bus.name,
                ("interlock", "listener"): "dag_run",
                ("interlock", "resume_margin"): "8",  # many DAGs at once on a busy machine
            },
        ) as airflow,
    ):
        yield Site(airflow, bus, sink)


@pytest.fixture(scope="module")
def played(examples: Site, eventually: Callable[..., Any]) -> Site:
    """The examples, after all of them began to wait and all events that they wait for were emitted."""
    api, bus = examples.airflow.api, examples.bus
    dispatchers = tuple(name.partition("/")[2] for name in DURABLE[:4])
    api.wait_for_dags(*dispatchers, *WAITING, *REST, "asset_route", timeout_s=120)
    for dag_id in (*dispatchers, *WAITING, *REST, "asset_route"):
        api.unpause(dag_id)
    api.parse_again("asset_route")  # Airflow makes the watchers of unpaused DAGs when it parses them
    for dag_id in WAITING:
        api.trigger(dag_id, logical_date=DAY)
    api.trigger("sequence", conf={"batch": "b7"})
    api.backfill("sales_report", PAST, PAST)
    added = examples.airflow.cli("interlock", "topics", "add", "raw_orders")
    assert added.returncode == 0, added.stdout
    producer = Producer(dict(bus.client))
    for status in ("new", "done"):
        value = {"status": status, "rows": 5, "day": "20261120"}
        producer.produce("raw_orders", json.dumps(value).encode(), status.encode())
    producer.flush(10)
    with Emitter(bus.client, bus.topic("event")) as emitter:
        for event in WAITED_FOR:
            emitter.emit(event)
        for name in DURABLE:
            eventually(f"{name} is registered", lambda n=name: registered(examples, f"airflow/{n}"), 120)
        api.trigger("rates_ingest", run_id="broken")
        for event in REACTED_TO:
            emitter.emit(event)
    return examples


@pytest.mark.parametrize(
    ("dag_id", "task_id", "output"),
    [
        ("and_with_expiry", "report", "2026-11-20: 7 orders"),
        ("n_of_m", "value_positions", ["nyse", "tse"]),
        (
            "sequence",
            "approved",
            {"uploaded": ["uploaded"], "scanned": ["scanned"], "approved": ["approved"]},
        ),
        ("plain_topic", "order_done", {"order": ["0/1"]}),
        ("spark_completion", "load", "loaded /data/orders"),
        ("sales_report", "closed", {"closed": ["closed"]}),
        ("sales_again", "compute", "computed 2026-11-02"),
        ("asset_route", "days", ["2026-11-21"]),
        ("clean_up", "clean_up", "removed what broken left"),
    ],
)
def test_an_example_fires_and_its_tasks_do_what_it_is_for(
    played: Site, eventually: Callable[..., Any], dag_id: str, task_id: str, output: Any
) -> None:
    found = returned(played, eventually, dag_id, task_id)
    if isinstance(found, dict):  # a firing
        found = {label: [event["id"] for event in events] for label, events in found["events"].items()}
    assert found == output


def test_the_absence_alert_says_when_the_last_heartbeat_was_recorded(
    played: Site, eventually: Callable[..., Any]
) -> None:
    """The heartbeat itself has no time."""
    events = read_all(played.bus.bootstrap_servers, played.bus.topic("event"))
    [beat] = [each for each in events if each.header("ce_type") == "com.example.station.alive"]
    when = datetime.fromtimestamp(beat.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    assert returned(played, eventually, "alert", "alert") == f"north has been silent since {when}"


def test_an_order_reaches_the_shipping_service_from_the_triggerer(
    played: Site, eventually: Callable[..., Any]
) -> None:
    [request] = eventually("the order is delivered", lambda: played.sink.received, 120)
    assert (request.method, request.path) == ("POST", "/orders")
    assert request.attributes["type"] == "interlock.firing.met"
    assert request.attributes["source"] == "/airflow/deliver/ship_orders"
    firing = json.loads(request.body)
    assert (firing["key"], sorted(firing["events"])) == ("4711", ["packed", "paid"])
    assert request.headers["authorization"].startswith("Basic ")


def returned(played: Site, eventually: Callable[..., Any], dag_id: str, task_id: str) -> Any:
    """The return value of the task in the run that the test or the example started."""
    api = played.airflow.api

    def ours() -> list[dict[str, Any]]:
        """Without the scheduled run of today, which Airflow may start beside it."""
        return [run for run in api.runs(dag_id) if run["run_type"] != "scheduled"]

    [run] = eventually(f"{dag_id} has a run", ours, 300)
    assert api.wait_for_run(dag_id, run["dag_run_id"]) == "success"
    return api.xcom(dag_id, run["dag_run_id"], task_id)
