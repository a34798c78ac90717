"""`where`: a predicate over an event's attributes and data in the Common Expression Language (CEL)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Final

from ....events import content
from ....events.attributes import is_name, shown
from ....events.errors import EventError
from ....events.event import Event
from ...errors import ConditionError
from ..filter import ACCEPTED, Filter, FilterDecision, checked_text, quoted
from . import ast as cel_ast
from . import checks
from .ast import Node, tree
from .comparisons import Compared, comparisons
from .cost import Allowance, worst
from .hints import with_hint
from .parameters import MAX_ATTEMPTS, VARIABLE, misuse, with_stand_ins
from .reads import Paths, Reader, Scalar, Unreadable, equalities, leaves, paths, with_texts
from .texts import for_library, sizes

if TYPE_CHECKING:
    from cel_expr_python import cel

MAX_SOURCE_CHARS: Final = 1024
MAX_TEXT_CHARS: Final = 16_384  # in the texts of a source that parameters have given values to
MAX_LOOPS_NESTED: Final = 2
MAX_DATA_BYTES: Final = 256 * 1024
# For one evaluation, without parsing the data; measurements are in docs/decide/adr/0009-cel-by-cel-cpp.md.
MAX_NANOSECONDS: Final = 30_000_000
MAX_BYTES: Final = 32 * 1024 * 1024
# How much of an event an expression may read: the first of these that keeps its worst case within the maxima.
ALLOWANCES: Final = tuple(Allowance(8192 >> step, 65536 >> step) for step in range(7))
_MAX_ERROR_CHARS: Final = 200


@dataclass(frozen=True)
class Program:
    """A compiled expression, the paths that it reads, and how much it may read.

    misread: why it is an error in a new condition, though stored ones may have it.
    """

    expression: cel.Expression
    data: Paths | None
    attributes: Paths | None
    allowance: Allowance
    equalities: Mapping[tuple[str, ...], Scalar]
    comparisons: tuple[Compared, ...]
    misread: str | None

    def check_new(self, source: str) -> None:
        """Raises ConditionError for what no new condition may have."""
        if self.misread is not None:
            raise ConditionError(f"event(where={quoted(source)}): {self.misread}")


@dataclass(frozen=True, init=False, repr=False)
class Where(Filter):
    """True if an expression in CEL is true: Where("data.amount > 100 && event.subject != 'x'").

    Variables: `data`, the value of JSON data (null if there is none), and `event`, a map from attribute names
    to strings. An expression that fails on an event (missing member, other types) refuses it.
    Raises ConditionError for an invalid expression, or one that could cost more than allowed.
    """

    source: str

    def __init__(self, source: str, /) -> None:
        text = checked_text("event", "where", source, MAX_SOURCE_CHARS, "give a predicate in CEL")
        program = _compiled(text)
        program.check_new(text)
        object.__setattr__(self, "source", text)
        object.__setattr__(self, "_program", program)

    @classmethod
    def stored(cls, source: str, /) -> Where:
        """As Where(source), for a source of an earlier condition.

        It may hold the values of parameters, so that it may be longer. What is an error only in new
        conditions is accepted.
        """
        text = checked_text("event", "where", source, MAX_SOURCE_CHARS + MAX_TEXT_CHARS)
        outside, inside = sizes(text)
        if outside > MAX_SOURCE_CHARS:
            raise ConditionError(
                f"event(where=...) has {outside} characters without its string literals:"
                f" at most {MAX_SOURCE_CHARS}"
            )
        if inside > MAX_TEXT_CHARS:
            raise ConditionError(
                f"event(where=...) has {inside} characters in string literals, with the values of its"
                f" parameters: at most {MAX_TEXT_CHARS}"
            )
        made = object.__new__(Where)
        object.__setattr__(made, "source", text)
        object.__setattr__(made, "_program", _compiled(text))
        return made

    @property
    def allowance(self) -> Allowance:
        """How much of an event it may read; it refuses an event if it would read more."""
        program: Program = self.__dict__["_program"]
        return program.allowance

    @property
    def equalities(self) -> Mapping[tuple[str, ...], Scalar]:
        """{("data" or "event", member, ...): value} that an event must have to be accepted."""
        program: Program = self.__dict__["_program"]
        return program.equalities

    @property
    def comparisons(self) -> tuple[Compared, ...]:
        """What must agree for it to be true, as far as it is joined by `&&`."""
        program: Program = self.__dict__["_program"]
        return program.comparisons

    @property
    def attributes(self) -> frozenset[str] | None:
        """The attributes that it reads; None if it may read any."""
        program: Program = self.__dict__["_program"]
        if program.attributes is None:
            return frozenset()
        return frozenset(program.attributes) or None

    @property
    def members(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the members of the data that it reads by their names."""
        program: Program = self.__dict__["_program"]
        return tuple(leaves(program.data or {}))

    def could_be_true(self, known: Mapping[str, str]) -> bool:
        """Whether it can be true for an event with these attributes; True if in doubt."""
        try:
            expression = _environment().compile(for_library(self.source))
        except RuntimeError:  # its parameters have no values yet
            return True
        return checks.possible(with_texts(tree(expression.serialize()), "event", known), _constant_value)

    def needs(self, member: str) -> bool:
        """Whether it is false for each event whose data lacks this member; False if in doubt."""
        if not member.isidentifier():
            return False
        try:
            expression = _environment().compile(for_library(f"!has(data.{member}) && ({self.source})"))
        except RuntimeError:  # the name is a word of CEL
            return False
        return not checks.possible(tree(expression.serialize()), _constant_value)

    def verdict(self, event: Event) -> FilterDecision:
        program: Program = self.__dict__["_program"]
        try:
            data, attributes = _read(event, program)
        except (EventError, Unreadable) as error:
            return self._refused(str(error))
        try:
            value = program.expression.eval(data={"data": data, "event": attributes}).value()
        except Exception as error:  # noqa: BLE001  # whatever the library raises: no event may end the engine
            return self._refused(str(error))
        if value is True:
            return ACCEPTED
        return FilterDecision(False, term=str(self)) if value is False else self._refused(_reason(str(value)))

    def to_json(self) -> dict[str, object]:
        """{"where": source}; not a dialect of CloudEvents, but a member beside the filters of a matcher."""
        return {"where": self.source}

    def __reduce__(self) -> tuple[Callable[[str], Where], tuple[str]]:
        return (Where.stored, (self.source,))  # only the text; unpickling compiles it again

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:  # cached, because every verdict on a refused event contains it
        return f"Where({quoted(self.source)})"

    def _refused(self, error: str) -> FilterDecision:
        return FilterDecision(False, f"where: {error[:_MAX_ERROR_CHARS]}", str(self))


