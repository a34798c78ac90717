"""Text of events in log lines and in what commands print: it is in one line, and controls nothing."""

from __future__ import annotations

import ast
import logging
import sys
import unicodedata
from pathlib import Path

import interlock
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.events.visible import Lines, visible, visible_lines, visible_logger

ROOT = Path(interlock.__file__).parent
ROOMS = (
    *("events", "conditions", "engine", "spark", "triggers", "operators", "plugin", "testing"),
    *("receiver", "migrate", "local"),
)
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def is_safe(text: str) -> bool:
    return not any(unicodedata.category(each) in UNSAFE for each in text)


# -- the function


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders\nERROR forged", r"orders\nERROR forged"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\x1b[2J\x1b[31mred\x1b[0m\x07", r"\x1b[2J\x1b[31mred\x1b[0m\x07"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("invoice\u202efdp.exe", r"invoice\u202efdp.exe"),
        (
            "\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069",
            r"\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069",
        ),
        ("a\u2028b\u2029c", r"a\u2028b\u2029c"),
        ("a\u200bb\u200dc\ufeff\u00ad\u2060", r"a\u200bb\u200dc\ufeff\xad\u2060"),
        ("\U000e0041\U000e007f", r"\U000e0041\U000e007f"),
        ("no\u00a0break", r"no\xa0break"),
        ("\ud800", r"\ud800"),
        ("\uffff", r"\uffff"),
        ("Grüße, 東京 – €5", "Grüße, 東京 – €5"),
        ("C:\\temp 'it' \"is\"", "C:\\temp 'it' \"is\""),
        ("", ""),
    ],
)
def test_what_does_not_print_as_itself_is_escaped(text: str, shown: str) -> None:
    """A key with line breaks and ANSI codes forged log lines, and U+202E passed as it is."""
    assert visible(text) == shown


def test_every_control_format_and_separator_character_is_escaped() -> None:
    raw = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in UNSAFE]
    assert len(raw) > 2000
    assert [each for each in raw if not is_safe(visible(each)) or not visible(each).isascii()] == []


@given(st.text(st.characters()))
def test_a_visible_text_prints_in_one_line_and_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    assert len(shown.splitlines()) <= 1
    shown.encode()


def test_lines_of_ours_stay_lines() -> None:
    assert visible_lines("first\n  at \x1bx\u2028y\n") == "first\n  at \\x1bx\\u2028y\n"


# -- loggers


@pytest.fixture
def log(request: pytest.FixtureRequest) -> logging.Logger:
    return visible_logger(f"interlock.test.{request.node.name}")


def test_each_argument_of_a_log_line_is_visible(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = "k\n2026-11-20 ERROR forged\x1b[31m\u202e"
    log.warning("%s, %r, %.3s, %d of %.1f: %s", hostile, hostile, "abcd", 3, 0.5, ValueError(hostile))
    shown = r"k\n2026-11-20 ERROR forged\x1b[31m\u202e"
    assert caplog.messages == [f"{shown}, '{shown}', abc, 3 of 0.5: {shown}"]


def test_a_message_without_arguments_is_visible(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    log.warning("100% of \x1b[2J\nforged")
    assert caplog.messages == [r"100% of \x1b[2J\nforged"]


def test_lines_in_a_log_line_stay_lines(log: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    log.error("stack:\n%s", Lines("one\ntwo\x1b\n"))
    assert caplog.messages == ["stack:\none\ntwo\\x1b\n"]


def test_an_exception_forges_no_line_of_a_traceback(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        try:
            raise KeyError("x\nforged\u202e")
        except KeyError as inner:
            raise ValueError("y\n2026-11-20 forged\x1b[2J") from inner
    except ValueError:
        log.exception("Matching %s failed", "a\nb")
    assert is_safe(caplog.text.replace("\n", ""))
    assert not any(line.startswith(("forged", "2026-11-20 forged")) for line in caplog.text.splitlines())
    assert r"ValueError: y\n2026-11-20 forged\x1b[2J" in caplog.text
    assert "KeyError" in caplog.text
    assert "test_an_exception_forges_no_line_of_a_traceback" in caplog.text


def test_an_exception_that_was_hidden_stays_hidden(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    """`raise ... from None` hides what may hold a secret, such as librdkafka's text about a property."""
    try:
        try:
            raise KeyError("x\nsecret")
        except KeyError:
            raise ValueError("y\nshown") from None
    except ValueError:
        log.exception("failed")
    assert r"ValueError: y\nshown" in caplog.text
    assert "secret" not in caplog.text


def test_a_usual_exception_stays_an_exception_for_structured_logs(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise ValueError("usual")
    except ValueError:
        log.exception("failed")
    [record] = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


def test_a_logger_gets_only_one_filter() -> None:
    first = visible_logger("interlock.test.one")
    assert visible_logger("interlock.test.one") is first
    assert len(first.filters) == 1


# -- every log line


def calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def modules() -> list[tuple[str, ast.Module]]:
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    assert len(paths) > 200
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths]


def test_each_logger_of_the_package_escapes() -> None:
    """Whichever room logs, what an event holds forges no line."""
    plain = [
        f"{name}:{call.lineno}"
        for name, tree in modules()
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("getLogger", "get_logger")
        and name != "events/visible.py"
        # only the level of one is set, and the other is the parent of one with the filter
        and ast.unparse(call.args[0]) not in ("'py4j'", "'uvicorn.error'")
    ]
    assert plain == []


def test_each_line_that_airflows_loggers_get_escapes() -> None:
    """Airflow's own loggers take no filter: an argument for %s is made visible where it is logged."""
    raw = []
    for name, tree in modules():
        for call in calls(tree) if name.startswith(("operators/", "triggers/")) else ():
            function = call.func
            if (
                isinstance(function, ast.Attribute)
                and function.attr in ("debug", "info", "warning", "error", "exception", "critical")
                and isinstance(function.value, ast.Attribute)
                and function.value.attr in ("log", "_log")
            ):
                raw += [f"{name}:{call.lineno} {found}" for found in raw_arguments(call)]
    assert raw == []


def raw_arguments(call: ast.Call) -> list[str]:
    """The arguments of a log call that are written by %s and are not made visible."""
    message = call.args[0]
    if not isinstance(message, ast.Constant) or not isinstance(message.value, str):
        return [ast.unparse(message)]
    kinds = [part[0] for part in message.value.replace("%%", "").replace("%.0f", "%f").split("%")[1:]]
    arguments = call.args[1:]
    if len(arguments) == 1 and isinstance(arguments[0], ast.Starred):
        return []
    assert len(kinds) == len(arguments), ast.unparse(call)
    return [
        ast.unparse(argument)
        for kind, argument in zip(kinds, arguments, strict=True)
        if kind == "s"
        and not isinstance(argument, ast.Constant)
        and not (
            isinstance(argument, ast.Call)
            and isinstance(argument.func, ast.Name)
            and argument.func.id in ("visible", "visible_lines")
        )
    ]
