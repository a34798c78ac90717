"""How commands print rows and sentences."""

from __future__ import annotations

import io
import json
import os
import threading
from argparse import Namespace
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from airflow.models.connection import Connection
from interlock import Event, InterlockError
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError
from interlock.events.kafka import encode
from interlock.plugin.commands import console, tail
from interlock.plugin.commands.console import (
    bus_until,
    confirmed,
    counted,
    moment,
    or_exit,
    print_lines,
    progress,
    say,
    show,
)

ROWS = [{"topic": "t", "partition": 0, "committed": None, "names": ["a", "b"]}]


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_has_numbers_as_numbers_and_none_as_null(
    output: str, read: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Namespace(output=output), ROWS)
    assert read(capsys.readouterr().out) == ROWS


@pytest.mark.parametrize("output", ["table", "plain"])
def test_tables_show_none_as_empty(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(Namespace(output=output), ROWS)
    out = capsys.readouterr().out
    assert "None" not in out
    assert "['a', 'b']" in out


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_reader_that_ends_early_ends_a_command_without_an_error(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind of Backblaze/B2_Command_Line_Tool#1071: a traceback after `airflow interlock ... | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        with or_exit("x"):
            print("x" * size)
        print("and at the end of the interpreter")


def test_a_pipe_of_something_else_that_breaks_is_an_error() -> None:
    with pytest.raises(BrokenPipeError), or_exit("x"):
        raise BrokenPipeError


def test_counted_uses_singular_and_plural() -> None:
    texts = [counted(number, "dead letter") for number in (0, 1, 2)]
    assert texts == ["0 dead letters", "1 dead letter", "2 dead letters"]


def test_a_connection_that_cannot_be_read_does_not_keep_a_command_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop, release = threading.Event(), threading.Event()

    def hang(_: Namespace) -> BusConfig:
        stop.set()  # as a signal does
        release.wait()
        raise AssertionError

    monkeypatch.setattr(console, "bus_of", hang)
    assert bus_until(Namespace(), stop) is None
    release.set()


def test_a_connection_is_read_with_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    config = BusConfig(client={"bootstrap.servers": "127.0.0.1:1"})
    monkeypatch.setattr(console, "bus_of", lambda _: config)
    assert bus_until(Namespace(), threading.Event()) is config

    def fail(_: Namespace) -> BusConfig:
        raise ConfigError("no host")

    monkeypatch.setattr(console, "bus_of", fail)
    with pytest.raises(ConfigError, match="no host"):
        bus_until(Namespace(), threading.Event())


def test_a_connection_that_a_secrets_backend_refuses_is_an_error_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was a PermissionError: a traceback, and the end of an engine that read its connection again."""

    def refuse(conn_id: str) -> None:
        raise PermissionError("not this machine")

    monkeypatch.setattr(Connection, "get_connection_from_secrets", refuse)
    with pytest.raises(ConfigError, match=r"may not read connection 'crm': not this machine\. Allow it"):
        console.bus_of(Namespace(conn_id="crm", bus=None))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress("Waiting") as now:
        now("Reading [::1]\n")
    shown = terminal.getvalue()
    assert r"Reading [::1]\n ..." in shown
    assert shown.endswith("\x1b[1A\x1b[2K")  # up to the line, and erased
    assert capsys.readouterr().out == ""


def test_progress_is_not_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Waiting") as now:
        now("Reading")
    assert capsys.readouterr() == ("", "")


# What anybody with a right to write may put into an event.
HOSTILE = "a\nforged\x1b[2J\x9b\u202eb\u2066\u2028c\u200b[bold]d[/bold]\t\r\ud800"
SHOWN = r"a\nforged\x1b[2J\x9b\u202eb\u2066\u2028c\u200b[bold]d[/bold]\t\r\ud800"


@pytest.mark.parametrize("output", ["table", "plain"])
def test_a_cell_shows_what_it_holds_and_controls_nothing(
    output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """U+202E and U+2028 passed raw, and a line break forged a row (an attacker's event)."""
    monkeypatch.setenv("COLUMNS", "400")
    show(Namespace(output=output), [{"key": HOSTILE, "n": 1}])
    out = capsys.readouterr().out
    assert SHOWN in out
    assert not any(line.startswith("forged") for line in out.splitlines())
    assert all(line.isprintable() for line in out.split("\n"))


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_have_the_exact_text(
    output: str, read: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"key": HOSTILE.replace("\ud800", ""), "long": "x " * 500}]
    show(Namespace(output=output), rows)
    assert read(capsys.readouterr().out) == rows


def test_sentences_questions_and_errors_control_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(HOSTILE)
    monkeypatch.setattr("builtins.input", lambda: "n")
    confirmed(Namespace(yes=False), f"Remove {HOSTILE}?")
    assert capsys.readouterr().err == f"{SHOWN}\nRemove {SHOWN}? [y/N] "
    with pytest.raises(SystemExit) as ended, or_exit("explain"):
        raise InterlockError(HOSTILE)
    assert str(ended.value) == f"airflow interlock explain: {SHOWN}"


def test_lines_of_ours_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines("first\n`- \x1b[31msecond\u202e")
    assert capsys.readouterr().out == "first\n`- \\x1b[31msecond\\u202e\n"


def test_tail_prints_one_line_for_an_event_whatever_it_holds() -> None:
    """An event whose attributes and data try to forge a line and to turn the text around (an attacker)."""
    event = Event.of("t\u202ex", "/s", id="1\u2028", subject="a\u200b", data=HOSTILE.replace("\ud800", ""))
    record = Record(TopicPartition("b-event", 0), 7, 0, *encode(event))
    line = tail._line(Namespace(output="table", data=True), None, record, event)
    assert line.isprintable()
    assert r"t\u202ex /s 1\u2028 subject=a\u200b" in line
    whole = json.loads(tail._line(Namespace(output="json", data=True), None, record, event))
    assert whole["event"] == event.to_json_dict()


@pytest.mark.parametrize("depth", [200, 400, 600, 800, 900, 950, 1000, 2000])
@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_tail_prints_an_event_however_deeply_its_data_are_nested(
    output: str, load: Callable[[str], Any], depth: int
) -> None:
    """The parser of data takes more levels than the writers do: one such event ended the command."""
    data = b"[" * depth + b"]" * depth
    event = Event.of("t", "/s", id="1", data=data, datacontenttype="application/json")
    record = Record(TopicPartition("b-event", 0), 7, 0, *encode(event))
    line = tail._line(Namespace(output=output, data=True), None, record, event)
    if depth == 2000:
        assert b64decode(load(line)["event"]["data_base64"]) == data


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, ""),
        (0, "1970-01-01T00:00:00+00:00"),
        (1_795_000_000_999, "2026-11-18T11:06:40+00:00"),
        (253_402_300_799_999, "9999-12-31T23:59:59+00:00"),
        (253_402_300_800_000, "253402300800000 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
        (-(2**63), "-9223372036854775808 ms"),
        (-1, "1969-12-31T23:59:59+00:00"),
    ],
)
def test_any_timestamp_of_a_record_can_be_shown(ms: int | None, text: str) -> None:
    """Beyond the year 9999 on a CreateTime topic tail ended in a traceback (a producer's clock)."""
    assert moment(ms) == text
