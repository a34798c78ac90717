"""The compiled expression and the result of evaluating it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ....events.attributes import kind, shown
from ...errors import ConditionError
from .nodes import Node, typed
from .possible import SqlSearch
from .values import Attributes, Evaluate, Failure, Kind, Value

# Together they limit the cost of parsing and evaluating. Evaluation recurses to MAX_DEPTH.
MAX_CHARS: Final = 4096
MAX_DEPTH: Final = 32
MAX_TERMS: Final = 256

# Group 1 is a literal, a name or a call; a string may be unclosed. The words before it are operators.
_TERM: Final = re.compile(
    r"""(?:and|or|xor|not|like|in|exists)(?![a-z0-9_])|('(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[a-z0-9_]+)""",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
# Names, and what is no name: the attribute that EXISTS tests, and strings.
_NAMES: Final = re.compile(
    r"""exists[ \t\r\n]+[a-z0-9]+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[a-z0-9_]+""",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
_NEEDS_ESCAPES: Final = re.compile(r"['\\]")


class Result(NamedTuple):
    """The value of an expression for one event; with an error, the value that the specification defines.

    error: the first error by the specification's name, e.g. "CastError: 'x' is not an Integer".
    """

    value: Value
    error: str | None = None


@dataclass(frozen=True)
class Expression:
    """A compiled expression in CloudEvents SQL; equal and hashed by its text. `compile` makes it.

    kind: type of the result, str, int or bool; None for a lone attribute, whose type depends on the event. A
        filter accepts only bool.
    attributes: the names of the attributes that it reads or tests for existence, sorted.
    missing: the errors of calls to functions that do not exist, which fail on every event.
    errors: the errors of other parts that fail on every event, such as INT('x').
    never_true: whether it is known that no event gives true. reason: why not, and what to write instead.
    """

    source: str
    kind: Kind | None = field(compare=False, repr=False)
    attributes: tuple[str, ...] = field(compare=False, repr=False)
    missing: tuple[str, ...] = field(compare=False, repr=False)
    errors: tuple[str, ...] = field(compare=False, repr=False)
    never_true: bool = field(compare=False, repr=False)
    reason: str | None = field(compare=False, repr=False)
    _evaluate: Evaluate = field(compare=False, repr=False)
    _column: int = field(compare=False, repr=False)

    def evaluate(self, attributes: Attributes) -> Result:
        """The result for an event's attributes; never raises, whatever their values are.

        A str is a String, and so is a URI or a timestamp. A str of an extension attribute may also stand for
        an Integer or a Boolean (`as_typed`); pass int or bool if the type is known.
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
    """The compiled expression.

    Raises ConditionError for invalid CESQL, with the column of the fault and what was expected there; and for
    more than MAX_CHARS characters, MAX_TERMS literals, attributes and calls, or MAX_DEPTH levels of nesting.
    """
    from .parser import parse  # imports the parser library

    if not isinstance(expression, str):
        raise ConditionError(f"a CESQL expression is a string, this is {kind(expression)}")
    source = str.__str__(expression)
    if len(source) > MAX_CHARS:
        raise ConditionError(f"the CESQL expression has {len(source)} characters: at most {MAX_CHARS}")
    # before parsing, whose time grows with their number
    terms = sum(found.lastindex is not None for found in _TERM.finditer(source))
    if terms > MAX_TERMS:
        raise ConditionError(f"the CESQL expression {shown(source)} has {terms} terms: at most {MAX_TERMS}")
    root = parse(source)
    nodes = _nodes(root, source)
    attributes = {node.attribute for node in nodes if node.attribute is not None}
    missing = dict.fromkeys(node.missing for node in nodes if node.missing is not None)
    errors = dict.fromkeys(node.error for node in nodes if node.error is not None)
    search = SqlSearch()
    never_true = _is_never_true(root) or not (missing or search.possible(root))
    return Expression(
        source, root.kind, tuple(sorted(attributes)), tuple(missing), tuple(errors), never_true,
        search.reason, typed(root), root.column,
    )  # fmt: skip


def could_be_true(source: str, known: Mapping[str, str]) -> bool:
    """Whether a valid expression can be true for an event with these core attributes; True if in doubt."""
    values = {name: f"'{value}'" for name, value in known.items() if not _NEEDS_ESCAPES.search(value)}

    def written(found: re.Match[str]) -> str:
        return values.get(found[0].lower(), found[0])

    try:
        return not compile(_NAMES.sub(written, source)).never_true
    except ConditionError:  # it became too long
        return True


def _is_never_true(root: Node) -> bool:
    if root.kind is None:
        return not root.untyped  # a core attribute is a String
    return root.kind is not bool


def _nodes(root: Node, source: str) -> list[Node]:
    """All nodes from left to right; raises ConditionError if they are nested too deep. Does not recurse."""
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
