"""Parses conditions from text: the output of `str()`, and Argo's `(a && b) || c` over names.

The text is not executed. It is checked against limits before it is parsed, and the tree is built without
recursion, so the cost of any text is limited.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from ...events.attributes import shown
from ..errors import ConditionError
from ..grammar import Grammar
from ..nodes.condition import Condition
from .builder import Builder, fail

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_CHARS: Final = 65_536
MAX_NESTING: Final = 64
# Names, literals, operators and signs together. Each costs about 6 us.
MAX_TOKENS: Final = 4500

grammar = Grammar(__package__ or "", "condition.lark")
_TOKEN = re.compile(
    r"""'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|[A-Za-z0-9_-]+|&&|\|\||[^ \t\r\n]"""
)
# NAME of the grammar, for names that are never written in a text.
_NAME = re.compile(r"(?=[0-9_:-]*[A-Za-z_])[A-Za-z0-9_][A-Za-z0-9_-]*(?::[A-Za-z0-9_][A-Za-z0-9_-]*)*")
_LAST_WORD = re.compile(r"[A-Za-z0-9_-]+\Z")
# Tokens that the parser expects, in words for errors. NAME and STRING together mean a condition.
_WORDS: Final = {
    "NAME": "a condition",
    "AND": "&",
    "OR": "|",
    "_DOT": "a method",
    "_EQUALS": "'='",
    "_COLON": "':'",
    "_COMMA": "','",
    "_CLOSE": "')'",
    "_END_LIST": "']'",
    "_END_DICT": "'}'",
    "$END": "the end",
}
_PYTHON: Final = {"and": "&", "or": "|", "not": "~"}


def parse(text: str, names: Mapping[str, Condition] | None = None) -> Condition:
    """The condition in `text`, such as `(orders && rates).within("2h")`.

    text: Python as `str(condition)` gives it (event(...), &, |, ~, at_least(...), .within(...) and so on);
    &&, || and ! are the same as &, | and ~. & binds tighter than |, and ~ tighter than &. At most 65,536
    characters, 4,500 tokens, 64 levels of brackets, 256 names and calls, 4,096 characters of where (without
    its string literals) and sql, 16,384 in the string literals of where.
    names: {name: condition} that the text may use. Names consist of letters, digits, - and _, with at least
        one letter or _, and do not begin with -. Argo's gateway:event is one name.

    Raises ConditionError with the line and column of the fault.
    """
    if not isinstance(text, str):
        raise ConditionError(f"the text of a condition is a {type(text).__name__}: give a string")
    if names is not None and not isinstance(names, Mapping):
        raise ConditionError(f"parse(names=...) is {shown(names)}: give a dict of names and conditions")
    text = str.__str__(text)
    if len(text) > MAX_CHARS:
        raise ConditionError(f"the text of the condition has {len(text)} characters: at most {MAX_CHARS}")
    for name in names or ():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise ConditionError(
                f"no text can use the name {shown(name)}: give one of letters, digits, - and _, with at least"
                " one letter or _; a : may join two such names"
            )
    _check_tokens(text)
    tree = _tree(text)
    return Builder(text, names or {}).build(tree)


def _check_tokens(text: str) -> None:
    nesting = 0
    for number, token in enumerate(_TOKEN.finditer(text), 1):
        if number > MAX_TOKENS:
            fail(text, token.start(), f"the text is too long: at most {MAX_TOKENS} names, literals and signs")
        sign = token[0]
        if sign in ("'", '"'):  # the parser would search the whole text for the end of each open quote
            fail(text, token.start(), "this string is not closed")
        if sign in "([{":
            nesting += 1
            if nesting > MAX_NESTING:
                fail(text, token.start(), f"brackets are nested more than {MAX_NESTING} levels deep")
        elif sign in ")]}":
            nesting -= 1


def _tree(text: str) -> Tree[Token] | Token:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        return grammar.parse(text)  # type: ignore[no-any-return]
    except UnexpectedToken as error:
        start = error.token.start_pos
        at = len(text) if error.token.type == "$END" or start is None else start
        expected = error.accepts or error.expected
        fail(text, at, _unexpected(text, at, expected))
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        fail(text, at, _unexpected(text, at, error.allowed or ()))


def _unexpected(text: str, at: int, expected: Collection[str]) -> str:
    found = _TOKEN.match(text, at)
    here = found[0] if found else ""
    before = _LAST_WORD.search(text[:at].rstrip()[-4:])
    # the word before too: the parser reads `not` as a name until another name follows
    for word in (here, before[0] if before else ""):
        if word.lower() in _PYTHON:
            return f"write {_PYTHON[word.lower()]} for {word}"
    words = [word for name, word in _WORDS.items() if name in expected]
    if "NAME" in expected:
        words = words[:1] if "STRING" in expected else ["a name"]
    elif "STRING" in expected:
        words = ["a string in quotes"]
    else:
        inside = _inside(text[:at])
        words = [word for word in words if word in inside or not word.startswith(("'", "the"))] or ["'('"]
    return f"expected {_either(words)}, found {shown(here, 40) if here else 'the end'}"


def _inside(text: str) -> tuple[str, ...]:
    """What may end or separate the items of the innermost bracket open after `text`, as in _WORDS."""
    opened: list[str] = []
    for token in _TOKEN.finditer(text):
        if token[0] in "([{":
            opened.append(token[0])
        elif token[0] in ")]}" and opened:
            opened.pop()
    if not opened:
        return ("the end",)
    return ("','", "':'", "'='", {"(": "')'", "[": "']'", "{": "'}'"}[opened[-1]])


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
