"""Tables: what people copy is on one line and unchanged, in a terminal of any width."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interlock.plugin.commands.console import show

NAME = "airflow/daily_report/scheduled__2026-11-20T00:00:00+00:00/wait_for_orders_and_rates"
ROW = {
    "subscription": NAME,
    "kind": "one-shot",
    "key": '["2026-11-20","eu west"]',
    "since": "2026-11-20T06:00:00+00:00",
    "waited_for_by": ", ".join(f"triggerer-{n}@host-{n}.example.com" for n in range(5)),
}


def printed(
    rows: list[dict[str, Any]],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    output: str = "table",
) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("airflow.cli.simple_table.is_tty", lambda: True)
    show(Namespace(output=output), rows)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [20, 80, 120, 200, 400])
def test_names_and_keys_are_on_one_line_at_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tables wrapped the names of subscriptions in the middle, so that what was copied was broken."""
    out = printed([ROW], width, monkeypatch, capsys)
    for name in ("subscription", "kind", "key", "since"):
        assert ROW[name] in out
    for holder in ROW["waited_for_by"].split(", "):
        assert holder in out


def test_lists_and_sentences_are_broken_between_words_to_fit_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"place": "b-dead-letter[0]@17", "reason": "the record holds no CloudEvent " * 10}
    lines = printed([row], 80, monkeypatch, capsys).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) > 4
    assert "b-dead-letter[0]@17" in lines[2]


@pytest.mark.parametrize("field", ["subscription", "key", "holder 1", "condition"])
def test_a_table_of_fields_keeps_names_too(
    field: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`subscriptions show` and `dead-letters show` print one field on each line."""
    rows = [{"field": field, "value": NAME}, {"field": "other", "value": "x"}]
    assert NAME in printed(rows, 40, monkeypatch, capsys)


def test_the_value_of_a_dead_letter_does_not_widen_every_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"field": "place", "value": "0@17"}, {"field": "value", "value": "hex " + "ab" * 5000}]
    lines = printed(rows, 100, monkeypatch, capsys).splitlines()
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("output", ["table", "plain"])
@pytest.mark.parametrize(
    "key", ["1e5", "007", "20261120", "2026.10", "0x1f", ":key:", "[bold]", "1_000", "nan"]
)
def test_a_key_is_printed_as_it_is(
    key: str, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plain` printed 1e5 as 100000, and a table would print :key: as an emoji and [bold] as a style."""
    out = printed([{"key": key, "events": 3}], 80, monkeypatch, capsys, output)
    assert key in out.split()


@pytest.mark.parametrize("output", ["table", "plain"])
def test_spaces_around_a_key_are_shown(
    output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert '" orders "' in printed([{"key": " orders ", "x": 1}], 80, monkeypatch, capsys, output)


@pytest.mark.parametrize("output", ["table", "plain"])
def test_a_table_without_rows_says_so(
    output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed([], 80, monkeypatch, capsys, output) == "No data found\n"


names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(names, names), min_size=1, max_size=4), st.integers(10, 120))
def test_any_name_is_on_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rows: list[tuple[str, str]],
    width: int,
) -> None:
    out = printed([{"subscription": a, "topic": b, "found": b} for a, b in rows], width, monkeypatch, capsys)
    lines = out.splitlines()
    for one, other in rows:
        assert any(one in line and other in line for line in lines)
