"""The compiled expression and the result of evaluating it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ....events.attributes import kind, shown
from ...errors import ConditionError
from .nodes import Node
from .values import Attributes, Evaluate, Failure, Kind, Value

# Together they bound what parsing and evaluating cost; evaluation recurses, to this depth.
MAX_CHARS: Final = 4096
MAX_DEPTH: Final = 32
MAX_TERMS: Final = 256

# Group 1 is a literal, a name or a call; a string may lack its end. The rest are the words of operators.
_TERM: Final = re.compile(
    r"""(?:and|or|xor|not|like|in|exists)(?![a-z0-9_])|('(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[a-z0-9_]+)""",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)


class Result(NamedTuple):
    """What an expression gives for one event; with an error, the value is what the specification leaves.

    error: the specification's name of the first error and what happened, e.g. "CastError: 'x' is no Integer".
    """

    value: Value
    error: str | None = None


@dataclass(frozen=True)
class Expression:
    """An expression in CloudEvents SQL, compiled; equal and hashed by its text. `compile` makes it.

    kind: type of the result, str, int or bool; None for an attribute alone, whose type the event tells. As a
        filter, only bool can pass.
    attributes: the names of the attributes that it reads or asks for, sorted.
    missing: the errors of its calls to functions that do not exist: these calls fail for every event.
    """

    source: str
    kind: Kind | None = field(compare=False, repr=False)
    attributes: tuple[str, ...] = field(compare=False, repr=False)
    missing: tuple[str, ...] = field(compare=False, repr=False)
    _evaluate: Evaluate = field(compare=False, repr=False)
    _column: int = field(compare=False, repr=False)

    def evaluate(self, attributes: Attributes) -> Result:
        """The result for an event's attributes; raises nothing, whatever their values are.

        A str is a String, and so is a URI or a timestamp; hand in int or bool where the type is known.
        """
        try:
            return Result(self._evaluate(attributes))
        except Failure as failure:
            if failure.value is not None and failure.column == self._column:
                return Result(failure.value, failure.error)
            return Result((self.kind or bool)(), failure.error)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (compile, (self.source,))

    def __str__(self) -> str:
        return self.source


def compile(expression: str) -> Expression:  # noqa: A001  # what it does, as in re.compile
    """The expression in `expression`, ready to be evaluated.

    ConditionError for text that is no CESQL, with the column at fault and what was expected there; for more
    than MAX_CHARS characters, MAX_TERMS literals, attributes and calls, MAX_DEPTH levels of nesting.
    """
    from .parser import parse  # with it, the parser library

    if not isinstance(expression, str):
        raise ConditionError(f"a CESQL expression is a string, this is {kind(expression)}")
    source = str.__str__(expression)
    if len(source) > MAX_CHARS:
        raise ConditionError(f"the CESQL expression has {len(source)} characters: at most {MAX_CHARS}")
    # before parsing, which takes the longer the more there are
    terms = sum(found.lastindex is not None for found in _TERM.finditer(source))
    if terms > MAX_TERMS:
        raise ConditionError(f"the CESQL expression {shown(source)} has {terms} terms: at most {MAX_TERMS}")
    root = parse(source)
    nodes = _nodes(root, source)
    attributes = {node.attribute for node in nodes if node.attribute is not None}
    missing = dict.fromkeys(node.missing for node in nodes if node.missing is not None)
    return Expression(
        source, root.kind, tuple(sorted(attributes)), tuple(missing), root.evaluate, root.column
    )


def _nodes(root: Node, source: str) -> list[Node]:
    """All nodes from left to right; ConditionError where they are nested too deep. Does not recurse."""
    found: list[Node] = []
    waiting = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ConditionError(
                f"the CESQL expression {shown(source)} is nested more than {MAX_DEPTH} levels deep"
            )
        found.append(node)
        waiting.extend((part, depth + 1) for part in reversed(node.parts))
    return found