def _read(event: Event, program: Program) -> tuple[object, object]:
    """The parts of `data` and `event` that the expression reads."""
    data: object = None
    if program.data is not None and event.data is not None and content.is_json(event.datacontenttype):
        if len(event.data) > MAX_DATA_BYTES:
            raise Unreadable(f"the data has {len(event.data)} bytes: at most {MAX_DATA_BYTES} are read")
        data = event.payload
        if isinstance(data, bytes):  # of no stated type, and not JSON
            raise EventError(event.data_problems)
    reader = Reader(*program.allowance)
    attributes: object = {}
    if program.attributes is not None:
        attributes = reader.read(event.attributes, program.attributes)
    return reader.read(data, program.data) if program.data is not None else None, attributes


@lru_cache(1024)
def _compiled(source: str) -> Program:
    try:
        return _program(source, _environment())
    except (RuntimeError, ConditionError) as error:
        raise _error(source, error) from error


def compiled_with_parameters(source: str, kinds: Mapping[str, Sequence[type]]) -> Program:
    """The program of an expression whose parameters have no values yet, so that it cannot be evaluated.

    kinds: {parameter: the types that its value may have}. Raises ConditionError if no value of these types
    makes the expression valid; what depends on the values is checked when they are known.
    """
    first: Exception | None = None
    if all(str in each for each in kinds.values()):
        try:
            return _program(source, _environment_of_texts(), has_parameters=True)
        except (RuntimeError, ConditionError) as error:
            first = error
    left = MAX_ATTEMPTS
    program: Program | None = None

    def search(known: dict[str, type], unknown: Sequence[str]) -> bool:
        nonlocal first, left, program
        left -= 1
        if left < 0:
            return True
        try:
            found = _program(source, _typed_environment(known, unknown), has_parameters=True)
        except (RuntimeError, ConditionError) as error:
            first = first or error
            return False
        program = program or found
        if not unknown:
            return True
        return any(search({**known, unknown[0]: each}, unknown[1:]) for each in kinds[unknown[0]])

    if search({}, list(kinds)) and program is not None:
        return program
    reason = first or ConditionError("no value of its parameters makes it valid")
    raise _error(source, reason) from reason


def _error(source: str, error: Exception) -> ConditionError:
    reason = with_hint(source, _readable(str(error)))
    return ConditionError(f"event(where={quoted(source)}): {reason}")


