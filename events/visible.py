"""Texts from events, made safe for people: log lines, and what commands print.

Anybody with a right to write may choose the text of an event. In a log or a terminal a line break forges a
line, an escape sequence controls the terminal, and a direction override shows a text in another order.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from typing import Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(value: object) -> str:
    r"""Returns the value's text in one line: what does not print as itself is escaped, as in Python's `repr`.

    Escaped are controls, line and paragraph separators, format characters (directions, zero widths), spaces
    other than " ", surrogates, and characters without an assigned meaning: "\n", "\x1b", "\u202e". A
    backslash of the text stays as it is, so a text that is visible already does not change.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def visible_lines(text: str) -> str:
    """Returns a text with each of its lines visible: only for line breaks that Interlock wrote."""
    return "\n".join(map(visible, text.split("\n")))


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return _SHORT.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class Lines:
    """An argument of a log line that has several lines, each of which is made visible."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return visible_lines(self._text)


class _Visible:
    """An argument of a log line, made visible when the line is formatted."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return visible(self._value)

    def __repr__(self) -> str:
        return visible(repr(self._value))


def _argument(value: object) -> object:
    return value if value is None or isinstance(value, (int, float, Lines, _Visible)) else _Visible(value)


class VisibleArguments(logging.Filter):
    """Passes each record, with its arguments and its traceback made visible."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(map(_argument, record.args))
        if not record.args:
            record.msg, record.args = "%s", (_argument(record.msg),)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and any(not str(each).isprintable() for each in _chain(error)):
            record.msg, record.args = "%s\n%s", (Lines(record.getMessage()), Lines(_traceback(error)))
            record.exc_info = None
        return True


def visible_logger(name: str) -> logging.Logger:
    """Returns the logger of this name, with the filter VisibleArguments."""
    logger = logging.getLogger(name)
    if not any(isinstance(each, VisibleArguments) for each in logger.filters):
        logger.addFilter(VisibleArguments())
    return logger


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and not any(following is each for each in seen):
        seen.append(following)
        yield following
        hidden = following.__suppress_context__  # `raise ... from None`, because it may hold a secret
        following = following.__cause__ or (None if hidden else following.__context__)


def _traceback(error: BaseException) -> str:
    """Returns the traceback with each exception's text in one line, the cause first."""
    parts = []
    for each in _chain(error):
        calls = "".join(traceback.format_tb(each.__traceback__))
        parts.append(f"{calls}{type(each).__qualname__}: {visible(each)}")
    return "\n".join(reversed(parts))
