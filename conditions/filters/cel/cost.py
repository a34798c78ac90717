"""The worst-case cost of a CEL expression, in time and memory, for data of a given size.

It is computed from the syntax tree when the expression is compiled. Every node has a price for each time it
is evaluated; a node that reads, compares or copies values has a price for their size. A loop (all, exists,
exists_one, filter, map) multiplies the cost of its body; but in one run of the loop, reading its variable
costs no more than reading the whole list once. Prices are in nanoseconds, measured with cel-expr-python 0.1.3
and about doubled (figures: docs/decide/adr/0009-cel-by-cel-cpp.md).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ...errors import ConditionError
from . import regex as cel_regex
from .ast import Node
from .checks import OF_TIME

# The library stops an evaluation after this many iterations, in all loops together.
MAX_ITERATIONS: Final = 10_000
MAX_PATTERN_CHARS: Final = 256

_NODE = 60.0
_READ = 0.2  # per byte of a text that is compared, hashed or searched for one letter
_COPY = 0.5  # per byte copied
_PARSE = 25.0  # per byte converted: duration("...") is the slowest
_SEARCH = 12.0  # per position at which contains() starts to compare
_SEARCH_PAIR = 0.05  # per letter compared there
_MATCH = 15.0  # per state of a regular expression and byte of text
_BUILD = 1_500.0  # per unit of cel_regex.Size.build: a pattern is compiled each time it is used
_VALUE = 120.0  # per element compared
_VALUE_BYTES = 48  # of memory, per element of a list that is built
_APPEND = 60.0  # per element of the list built so far, which map and filter copy for every new element
_ELEMENT_BYTES = 40  # of memory, per element that map and filter copy

_COMPARISONS: Final = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "startsWith", "endsWith"})
# The library looks a zone up by file name, so a name must not lead out of the zones' folder.
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*|[+-]?(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_SCALAR: Final = frozenset(
    {"_-_", "_*_", "_/_", "_%_", "-_", "!_", "_&&_", "_||_", "@not_strictly_false", "type"}
)
# Functions that return their argument unchanged, or a number as text.
_PASSING: Final = frozenset({"string", "bytes", "dyn"})
_NUMBER_CHARS = 32.0


class Allowance(NamedTuple):
    """How much an expression may read: values (members and elements) and bytes of their texts."""

    values: int
    text: int


class Cost(NamedTuple):
    """An upper bound of the cost of one evaluation."""

    nanoseconds: float
    bytes: float


class _Size(NamedTuple):
    """An upper bound of a value's size: bytes of text and number of values, once and over all evaluations.

    items: elements or members, if it is a list or a map.
    """

    text: float
    values: float
    all_text: float
    all_values: float
    items: float


class _Variable(NamedTuple):
    """The size of a variable's value.

    Of the variable of a loop also: passes, how often the loop is run; steps, its steps in all these runs.
    """

    text: float
    values: float
    items: float
    passes: float = 0.0
    steps: float = 0.0

    def size(self, times: float) -> _Size:
        if self.steps:  # each step of a run reads another part; loops further inside read it again
            times = min(times, self.passes * max(1.0, times / self.steps))
        return _Size(self.text, self.values, self.text * times, self.values * times, self.items)


def worst(root: Node, allowance: Allowance) -> Cost:
    """The bound for all events within the allowance. Raises ConditionError for what is never allowed."""
    meter = _Meter()
    whole = _Variable(allowance.text, allowance.values, allowance.values)
    meter.size(root, 1, {"data": whole, "event": whole})
    # both variables are converted once: copied here, then by the library
    converted = 500.0 * allowance.values + _COPY * allowance.text
    return Cost(meter.nanoseconds + converted, meter.bytes + 200 * allowance.values + 2 * allowance.text)


class _Meter:
    def __init__(self) -> None:
        self.nanoseconds = 0.0
        self.bytes = 0.0

    def size(self, node: Node, times: float, variables: dict[str, _Variable]) -> _Size:
        """The size of the value of `node`; adds its cost to the totals."""
        self.nanoseconds += _NODE * times
        if node.kind == "const":
            text = len(node.text or "") * 4.0
            return _Size(text, 1, text * times, times, 1)
        if node.kind == "ident":
            variable = variables.get(node.name)  # None for a type, such as `int`
            return _scalar(times) if variable is None else variable.size(times)
        if node.kind == "loop":
            return self._loop(node, times, variables)
        if node.kind == "struct" and node.name:
            raise ConditionError(
                f"it builds a message {node.name}: only maps, {{'name': value}}, can be built"
            )
        sizes = [self.size(child, times, variables) for child in node.children]
        if node.kind == "select":
            return sizes[0]._replace(items=sizes[0].values)
        if node.kind == "call":
            return self._call(node, sizes, times)
        self.nanoseconds += _VALUE * len(sizes) * times
        self.bytes += _VALUE_BYTES * len(sizes) * times
        return _joined(sizes, times)

    def _call(self, node: Node, sizes: list[_Size], times: float) -> _Size:
        """As `size`, for a call whose operands have these sizes; their own cost is counted already."""
        name = node.name
        if name in _SCALAR:
            return _scalar(times)
        if name == "_?_:_":
            return _joined(sizes[1:], times)
        if name in _COMPARISONS:
            self.nanoseconds += min((_read(size) for size in sizes), default=0.0)
        elif name == "_+_":
            self.nanoseconds += sum(_COPY * size.all_text + _VALUE * size.all_values for size in sizes)
            self.bytes += sum(size.all_text + _VALUE_BYTES * size.all_values for size in sizes)
            return _joined(sizes, times)
        elif name == "@in":
            self.nanoseconds += _read(sizes[1])
        elif name == "_[_]":
            # an error about a missing key contains a copy of the key
            self.nanoseconds += sizes[1].all_text * _PARSE
            self.bytes += sizes[1].all_text * 2
            return sizes[0]._replace(items=sizes[0].values)
        elif name == "contains":
            text, sought = sizes[0], sizes[-1]
            self.nanoseconds += text.all_text * _SEARCH
            self.nanoseconds += _SEARCH_PAIR * min(text.all_text * sought.text, text.text * sought.all_text)
        elif name == "matches":
            self._matches(node, sizes[0], times)
        else:
            _check_zone(node)
            self.nanoseconds += sum(size.all_text for size in sizes) * _PARSE
            self.bytes += sum(size.all_text for size in sizes)
            if name in _PASSING:
                texts = _Size(_NUMBER_CHARS, 0, _NUMBER_CHARS * times, 0, 0)
                return _joined([*sizes, texts], times)
        return _scalar(times)

    def _matches(self, node: Node, text: _Size, times: float) -> None:
        pattern = node.children[-1]
        if pattern.kind != "const" or pattern.text is None:
            raise ConditionError(
                "matches() needs its pattern as a literal: the cost of one from the event has no limit"
            )
        if len(pattern.text) > MAX_PATTERN_CHARS:
            raise ConditionError(
                f"a pattern of matches() has {len(pattern.text)} characters: at most {MAX_PATTERN_CHARS}"
            )
        states, build = cel_regex.size(pattern.text)
        self.nanoseconds += times * (15_000 + _BUILD * build) + text.all_text * _MATCH * states

    def _loop(self, node: Node, times: float, variables: dict[str, _Variable]) -> _Size:
        """As `size`, for a loop: its body counts once for each element, but at most MAX_ITERATIONS times."""
        over, start, condition, step, result = node.children
        over_size = self.size(over, times, variables)
        count = over_size.items
        steps = max(1.0, min(times * count, MAX_ITERATIONS))
        inside = dict(variables)
        inside[node.name] = _Variable(over_size.text, over_size.values, over_size.values, times, steps)
        inside[node.text or ""] = _Variable(0, 1, 1)
        self.size(start, times, variables)
        self.size(condition, steps, inside)
        self.size(result, times, inside)
        if start.kind != "list":
            self.size(step, steps, inside)
            return _scalar(times)
        # map and filter: [predicate ?] list so far + [element] [: list so far]
        self.nanoseconds += 4 * _NODE * steps
        if step.name == "_?_:_":
            self.size(step.children[0], steps, inside)
            step = step.children[1]
        element = self.size(step.children[1].children[0], steps, inside)
        copies = steps * min(count, steps) / 2
        self.nanoseconds += _APPEND * copies
        self.bytes += _ELEMENT_BYTES * copies
        text = min(element.all_text, count * element.text)
        values = min(element.all_values, count * element.values)
        return _Size(text, 1 + values, element.all_text, times + element.all_values, count)


def _scalar(times: float) -> _Size:
    return _Size(0, 1, 0, times, 1)


def _joined(sizes: list[_Size], times: float) -> _Size:
    return _Size(
        sum(size.text for size in sizes),
        1 + sum(size.values for size in sizes),
        sum(size.all_text for size in sizes),
        times + sum(size.all_values for size in sizes),
        max(1 + len(sizes), sum(size.items for size in sizes)),
    )


def _read(size: _Size) -> float:
    return _READ * size.all_text + _VALUE * size.all_values


def _check_zone(node: Node) -> None:
    if node.name not in OF_TIME or len(node.children) < 2:
        return
    zone = node.children[1]
    text = zone.text if zone.kind == "const" else None
    if text is None:
        raise ConditionError(
            f'{node.name}() needs its time zone as a literal, such as "Europe/London" or "+01:00"'
        )
    if not _ZONE.fullmatch(text) or text == "localtime":
        raise ConditionError(
            f"{node.name}({zone.literal}) fails on every event, because there is no such time zone: write a"
            ' name such as "Europe/London", or a distance from UTC, up to 23:59, such as "+01:00"'
        )
