"""The functions, filters and methods that the text of a condition may call, with their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NamedTuple

from ..errors import ConditionError
from ..filters import All, Any, Exact, Filter, Not, Prefix, Sql, Suffix
from ..filters.cel.where import MAX_SOURCE_CHARS, Where
from ..nodes.combinations import at_least, count, sequence
from ..nodes.condition import Condition
from ..nodes.matcher import Matcher, event
from ..nodes.param import Param
from ..nodes.timers import absent
from ..nodes.zoned import day, hour, month, week
from ..recipes.completions import dag_run, spark_application, task_instance
from ..recipes.lineage import dataset_written, openlineage_run
from ..recipes.presets import all_of, any_of, burst, daily, debounce, every_nth, heartbeat, not_followed_by


class Kind(NamedTuple):
    """The types of an argument, and the words for them in errors."""

    types: tuple[type, ...]
    words: str

    def check(self, where: str, value: object) -> None:
        """Raises ConditionError if the value is of another type."""
        if not isinstance(value, self.types) or (isinstance(value, bool) and bool not in self.types):
            raise ConditionError(f"{where} is {shown(value)}: give {self.words}")


_CONDITION: Final = Kind((Condition,), "a condition")
_FILTER: Final = Kind((Filter,), 'a filter, such as Prefix(subject="a/")')
_TEXT: Final = Kind((str,), "a string in quotes")
_VALUE: Final = Kind((str, Param), 'a string in quotes, or a parameter such as param("customer")')
_DURATION: Final = Kind((str,), 'a duration in quotes, such as "2h"')
_WHOLE: Final = Kind((int,), "a whole number")
_NUMBER: Final = Kind((int, float), "a number")
_FLAG: Final = Kind((bool,), "True or False")
_PATH: Final = Kind((str, tuple, list), "a path in quotes, or several in ( )")
_PATH_OR_NONE: Final = Kind((str, tuple, list, type(None)), "a path in quotes, several in ( ), or None")
_LIST: Final = Kind((list, tuple), "a list of filters in [ ]")
_DICT: Final = Kind((dict,), 'names and values, as in Exact(subject="a")')

_UNITS: Final = dict.fromkeys(("weeks", "days", "hours", "minutes", "seconds", "milliseconds"), _NUMBER)


@dataclass(frozen=True)
class Call:
    """A function, filter or method that the text may call.

    positional: arguments that may be given without a name; also by name, unless there is a `rest`. needed:
    how many of them must be given. rest: any number of further arguments without a name. keywords: arguments
    given by name only. other: arguments of any other name, None if there are none.
    """

    name: str
    build: Callable[..., object]
    positional: Mapping[str, Kind] = field(default_factory=dict)
    needed: int = 0
    rest: Kind | None = None
    keywords: Mapping[str, Kind] = field(default_factory=dict)
    other: Kind | None = None

    def checked(self, number: int, value: object) -> object:
        """The value of an argument without a name. Raises ConditionError if not allowed. number: from 1."""
        kinds = list(self.positional.values())
        kind = kinds[number - 1] if number <= len(kinds) else self.rest
        if kind is None:
            most = f"at most {len(kinds)}" if kinds else "no"
            raise ConditionError(
                f"{self.name}() takes {most} argument{'' if len(kinds) == 1 else 's'} without a name"
            )
        kind.check(f"argument {number} of {self.name}()", value)
        return value

    def checked_keyword(self, name: str, value: object, given: int) -> object:
        """The value of an argument by name; raises ConditionError if it is not allowed.

        given: how many arguments without a name came before it.
        """
        named = {} if self.rest is not None else self.positional
        kind = named.get(name) or self.keywords.get(name) or self.other
        if kind is None:
            known = ", ".join((*named, *self.keywords)) or "none by name"
            raise ConditionError(f"{self.name}() has no argument {name[:40]!r}: known are {known}")
        if name in list(self.positional)[:given]:
            raise ConditionError(f"{self.name}() got {name} twice, without and with its name")
        kind.check(f"{self.name}({name[:40]}=...)", value)
        return value

    def check_given(self, given: int, names: Sequence[str]) -> None:
        """Raises ConditionError if an argument is missing."""
        for name in list(self.positional)[given : self.needed]:
            if name not in names:
                raise ConditionError(f"{self.name}() needs {name}")


_DURATIONS: Final[Mapping[str, Kind]] = {"duration": _DURATION}
_EVENTS: Final[Mapping[str, Kind]] = {"matcher": _CONDITION, "n": _WHOLE}
_DISTINCT: Final[Mapping[str, Kind]] = {"distinct": _PATH_OR_NONE}
_LATE: Final[Mapping[str, Kind]] = {"lateness": _DURATION}
_MATCHER: Final[Mapping[str, Kind]] = {
    "by": _PATH,
    "label": _TEXT,
    "where": _TEXT,
    "filters": _LIST,
    "keep": _TEXT,
    "limit": _WHOLE,
}
_KEYED: Final[Mapping[str, Kind]] = {"by": _PATH, "offset": _DURATION, "label": _TEXT}
# Of the matchers for completion events; `dates` is available in Python only.
_COMPLETION: Final[Mapping[str, Kind]] = {
    "state": Kind((str, list, tuple), "a state in quotes, or several in [ ]"),
    **_KEYED,
}


def _event(*values: object, **arguments: object) -> Matcher:
    """event(), whose `where` may be longer by the values of parameters."""
    where = arguments.get("where")
    if isinstance(where, str) and len(where) > MAX_SOURCE_CHARS:
        arguments["where"] = Where.stored(where)
    return event(*values, **arguments)  # type: ignore[arg-type]  # the vocabulary checks them


_KEYS: Final[Mapping[str, Callable[..., object]]] = {"day": day, "hour": hour, "week": week, "month": month}
_ZONED: Final[Mapping[str, Kind]] = {"of": _TEXT, "tz": _TEXT}
_OF_ZONE: Final[Mapping[str, Kind]] = {"unit": _TEXT, "offset": _WHOLE}

FUNCTIONS: Final[Mapping[str, Call]] = {
    call.name: call
    for call in (
        Call("event", _event, {"type": _VALUE}, keywords=_MATCHER, other=_VALUE),
        Call(
            "dag_run",
            dag_run,
            {"dag_id": _TEXT},
            needed=1,
            keywords={**_COMPLETION, "deployment": _TEXT},
        ),
        Call(
            "task_instance",
            task_instance,
            {"dag_id": _TEXT, "task_id": _TEXT},
            needed=2,
            keywords={**_COMPLETION, "deployment": _TEXT},
        ),
        Call(
            "spark_application",
            spark_application,
            {"name": _TEXT},
            needed=1,
            keywords={**_COMPLETION, "application": _TEXT},
        ),
        Call(
            "openlineage_run",
            openlineage_run,
            {"job": _TEXT, "namespace": _TEXT, "state": _COMPLETION["state"]},
            needed=1,
            keywords=_KEYED,
        ),
        Call(
            "dataset_written",
            dataset_written,
            {"namespace": _TEXT, "name": _TEXT},
            needed=2,
            keywords={"measured": _FLAG, **_KEYED},
        ),
        Call("at_least", at_least, {"n": _WHOLE}, needed=1, rest=_CONDITION, keywords=_DISTINCT),
        Call("count", count, _EVENTS, needed=2, keywords=_DISTINCT),
        Call("sequence", sequence, rest=_CONDITION, keywords={"ordered": _FLAG}),
        Call(
            "absent",
            absent,
            {"condition": _CONDITION, **_DURATIONS},
            needed=1,
            keywords={"armed_by": _TEXT, **_UNITS},
        ),
        Call("all_of", all_of, rest=_CONDITION, keywords={"within": _DURATION}),
        Call("any_of", any_of, rest=_CONDITION),
        Call("every_nth", every_nth, _EVENTS, needed=2, keywords=_DISTINCT),
        Call("burst", burst, {**_EVENTS, "within": _DURATION}, needed=3, keywords=_DISTINCT),
        Call("debounce", debounce, {"condition": _CONDITION, **_DURATIONS}, needed=2),
        Call(
            "heartbeat",
            heartbeat,
            {"matcher": _CONDITION, "every": _DURATION},
            needed=2,
            keywords={"armed_by": _TEXT},
        ),
        Call(
            "not_followed_by",
            not_followed_by,
            {"condition": _CONDITION, "unwanted": _CONDITION, "within": _DURATION},
            needed=3,
        ),
        Call("daily", daily, rest=_CONDITION, keywords={"timezone": _TEXT}),
        *(Call(name, build, _ZONED, needed=1, keywords=_OF_ZONE) for name, build in _KEYS.items()),
        Call("Exact", Exact, {"attributes": _DICT}, other=_TEXT),
        Call("Prefix", Prefix, {"attributes": _DICT}, other=_TEXT),
        Call("Suffix", Suffix, {"attributes": _DICT}, other=_TEXT),
        Call("All", All, rest=_FILTER),
        Call("Any", Any, rest=_FILTER),
        Call("Not", Not, {"filter": _FILTER}, needed=1),
        Call("Sql", Sql, {"expression": _TEXT}, needed=1),
        Call("param", Param, {"name": _TEXT}, needed=1),
    )
}

# The functions that build conditions; the others are classes of filters.
CONDITIONS: Final = frozenset(
    name for name, call in FUNCTIONS.items() if not isinstance(call.build, type) and name not in _KEYS
)

METHODS: Final[Mapping[str, Call]] = {
    call.name: call
    for call in (
        Call("within", Condition.within, _DURATIONS, keywords={**_LATE, **_UNITS}),
        Call("resets", Condition.resets, {"cron": _TEXT}, needed=1, keywords={"timezone": _TEXT, **_LATE}),
        Call("quiet", Condition.quiet, _DURATIONS, keywords=_UNITS),
        Call("expires", Condition.expires, {"after": _DURATION}, keywords={"at": _TEXT, "armed_by": _TEXT}),
        Call("ordered", Condition.ordered),
        Call("keep", Condition.keep, {"which": _TEXT, "limit": _WHOLE}, needed=1),
    )
}


def find(calls: Mapping[str, Call], name: str, what: str) -> Call:
    """The call of this name; ConditionError lists the known names."""
    if name in calls:
        return calls[name]
    hint = near(name, calls) or "known are " + ", ".join(calls)
    raise ConditionError(f"there is no {what} {name[:40]}(): {hint}")


def near(name: str, names: Iterable[str]) -> str:
    """ "did you mean ...?" with the names close to this one; empty if there is none."""
    found = get_close_matches(name[:40], list(names)[:1000], n=3)
    return f"did you mean {' or '.join(found)}?" if found else ""


def shown(value: object) -> str:
    """The kind of a value, for a message."""
    for kind, words in _SHOWN.items():
        if isinstance(value, kind):
            return words
    return f"a {type(value).__name__}"


_SHOWN: Final[Mapping[type, str]] = {
    Condition: "a condition",
    Filter: "a filter",
    str: "a string",
    bool: "True or False",
    int: "a number",
    float: "a number",
}
