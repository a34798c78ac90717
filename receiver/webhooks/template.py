"""Texts with values of a request in braces: `com.github.{header.x-github-event}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ...events.errors import EventError
from ...events.template import Place, Template, bounded, members_of, text_at
from ..endpoint import Request

_HEADER: Final = re.compile(r"header\.([!#$%&'*+.^_`|~0-9a-z-]+)", re.IGNORECASE)
_NAMES: Final = "{data.NAME} or {header.NAME}"


class Values(NamedTuple):
    """What a template can name: a request, and the value of its event's JSON data."""

    request: Request
    data: object


class Choice:
    """Several templates; the first that a request can fill counts.

    Raises ValueError that says what to write.
    """

    def __init__(self, name: str, texts: str | Sequence[str]) -> None:
        self.name = name
        given = [texts] if isinstance(texts, str) else texts
        self.templates = [Template(each, _place, of="a request", names=_NAMES) for each in given]

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


def _place(name: str) -> Place[Values] | None:
    header, members = _HEADER.fullmatch(name), members_of(name, "data")
    if header is not None:
        wanted = header[1].lower().encode()
        return lambda values: _header_text(wanted, values.request)
    if members is None:
        return None
    return lambda values: text_at(name, members, values.data)


def _header_text(name: bytes, request: Request) -> str | None:
    raw = request.header(name)
    if not raw:
        return None
    try:
        return bounded(f"header {name.decode()}", raw.decode("ascii"))
    except UnicodeDecodeError:
        raise EventError(f"header {name.decode()} has bytes that are not ASCII") from None
