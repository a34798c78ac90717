"""Hints for common mistakes in CEL, added to the library's errors."""

from __future__ import annotations

import re
from typing import Final

from ....events.attributes import CORE, is_name
from .texts import TEXTS

_MAX_REASON_CHARS: Final = 160
_SLIPS: Final = re.compile(
    r"(?<![=!<>])(?:=[<>]|={1,3}(?!=))|<>|&+|\|+|(?<![\w.])(?:and|or|not|is)(?!\w)", re.IGNORECASE
)  # whole runs of signs, so that a part of a correct operator is not found
_INSTEAD: Final = {
    "=": "==", "===": "==", "is": "==", "<>": "!=", "=<": "<=", "=>": ">=",
    "&": "&&", "and": "&&", "|": "||", "or": "||", "not": "!",
}  # fmt: skip
# Functions of other languages and of extensions of CEL: what to write instead.
_NO_CASE: Final = "texts cannot be converted here: compare in any case with .matches('(?i)^abc$')"
_NO_PARTS: Final = "texts cannot be taken apart here: write startsWith, endsWith, contains or matches"
_NO_CLOCK: Final = (
    "there is no clock here, because an event must always give the same result: compare its own times"
)
_FUNCTIONS: Final = {
    **dict.fromkeys(("len", "length", "count"), "write size(...)"),
    **dict.fromkeys(("includes", "include"), "write .contains('a') for a text, 'a' in x for a list"),
    **dict.fromkeys(("startswith", "starts_with", "StartsWith"), "write startsWith"),
    **dict.fromkeys(("endswith", "ends_with", "EndsWith"), "write endsWith"),
    **dict.fromkeys(("match", "regex", "test"), "write .matches('...')"),
    **dict.fromkeys(("lower", "upper", "lowerAscii", "upperAscii", "toLowerCase", "toUpperCase"), _NO_CASE),
    **dict.fromkeys(("split", "substring", "trim", "replace", "indexOf", "join", "format"), _NO_PARTS),
    **dict.fromkeys(("now", "today", "currentTime", "current_time"), _NO_CLOCK),
    **dict.fromkeys(("date", "datetime", "time"), "write timestamp('2026-11-20T00:00:00Z')"),
    **dict.fromkeys(("str", "text"), "write string(...)"),
    "float": "write double(...)",
    "isNull": "write == null",
}  # fmt: skip
# Syntax of other languages; the texts of the source are blanked.
_SYNTAX: Final = (
    (re.compile(r"=~"), "write .matches('...') for =~"),
    (re.compile(r"(?<![.\w])not\s+in\b", re.IGNORECASE), "write !(x in ['a', 'b']) for not in"),
    (
        re.compile(r"(?<![.\w])(matches|contains|startsWith|endsWith)\s+(?!\()"),
        "write x.{0}('...') for x {0} '...'",
    ),
    (re.compile(r"\[\s*\*\s*\]"), "write data.lines.exists(x, x.sku == 'a') for data.lines[*]"),
    (re.compile(r"(?<![.\w])between\b", re.IGNORECASE), "write x >= 1 && x <= 5 for x between 1 and 5"),
    (
        re.compile(r"(?<![.\w])like\b", re.IGNORECASE),
        "write .startsWith('a'), .contains('a') or .matches('...') for {0}",
    ),
    (re.compile("[\u2018\u2019\u201c\u201d]"), "texts are in straight quotes, ' or \""),
)
_ESCAPE: Final = re.compile(r"token recognition error at: '['\"][^'\"]*\\")
_TRUTH: Final = ("&&", "||")
_ORDERS: Final = ("<", "<=", ">", ">=", "==", "!=")
_CONSTANTS: Final = {
    "True": "true", "TRUE": "true", "False": "false", "FALSE": "false",
    "None": "null", "NULL": "null", "Null": "null", "nil": "null", "undefined": "null",
}  # fmt: skip
_PLACE: Final = re.compile(r"(\d+):(\d+): ")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD: Final = re.compile(
    r"no matching overload for '_?@?(?P<sign>[^'_]+)_?' applied to '\((?P<types>.*)\)'"
)
_ATTRIBUTE: Final = r"""event(?:\.\w+|\[(?:'\w+'|"\w+")\])"""
_LEFT: Final = re.compile(rf"(?<![\w.])(?P<path>{_ATTRIBUTE})\s*$")
_RIGHT: Final = re.compile(rf"\s*(?P<path>{_ATTRIBUTE})(?![\w.(\[])")
_LITERAL: Final = r"-?\d+(?:\.\d+)?|true|false|\[[^\[\]]*\]"
_LEFT_LITERAL: Final = re.compile(rf"(?<![\w.])(?P<text>{_LITERAL})\s*$")
_RIGHT_LITERAL: Final = re.compile(rf"\s*(?P<text>{_LITERAL})(?![\w.])")


def with_hint(source: str, error: str) -> str:
    """The library's error; if a hint is known, the hint and the shortened error."""
    hint = _hint(source, error)
    if hint is None:
        return error
    reason = error.split("\n", 1)[0].replace(" (in container '')", "")
    return f"{hint} ({reason[:_MAX_REASON_CHARS]})"


