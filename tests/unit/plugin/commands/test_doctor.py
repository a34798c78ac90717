"""`airflow interlock doctor`: its checks before it connects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from sqlite3 import SQLITE_LIMIT_VARIABLE_NUMBER

import pytest
from airflow.cli.cli_parser import get_parser
from interlock.engine.admin import doctor
from interlock.engine.admin.findings import Finding
from interlock.engine.errors import UnreachableError
from interlock.plugin.commands import doctor as command
from interlock.spark import installed
from sqlalchemy import create_engine, insert
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

TABLES = ("dag", "dag_run", "job", "log_template")
CONNECTION = {"conn_type": "kafka", "extra": {"bootstrap.servers": "192.0.2.1:1"}}


def findings(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    args = get_parser().parse_args(["interlock", "doctor", "--output", "json"])
    with pytest.raises(SystemExit):
        args.func(args)
    return [(row["check"], row["found"]) for row in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("INTERLOCK__LISTENER", "runs", "[interlock] listener = 'runs': give dag_run or task_instance"),
        ("INTERLOCK__LISTENER_TIMEOUT", "20", "[interlock] listener_timeout = '20': give seconds"),
        ("INTERLOCK__RESUME_MARGIN", "soon", "[interlock] resume_margin = 'soon': give seconds"),
        ("INTERLOCK__LOOKBACK_HOURS", "-1", "[interlock] lookback_hours = '-1': give a number"),
        ("WORKERS__MIN_HEARTBEAT_INTERVAL", "five", "min_heartbeat_interval"),
    ],
)
def test_an_invalid_setting_is_reported_once_among_the_other_findings(
    setting: str,
    value: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(CONNECTION))
    monkeypatch.setenv(f"AIRFLOW__{setting}", value)
    monkeypatch.setattr(doctor, "diagnose", lambda *_: iter([]))
    [text] = [text for check, text in findings(capsys) if check == "settings"]
    assert expected in text


def test_a_finding_names_the_alert_that_fires_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(CONNECTION))
    found = [Finding("bus", "wrong", "No engine.", "InterlockNoEngine"), Finding("clock", "wrong", "x")]
    monkeypatch.setattr(doctor, "diagnose", lambda *_: iter(found))
    args = get_parser().parse_args(["interlock", "doctor", "--output", "json"])
    with pytest.raises(SystemExit):
        args.func(args)
    rows = json.loads(capsys.readouterr().out)
    alerts = {row["check"]: row["alert"] for row in rows}
    assert (alerts["bus"], alerts["clock"]) == ("InterlockNoEngine", None)


def test_a_terminal_shows_which_check_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It showed nothing for up to 25 s."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(CONNECTION))
    shown: list[str] = []

    @contextmanager
    def progress(what: str) -> Iterator[Callable[[str], None]]:
        shown.append(what)
        yield shown.append

    def silent(_config: object) -> None:
        raise UnreachableError("no answer")

    monkeypatch.setattr(command, "progress", progress)
    monkeypatch.setattr(doctor.probe, "cluster", silent)
    assert findings(capsys)[-1] == ("connection", "no answer")
    assert shown == ["Checking settings", "Checking connection"]


def test_settings_are_checked_even_without_a_connection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__INTERLOCK__RESUME_MARGIN", "-1")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "http"}))
    found = findings(capsys)
    assert [check for check, _ in found] == ["settings", "connection"]


@pytest.mark.parametrize(
    ("listener", "conn_id", "expected"),
    [
        ("dag_run", "events_prod", ["--conn-id events_prod --role emit"]),
        ("dag_run", "kafka_default", []),
        ("", "events_prod", []),
    ],
)
def test_another_connection_of_the_listener_is_a_note_with_the_command_to_check_it(
    listener: str,
    conn_id: str,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(CONNECTION))
    monkeypatch.setenv("AIRFLOW__INTERLOCK__LISTENER", listener)
    monkeypatch.setenv("AIRFLOW__INTERLOCK__LISTENER_CONN_ID", conn_id)
    monkeypatch.setattr(doctor, "diagnose", lambda *_: iter([Finding("bus", "wrong", "x")]))
    found = [text for check, text in findings(capsys) if check == "settings"]
    assert [text.partition("airflow interlock doctor ")[2] for text in found] == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "Off: this Airflow emits no completion events by itself."),
        ({"LISTENER": "dag_run"}, "As configured here, it emits dag_run events of all DAGs."),
        (
            {"LISTENER": "task_instance,dag_run", "LISTENER_DAGS": "ledger_*, !ledger_test, fx"},
            "it emits dag_run and task_instance events of DAGs ledger_*, fx except ledger_test.",
        ),
        (
            {"LISTENER": "dag_run", "LISTENER_DAGS": "!x", "LISTENER_TAGS": "gold,a"},
            "it emits dag_run events of all DAGs except x with one of the tags a, gold.",
        ),
    ],
)
def test_what_the_listener_emits_is_a_finding(
    settings: dict[str, str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The doctor printed the same with and without a listener."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(CONNECTION))
    for name, value in settings.items():
        monkeypatch.setenv(f"AIRFLOW__INTERLOCK__{name}", value)
    monkeypatch.setattr(doctor, "diagnose", lambda *_: iter([Finding("bus", "wrong", "x")]))
    [text] = [text for check, text in findings(capsys) if check == "listener"]
    assert expected in text


@pytest.mark.parametrize(
    ("conn_id", "expected"),
    [
        ("kafka_default", ["writes them with connection 'kafka_default'."]),
        (" events_prod ", ["--conn-id events_prod --role emit"]),
        ("", []),
    ],
)
def test_an_api_server_that_takes_events_is_a_note_with_its_connection(
    conn_id: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(CONNECTION))
    monkeypatch.setenv("AIRFLOW__INTERLOCK__RECEIVER_IN_API_SERVER", conn_id)
    monkeypatch.setattr(doctor, "diagnose", lambda *_: iter([Finding("bus", "wrong", "x")]))
    found = [text for check, text in findings(capsys) if check == "settings"]
    assert len(found) == len(expected)
    assert all(text.endswith(end) for text, end in zip(found, expected, strict=True))
    assert all("/interlock/events" in text for text in found)


def test_two_versions_of_pyspark_in_one_folder_are_wrong_even_without_a_connection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the documented install left behind, with which `pip check` was content."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "http"}))
    monkeypatch.setattr(installed, "conflict", lambda: "it mixes versions of PySpark: run this")
    found = findings(capsys)
    assert ("settings", "it mixes versions of PySpark: run this") in found
    assert [check for check, _ in found] == ["settings", "connection"]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """An in-memory database with Airflow's tables of DAGs, runs and jobs."""
    from airflow.models import import_all_models
    from airflow.models.base import Base

    import_all_models()
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with Session(engine) as made:

        @contextmanager
        def create_session() -> Iterator[Session]:
            yield made

        monkeypatch.setattr("airflow.utils.session.create_session", create_session)
        assert command._unknown_dags() is None  # without tables
        assert command._unknown_runs() is None
        assert command._triggerer_hosts() is None
        made.rollback()
        Base.metadata.create_all(engine, [Base.metadata.tables[name] for name in TABLES])
        yield made
    engine.dispose()


