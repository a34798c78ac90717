"""Parses text to nodes by the grammar in cesql.lark; errors name the column and what was expected there."""

from __future__ import annotations

import re
from typing import Any, Final

from ....events.attributes import shown
from ...errors import ConditionError
from ...grammar import Grammar
from .builder import NO_DATA, Builder, Misplaced
from .nodes import Node


def options() -> dict[str, Any]:
    """Options of the grammar: a transformer, so that the parser makes no tree."""
    # ASCII: otherwise the Kelvin sign would match the k of "like"
    return {"transformer": Builder(), "g_regex_flags": re.ASCII}


grammar = Grammar(__package__ or "", "cesql.lark", options)

# What may follow, in a reader's words. Where a number may follow, so may anything that begins a value.
_WORDS: Final = {
    "INTEGER": "a value",
    "ADDITIVE": "an operator",
    "LOGIC": "an operator",
    "STRING": "a string in quotes",
    "NAME": "the name of an attribute",
    "_OPEN": "'('",
    "_COMMA": "','",
    "_CLOSE": "')'",
    "$END": "the end",
}
# Operators of other languages, and their CESQL equivalents.
_SIGNS: Final = {"&&": "AND", "&": "AND", "||": "OR", "|": "OR", "!": "NOT"}
# Operators of SQL that CESQL lacks, and what to write instead.
_WORDS_OF_SQL: Final = (
    (re.compile(r"IS\s+NOT\s+NULL\b", re.IGNORECASE), "write EXISTS before the name instead of IS NOT NULL"),
    (re.compile(r"IS\s+NULL\b", re.IGNORECASE), "write NOT EXISTS before the name instead of IS NULL"),
    (re.compile(r"BETWEEN\b", re.IGNORECASE), "write x >= 1 AND x <= 5 for x BETWEEN 1 AND 5"),
    (re.compile(r"ILIKE\b", re.IGNORECASE), "write LOWER(x) LIKE 'a%' for x ILIKE 'a%'"),
    (re.compile(r"RLIKE\b|REGEXP\b|~", re.IGNORECASE), "write where=, as in event.x.matches('^a')"),
    (re.compile(r"_"), "names of attributes have only letters and digits"),
)
_WHOLE: Final = re.compile(r"(?<![A-Za-z0-9])[0-9]+$")
_LAST_NAME: Final = re.compile(r"(?<![A-Za-z0-9])(?:data|event)$", re.IGNORECASE)
# The parser expects these after every value, whether or not a bracket is open.
_INSIDE: Final = ("','", "')'")
_STRING: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)


def parse(text: str) -> Node:
    """The expression in `text` as a node; raises ConditionError if it is invalid."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        return grammar.parse(text)  # type: ignore[no-any-return]  # the builder makes nodes, not trees
    except UnexpectedToken as error:
        start = error.token.start_pos
        at = len(text) if error.token.type == "$END" or start is None else start
        raise _unexpected(text, at, error.expected) from None
    except UnexpectedCharacters as error:
        raise _unexpected(text, error.pos_in_stream or 0, error.allowed or set()) from None
    except Misplaced as error:
        raise _wrong(text, error.column, str(error)) from None


def _unexpected(text: str, at: int, expected: set[str]) -> ConditionError:
    here = text[at : at + 1]
    if here in ("'", '"') and "STRING" in expected:
        return _wrong(text, at + 1, "this string is not closed")
    if at and here in ("'", '"') and here == text[at - 1]:
        return _wrong(text, at + 1, f"text after the end of a string; write \\{here} for a quote in it")
    slip = _slip(text, at)
    if slip is not None:
        return _wrong(text, at + 1, slip)
    found = shown(text[at : at + 20]) if here else "the end"
    words = list(dict.fromkeys(word for name, word in _WORDS.items() if name in expected)) or ["LIKE or IN"]
    if "INTEGER" in expected:
        words = ["a value"]
    elif not _is_open(text[:at]):
        words = [word for word in words if word not in _INSIDE]
    return _wrong(text, at + 1, f"expected {' or '.join(words)}, found {found}")


def _slip(text: str, at: int) -> str | None:
    """What to write if the parser stops at an operator of another language; None for anything else."""
    if text.startswith("=", at) and text[:at].endswith("="):
        return "write one =, not =="
    for sign, word in _SIGNS.items():
        if text.startswith(sign, at):
            return f"write {word} for {sign}"
    for pattern, instead in _WORDS_OF_SQL:
        if pattern.match(text, at):
            return instead
    if text.startswith(".", at) and _WHOLE.search(text, 0, at):
        return 'there are only whole numbers here: write where="double(event.x) > 1.5"'
    if text.startswith(".", at):
        name = _LAST_NAME.search(text, 0, at)
        if name is not None and name[0].lower() == "data":
            return NO_DATA
        if name is not None and name[0].lower() == "event":
            return "write the attribute's name alone, without event."
    return None


def _is_open(text: str) -> bool:
    outside = _STRING.sub("", text)
    return outside.count("(") > outside.count(")")


def _wrong(text: str, column: int, what: str) -> ConditionError:
    return ConditionError(f"CESQL expression {shown(text)}, column {column}: {what}")