def _hint(source: str, error: str) -> str | None:
    plain = TEXTS.sub(lambda found: " " * len(found[0]), source)
    undeclared = _UNDECLARED.search(error)
    if undeclared is not None and undeclared[1] != "not":
        return _reference(undeclared[1], plain)
    overload = _OVERLOAD.search(error)
    if overload is not None:
        sign, types, at = overload["sign"], overload["types"], _offset(source, error)
        return _times(source, at, sign, types) or _types(sign, types) or _operands(source, at, sign, types)
    if "has() argument must be a field selection" in error:
        return "write has(data.x), or 'x' in data for a name that is no word"
    if "unsupported syntax '.?'" in error:
        return "write has(data.a) && data.a == 'x', for a member that may be missing"
    if undeclared is None and "Syntax error" not in error:
        return None
    if "Syntax error" in error and (syntax := _syntax(plain, error)) is not None:
        return syntax
    words = {
        found[0]: _INSTEAD[found[0].lower()]
        for found in _SLIPS.finditer(plain)
        if found[0].lower() in _INSTEAD
    }
    return "write " + ", ".join(f"{right} for {wrong}" for wrong, right in words.items()) if words else None


def _syntax(plain: str, error: str) -> str | None:
    if _ESCAPE.search(error):
        return "a \\ in a text is doubled, as in '\\\\d', or the text is raw: r'\\d'"
    for pattern, instead in _SYNTAX:
        if found := pattern.search(plain):
            return instead.format(found[1] if pattern.groups else found[0])
    return None


def _types(sign: str, types: str) -> str | None:
    """What to write for an operator or a function that its operands' types rule out; None if not known."""
    first, _, second = types.partition(", ")
    if sign == "in" and first == "bool":
        return "write !(x in ['a', 'b']), because ! binds tighter than in"
    if sign in _TRUTH and "bool" in (first, second) and "string" in (first, second):
        return f"both sides of {sign} are predicates: for one of several texts write x in ['a', 'b']"
    if first == "bool" and second in ("int", "double", "uint") and sign in _ORDERS:
        return "write 1 < x && x < 5 for 1 < x < 5"
    if sign.startswith("get") and first == "string":
        return f"write timestamp(x).{sign}(), because a text has no {sign}()"
    if "Timestamp" in types and "string" in (first, second):
        return "write timestamp('2026-11-20T00:00:00Z') for the text"
    if "Duration" in types and "string" in (first, second):
        return "write duration('1h30m') for the text"
    return None


def _times(source: str, at: int, sign: str, types: str) -> str | None:
    """What to write if the operator at `at` compares an attribute with a time or a duration."""
    function = "timestamp" if "Timestamp" in types else "duration" if "Duration" in types else None
    attribute = _attribute(source, at, sign)
    if function is None or attribute is None or "string" not in types.split(", "):
        return None
    return f"attributes are strings: write {function}({attribute['path']})"


def _attribute(source: str, at: int, sign: str) -> re.Match[str] | None:
    """The attribute on one side of the operator at `at`."""
    if not source.startswith(sign, at):
        return None
    return _LEFT.search(source[:at]) or _RIGHT.match(source[at + len(sign) :])


def _reference(name: str, plain: str) -> str | None:
    """What to write instead of an unknown variable; None for a function."""
    first = name.split(".")[0]
    if first == "param":
        return 'write param.name, for a value of param_values={"name": ...}'
    if first in _CONSTANTS:
        return f"write {_CONSTANTS[first]} for {first}"
    if re.search(rf"(?<!\w){re.escape(name)}\s*\(", plain):
        return _FUNCTIONS.get(name)
    if first.lower() in ("data", "event"):
        return f"write {first.lower()} for {first}"
    if name in CORE:
        return f"write event.{name}, or data.{name} for a value in the data"
    return f"write data.{name}" + (f", or event.{name} for an attribute" if is_name(name) else "")


def _operands(source: str, at: int, sign: str, types: str) -> str | None:
    """What to write if the operator at `at` compares an attribute, which is a string, with another type."""
    if types.startswith("type(type)") and (name := re.search(r"(?<![\w.])type(?!\w|\s*\()", source)):
        return f"write event.{name[0]}, or data.{name[0]} for a value in the data"
    attribute = _attribute(source, at, sign)
    if attribute is None:
        return None
    before, after = source[:at], source[at + len(sign) :]
    left, path = _LEFT.search(before), attribute["path"]
    if "null_type" in types:
        return _presence(path, sign)
    literal = _RIGHT_LITERAL.match(after) if left else _LEFT_LITERAL.search(before)
    other = literal["text"] if literal else None
    if "bool" in types:
        changed, other = path, f"'{other}'" if other else None
    else:
        changed = f"double({path})" if "double" in types else f"int({path})"
    if other is None:
        return f"attributes are strings: write {changed}" if changed != path else None
    whole = f"{changed} {sign} {other}" if left else f"{other} {sign} {changed}"
    return f"attributes are strings: write {whole}"


def _presence(path: str, sign: str) -> str | None:
    """What to write if an attribute is compared with null."""
    if sign not in ("==", "!="):
        return None
    name = re.findall(r"\w+", path)[1]
    absent = "!" if sign == "==" else ""
    return f"an attribute is never null, it is there or not: write {absent}has(event.{name})"


def _offset(source: str, error: str) -> int:
    place = _PLACE.search(error)
    if place is None:
        return 0
    lines = source.split("\n")[: int(place[1]) - 1]
    return sum(len(line) + 1 for line in lines) + int(place[2]) - 1
