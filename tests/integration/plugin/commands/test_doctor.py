"""`airflow interlock doctor` on a bus that is well, and on ones that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from interlock import event
from interlock.engine.kafka.topics import write_registry
from interlock.engine.records import LeaseRecord, Registration, RegistrationKey, encode_json


def findings(ran: Any) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for row in json.loads(ran.out):
        found.setdefault(row["check"], []).append((row["state"], row["found"]))
    return found


def test_the_doctor_finds_nothing_wrong_with_a_bus_that_is_well(interlock: Any, bench: Any) -> None:
    with bench.engine():
        ran = interlock("doctor")
    assert ran.code == 0, ran.out
    found = findings(ran)
    assert {state for each in found.values() for state, _ in each} == {"ok"}
    assert found.keys() == {
        "settings",
        "listener",
        "connection",
        "broker",
        "topics",
        "access",
        "clock",
        "bus",
        "deployment",
    }
    assert "has the protocol of Kafka 4.1 or later" in found["broker"][0][1]
    # What was written for the clock is passed over by every reader.
    assert interlock("health").code == 0


@pytest.mark.usefixtures("airflow_database")
def test_what_is_wrong_is_reported_with_what_to_do_and_the_exit_code_is_1(interlock: Any, bench: Any) -> None:
    name = bench.config.topic("state")
    setting = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[setting])
    for future in bench.admin.incremental_alter_configs([resource]).values():
        future.result()
    registration = Registration.of("airflow/elsewhere/run/w", event("t"), None, 0)
    write_registry(
        bench.config, {RegistrationKey(registration.incarnation, "n").encode(): encode_json(registration)}
    )
    lease = LeaseRecord(deployment="airflow", incarnations=[registration.incarnation], host="other-host")
    write_registry(bench.config, {b"lease/airflow-p/0": encode_json(lease)})
    ran = interlock("doctor", "--role", "engine")
    assert ran.code == 1
    wrong = {
        (check, text) for check, each in findings(ran).items() for state, text in each if state == "wrong"
    }
    assert {check for check, _ in wrong} == {"topics", "bus", "deployment"}
    texts = " ".join(text for _, text in wrong)
    assert f"{name!r} has cleanup.policy=delete" in texts
    assert "No engine is a member" in texts
    assert "'other-host' waits for 'airflow/elsewhere/run/w', a run that this Airflow does not have" in texts
    alerts = {row["alert"]: row["found"] for row in json.loads(ran.out) if row["alert"]}
    assert alerts.keys() == {"InterlockRestarts", "InterlockNoEngine"}
    assert f"{name!r} has cleanup.policy=delete" in alerts["InterlockRestarts"]


@pytest.mark.usefixtures("airflow_database")
def test_a_missing_connection_or_one_of_a_team_is_reported_with_what_to_do(
    interlock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.connection import Connection
    from airflow.models.team import Team
    from airflow.utils.session import create_session

    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_CLI")
    absent = interlock("doctor")
    assert (absent.code, findings(absent)["connection"][0][0]) == (1, "wrong")
    assert "airflow connections add kafka_cli" in absent.out
    with create_session() as session:
        session.add(Team(name="blue"))
        session.flush()
        session.add(Connection(conn_id="kafka_cli", conn_type="kafka", team_name="blue"))
    of_team = interlock("doctor")
    assert of_team.code == 1
    [(_, text)] = findings(of_team)["teams"]
    assert text.startswith("Connection 'kafka_cli' belongs to team 'blue'")
    with create_session() as session:
        session.query(Connection).filter_by(conn_id="kafka_cli").delete()
        session.query(Team).delete()
