"""What a sender may write: patterns of types, sources and subjects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate

from ..events.event import Event
from ..events.listed import is_own


def pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    """Matches a text that fits one of the patterns, in which only `*` is special: any text."""
    parts = [translate(each.replace("[", "[[]").replace("?", "[?]")) for each in patterns]
    return re.compile("|".join(parts) or r"(?!)")


class Grant:
    """What a request may write."""

    def __init__(
        self,
        name: str,
        types: Sequence[str],
        sources: Sequence[str] = ("*",),
        subjects: Sequence[str] = ("*",),
    ) -> None:
        self.name = name
        self._types = pattern(types)
        self._own_types = pattern(filter(is_own, types))
        self._is_any = all("*" in each for each in (types, sources, subjects))
        self._sources, self._subjects = pattern(sources), pattern(subjects)

    def refusals(self, events: Sequence[Event]) -> list[str]:
        """Why some of these events may not be written; empty if all may."""
        if self._is_any and not any(map(is_own, {event.attributes["type"] for event in events})):
            return []  # a batch has few types
        return [refusal for refusal in map(self.refusal, events) if refusal is not None]

    def refusal(self, event: Event) -> str | None:
        """Why this event may not be written; None if it may."""
        is_own_type = is_own(event.type)
        if self._is_any and not is_own_type:
            return None
        types = self._own_types if is_own_type else self._types
        if types.fullmatch(event.type) is None:
            return self._refused("type", event.type)
        if self._sources.fullmatch(event.source) is None:
            return self._refused("source", event.source)
        if self._subjects.fullmatch(event.subject or "") is None:
            return self._refused("subject", event.subject or "")
        return None

    def _refused(self, what: str, text: str) -> str:
        refusal = f"{self.name} may not write events of {what} {text[:200]!r}"
        is_own_type = what == "type" and is_own(text)
        return (
            f"{refusal}: only Interlock writes this type, unless a credential names it"
            if is_own_type
            else refusal
        )


ANYBODY = Grant("a request without a credential", ["*"])
