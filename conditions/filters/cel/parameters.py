"""Parameters in the source of a `where`: found, checked before they have values, replaced by their values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from .ast import Node
from .texts import outside_texts

VARIABLE: Final = "param"
# Compilations in the search for types of the parameters; after so many, the types count as valid.
MAX_ATTEMPTS: Final = 30
# `param.name` that is not a member of something else, nor a call.
_REFERENCE: Final = outside_texts(
    r"(?<![A-Za-z0-9_.]) param \s* \. \s* (?P<name> [A-Za-z_][A-Za-z0-9_]* ) (?! [A-Za-z0-9_] | \s*\( )"
)
_STAND_IN: Final = Node("const", text="UTC", literal="'UTC'")  # also a valid time zone and pattern
# Characters that a text literal of CEL must escape; some `{` too, so that no text becomes a Jinja template.
_ESCAPED: Final = re.compile(r"""[\x00-\x1f\x7f-\x9f"\\\u2028\u2029] | \{ (?= [{%\#] )""", re.VERBOSE)
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def references(source: str) -> tuple[str, ...]:
    """The names of the parameters that the expression reads, each once."""
    names = (found["name"] for found in _REFERENCE.finditer(source))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def substituted(source: str, values: Mapping[str, object]) -> str:
    """The source with literals in place of the parameters."""

    def replaced(found: re.Match[str]) -> str:
        return found[0] if found["name"] is None else literal(values[found["name"]])

    return _REFERENCE.sub(replaced, source)


def literal(value: object) -> str:
    """A literal of CEL for a text, a whole number or a bool."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value < -(2**63):  # such data is read as a floating-point number
            return f"({float(value)!r})"
        return f"({value:d})" if value < 0 else f"{value:d}u" if value >= 2**63 else f"{value:d}"
    text = str.__str__(value) if isinstance(value, str) else str(value)
    return '"' + _ESCAPED.sub(lambda found: _escape(found[0]), text) + '"'


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def with_stand_ins(node: Node) -> Node:
    """The tree with a short constant in place of each parameter: it costs no more than with any values."""
    if _is_parameter(node):
        return _STAND_IN
    children = tuple(map(with_stand_ins, node.children))
    return node if children == node.children else _with_children(node, children)


def misuse(node: Node, source: str) -> str | None:
    """What is wrong with how the parameters are read; None if nothing is."""
    if node.kind == "loop" and VARIABLE in (node.name, node.text):
        return "param is the variable of a loop and reads parameters: give the loop's variable another name"
    if _is_parameter(node):
        if node.literal == "has" or re.search(r"\bhas\s*\(\s*param\s*\.", source):
            return f"has(param.{node.name.rpartition('.')[2]}): a parameter always has a value"
        return None
    if node.kind == "ident" and node.name == VARIABLE:
        return 'param itself is not a value: write param.name, for param_values={"name": ...}'
    return next((wrong for child in node.children if (wrong := misuse(child, source))), None)


def _is_parameter(node: Node) -> bool:
    """`param.name`: a member of the map, or a variable of that name."""
    if node.kind == "select":
        return node.children[0].kind == "ident" and node.children[0].name == VARIABLE
    return node.kind == "ident" and node.name.startswith(f"{VARIABLE}.")


def _with_children(node: Node, children: tuple[Node, ...]) -> Node:
    return Node(node.kind, node.name, node.text, children, node.number, node.literal, node.method)