def test_unknown_dags_are_those_missing_in_airflows_database(database: Session) -> None:
    from airflow.models.dag import DagModel

    needed = ("max_active_tasks", "max_consecutive_failed_dag_runs", "has_task_concurrency_limits")
    numbers = dict.fromkeys(needed, 0)
    database.execute(insert(DagModel.__table__).values({"dag_id": "a", "bundle_name": "b", **numbers}))
    ask = command._unknown_dags()
    assert ask is not None
    assert ask(["a", "b"]) == {"b"}


def test_more_runs_and_dags_are_asked_for_than_one_query_takes(database: Session) -> None:
    """A doctor of 17,000 waiting runs ended in a traceback: SQLite takes 32,766 parameters."""
    from airflow.models.dagrun import DagRun

    most = command.MOST_ASKED
    sqlite = database.connection().connection.driver_connection
    assert sqlite is not None
    sqlite.setlimit(SQLITE_LIMIT_VARIABLE_NUMBER, 2 * most)
    for run_id in ("0", str(most)):
        dates = dict.fromkeys(("run_after", "updated_at"), datetime.now(UTC))
        columns = {"dag_id": "a", "run_id": run_id, "run_type": "manual", **dates}
        database.execute(insert(DagRun.__table__).values(columns))
    ask_runs, ask_dags = command._unknown_runs(), command._unknown_dags()
    assert ask_runs is not None
    assert ask_dags is not None
    assert ask_runs([("a", str(n)) for n in range(most + 1)]) == {("a", str(n)) for n in range(1, most)}
    assert len(ask_dags([str(n) for n in range(2 * most + 1)])) == 2 * most + 1


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("one.example.com", {"one.example.com", "two"}),
        ("192.0.2.7", None),
        ("localhost", None),
        (None, None),
    ],
)
def test_triggerer_hosts_are_read_if_they_have_names(
    host: str | None, expected: set[str] | None, database: Session
) -> None:
    from airflow.jobs.job import Job

    now = datetime.now(UTC)

    def job(job_type: str, hostname: str | None, ago: timedelta = timedelta(0)) -> None:
        columns = {"job_type": job_type, "hostname": hostname, "latest_heartbeat": now - ago}
        database.execute(insert(Job.__table__).values(columns))

    job("TriggererJob", "two")
    job("TriggererJob", host)
    job("TriggererJob", "10.0.0.1", command.RAN_LATELY + timedelta(minutes=1))
    job("SchedulerJob", "10.0.0.2")
    assert command._triggerer_hosts() == expected
