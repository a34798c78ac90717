"""Builds a condition from the parser's tree, by the rules of condition.lark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from ...events.attributes import shown
from ..errors import ConditionError
from ..filters.cel.where import MAX_TEXT_CHARS
from ..nodes.combinations import AllOf, AnyOf
from ..nodes.condition import MAX_NODES, Condition
from . import vocabulary
from .codec import MAX_EXPRESSION_CHARS, Expressions

if TYPE_CHECKING:
    from lark import Token, Tree

_MAX_CARET_CHARS: Final = 100
_MAX_DIGITS: Final = 18
_MAX_KEPT: Final = 4 * MAX_NODES  # how many matchers all calls of keep() may copy
_DURATION = re.compile(r"(?:[0-9]+(?:ms|[wdhms]))+")
_CONSTANTS: Final = {"True": True, "False": False, "None": None}
_ESCAPE = re.compile(
    r"\\(?:([\\'\"abfnrtv])|([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.?))",
    re.DOTALL,
)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def fail(text: str, at: int, what: str, cause: Exception | None = None) -> NoReturn:
    """Raises ConditionError with the line and column of `at`; if the line is short, with a caret below it."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start:] if end < 0 else text[start:end]
    message = f"line {text.count(chr(10), 0, at) + 1}, column {at - start + 1}: {what}"
    if line.strip() and len(line) <= _MAX_CARET_CHARS and line.isprintable():
        message += f"\n    {line}\n    {' ' * (at - start)}^"
    raise ConditionError(message) from cause


class _Item(NamedTuple):
    """The value of a part of the text, and its position."""

    value: Any
    at: int


class _Keyword(NamedTuple):
    name: str
    value: Any
    at: int


