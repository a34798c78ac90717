"""Reads the members of a resource by their paths, and lists those that nobody has read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from ..events.attributes import kind, shown
from .errors import NotTranslated

# ISO 8601, without years and months, whose length depends on the calendar. A fraction only in the last part.
_DURATION: Final = re.compile(
    r"P(?=[0-9T])(?:([0-9]+(?:[.,][0-9]+(?=W$))?)W)?(?:([0-9]+(?:[.,][0-9]+(?=D$))?)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+(?:[.,][0-9]+(?=H$))?)H)?(?:([0-9]+(?:[.,][0-9]+(?=M$))?)M)?"
    r"(?:([0-9]+(?:[.,][0-9]+)?)S)?)?"
)
_SECONDS: Final = (7 * 86_400, 86_400, 3600, 60, 1)
_MAX_DIGITS: Final = 30


class FieldNote(NamedTuple):
    """A field of a resource, and what happens to it here."""

    field: str
    text: str


class Members:
    """The members of one object of a resource, each of which can be taken once. `left` tells the others.

    Null is the same as absent, as in Kubernetes.
    """

    def __init__(self, value: object, path: str) -> None:
        if value is not None and not isinstance(value, Mapping):
            raise NotTranslated(path, f"it is {kind(value)}: it must be an object")
        self.path = path
        self._left = {name: each for name, each in (value or {}).items() if each is not None}

    def __bool__(self) -> bool:
        return bool(self._left)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def field(self, name: str) -> str:
        return f"{self.path}.{name}" if re.fullmatch(r"\w+", name) else f"{self.path}[{name}]"

    def take(self, name: str) -> object:
        """Returns the member, None if there is none."""
        return self._left.pop(name, None)

    def members(self, name: str) -> Members:
        return Members(self.take(name), self.field(name))

    def text(self, name: str) -> str | None:
        """Returns the text; None if there is none. Raises NotTranslated for another type."""
        value = self.take(name)
        if value is None or isinstance(value, str):
            return value
        raise NotTranslated(self.field(name), f"it is {kind(value)}: it must be a text. {_QUOTES}")

    def items(self, name: str) -> Sequence[object]:
        value = self.take(name)
        if value is None or isinstance(value, list):
            return value or []
        raise NotTranslated(self.field(name), f"it is {kind(value)}: it must be a list")

    def duration(self, name: str) -> float | None:
        """Returns the seconds of an ISO 8601 duration; None if there is none."""
        text = self.text(name)
        return None if text is None else seconds(text, self.field(name))

    def left(self, reasons: Mapping[str, str], unknown: str) -> list[FieldNote]:
        """Returns a note for each member that was not taken. unknown: the reason for one not in `reasons`."""
        return [FieldNote(self.field(name), reasons.get(name, unknown)) for name in self._left]


_QUOTES: Final = "Write it in quotes"


def texts(value: object, path: str) -> dict[str, str]:
    """Returns an object whose members are texts. Raises NotTranslated for anything else."""
    if not isinstance(value, Mapping):
        raise NotTranslated(path, f"it is {kind(value)}: it must be an object of texts")
    for name, each in value.items():
        if not isinstance(each, str):
            raise NotTranslated(
                f"{path}.{name}", f"it is {kind(each)}, {shown(each)}: it must be a text. {_QUOTES}"
            )
    return dict(value)


def seconds(text: str, path: str) -> float:
    """Returns the seconds of an ISO 8601 duration such as PT0.2S. Raises NotTranslated, also if negative."""
    if text == "P0":  # as Knative reads it too
        return 0.0
    found = _DURATION.fullmatch(text.removeprefix("+"))
    if found is None or len(text) > _MAX_DIGITS:
        raise NotTranslated(
            path,
            f"{shown(text)} is not an ISO 8601 duration of weeks, days, hours, minutes and seconds, such as"
            " PT0.2S or PT5M; years and months have no fixed length",
        )
    parts = (Decimal((part or "0").replace(",", ".")) for part in found.groups())
    return float(sum(part * unit for part, unit in zip(parts, _SECONDS, strict=True)))
