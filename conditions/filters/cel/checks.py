"""Checks a CEL expression without an event: whether a part always fails, and whether it is never true.

The library finds wrong types when it compiles, but evaluates constants only together with an event: a time
zone that does not exist, timestamp('tomorrow') and 1 / 0 would fail on every event.
"""

from __future__ import annotations

import re
from typing import Final

from ...errors import ConditionError
from .ast import Node
from .possible import CelSearch, Evaluate
from .reads import path

OF_TIME: Final = frozenset(
    {
        "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours",
        "getMinutes", "getSeconds", "getMilliseconds",
    }
)  # fmt: skip
_ORDERS: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_ARITHMETIC: Final = frozenset({"_+_", "_-_", "_*_", "_/_", "_%_"})
_EQUALITIES: Final = frozenset({"_==_", "_!=_"})
_BINARY: Final = _ORDERS | _ARITHMETIC | _EQUALITIES | {"_&&_", "_||_"}
_NUMBERS: Final = frozenset({"int", "uint", "double", "bool", "duration"})
_CONVERSIONS: Final = _NUMBERS | {"timestamp"}
# {attribute: the conversions that fail for each value that it can have}
_NEVER: Final = {
    "time": _NUMBERS, "dataschema": _CONVERSIONS, "specversion": _CONVERSIONS - {"double"},
}  # fmt: skip
_TIMES: Final = frozenset({"timestamp", "duration"})
_WRITE: Final = {
    "timestamp('": ". Write it with a zone, as in '2026-11-20T06:00:00Z'",
    "duration('": ". Write it in h, m and s, as in '24h' or '1h30m'",
}
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DAY_DIGITS: Final = 8


def check(root: Node, evaluate: Evaluate) -> None:
    """Raises ConditionError if a part of the expression fails on every event, or no event makes it true."""
    _Checker(evaluate).check(root, frozenset())
    search = CelSearch(evaluate, constant_source)
    if not search.possible(root):
        raise ConditionError(f"it is never true: {search.reason or 'its parts exclude each other'}")


def possible(root: Node, evaluate: Evaluate) -> bool:
    """Whether the expression could be true for some event; True if in doubt."""
    return CelSearch(evaluate, constant_source).possible(root)


def misread_order(root: Node) -> str | None:
    """Why an order of texts in the expression is not the order that its author means; None if there is none.

    Attributes are texts. As texts, 10:30+02:00 comes after 10:00Z, though it is earlier, and 10 before 9.
    """
    return _misread_order(root, frozenset())


def _misread_order(node: Node, loops: frozenset[str]) -> str | None:
    if node.kind == "call" and node.name in _ORDERS and "event" not in loops:
        sign = node.name.strip("_")
        for one, other in (node.children, node.children[::-1]):
            read = path(one, "event")
            if read == ("time",):
                return (
                    f"{sign} compares event.time as a text, and times of other offsets have another order as"
                    " texts: write timestamp(event.time), and timestamp('2026-11-20T00:00:00Z') on the other"
                    " side"
                )
            if read is not None and len(read) == 1 and _is_number(other.text):
                return (
                    f"{sign} compares event.{read[0]} as a text, and the text 10 comes before the text 9:"
                    f" write int(event.{read[0]}) and {other.text} without quotes"
                )
    inside = loops | {node.name, node.text or ""} if node.kind == "loop" else loops
    found = (
        _misread_order(child, loops if number == 0 else inside) for number, child in enumerate(node.children)
    )
    return next(filter(None, found), None)


def _is_number(text: str | None) -> bool:
    # eight digits are a day (K2), and days so written have the same order as texts
    return text is not None and _INTEGER.fullmatch(text) is not None and len(text) != _DAY_DIGITS


