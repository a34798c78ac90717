"""`airflow interlock health`: which partitions the table shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from interlock.engine.admin import health as module
from interlock.engine.admin.alerts import Kind
from interlock.engine.admin.health import Health

WELL = {"topic": "b-event", "lag": 0, "tries": 0, "state": "open", "committed": 4}
PARTITIONS = [
    {**WELL, "partition": 0},
    {**WELL, "partition": 1, "lag": 3},
    {**WELL, "partition": 2, "state": "stopped"},
    {**WELL, "partition": 3, "tries": 1},
    {**WELL, "partition": 4},  # in a problem
    {**WELL, "partition": 44, "state": "new", "committed": None, "lag": None},
]


def shown(
    output: str, health: Health, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": "one:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    monkeypatch.setattr("interlock.engine.kafka.reachability.require_answer", lambda *_: None)
    monkeypatch.setattr(module, "examine", lambda _config, _late_ms: health)
    args = get_parser().parse_args(["interlock", "health", "--output", output])
    try:
        args.func(args)
    except SystemExit:
        assert health.problems
    return capsys.readouterr()


def test_tables_show_only_partitions_that_need_attention(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    health = Health("b", "one:1", problems=["b-event[4] is assigned to no engine."], partitions=PARTITIONS)
    out, err = shown("plain", health, monkeypatch, capsys)
    rows: Any = [line.split() for line in out.splitlines() if line.startswith("b-event")]
    assert [row[5] for row in rows] == ["1", "2", "3", "4"]
    # The lag of a listed topic that no engine has opened is unknown.
    assert "1 partition without lag. 1 partition with unknown lag: no engine has opened it yet." in err
    assert "--output json shows all." in err
    out, err = shown("json", health, monkeypatch, capsys)
    assert json.loads(out)["partitions"] == PARTITIONS
    assert "without lag" not in err


@pytest.mark.parametrize(
    ("found", "expected_text"),
    [
        ({"open": 3, "redriven": 3, "complete": True}, "3 open, 3 redriven"),
        ({"open": 3, "redriven": 0, "complete": False}, "at least 3 open, 0 redriven"),
        (None, "cannot be read: at most 17"),
    ],
)
def test_dead_letters_are_counted_as_the_list_shows_them(
    found: Any, expected_text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Health said "<= 17" where the list had 3 open and 3 redriven."""
    health = Health("b", "one:1", dead_letters=found, dead_letters_at_most=17)
    out, _ = shown("table", health, monkeypatch, capsys)
    assert expected_text in " ".join(out.split())
    out, _ = shown("json", health, monkeypatch, capsys)
    assert (json.loads(out)["dead_letters"], json.loads(out)["dead_letters_at_most"]) == (found, 17)


def test_a_problem_names_the_alert_that_fires_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    health = Health("b", "one:1")
    health.add(Kind.NO_ENGINE, "No engine.")
    health.add(Kind.REMEDY, "Start one.")
    _, err = shown("table", health, monkeypatch, capsys)
    assert err.splitlines()[-2:] == ["No engine. Alert: InterlockNoEngine.", "Start one."]
    out, _ = shown("json", health, monkeypatch, capsys)
    whole = json.loads(out)
    assert whole["problems"] == ["No engine.", "Start one."]
    assert whole["alerts"] == {"No engine.": "InterlockNoEngine"}


def test_an_idle_bus_has_no_partition_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = shown("table", Health("b", "one:1", partitions=PARTITIONS[:1]), monkeypatch, capsys)
    assert "b-event" not in out
    assert "1 partition without lag." in err


SINK = {"subscription": "a/deliver/ship", "delivers_to": "connection crm", "oldest_firing": None}


def test_tables_show_only_sinks_with_firings_that_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = {**SINK, "subscription": "a/deliver/unknown", "open_firings": None}
    sinks = [
        {**SINK, "open_firings": 0},
        {**SINK, "subscription": "a/deliver/late", "open_firings": 2},
        unknown,
    ]
    health = Health("b", "one:1", sinks=sinks)
    out, _ = shown("table", health, monkeypatch, capsys)
    assert [name in out for name in ("a/deliver/ship", "a/deliver/late", "a/deliver/unknown")] == [
        False,
        True,
        True,
    ]
    out, _ = shown("json", health, monkeypatch, capsys)
    assert json.loads(out)["sinks"] == sinks


@pytest.mark.parametrize(("given", "late_ms"), [([], 900_000), (["--late-after", "2h"], 7_200_000)])
def test_when_a_waiting_firing_is_a_problem_can_be_chosen(
    given: list[str],
    late_ms: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    late_values: list[int] = []
    shown("json", Health("b", "one:1"), monkeypatch, capsys)  # sets the connection
    monkeypatch.setattr(module, "examine", lambda _, late: late_values.append(late) or Health("b", "one:1"))
    args = get_parser().parse_args(["interlock", "health", *given, "--output", "json"])
    args.func(args)
    assert late_values == [late_ms]


def test_a_duration_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    args = get_parser().parse_args(["interlock", "health", "--late-after", "soon", "--output", "json"])
    with pytest.raises(SystemExit, match="--late-after: 'soon' is not a duration"):
        args.func(args)
    assert json.loads(capsys.readouterr().out)["ok"] is False
