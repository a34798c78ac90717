"""Texts with values in braces, such as `com.shop.{data.kind}`: a webhook's or a relay's attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from .errors import EventError

MOST_CHARACTERS: Final = 2048  # of one value
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_MEMBERS: Final = re.compile(r"(?:\.[^.]+)+", re.DOTALL)
# All that RFC 3986 allows in a URI but the brackets of IPv6 addresses. "%XX": the value is encoded already.
_IN_URI: Final = "%:/?#@!$&'()*+,;=-._~"
_LONE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")

Values = TypeVar("Values")
# Returns the text for a placeholder, None if the values have none. Raises EventError.
Place = Callable[[Values], str | None]


class Template(Generic[Values]):
    """A text with placeholders in braces. Raises ValueError that says what to write.

    place: gets a placeholder's name; returns the function that reads its value, None for an unknown name.
    of, names: for errors: what has the values, and the names that a placeholder may have.
    """

    def __init__(
        self, text: str, place: Callable[[str], Place[Values] | None], *, of: str, names: str
    ) -> None:
        parts = _PLACE.split(text)
        self.text = text
        self.literals: Sequence[str] = parts[::2]
        self._places: list[Place[Values]] = []
        for name in parts[1::2]:
            found = place(name)
            if found is None:
                raise ValueError(f"{{{name}}} names nothing of {of}: write {names}")
            self._places.append(found)
        if any(brace in literal for literal in self.literals for brace in "{}"):
            raise ValueError(f"{text!r} has a lone brace: write {names}")

    @property
    def is_constant(self) -> bool:
        return not self._places

    @property
    def pattern(self) -> str:
        """The text with `*` for each placeholder, as a grant writes it."""
        return "*".join(self.literals)

    def fill(self, values: Values, encode: Callable[[str], str] = str) -> str | None:
        """The text with the values; None if one is missing. Raises EventError."""
        found = self.literals[0]
        for place, literal in zip(self._places, self.literals[1:], strict=True):
            value = place(values)
            if value is None:
                return None
            found += encode(value) + literal
        return found


def in_uri(value: str) -> str:
    """The value for a URI: what is not allowed there is percent-encoded."""
    encoded = _LONE_PERCENT.sub("%25", quote(value, safe=_IN_URI))
    rest, mark, fragment = encoded.partition("#")
    return rest + mark + fragment.replace("#", "%23")


def members_of(name: str, root: str) -> list[str] | None:
    """Returns `["a", "b"]` of the placeholder `root.a.b`; None if it does not begin with the root."""
    rest = name.removeprefix(root)
    return rest[1:].split(".") if rest != name and _MEMBERS.fullmatch(rest) else None


def text_at(name: str, members: Sequence[str], value: object) -> str | None:
    """Returns the text, integer or boolean at a path of JSON objects. Raises EventError if it is too long."""
    for member in members:
        if not isinstance(value, dict):
            return None
        value = value.get(member)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return bounded(name, str(value))
    return bounded(name, value) if isinstance(value, str) and value else None


def bounded(what: str, value: str) -> str:
    """Returns the value. Raises EventError if it is too long."""
    if len(value) > MOST_CHARACTERS:
        raise EventError(f"{what} has more than {MOST_CHARACTERS} characters")
    return value
