"""A near miss: an event that nearly met a matcher, and why it did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .node import EventRef
from .wording import given, printed

Why = Literal["term", "error", "no key", "no data", "key", "since", "waiting", "repeat", "unread"]
_MAX_TERM_CHARS: Final = 160


@dataclass(frozen=True)
class NearMiss:
    """An event that nearly met a matcher, and why it did not.

    why: "term": `term` refused it, which compares `attribute` with the event's `value` (None: it has none);
    "error": `term` could not be evaluated, `error` tells why; "no key": it has none at the path; "no data":
    its data cannot be read for it, `error` tells why; "key": it is `key`, written `raw` if differently, and
    `wanted` is another, told beside a term that refused too; "since": stamped before the wait's since;
    "waiting": a due time holds it back (W1); "repeat": seen before (D1); "unread": it fits, and has not come,
    or was let go or dropped. refused, terms: how many of the matcher's terms refused it, of how many.
    """

    event: EventRef
    why: Why
    refused: int
    terms: int
    term: str | None = None
    attribute: str | None = None
    value: str | None = None
    error: str | None = None
    key: str | None = None
    raw: str | None = None
    wanted: str | None = None

    @property
    def has_another_key(self) -> bool:
        """True if it is of another key than the one that is waited for, whatever else refused it."""
        return self.wanted is not None

    def to_json(self) -> dict[str, object]:
        result = given({name: getattr(self, name) for name in self.__dataclass_fields__})
        return {**result, "event": self.event.to_json()}

    def __str__(self) -> str:
        return f"{self.event}: {self._reason()}"

    def _reason(self) -> str:
        more = f" (and {self.refused - 1} more of {self.terms} terms)" if self.refused > 1 else ""
        if self.has_another_key:
            raw = "" if self.raw is None else f" (written {printed(self.raw)})"
            another = f"key {printed(self.key or '')}{raw} here, {printed(self.wanted or '')} wanted"
            if self.why == "key":
                return another
            more += f"; {another}"
        term = "" if self.term is None else printed(self.term, _MAX_TERM_CHARS)
        if self.why == "error":
            return f"{term} could not be evaluated: {printed(self.error or '', _MAX_TERM_CHARS)}{more}"
        if self.why == "term":
            if self.attribute is None:
                return f"{term} refused it{more}"
            value = "none" if self.value is None else printed(self.value)
            return f"{term} refused its {self.attribute}, {value}{more}"
        if self.why == "no data":
            path = printed(self.attribute or "")
            return f"no key at {path}: its {printed(self.error or '', _MAX_TERM_CHARS)}"
        return {
            "no key": f"no key at {printed(self.attribute or '')}",
            "since": "stamped before the wait's since",
            "waiting": "waits for a due time",
            "repeat": "seen before, a repeat does not count again",
        }.get(self.why, "fits: not read yet, or let go since")


@dataclass(frozen=True)
class NearMisses:
    """Of one missing matcher: the closest near misses first.

    errors: on how many events looked at a term of it could not be evaluated. other_keys: how many of other
    keys there were beyond those among the misses, of which at most two are of other keys.
    """

    label: str
    misses: tuple[NearMiss, ...]
    errors: int = 0
    other_keys: int = 0

    def to_json(self) -> dict[str, object]:
        return {
            "label": self.label,
            "misses": [miss.to_json() for miss in self.misses],
            "errors": self.errors,
            "other_keys": self.other_keys,
        }
