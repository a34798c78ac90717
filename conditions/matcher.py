"""The matcher: which events a leaf of a condition accepts, and the key that it reads from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..events import content
from ..events.attributes import is_name, shown
from ..events.errors import EventError
from ..events.event import Event
from .condition import Condition
from .errors import ConditionError
from .key import canonical_key

MAX_VALUE_CHARS: Final = 2048
MAX_LABEL_CHARS: Final = 128
MAX_PATH_CHARS: Final = 256
_DATA = "data."
# Keywords with a meaning of their own to come; an extension with such a name cannot be filtered by keyword.
_RESERVED = frozenset({"topic", "where", "filters", "data"})
_TYPE_PARTS_IN_LABEL = 2


@dataclass(frozen=True, init=False, repr=False)
class Matcher(Condition):
    """A leaf: accepts the events whose attributes equal all of `exact`; made by `event()`.

    exact: ((attribute, value), ...), sorted by attribute; values are attributes' canonical strings.
    by: path of the correlation key: an attribute's name, or "data." and the members of JSON objects.
    label: the name of this matcher's part in firings; None: one is made (`Condition.labels`).
    """

    exact: tuple[tuple[str, str], ...]
    by: str | None
    label: str | None

    def __init__(
        self, exact: Iterable[tuple[str, str]], by: str | None = None, label: str | None = None
    ) -> None:
        pairs = tuple(sorted(exact))
        if not pairs:
            raise ConditionError(
                'event() without a filter would match every event: name at least a type, event(type="...")'
            )
        names = [name for name, _ in pairs]
        for name, value in pairs:
            _check_name(name)
            _check_text(name, value, MAX_VALUE_CHARS)
            if names.count(name) > 1:
                raise ConditionError(f"attribute {name} is filtered twice: one value can be exact")
        if by is not None:
            _check_path(by)
        if label is not None:
            _check_text("label", label, MAX_LABEL_CHARS)
        object.__setattr__(self, "exact", pairs)
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "label", label)

    @property
    def default_label(self) -> str:
        """The subject filtered for, else the last two dotted parts of the type, else the first value."""
        wanted = dict(self.exact)
        if "subject" in wanted:
            return wanted["subject"][:MAX_LABEL_CHARS]
        if "type" in wanted:
            return ".".join(wanted["type"].split(".")[-_TYPE_PARTS_IN_LABEL:])[-MAX_LABEL_CHARS:]
        return self.exact[0][1][:MAX_LABEL_CHARS]

    def accepts(self, event: Event) -> bool:
        """True if every filtered attribute of `event` is there and equal; the key is not looked at."""
        attributes = event.attributes
        return all(attributes.get(name) == value for name, value in self.exact)

    def key_of(self, event: Event) -> str | None:
        """The canonical text of the event's correlation key; None if it has none, and then it does not match.

        None stands for: no such attribute or member, data that is no JSON, a value that is null, an object, a
        list or empty, or that has no canonical text (`canonical_key`). Call it on matchers with `by` only.
        """
        return None if self.by is None else key_at(self.by, event)

    def __str__(self) -> str:
        wanted = dict(self.exact)
        first: tuple[str, ...] = ("type", "source", "subject")
        ordered = [name for name in first if name in wanted]
        ordered += [name for name in wanted if name not in ordered]
        parts = [f"{name}={_quoted(wanted[name])}" for name in ordered]
        parts += [f"by={_quoted(self.by)}"] if self.by is not None else []
        parts += [f"label={_quoted(self.label)}"] if self.label is not None else []
        return f"event({', '.join(parts)})"


def event(
    type: str | None = None,  # noqa: A002  # CloudEvents' word
    *,
    source: str | None = None,
    subject: str | None = None,
    by: str | None = None,
    label: str | None = None,
    **extensions: str,
) -> Matcher:
    """A matcher for the events whose attributes are exactly these; ConditionError names a wrong argument.

    extensions: any other attribute by its name, e.g. tenant="bank". by: "subject", "time", any attribute,
    or a path into JSON data such as "data.order.date". label: its part's name in firings.
    """
    given: dict[str, object] = {"type": type, "source": source, "subject": subject}
    exact = [(name, value) for name, value in given.items() if value is not None]
    for name, value in extensions.items():
        if name in _RESERVED:
            raise ConditionError(f"event({name}=...) is reserved and cannot filter an attribute")
        exact.append((name, value))
    return Matcher(exact, by, label)  # type: ignore[arg-type]  # checked there


def key_at(path: str, event: Event) -> str | None:
    """The canonical key at a `by` path of an event, or None (see Matcher.key_of)."""
    value: object
    if path.startswith(_DATA):
        if not content.is_json(event.datacontenttype):
            return None
        try:
            value = event.payload
        except EventError:
            return None
        for member in path[len(_DATA) :].split("."):
            if not isinstance(value, dict):
                return None
            value = value.get(member)
    else:
        value = event.attributes.get(path)
    if not isinstance(value, (str, int, float)):  # bool is an int; JSON has no other scalars
        return None
    try:
        return canonical_key(value)
    except ConditionError:
        return None


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not is_name(name):
        raise ConditionError(
            f"event({name}=...) names no attribute: names have lower-case letters a-z and digits only"
        )


def _check_text(what: str, value: object, limit: int) -> None:
    if not isinstance(value, str):
        raise ConditionError(
            f"event({what}=...) is a {type(value).__name__}: give a string; booleans and integers of an event"
            ' are compared as "true", "false" and decimal digits'
        )
    if not value:
        raise ConditionError(f"event({what}='') is empty: leave it out or give a value")
    if len(value) > limit:
        raise ConditionError(f"event({what}=...) has {len(value)} characters: at most {limit}")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise ConditionError(f"event({what}={shown(value)}) is no Unicode text")


def _check_path(path: object) -> None:
    _check_text("by", path, MAX_PATH_CHARS)
    text = str(path)
    if text.startswith(_DATA):
        if "[" in text or "]" in text:
            raise ConditionError(
                f"event(by={_quoted(text)}): items of lists cannot be reached; name a member"
            )
        if "" in text.split("."):
            raise ConditionError(
                f"event(by={_quoted(text)}) has an empty member: write it as data.order.date"
            )
    elif not is_name(text):
        raise ConditionError(
            f"event(by={_quoted(text)}) is no path: write an attribute's name, or data.order.date for a value"
            " in the data"
        )


def _quoted(text: str) -> str:
    # JSON's escapes are Python's too, except for what cannot be printed
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)
