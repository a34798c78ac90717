"""`fires`: whether events meet a condition, with a report that explains why not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..conditions import Condition, Explanation, Rehearsed, explain_rehearsal
from ..conditions.rehearsal import Given, Key, Moment, played, recorded
from ..events.event import Event
from ..events.plain_text import takes_plain_text

_MAX_KEYS = 3  # keys that one report explains


@dataclass(frozen=True, repr=False)
class Tried:
    """The result of `fires`. True if the condition fired; `str()` is a report.

    firings: in order, including those with outcome `expired`.
    """

    condition: Condition
    events: tuple[Given, ...]
    key: Key | None
    start: Moment | None
    since: Moment | None
    until: Moment | None
    firings: tuple[Rehearsed, ...]

    def __bool__(self) -> bool:
        return bool(self.firings)

    @property
    def firing(self) -> Rehearsed:
        """The only firing. Raises AssertionError with the report if there is none or more than one."""
        if len(self.firings) != 1:
            raise AssertionError(str(self))
        return self.firings[0]

    @cached_property
    def explanations(self) -> tuple[Explanation, ...]:
        """What is met and what is missing at the end, for each of the first keys in the events."""
        if not self.events and self.until is None and self.start is None:
            return ()
        given: dict[str, Any] = {name: getattr(self, name) for name in ("key", "start", "since", "until")}
        keys: Sequence[str | None] = [None]
        if self.key is None and self.condition.keyed:
            keys = keys_of(self.condition, self.events)[:_MAX_KEYS] or [None]
        return tuple(explain_rehearsal(self.condition, self.events, open_key=key, **given) for key in keys)

    def __str__(self) -> str:
        lines = [f"{self.condition} {_times(len(self.firings))}"]
        lines += map(_line, self.firings)
        lines += map(str, self.explanations)
        return "\n".join(lines)

    def __repr__(self) -> str:
        labels = sorted({label for each in self.explanations for label in each.missing})
        missing = f", {' and '.join(labels[:3])} missing" if labels and not self.firings else ""
        return f"<{_times(len(self.firings))}{missing}>"


@takes_plain_text
def fires(
    condition: Condition,
    events: Iterable[Given],
    *,
    key: Key | None = None,
    start: Moment | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Tried:
    """Returns whether these events meet the condition or let it expire. Arguments and errors: as `rehearse`.

    In a test: `tried = fires(...)`, then `assert tried, str(tried)`, so that a failure shows the report.
    """
    given = tuple(recorded("fires", events))
    moments = {"start": start, "since": since, "until": until}
    firings = played("fires", condition, given, key, moments).firings
    return Tried(condition, given, key, start, since, until, tuple(firings))


def keys_of(condition: Condition, events: Iterable[Given]) -> list[str]:
    """Returns the keys that the matchers read from these events, in order of appearance."""
    found: dict[str, None] = {}
    for given in events:
        event = given if isinstance(given, Event) else given[0]
        for matcher in condition.matchers:
            if matcher.by is not None and matcher.accepts(event):
                key = matcher.key_of(event)
                if key is not None:
                    found[key] = None
    return list(found)


def _times(number: int) -> str:
    return {0: "did not fire", 1: "fired once"}.get(number, f"fired {number} times")


def _line(firing: Rehearsed) -> str:
    key = "" if firing.key is None else f", key {firing.key!r}"
    parts = ", ".join(
        f"{part.label} by {part.match.event.id!r} from {part.match.event.source}"
        for part in firing.taking_part
    )
    missing = f"; missing: {', '.join(firing.missing)}" if firing.missing else ""
    at = firing.fired_at.isoformat(timespec="seconds")
    return f"- {firing.outcome} at {at}{key}: {parts or 'no event'}{missing}"
