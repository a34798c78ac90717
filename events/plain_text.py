"""Texts of subclasses of str as plain ones.

A member of a StrEnum, and what Jinja and date libraries return, is a str whose str() and format() may give
another text, and which serializers such as msgspec refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def plain_text(value: Any) -> Any:
    """Returns the value with each text, also in lists, tuples and dicts, as a plain str; others unchanged.

    Dicts, lists and tuples without such texts are returned themselves.
    """
    try:
        return _plain(value)
    except RecursionError:
        return value  # it contains itself; the checks of the arguments report that


def _plain(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, str):
        return value if kind is str else str.__str__(value)
    if kind in (list, tuple, set, frozenset):
        pairs = [(each, _plain(each)) for each in value]
        is_same = all(each is one for each, one in pairs)
        return value if is_same else kind(one for _, one in pairs)
    if kind is dict:
        members = [(name, each, _plain(name), _plain(each)) for name, each in value.items()]
        is_same = all(name is other and each is one for name, each, other, one in members)
        return value if is_same else {name: each for _, _, name, each in members}
    return value


def own(value: Any) -> Any:
    """Returns `plain_text` of the value, in dicts, lists and tuples of its own.

    For what is kept and used later: the caller may change its dict, for example in a loop.
    """
    try:
        return _own(plain_text(value))
    except RecursionError:
        return value


def _own(value: Any) -> Any:
    kind = type(value)
    if kind in (list, tuple):
        return kind(map(_own, value))
    return {name: _own(each) for name, each in value.items()} if kind is dict else value


def takes_plain_text(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function: it gets each of its arguments as `plain_text` of it."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        given = {name: plain_text(value) for name, value in kwargs.items()}
        return function(*map(plain_text, args), **given)

    return called
