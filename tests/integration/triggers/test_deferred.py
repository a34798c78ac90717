"""Deferred tasks in a real triggerer: what they survive, and what their authors read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy
from airflow.models.trigger import Trigger
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.events import Emitter
from interlock.plugin.broker import LocalBroker
from sqlalchemy.orm import Session

from local.topics import Record, read_all
from tests.integration.triggers.test_dispatch import registered

DAY = "2024-05-17"


def emit(bus: BusConfig, event_type: str, **arguments: Any) -> tuple[str, int, int]:
    with Emitter(bus.client, bus.topic("event")) as emitter:
        return emitter.emit(Event.of(event_type, "/test", **arguments))


def midnight(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def committed(bus: BusConfig, partition: int) -> int:
    consumer = Consumer({**bus.client, "group.id": bus.group})
    [found] = consumer.committed([TopicPartition(bus.topic("event"), partition)], timeout=10)
    consumer.close()
    return found.offset


def records(bus: BusConfig, kind: str) -> list[Record]:
    """All committed records of one of the bus's topics, read by a consumer that is not Interlock's."""
    return read_all(bus.bootstrap_servers, bus.topic(kind))


def states_of(bus: BusConfig, run_id: str) -> list[Record]:
    """The state records of the run's wait: their keys begin with the incarnation of its registration."""
    forms = [record.json() or {} for record in records(bus, "subscription")]
    own = [form["incarnation"] for form in forms if f"/{run_id}/" in form.get("subscription", "")]
    return [r for r in records(bus, "state") if own and r.key and r.key.startswith(own[0].encode())]


def firings_of(bus: BusConfig, run_id: str) -> list[dict[str, Any]]:
    return [form for form in actions_of(bus, run_id) if form["state"] == "fired"]


def actions_of(bus: BusConfig, run_id: str) -> list[dict[str, Any]]:
    forms = [record.json() for record in records(bus, "action")]
    return [form for form in forms if form and run_id in form["subscription"]]


def test_a_half_met_wait_survives_a_killed_triggerer_and_the_loss_of_its_first_event(
    site: Any, eventually: Any
) -> None:
    """Half an hour of a real pipeline in a minute: nothing but the state topic can complete the condition."""
    run_id = site.deferred("pair", logical_date=midnight(DAY))
    _, partition, offset = emit(site.bus, "first.half", data={"day": DAY}, id="one")
    eventually("the committed offset is past the first half", lambda: committed(site.bus, partition) > offset)
    eventually("its match is in the state topic", lambda: states_of(site.bus, run_id))
    admin = AdminClient(dict(site.bus.client))
    for kind in ("event", "trigger"):
        topic = site.bus.topic(kind)
        futures = admin.delete_records([TopicPartition(topic, p, -1) for p in range(4)])
        for future in futures.values():
            future.result()
        assert records(site.bus, kind) == []
    site.airflow.kill_triggerer()
    site.airflow.start_triggerer()
    emit(site.bus, "second.half", data={"day": DAY}, id="two")
    assert site.api.wait_for_run("pair", run_id, timeout_s=120) == "success"
    output = site.api.xcom("pair", run_id, "wait")
    assert output["key"] == DAY
    assert sorted(e["id"] for together in output["events"].values() for e in together) == ["one", "two"]
    assert len(firings_of(site.bus, run_id)) == 1
    assert [action["state"] for action in actions_of(site.bus, run_id)] == ["fired", "acked"]


def due(site: Any, *queues: str) -> dict[int, str]:
    """Class by id of the triggers that Airflow gives a triggerer of these queues, if it is the only one."""
    database = sqlalchemy.create_engine(f"sqlite:///{site.airflow.home / 'airflow.db'}?timeout=60")
    with Session(database) as session:
        found = Trigger.get_sorted_triggers(
            capacity=1000, alive_triggerer_ids=[], queues=set(queues) or None, session=session
        )
        rows = [session.get_one(Trigger, trigger_id) for [trigger_id] in found]
        return {row.id: row.classpath.rpartition(".")[2] for row in rows}


@pytest.mark.long
def test_waits_and_dispatchers_go_to_triggerers_of_their_queue_and_asset_watchers_to_those_without(
    site: Any, eventually: Any
) -> None:
    api, watcher = site.api, "airflow/asset/market"
    for dag_id in ("open_on_asset", "dispatch_queued"):
        api.unpause(dag_id)
    api.parse_again("open_on_asset")  # Airflow makes the watchers of unpaused DAGs when it parses them
    queued = [("queued", site.deferred("queued"), "wait")]
    [run] = eventually("the dispatcher runs", lambda: api.runs("dispatch_queued"))
    queued.append(("dispatch_queued", run["dag_run_id"], "dispatch"))
    api.wait_for_task(*queued[1], "deferred", timeout_s=90)
    beside = ("pair", site.deferred("pair", logical_date=midnight("2024-05-23")), "wait")

    def trigger(task: tuple[str, str, str]) -> dict[str, Any]:
        return dict(api.task(*task)["trigger"])

    def triggerers() -> set[int | None]:
        return {trigger(task)["triggerer_id"] for task in queued}

    without = eventually("a wait after them is taken", lambda: trigger(beside)["triggerer_id"])
    eventually("the watcher is taken", lambda: registered(site, watcher))
    assert [(each["queue"], each["triggerer_id"]) for each in map(trigger, queued)] == [("apart", None)] * 2
    ids = [trigger(task)["id"] for task in queued]
    assert due(site, "apart") == dict(zip(ids, ("EventTrigger", "DispatchTrigger"), strict=True))
    assert "ConditionTrigger" in due(site).values()
    assert due(site).keys().isdisjoint(ids)
    name = site.airflow.start_triggerer(
        "--queues", "apart", environment={"AIRFLOW__TRIGGERER__QUEUES_ENABLED": "True"}
    )
    try:
        eventually("one of their queue takes them", lambda: None not in triggerers())
        assert len(triggerers()) == 1
        assert without not in triggerers()
        eventually("the engines of both are one group", lambda: len(site.members()) == 2)
        emit(site.bus, "queued")
        assert api.wait_for_run("queued", queued[0][1]) == "success"
        assert registered(site, "airflow/dispatch/dispatch_queued")
    finally:
        api.pause("dispatch_queued")
        site.airflow.kill_triggerer(name)


