"""`where`: a predicate over an event's attributes and data in the Common Expression Language (CEL)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ...events import content
from ...events.errors import EventError
from ...events.event import Event
from ..errors import ConditionError
from .filter import ACCEPTED, Filter, Verdict, checked_text, quoted

if TYPE_CHECKING:
    from cel_expr_python import cel

MAX_SOURCE_CHARS: Final = 1024
MAX_DATA_BYTES: Final = 256 * 1024
_MAX_ERROR_CHARS: Final = 200


@dataclass(frozen=True, init=False, repr=False)
class Where(Filter):
    """True if an expression in CEL gives true: Where("data.amount > 100 && event.subject != 'x'").

    Variables: `data`, the value in JSON data (null where there is none), and `event`, a map of the attributes
    to their strings. An expression that fails on an event (no such member, other types) refuses it.
    """

    source: str

    def __init__(self, source: str, /) -> None:
        text = checked_text("event", "where", source, MAX_SOURCE_CHARS)
        object.__setattr__(self, "source", text)
        object.__setattr__(self, "_program", _compiled(text))

    def verdict(self, event: Event) -> Verdict:
        program: cel.Expression = self.__dict__["_program"]
        if event.data is not None and len(event.data) > MAX_DATA_BYTES:
            return self._refused(f"the data has {len(event.data)} bytes: at most {MAX_DATA_BYTES}")
        try:
            data = event.payload if content.is_json(event.datacontenttype) else None
            value = program.eval(data={"data": data, "event": event.attributes}).value()
        except EventError as error:
            return self._refused(str(error))
        except Exception as error:  # noqa: BLE001  # whatever the library raises: no event may end the engine
            return self._refused(str(error))
        if value is True:
            return ACCEPTED
        return Verdict(False, term=str(self)) if value is False else self._refused(str(value))

    def to_json(self) -> dict[str, object]:
        """{"where": source}; it is no dialect of CloudEvents, and stands beside the filters of a matcher."""
        return {"where": self.source}

    def __reduce__(self) -> tuple[type[Where], tuple[str]]:
        return (Where, (self.source,))  # the text alone: it is compiled where it is read

    def __str__(self) -> str:
        return f"Where({quoted(self.source)})"

    def _refused(self, error: str) -> Verdict:
        return Verdict(False, error[:_MAX_ERROR_CHARS], str(self))


@lru_cache(1024)
def _compiled(source: str) -> cel.Expression:
    try:
        program = _environment().compile(source)
    except RuntimeError as error:
        raise ConditionError(f"event(where={quoted(source)}): {error}") from error
    if program.return_type().name() not in ("bool", "BOOL", "dyn", "DYN"):
        raise ConditionError(
            f"event(where={quoted(source)}) gives a {program.return_type().name()}, not true or false"
        )
    return program


@lru_cache(1)
def _environment() -> cel.Env:
    from cel_expr_python import cel

    attributes = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    return cel.NewEnv(variables={"data": cel.Type.DYN, "event": attributes})