def _program(source: str, environment: cel.Env, *, has_parameters: bool = False) -> Program:
    expression = environment.compile(for_library(source))
    kind = expression.return_type()
    root = tree(expression.serialize())
    if has_parameters and (wrong := misuse(root, source)) is not None:
        raise ConditionError(wrong)
    valued = with_stand_ins(root) if has_parameters else root
    _check_loops(root)
    allowance = _allowance(valued)
    _check_patterns(valued)
    types = _library().Type
    if kind == types.DYN:
        # The library returns null as a None without owning a reference, so null must not be a result. Any
        # value except true and false becomes an error.
        expression = environment.compile(f"({for_library(source)}\n) ? true : false")
    elif kind != types.BOOL:
        raise ConditionError(f"it gives a value of type {str(kind).lower()}, not true or false")
    data, attributes = paths(root, "data"), paths(root, "event")
    _check_names(attributes or ())
    if data is None and attributes is None:
        raise ConditionError("it reads neither data nor event, so it is the same for every event")
    checks.check(root, _constant_value)
    return Program(
        expression,
        data,
        attributes,
        allowance,
        equalities(root),
        comparisons(root),
        checks.misread_order(root),
    )


def _check_names(attributes: Iterable[str]) -> None:
    """Raises ConditionError for an attribute that no event can have, because of its name."""
    for name in attributes:
        if name == "data":
            raise ConditionError("event.data is never there: the data is a variable by itself, data")
        if not is_name(name):
            simple = re.sub(r"[^a-z0-9]", "", name.lower())
            write = f"event.{simple}" if is_name(simple) else "another name"
            member = f"data.{name[:40]}" if name.isidentifier() else f"data['{name[:40]}']"
            raise ConditionError(
                f"event has no attribute {shown(name, 40)}, because their names have only lower-case letters"
                f" a-z and digits: write {write}, or {member} for a value in the data"
            )


def _allowance(root: Node) -> Allowance:
    for allowance in ALLOWANCES:
        cost = worst(root, allowance)
        if cost.nanoseconds <= MAX_NANOSECONDS and cost.bytes <= MAX_BYTES:
            return allowance
    raise ConditionError(
        f"it could take {cost.nanoseconds / 1e6:,.0f} ms and {cost.bytes / 2**20:,.0f} MiB on an event with"
        f" {allowance.values} values: at most {MAX_NANOSECONDS / 1e6:.0f} ms and {MAX_BYTES // 2**20} MiB."
        " Take regular expressions, + and loops out of loops, or make patterns smaller"
    )


def _check_loops(node: Node, around: int = 0) -> None:
    inside = around + (node.kind == "loop")
    if inside > MAX_LOOPS_NESTED:
        raise ConditionError(
            f"all, exists, exists_one, filter and map are nested more than {MAX_LOOPS_NESTED} levels deep"
        )
    for number, child in enumerate(node.children):
        # the list that a loop goes over is evaluated outside it
        _check_loops(child, around if number == 0 else inside)


def _check_patterns(node: Node) -> None:
    """Raises ConditionError for an invalid pattern, which the library would notice only when it is used."""
    if node.kind == "call" and node.name == "matches":
        pattern = node.children[-1].text or ""
        tried = _environment().compile(f"''.matches({cel_ast.quoted(pattern)})").eval(data={}).value()
        if not isinstance(tried, bool):
            raise ConditionError(str(tried))
    for child in node.children:
        _check_patterns(child)


def _constant_value(source: str) -> object:
    """The value of a constant expression, or the text of its error; None if the library refuses it.

    The expression must not give null (see `_program`), nor a text.
    """
    try:
        return _environment().compile(source).eval(data={}).value()
    except RuntimeError:  # a part of a valid expression, but not valid by itself
        return None


def _readable(error: str) -> str:
    text = error.removesuffix(" [INVALID_ARGUMENT]").removeprefix("INVALID_ARGUMENT: ")
    return text.removeprefix("ERROR: ").replace("<input>:", "")


def _reason(error: str) -> str:
    # the library's name for the condition of `? true : false`
    return "it gives neither true nor false" if error.endswith("<jump_condition>") else error


def _variables() -> dict[str, cel.Type]:
    types = _library().Type
    return {"data": types.DYN, "event": types.Map(types.STRING, types.STRING)}


@lru_cache(1)
def _environment() -> cel.Env:
    return _library().NewEnv(variables=_variables())


@lru_cache(1)
def _environment_of_texts() -> cel.Env:
    """With texts as the values of all parameters."""
    types = _library().Type
    return _library().NewEnv(variables={**_variables(), VARIABLE: types.Map(types.STRING, types.STRING)})


def _typed_environment(known: Mapping[str, type], unknown: Sequence[str]) -> cel.Env:
    types = _library().Type
    of = {str: types.STRING, int: types.INT, bool: types.BOOL}
    named = {name: of[each] for name, each in known.items()} | dict.fromkeys(unknown, types.DYN)
    own = {f"{VARIABLE}.{name}": each for name, each in named.items()}
    return _library().NewEnv(variables={**_variables(), **own})


@lru_cache(1)
def _library() -> ModuleType:
    try:
        return importlib.import_module("cel_expr_python.cel")
    except ImportError as error:
        raise ConditionError(
            "event(where=...) needs the package cel-expr-python, which exists for Python 3.11 and later;"
            " Sql(...) works without it"
        ) from error
