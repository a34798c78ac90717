"""Near misses: events that nearly met a matcher, and why they did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ...events.plain import ATTRIBUTES as PLAIN_ATTRIBUTES
from ...events.plain import TYPE as PLAIN_TYPE
from .node import EventRef
from .wording import given, moment, printed, valued

Why = Literal[
    "term",
    "error",
    "no key",
    "no data",
    "no value",
    "key",
    "since",
    "waiting",
    "repeat",
    "released",
    "fired",
    "refuted",
    "unread",
    "gone",
    "unknown",
]
_MAX_TERM_CHARS: Final = 160
_MAX_DATA_CHARS: Final = 200
_MAX_DIFFERENCE_CHARS: Final = 512


@dataclass(frozen=True)
class NearMiss:
    """An event that nearly met a matcher, and why it did not.

    why: "term": `term` refused it; it compares `attribute`, whose value in the event is `value` (None: it
    has none). "error": `term` could not be evaluated because of `error`. "no key": it has no key at the path
    `attribute`. "no value": it has none at the paths of count(distinct=). "no data": its data cannot be read
    for a key because of `error`. "key": its key is `key`, spelled `raw` if that differs, and the wait is for
    `wanted`; these are also given beside a term. "since": it is stamped before the wait's since. "waiting":
    it waits for a due time (W1). "repeat": it, or an event with its id and source, was read before and is no
    longer held (D1), or is held for the matcher `held_for` (D2). "released": it is held for `held_for`, no
    longer for this matcher. "fired": it took part in `firing`. "refuted": an event of the negated matcher
    `refuted_by` came in its window, at `refuted_ms`. "unread": it fits, and is not read yet. "gone": it fits,
    was read, and was released or dropped. "unknown": one of these two.
    refused: how many of the matcher's `terms` terms refused it.
    difference: how a text in the event differs from the wanted one that looks the same, or in which unit or
    zone its value is the wanted key. data: what its data
    looks like, if it cannot be read as the term or the key needs; or that the data has the member that was
    sought as an attribute.
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
    difference: str | None = None
    data: str | None = None
    held_for: str | None = None
    firing: str | None = None
    refuted_ms: int | None = None
    refuted_by: str | None = None

    @property
    def has_another_key(self) -> bool:
        """True if its key is not the one that is waited for, whatever else refused it."""
        return self.wanted is not None

    @property
    def has_counted(self) -> bool:
        """True if it took part in a firing, or counted before."""
        return self.why == "fired" or (self.why == "repeat" and self.held_for is None)

    def to_json(self) -> dict[str, object]:
        result = given({name: getattr(self, name) for name in self.__dataclass_fields__})
        return {**result, "event": self.event.to_json()}

    def __str__(self) -> str:
        return f"{self.event}: {self.reason()}"

    def _is_no_plain_attribute(self, name: str) -> bool:
        return self.event.type == PLAIN_TYPE and name not in PLAIN_ATTRIBUTES

    def _before_since(self) -> str:
        stamp = self.event.timestamp_ms
        if stamp is not None and stamp < 0:
            return (
                "its record has no timestamp, so it counts for no wait: message.timestamp.type=LogAppendTime"
                " on the topic gives each record the brokers' time"
            )
        return f"stamped before the wait's since{'' if stamp is None else f', at {moment(stamp)}'}"

    def reason(self) -> str:
        """Why it did not meet the matcher, as text."""
        differs = "" if self.difference is None else f"; {printed(self.difference, _MAX_DIFFERENCE_CHARS)}"
        data = "" if self.data is None else printed(self.data, _MAX_DATA_CHARS)
        more = f" (and {self.refused - 1} more of {self.terms} terms)" if self.refused > 1 else ""
        if self.has_another_key:
            raw = "" if self.raw is None else f" (written {printed(self.raw)})"
            another = f"key {printed(self.key or '')}{raw} here, {printed(self.wanted or '')} wanted"
            if self.why == "key":
                return another + differs
            more += f"; {another}"
        term = "" if self.term is None else printed(self.term, _MAX_TERM_CHARS)
        if self.why == "error":
            reason = data or printed(self.error or "", _MAX_TERM_CHARS)
            return f"{term} could not be evaluated: {reason}{differs}{more}"
        if self.why == "term":
            if self.attribute is None:
                return f"{term} refused it{f': {data}' if data else ''}{differs}{more}"
            value = "none" if self.value is None else valued(self.value)
            if self.value is None and self._is_no_plain_attribute(self.attribute):
                more += f"; a plain record has no {self.attribute}, because its headers are not read"
            elif self.value is None and self.event.type == PLAIN_TYPE and self.attribute == "subject":
                more += "; its record has no key, or one that is not text"
            return f"{term} refused its {self.attribute}, {value}{f': {data}' if data else ''}{differs}{more}"
        if self.why in ("no key", "no data"):
            path = printed(self.attribute or "")
            return f"no key at {path}{f': {data}' if data else ''}"
        if self.why == "repeat" and self.held_for is not None:
            return (
                f"a repeat: an event with this id and source is held for {printed(self.held_for)}, and does "
                "not count twice"
            )
        if self.why == "refuted":
            return f"{printed(self.refuted_by or '')} came in its window, at {moment(self.refuted_ms or 0)}"
        if self.why == "no value":
            why = f": {data}" if data else ""
            return f"no value at {printed(self.attribute or '')}, so it does not count{why}"
        return {
            "since": self._before_since(),
            "waiting": "waits for a due time",
            "repeat": (
                "read before, and no longer held: it took part in a firing, a later one replaced it, or its"
                " window is over; a repeat does not count again"
            ),
            "released": (
                f"held for {printed(self.held_for or '')}, no longer for this one: its window is over, or a "
                "firing dropped it"
            ),
            "fired": f"took part in {printed(self.firing or '', _MAX_DATA_CHARS)}",
            "unread": "fits: the engines have not read it yet",
            "gone": (
                "fits: it was read, and is no longer held: its window is over, or a firing or a"
                " limit dropped it"
            ),
        }.get(self.why, "fits: not read yet, or no longer held")


@dataclass(frozen=True)
class NearMisses:
    """The near misses of one missing matcher, the closest first.

    errors: on how many events a term could not be evaluated. other_keys: how many near misses of other keys
    are not in `misses`, which has at most two of those. counted: the same for events that counted before.
    """

    label: str
    misses: tuple[NearMiss, ...]
    errors: int = 0
    other_keys: int = 0
    counted: int = 0

    def to_json(self) -> dict[str, object]:
        return {
            "label": self.label,
            "misses": [miss.to_json() for miss in self.misses],
            "errors": self.errors,
            "other_keys": self.other_keys,
            "counted": self.counted,
        }