class _Checker:
    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate

    def check(self, node: Node, loops: frozenset[str]) -> None:
        """Check `node` and all below it. loops: the variables of the loops around it."""
        constant = constant_source(node)
        if constant is not None:
            if node.kind != "const":
                self._try(constant, constant)
            return
        if node.kind == "call":
            self._check_call(node, loops)
        inside = loops | {node.name, node.text or ""} if node.kind == "loop" else loops
        for number, child in enumerate(node.children):
            # the list that a loop goes over is evaluated outside it
            self.check(child, loops if number == 0 else inside)

    def _check_call(self, node: Node, loops: frozenset[str]) -> None:
        name, children = node.name, node.children
        data = [_data_path(child, loops) for child in children]
        if name in OF_TIME:
            if len(children) == 2 and children[1].kind == "const":
                zone = children[1].literal
                self._try(f"timestamp(0).{name}({zone})", f"{name}({zone})")
            if data[0] is not None:
                raise ConditionError(
                    f"{data[0]}.{name}() fails on every event, because JSON has no timestamps: write"
                    f" timestamp({data[0]}).{name}()"
                )
        elif name in _CONVERSIONS and len(children) == 1:
            attribute = (path(children[0], "event") or ("",))[0]
            if "event" not in loops and name in _NEVER.get(attribute, ()):
                instead = "write timestamp(event.time)" if attribute == "time" else "compare it as a text"
                raise ConditionError(f"{name}(event.{attribute}) fails on every event: {instead}")
        elif name in _ORDERS | _EQUALITIES | {"_+_", "_-_"} and len(children) == 2:
            for one, other in ((0, 1), (1, 0)):
                there = children[other]
                if data[one] is not None and there.kind == "call" and there.name in _TIMES:
                    raise ConditionError(
                        f"{data[one]} is never a {there.name}, because JSON has none: write"
                        f" {there.name}({data[one]})"
                    )
        if name in _ORDERS | _ARITHMETIC and any(child.literal == "null" for child in children):
            raise ConditionError(
                f"{name.strip('_')} with null fails on every event: write == null or != null"
            )
        if name in ("_/_", "_%_") and self._is_integer_zero(constant_source(children[1])):
            raise ConditionError(f"{name.strip('_')} 0 fails on every event")
        index = constant_source(children[1]) if name == "_[_]" and data[0] is not None else None
        if index is not None:
            number = children[1].number
            is_position = number is not None and number >= 0 and number == int(number)
            if children[1].kind != "const":
                is_position = self._evaluate(f"{index} < 0") is not True
            if not is_position and not index.startswith("'"):
                raise ConditionError(
                    f"{data[0]}[{index}] fails on every event: give a member's name in quotes, or a"
                    f" position from 0; the last element is {data[0]}[size({data[0]}) - 1]"
                )

    def _is_integer_zero(self, constant: str | None) -> bool:
        # comparing a double with 0 or 0u does not compile
        return constant is not None and any(
            self._evaluate(f"{constant} == {zero}") is True for zero in ("0", "0u")
        )

    def _try(self, source: str, shown: str) -> None:
        value = self._evaluate(f"[{source}].size() == 1")  # not the value itself, which may be null
        if isinstance(value, str):
            reason = value.split(": ", 1)[-1]
            reason += next((hint for start, hint in _WRITE.items() if source.startswith(start)), "")
            raise ConditionError(f"{shown} fails on every event: {reason}")


def constant_source(node: Node) -> str | None:
    """The constant expression in CEL; None for one that reads a variable, or has a loop or has()."""
    if node.kind == "const":
        return node.literal
    parts = [constant_source(child) for child in node.children]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if node.kind == "select" and node.literal != "has":
        return f"{known[0]}.{node.name}"
    if node.kind == "list":
        return f"[{', '.join(known)}]"
    if node.kind == "struct" and not node.name and len(known) % 2 == 0:
        return f"{{{', '.join(map(': '.join, zip(known[::2], known[1::2], strict=True)))}}}"
    return _call(node, known) if node.kind == "call" else None


def _call(node: Node, parts: list[str]) -> str | None:
    name = node.name
    if name in _BINARY and len(parts) == 2:
        return f"({parts[0]} {name.strip('_')} {parts[1]})"
    if name in ("-_", "!_"):
        return f"{name[0]}({parts[0]})"
    if name == "_?_:_":
        return f"({parts[0]} ? {parts[1]} : {parts[2]})"
    if name == "_[_]":
        return f"{parts[0]}[{parts[1]}]"
    if name == "@in":
        return f"({parts[0]} in {parts[1]})"
    if not name.isidentifier():
        return None
    if node.method:
        return f"{parts[0]}.{name}({', '.join(parts[1:])})"
    return f"{name}({', '.join(parts)})"


def _data_path(node: Node, loops: frozenset[str]) -> str | None:
    """The source text of a part of the data, such as data.order.id; None for anything else."""
    found = None if "data" in loops else path(node, "data")
    if found is None:
        return None
    return "data" + "".join(f".{name}" if name.isidentifier() else f"['{name}']" for name in found)
