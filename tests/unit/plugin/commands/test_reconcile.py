"""`airflow interlock reconcile`: its arguments and output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from interlock.engine.errors import UnreachableError
from interlock.events.completions import DagRun, TaskInstanceCompletion
from interlock.plugin.completions import reconcile as work
from interlock.plugin.completions.reconcile import PAGE, Reconciled

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
RUN = DagRun(deployment="airflow", dag_id="daily", run_id="r", run_type="manual", run_after=NOON)
END = TaskInstanceCompletion(
    run=RUN, task_id="load", map_index=2, try_number=1, max_tries=0, state="failed", started_at=NOON,
    ended_at=NOON,
)  # fmt: skip


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The calls of reconcile(). The fake returns two steps; one event is missing in the second."""
    calls: list[dict[str, Any]] = []

    def fake(
        config: Any, session: Any, since: Any, until: Any, wanted: Any, *, dry_run: bool
    ) -> Iterator[Reconciled]:
        arguments = {"config": config, "since": since, "until": until, "wanted": wanted, "dry_run": dry_run}
        calls.append(arguments)
        yield Reconciled(PAGE, NOON, ())
        yield Reconciled(3, NOON, (END.event(),))

    monkeypatch.setattr(work, "reconcile", fake)
    monkeypatch.setattr("interlock.engine.kafka.reachability.require_answer", lambda *_: None)
    for name in ("kafka_default", "events_prod"):
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": f"{name}:1"}}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    return calls


def run(*arguments: str) -> None:
    args = get_parser().parse_args(["interlock", "reconcile", *arguments])
    args.func(args)


def test_it_prints_the_missing_events_and_how_many_completions_were_compared(
    requests: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    since, until = "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"
    run("--output", "json", "--since", since, "--until", until)
    out, err = capsys.readouterr()
    assert json.loads(out) == [
        {
            "type": "interlock.airflow.task_instance.failed",
            "source": "/airflow/daily/load",
            "run_id": "r",
            "map_index": 2,
            "time": "2026-11-20T12:00:00Z",
            "id": END.id,
        }
    ]
    assert err.splitlines()[-2:] == [
        f"{PAGE} completions up to 2026-11-20T12:00:00Z compared: 0 events emitted so far.",
        f"{PAGE + 3} completions from {since} to {until} compared: 1 event emitted.",
    ]
    run("--dry-run")
    assert "1 event would be emitted." in capsys.readouterr().err
    assert [call["dry_run"] for call in requests] == [False, True]


def test_events_that_were_emitted_before_an_error_are_shown(
    requests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were not, and the same command, run again, shows only the rest."""

    def fail(*_: Any, **__: Any) -> Iterator[Reconciled]:
        yield Reconciled(PAGE, NOON, (END.event(),))
        raise UnreachableError("The broker is away.")

    monkeypatch.setattr(work, "reconcile", fail)
    with pytest.raises(SystemExit, match=r"reconcile: The broker is away\."):
        run("--output", "json")
    out, err = capsys.readouterr()
    assert [row["id"] for row in json.loads(out)] == [END.id]
    assert err.splitlines()[-1] == f"{PAGE} completions compared before the command ended: 1 event emitted."
    with pytest.raises(SystemExit, match="The broker is away"):
        run("--output", "json", "--dry-run", "--limit", "0")
    assert "Not shown: 1 more." in capsys.readouterr().err


def test_rows_are_limited_and_all_events_are_counted(
    requests: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    run("--output", "json", "--limit", "0")
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert "Not shown: 1 more." in err
    assert "1 event emitted." in err


def test_since_and_until_are_moments_or_durations(requests: list[dict[str, Any]]) -> None:
    before = datetime.now(UTC)
    run()
    run("--since", "2026-11-20T06:00:00+01:00", "--until", "now")
    default, given = requests
    assert timedelta(0) <= default["since"] - (before - timedelta(days=1)) <= timedelta(minutes=5)
    assert default["until"] - default["since"] >= timedelta(hours=23, minutes=59)
    assert given["since"] == datetime(2026, 11, 20, 5, tzinfo=UTC)
    assert given["until"] >= default["until"]


def test_the_listeners_settings_are_the_defaults(
    requests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    assert requests[-1]["wanted"].kinds == {"dag_run", "task_instance"}
    monkeypatch.setenv("AIRFLOW__INTERLOCK__LISTENER", "dag_run")
    monkeypatch.setenv("AIRFLOW__INTERLOCK__LISTENER_TAGS", "gold")
    run()
    assert requests[-1]["wanted"].kinds == {"dag_run"}
    assert requests[-1]["wanted"].tags == {"gold"}
    run("--kinds", "task_instance", "--dags", "a*,!ab", "--tags", "")
    wanted = requests[-1]["wanted"]
    assert (wanted.kinds, wanted.tags) == ({"task_instance"}, frozenset())
    assert wanted.dags == (("a*", False), ("ab", True))


def test_the_listeners_bus_is_the_default(
    requests: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    monkeypatch.setenv("AIRFLOW__INTERLOCK__LISTENER_CONN_ID", "events_prod")
    run()
    run("--conn-id", "kafka_default", "--bus", "other")
    servers = [call["config"].bootstrap_servers for call in requests]
    assert servers == ["kafka_default:1", "events_prod:1", "kafka_default:1"]
    assert [call["config"].name for call in requests] == ["interlock", "interlock", "other"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--since", "yesterday"), "--since is 'yesterday': give a duration before now"),
        (("--since", "2026-11-23T04:00:00"), "a time with its zone"),
        (("--since", "now"), "--since .* is not before --until .*: give an earlier --since"),
        (("--kinds", "runs"), "--kinds = 'runs': give dag_run or task_instance"),
    ],
)
def test_an_invalid_argument_ends_the_command_with_a_sentence(
    requests: list[dict[str, Any]], arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        run(*arguments)
    assert requests == []