def test_the_log_of_a_wait_says_what_it_waits_for_and_what_came(site: Any, eventually: Any) -> None:
    run_id = site.deferred("pair", logical_date=midnight("2024-05-21"))
    emit(site.bus, "first.half", data={"day": "2024-05-21"}, id="log-one")
    emit(site.bus, "second.half", data={"day": 20240521}, id="log-two")
    assert site.api.wait_for_run("pair", run_id) == "success"
    log = site.log("pair", run_id)
    assert "2024-05-21" in log
    assert f"airflow/pair/{run_id}/wait" in log
    assert "id log-one" in log
    assert "id log-two" in log
    page = f"{site.airflow.url}/dags/pair/runs/{quote(run_id, safe='')}/tasks/wait/plugin/interlock-wait"
    assert f"The tab Wait shows what is met and what is missing: {page}" in log
    last = r"Its last event, (first|second)\.half, was recorded at \S+; it was decided \w+ later"
    assert re.search(
        rf"Firing \w+: met by first\.half, second\.half\. {last}, and resumed this task \w+ after", log
    )


def test_a_wait_on_missing_topics_says_what_to_do_and_continues_when_it_is_done(
    site: Any, eventually: Any
) -> None:
    run_id = site.deferred("no_topics")
    text = "Topic 'elsewhere-event' is missing, or this user may not describe it."
    eventually("the log names the topic", lambda: text in site.log("no_topics", run_id))
    assert "airflow interlock topics create" in site.log("no_topics", run_id)
    elsewhere = BusConfig(name="elsewhere", client=site.bus.client)
    create(elsewhere, partitions=1)
    emit(elsewhere, "anything")
    assert site.api.wait_for_run("no_topics", run_id) == "success"


@pytest.mark.long
def test_a_wait_on_an_unreachable_broker_says_so_continues_and_disturbs_no_other(
    site: Any, eventually: Any, tmp_path: Path
) -> None:
    run_id = site.deferred("no_broker")
    text = f"Cannot reach bus 'interlock' at 127.0.0.1:{site.port_down}"
    eventually("the log names the broker", lambda: text in site.log("no_broker", run_id))
    other = site.deferred("pair", logical_date=midnight("2024-05-22"))
    for half in ("first.half", "second.half"):
        emit(site.bus, half, data={"day": "2024-05-22"})
    assert site.api.wait_for_run("pair", other) == "success"
    with LocalBroker(tmp_path / "late", port=site.port_down):
        late = BusConfig(client={"bootstrap.servers": f"127.0.0.1:{site.port_down}"})
        create(late, partitions=1)
        emit(late, "anything")
        assert site.api.wait_for_run("no_broker", run_id) == "success"


def test_a_condition_that_cannot_be_kept_is_an_import_error_that_says_why(site: Any, eventually: Any) -> None:
    def errors() -> dict[str, str]:
        found = site.api.import_errors()
        return found if len(found) >= 2 else {}

    found = eventually("both files are reported", errors)
    [condition] = [text for name, text in found.items() if name.endswith("broken_condition.py")]
    assert "build it with interlock.event() and other functions of interlock" in condition
    [conjunction] = [text for name, text in found.items() if name.endswith("broken_and.py")]
    assert "&" in conjunction


def test_a_wait_whose_time_is_over_fails_and_leaves_no_registration(site: Any, eventually: Any) -> None:
    site.api.unpause("short")
    run_id = site.api.trigger("short")
    assert site.api.wait_for_run("short", run_id) == "failed"
    log = site.log("short", run_id)
    assert "was not met within 3 s" in log
    assert "not met: never.sent missing" in log

    def removed() -> bool:
        by_key = {r.key: r.value for r in records(site.bus, "subscription")}
        return not any(value and run_id.encode() in value for value in by_key.values())

    eventually("the registration is removed", removed)


def test_an_emit_task_fails_with_the_reason_and_others_succeed(site: Any, eventually: Any) -> None:
    site.api.unpause("emits")
    run_id = site.api.trigger("emits")
    assert site.api.wait_for_run("emits", run_id) == "failed"
    states = {t["task_id"]: t["state"] for t in site.api.tasks("emits", run_id)}
    assert states == {"good": "success", "bad": "failed", "down": "failed"}
    [record] = [r for r in records(site.bus, "event") if run_id.encode() in (r.value or b"")]
    assert record.header("ce_source") == "/airflow/emits/good"
    assert "Not-A-Name" in site.log("emits", run_id, "bad")
    assert f"127.0.0.1:{site.port_down}" in site.log("emits", run_id, "down")
