"""`airflow interlock doctor`: what it looks at before it asks the cluster."""

from __future__ import annotations

import json

import pytest
from airflow.cli.cli_parser import get_parser
from interlock.engine import doctor

CONNECTION = {"conn_type": "kafka", "extra": {"bootstrap.servers": "192.0.2.1:1"}}


def findings(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    args = get_parser().parse_args(["interlock", "doctor", "--output", "json"])
    with pytest.raises(SystemExit):
        args.func(args)
    return [(row["check"], row["found"]) for row in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("INTERLOCK__LISTENER", "runs", "[interlock] listener = 'runs': give dag_run or task_instance"),
        ("INTERLOCK__LISTENER_TIMEOUT", "20", "[interlock] listener_timeout = '20': give seconds"),
        ("INTERLOCK__RESUME_MARGIN", "soon", "[interlock] resume_margin = 'soon': give seconds"),
        ("INTERLOCK__LOOKBACK_HOURS", "-1", "[interlock] lookback_hours = '-1': give a number"),
        ("WORKERS__MIN_HEARTBEAT_INTERVAL", "five", "min_heartbeat_interval"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_once_beside_what_else_is_found(
    setting: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(CONNECTION))
    monkeypatch.setenv(f"AIRFLOW__{setting}", value)
    monkeypatch.setattr(doctor, "diagnose", lambda *_: iter([]))
    [(check, text)] = findings(capsys)
    assert check == "settings"
    assert told in text


def test_without_a_connection_the_settings_are_looked_at_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__INTERLOCK__RESUME_MARGIN", "-1")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "http"}))
    found = findings(capsys)
    assert [check for check, _ in found] == ["settings", "connection"]
