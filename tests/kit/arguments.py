"""Wrong values for arguments of public callables, and the check that each is refused by a sentence."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import interlock
import pytest
from interlock import event, param
from interlock.events.errors import InterlockError

ROOT = Path(interlock.__file__).resolve().parent
DAY = datetime(2026, 11, 20, tzinfo=UTC)

# {name: a value that an author may give by mistake}
VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "zero": 0,
    "one": 1,
    "five": 5,
    "minus": -1,
    "huge": 10**400,
    "half": 0.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "decimal": Decimal("NaN"),
    "empty": "",
    "text": "text",
    "2h": "2h",
    "template": "{{ ds }}",
    "open template": "{{ ds",
    "NUL": "a\0b",
    "surrogate": "a\ud800",
    "long": "x" * 20_000,
    "slash": "a/b",
    "bytes": b"text",
    "list": ["text"],
    "numbers": [1],
    "nothing": [],
    "tuple": ("text", "more"),
    "set": {"text"},
    "dict": {"a": "b"},
    "dict of nan": {"a": float("nan")},
    "dict of objects": {"a": object()},
    "dict by numbers": {1: "b"},
    "object": object(),
    "function": lambda *_: True,
    "class": dict,
    "day": date(2026, 11, 20),
    "moment": DAY,
    "naive": datetime(2026, 11, 20),  # noqa: DTZ001
    "first": datetime.min.replace(tzinfo=UTC),
    "hour": timedelta(hours=1),
    "no time": timedelta(0),
    "backwards": timedelta(hours=-1),
    "for ever": timedelta.max,
    "matcher": event("c"),
    "combination": event("d") & event("e"),
    "parameter": param("x"),
    "with parameter": event("a", subject=param("x")),
}

TEXTS = {"text", "2h", "slash"}
NAMES = {"text", "2h"}
# What each kind of argument accepts; everything else must be refused.
KINDS: dict[str, set[str]] = {
    "condition": {"matcher", "combination"},
    "matcher": {"matcher"},
    "condition or parameters": {"matcher", "combination", "with parameter"},
    "matcher or parameters": {"matcher", "with parameter"},
    "whole number": {"five"},
    "count": {"one", "five"},
    "flag": {"True"},
    "duration": {"2h", "hour"},
    "duration or zero": {"2h", "hour", "no time"},
    "timedelta": {"hour"},
    "timedelta or zero": {"hour", "no time"},
    "attribute": TEXTS | {"parameter", "NUL"},  # stored conditions may have a NUL
    "text": TEXTS,
    "long text": TEXTS | {"long"},
    "template": TEXTS | {"template"},
    "dag id": NAMES,
    "bus": NAMES,
    "connection": TEXTS,
    "path": NAMES | {"tuple"},
    "moment": {"moment"},
    "moment or text": {"moment"},
    "seconds": {"one", "five", "half"},
    "timeout": {"zero", "one", "five", "half", "hour", "no time"},
    "anything as JSON": TEXTS
    | {"template", "empty", "NUL", "long", "bytes", "list", "numbers", "nothing", "tuple"}
    | {"True", "zero", "one", "five", "minus", "huge", "half", "dict", "dict by numbers"},
    "choice": set(),
    "nothing": set(),
}


class Argument:
    """kind: what it accepts. more: further values that it accepts. none: whether None is the default."""

    def __init__(self, kind: str, *more: str, none: bool = False) -> None:
        self.accepted = KINDS[kind] | set(more) | ({"None"} if none else set())


class PublicCallable:
    """A public callable with valid arguments, and the kind of each argument; `positional` come first.

    afterwards: part of the error that valid arguments cause later, because the test has no cluster or task.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        given: dict[str, Any],
        kinds: dict[str, Argument],
        positional: tuple[str, ...] = (),
        afterwards: str | None = None,
    ) -> None:
        self.afterwards = afterwards
        self.name, self.call, self.given, self.kinds, self.positional = name, call, given, kinds, positional

    def __call__(self, **changed: Any) -> Any:
        given = {**self.given, **changed}
        first = [given.pop(name) for name in self.positional]
        return self.call(*first, **given)


def cases(callables: Sequence[PublicCallable]) -> Iterator[Any]:
    for each in callables:
        for argument in each.kinds:
            yield pytest.param(each, argument, id=f"{each.name.split(' ')[0]}-{argument}")


def check_argument(tried: PublicCallable, argument: str) -> None:
    """Calls it with each value: accepted, or refused by an error of ours that names the argument."""
    accepted, raised_elsewhere, unclear = set(), {}, {}
    for name, value in VALUES.items():
        try:
            tried(**{argument: value})
        except (InterlockError, TypeError, ValueError) as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            if tried.afterwards is not None and tried.afterwards in str(error):
                accepted.add(name)
            elif not _is_ours(Path(last.filename)) or "raise" not in (last.line or ""):
                raised_elsewhere[name] = repr(error)[:200]
            elif not _is_clear(str(error), tried.name, argument):
                unclear[name] = str(error)[:200]
        except Exception as error:  # reported
            raised_elsewhere[name] = repr(error)[:200]
        else:
            accepted.add(name)
    assert raised_elsewhere == {}
    assert unclear == {}
    wrong = accepted - tried.kinds[argument].accepted
    assert wrong == set(), f"accepted, and should be refused: {wrong}"
    missed = tried.kinds[argument].accepted - accepted
    assert missed == set(), f"refused, and should be accepted: {missed}"


def _is_ours(file: Path) -> bool:
    return ROOT in file.resolve().parents and "site-packages" not in file.parts


def _is_clear(text: str, name: str, argument: str) -> bool:
    """Whether the error names the argument, or the callable if it has only one or takes any number."""
    return len(text) < 1500 and (name in text or argument in text or text.startswith("line 1, column "))