class Builder:
    """Builds the condition of one text; one method for each rule of the grammar."""

    def __init__(self, text: str, names: Mapping[str, Condition]) -> None:
        self._text = text
        self._names = names
        self._terms = self._kept = 0
        self._expressions = Expressions()

    def build(self, tree: Tree[Token] | Token) -> Condition:
        """The condition; built from left to right, so that the error is the first one in the text."""
        waiting: list[tuple[Any, bool]] = [(tree, False)]
        built: list[Any] = []
        while waiting:
            node, ready = waiting.pop()
            children = getattr(node, "children", None)
            if children is None:
                built.append(node)
            elif ready:
                first = len(built) - len(children)
                built[first:] = [getattr(self, node.data)(*built[first:])]
            else:
                waiting.append((node, True))
                waiting += ((child, False) for child in reversed(children))
        item: _Item = built[0]
        if not isinstance(item.value, Condition):
            self._fail(item.at, f"this is {vocabulary.shown(item.value)}, not a condition")
        return item.value

    def either(self, *parts: Any) -> _Item:
        return self._joined(AnyOf, parts)

    def both(self, *parts: Any) -> _Item:
        return self._joined(AllOf, parts)

    def negation(self, sign: Token, item: _Item) -> _Item:
        self._condition(item, f"{sign} negates a condition")
        self._term(sign.start_pos)
        return self._made(sign.start_pos, lambda: ~item.value)

    def name(self, name: Token) -> _Item:
        at = name.start_pos or 0
        if name in _CONSTANTS:
            return _Item(_CONSTANTS[name], at)
        self._term(at)
        condition = self._names.get(str(name))
        if condition is None:
            if name in vocabulary.FUNCTIONS:
                self._fail(at, f"{name} is a function: write {name}(...)")
            known = "; no names are known here" if not self._names else ""
            hint = vocabulary.near(name, self._names)
            if not hint and _DURATION.fullmatch(name):
                self._fail(at, f'durations are written in quotes: "{name[:128]}"')
            self._fail(at, f"there is no condition called {name[:128]!r}{known}{hint and '; ' + hint}")
        if not isinstance(condition, Condition):
            self._fail(
                at, f"the name {name[:128]!r} stands for {vocabulary.shown(condition)}, not a condition"
            )
        return _Item(condition, at)

    def call(self, name: Token, *arguments: Any) -> _Item:
        at = name.start_pos or 0
        if name in vocabulary.CONDITIONS:
            self._term(at)
        if name == "Sql":
            for each in arguments[:1]:
                self._expression(each, "sql")
        call = self._find(vocabulary.FUNCTIONS, name, "function")
        return self._called(call, at, (), arguments)

    def method(self, of: _Item, name: Token, *arguments: Any) -> _Item:
        call = self._find(vocabulary.METHODS, name, "method")
        self._term(name.start_pos)
        self._condition(of, f".{name}() belongs to a condition")
        if name == "keep":  # it copies all matchers
            self._kept += len(of.value.matchers)
            if self._kept > _MAX_KEPT:
                self._fail(name.start_pos, "keep() is called too often: call it once, on the whole condition")
        item = self._called(call, name.start_pos or 0, (of.value,), arguments)
        return _Item(item.value, of.at)

    def keyword(self, name: Token, item: _Item) -> _Keyword:
        if name == "where":
            self._expression(item, name)
        return _Keyword(str(name), item.value, name.start_pos or 0)

    def string(self, token: Token) -> _Item:
        return _Item(self._unquoted(token), token.start_pos or 0)

    def number(self, token: Token) -> _Item:
        at = token.start_pos or 0
        if len(token) > _MAX_DIGITS:
            self._fail(at, f"this number has more than {_MAX_DIGITS} digits")
        return _Item(float(token) if "." in token else int(token), at)

    def row(self, *items: _Item) -> _Item:
        return _Item(tuple(item.value for item in items), items[0].at)

    def items(self, sign: Token, *items: _Item) -> _Item:
        return _Item([item.value for item in items], sign.start_pos or 0)

    def members(self, sign: Token, *pairs: Any) -> _Item:
        found: dict[str, object] = {}
        for token, item in zip(pairs[::2], pairs[1::2], strict=True):
            key = self._unquoted(token)
            if key in found:
                self._fail(token.start_pos, f"the name {shown(key, 40)} is given twice")
            if key in ("sql", "where"):
                self._expression(item, key)
            found[key] = item.value
        return _Item(found, sign.start_pos or 0)

    # -- helpers

    def _joined(self, kind: type[AllOf | AnyOf], parts: tuple[Any, ...]) -> _Item:
        items: tuple[_Item, ...] = parts[::2]
        for item in items:
            self._condition(item, f"{parts[1]} joins conditions")
        # all at once: joining one by one would go over all earlier operands each time
        distinct = tuple(dict.fromkeys(item.value for item in items))
        if len(distinct) == 1:
            return items[0]
        made = self._made(parts[1].start_pos, lambda: kind(*distinct))
        return _Item(made.value, items[0].at)

    def _called(
        self, call: vocabulary.Call, at: int, first: tuple[Any, ...], arguments: tuple[Any, ...]
    ) -> _Item:
        values: list[object] = []
        named: dict[str, object] = {}
        for number, argument in enumerate(arguments, 1):
            try:
                if isinstance(argument, _Keyword):
                    if argument.name in named:
                        raise ConditionError(f"{call.name}() got {argument.name[:40]} twice")
                    named[argument.name] = call.checked_keyword(argument.name, argument.value, len(values))
                else:
                    if named:
                        raise ConditionError("arguments without a name must come before those with one")
                    values.append(call.checked(number, argument.value))
            except ConditionError as error:
                self._fail(argument.at, str(error), error)

        def build() -> object:
            call.check_given(len(values), list(named))
            return call.build(*first, *values, **named)

        return self._made(at, build)

    def _made(self, at: int | None, build: Callable[[], object]) -> _Item:
        try:
            return _Item(build(), at or 0)
        except ConditionError as error:
            self._fail(at or 0, str(error), error)

    def _find(self, calls: Mapping[str, vocabulary.Call], name: Token, what: str) -> vocabulary.Call:
        try:
            return vocabulary.find(calls, str(name), what)
        except ConditionError as error:
            self._fail(name.start_pos or 0, str(error), error)

    def _condition(self, item: Any, what: str) -> None:
        if not isinstance(item.value, Condition):
            self._fail(item.at, f"{what}, and this is {vocabulary.shown(item.value)}")

    def _term(self, at: int | None) -> None:
        self._terms += 1
        if self._terms > MAX_NODES:
            self._fail(at, f"the condition has more than {MAX_NODES} names, calls and ~")

    def _expression(self, item: Any, name: str) -> None:
        if isinstance(item.value, str):
            self._expressions.add(
                where=item.value if name == "where" else None, sql=item.value if name == "sql" else None
            )
            if self._expressions.are_too_large:
                self._fail(
                    item.at,
                    f"where and sql have more than {MAX_EXPRESSION_CHARS} characters together, or the"
                    f" string literals of where more than {MAX_TEXT_CHARS}",
                )

    def _unquoted(self, token: Token) -> str:
        return _ESCAPE.sub(lambda escape: self._unescaped(escape, token), token[1:-1])

    def _unescaped(self, escape: re.Match[str], token: Token) -> str:
        simple, octal, *codes, other = escape.groups()
        if simple is not None:
            return _ESCAPED.get(simple, simple)
        code = int(octal, 8) if octal is not None else int(next(filter(None, codes), "-1"), 16)
        if not 0 <= code <= 0x10FFFF:
            what = (
                f"\\{other} is not an escape sequence; for a backslash write \\\\"
                if other
                else "there is no such character"
            )
            self._fail((token.start_pos or 0) + 1 + escape.start(), what)
        return chr(code)

    def _fail(self, at: int | None, what: str, cause: Exception | None = None) -> NoReturn:
        fail(self._text, at or 0, what, cause)
