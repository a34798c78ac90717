"""Texts with values of a request in braces: `com.github.{header.x-github-event}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from ...events.errors import EventError
from ..endpoint import Request

MOST_CHARACTERS: Final = 2048  # of one value
_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_HEADER: Final = re.compile(r"header\.([!#$%&'*+.^_`|~0-9a-z-]+)", re.IGNORECASE)
_DATA: Final = re.compile(r"data((?:\.[^.]+)+)", re.DOTALL)
# All that RFC 3986 allows in a URI but the brackets of IPv6 addresses. "%": the value is encoded already.
_IN_URI: Final = "%:/?#@!$&'()*+,;=-._~"


class Values(NamedTuple):
    """What a template can name: a request, and the value of its event's JSON data."""

    request: Request
    data: object


class Template:
    """A text with `{data.path}` and `{header.name}`. Raises ValueError that says what to write."""

    def __init__(self, text: str) -> None:
        parts = _PLACE.split(text)
        self.text = text
        self.literals: Sequence[str] = parts[::2]
        self._places = [_place(path) for path in parts[1::2]]
        if any(brace in literal for literal in self.literals for brace in "{}"):
            raise ValueError(f"{text!r} has a lone brace: write {{data.NAME}} or {{header.NAME}}")

    @property
    def is_constant(self) -> bool:
        return not self._places

    @property
    def pattern(self) -> str:
        """The text with `*` in each place, as a grant has it."""
        return "*".join(self.literals)

    def fill(self, values: Values, encode: Callable[[str], str] = str) -> str | None:
        """The text with the values; None if the request lacks one. Raises EventError."""
        found = self.literals[0]
        for place, literal in zip(self._places, self.literals[1:], strict=True):
            value = place(values)
            if value is None:
                return None
            found += encode(value) + literal
        return found


class Choice:
    """Several templates, of which the first counts that a request can fill."""

    def __init__(self, name: str, texts: str | Sequence[str]) -> None:
        self.name = name
        self.templates = [Template(each) for each in ([texts] if isinstance(texts, str) else texts)]

    def fill(self, values: Values, encode: Callable[[str], str] = str) -> str | None:
        """None if the request fills none of them. Raises EventError."""
        for template in self.templates:
            found = template.fill(values, encode)
            if found:
                return found
        return None

    def missing(self) -> EventError:
        """The error of a request that fills none of them."""
        wanted = " or ".join(template.text for template in self.templates)
        return EventError(f"the request has no {self.name}, which the webhook takes from {wanted}")


def in_uri(value: str) -> str:
    """The value for a URI: what is not allowed there is percent-encoded."""
    return quote(value, safe=_IN_URI)


def _place(path: str) -> Callable[[Values], str | None]:
    header, data = _HEADER.fullmatch(path), _DATA.fullmatch(path)
    if header is not None:
        name = header[1].lower().encode()
        return lambda values: _header_text(name, values.request)
    if data is not None:
        members = data[1][1:].split(".")
        return lambda values: _data_text(path, members, values.data)
    raise ValueError(f"{{{path}}} names nothing of a request: write {{data.NAME}} or {{header.NAME}}")


def _header_text(name: bytes, request: Request) -> str | None:
    raw = request.header(name)
    if not raw:
        return None
    try:
        return _bounded(f"header {name.decode()}", raw.decode("ascii"))
    except UnicodeDecodeError:
        raise EventError(f"header {name.decode()} has bytes that are not ASCII") from None


def _data_text(path: str, members: Sequence[str], value: object) -> str | None:
    for member in members:
        if not isinstance(value, dict):
            return None
        value = value.get(member)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return _bounded(path, value) if isinstance(value, str) and value else None


def _bounded(what: str, value: str) -> str:
    if len(value) > MOST_CHARACTERS:
        raise EventError(f"{what} has more than {MOST_CHARACTERS} characters")
    return value
