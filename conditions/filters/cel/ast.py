"""The syntax tree of a compiled CEL expression, read from the library's serial form.

The library gives no other access to the tree. The form is `cel.expr.CheckedExpr` of CEL's published
protocol buffers (checked.proto, syntax.proto), whose field numbers never change. What this package does not
use, such as types and positions, is not read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ANY_VALUE: Final = 2
_CHECKED_EXPR: Final = 4
_CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 3, 4, 5, 6, 7, 8, 9
_TEST_ONLY: Final = 3  # of a select: has(x.y)
_CONST_BOOL, _CONST_INT64, _CONST_UINT64, _CONST_DOUBLE, _CONST_STRING, _CONST_BYTES = 2, 3, 4, 5, 6, 7


@dataclass(frozen=True)
class Node:
    """One node of the tree.

    kind: "const", "ident", "select", "call", "list", "struct" or "loop" (an expanded macro).
    name: of the variable, member, function or message; for a loop, its variable.
    text: the string of a constant, None for other constants; for a loop, the accumulator variable.
    number: the value of a numeric constant. literal: a constant as CEL writes it;
    "has" for a select that only tests for the member.
    method: whether a call has a receiver, as in x.size().
    children: operands, a call's receiver first; of a loop (range, start, condition, step, result).
    """

    kind: str
    name: str = ""
    text: str | None = None
    children: tuple[Node, ...] = ()
    number: int | float | None = None
    literal: str = ""
    method: bool = False


def tree(serialized: bytes) -> Node:
    """The tree in the bytes of `Expression.serialize()`."""
    checked = _last(serialized, _ANY_VALUE)
    return _expr(_last(checked, _CHECKED_EXPR))


def _expr(data: bytes) -> Node:
    for number, body in _fields(data):
        if number == _CONST and isinstance(body, bytes):
            return Node(
                "const",
                text=_constant_text(body),
                number=_constant_number(body),
                literal=_constant_literal(body),
            )
        if number == _IDENT and isinstance(body, bytes):
            return Node("ident", _text(body, 1))
        if number == _SELECT and isinstance(body, bytes):
            tests = any(field == _TEST_ONLY and bool(value) for field, value in _fields(body))
            return Node("select", _text(body, 2), children=_exprs(body, 1), literal="has" if tests else "")
        if number == _CALL and isinstance(body, bytes):
            receiver = _exprs(body, 1)
            return Node("call", _text(body, 2), children=receiver + _exprs(body, 3), method=bool(receiver))
        if number == _LIST and isinstance(body, bytes):
            return Node("list", children=_exprs(body, 1))
        if number == _STRUCT and isinstance(body, bytes):
            entries = [entry for field, entry in _fields(body) if field == 2 and isinstance(entry, bytes)]
            parts = tuple(part for entry in entries for part in _exprs(entry, 3) + _exprs(entry, 4))
            return Node("struct", _text(body, 1), children=parts)
        if number == _COMPREHENSION and isinstance(body, bytes):
            parts = tuple(part for field in (2, 4, 5, 6, 7) for part in _exprs(body, field))
            return Node("loop", _text(body, 1), _text(body, 3), parts)
    return Node("const")  # a checked expression is never empty


def _exprs(data: bytes, field: int) -> tuple[Node, ...]:
    return tuple(_expr(body) for number, body in _fields(data) if number == field and isinstance(body, bytes))


def _constant_text(data: bytes) -> str | None:
    for number, body in _fields(data):
        if number in (_CONST_STRING, _CONST_BYTES) and isinstance(body, bytes):
            return body.decode("utf-8", "replace")
    return None


def _constant_number(data: bytes) -> int | float | None:
    for number, body in _fields(data):
        if number == _CONST_INT64 and isinstance(body, int):
            return body - 2**64 if body >= 2**63 else body
        if number == _CONST_UINT64 and isinstance(body, int):
            return body
        if number == _CONST_DOUBLE and isinstance(body, bytes):
            return float(struct.unpack("<d", body)[0])
    return None


def _constant_literal(data: bytes) -> str:
    number = _constant_number(data)
    for field, body in _fields(data):
        if field == _CONST_BOOL:
            return "true" if body else "false"
        if field == _CONST_UINT64:
            return f"{number}u"
        if field in (_CONST_INT64, _CONST_DOUBLE):
            return repr(number)
        if field == _CONST_STRING and isinstance(body, bytes):
            return quoted(body.decode("utf-8", "replace"))
        if field == _CONST_BYTES and isinstance(body, bytes):
            return "b'" + "".join(f"\\x{byte:02x}" for byte in body) + "'"
    return "null"


def quoted(text: str) -> str:
    """`text` as a string literal of CEL; printable ASCII stays readable."""
    chars = (char if " " <= char <= "~" and char not in "'\\" else f"\\U{ord(char):08x}" for char in text)
    return f"'{''.join(chars)}'"


def _text(data: bytes, field: int) -> str:
    return _last(data, field).decode()


def _last(data: bytes, field: int) -> bytes:
    found = b""
    for number, body in _fields(data):
        if number == field and isinstance(body, bytes):
            found = body
    return found


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The (field number, value) pairs of a protocol buffer; fixed-size values as their bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield tag >> 3, number
            continue
        size = 8 if kind == _FIXED64 else 4
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind not in (_FIXED64, _FIXED32):
            raise ValueError(f"wire type {kind} in the serial form of an expression")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
