"""Checks: filters that are evaluated at most once for an event, however many subscriptions share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from ...events.event import Event
from ..filters import All, Any, Filter, Not
from ..filters.dialects import Comparison

MAX_ERRORS: Final = 1000
# The entry of `errors` for all filters beyond MAX_ERRORS - 1; no text of a filter looks like it.
OTHER_FILTERS: Final = "(other filters)"


class Check:
    """One filter in use. Equal filters share a check, also those inside `any`, `all` and `not`."""

    __slots__ = ("evaluate", "filter", "lookup_number", "parts", "passed", "uses")

    def __init__(
        self,
        filter: Filter,  # noqa: A002
        parts: tuple[Check, ...],
        evaluate: Callable[[Event, int], bool],
    ) -> None:
        self.filter = filter
        self.parts = parts
        self.uses = 0
        self.lookup_number = 0  # the look-up that `passed` belongs to
        self.passed = False
        self.evaluate = evaluate

    def passes(self, event: Event, lookup_number: int) -> bool:
        """True if the filter accepts the event; evaluated once in each look-up. Never raises."""
        if self.lookup_number != lookup_number:
            self.passed = self.evaluate(event, lookup_number)
            self.lookup_number = lookup_number
        return self.passed


class Checks:
    """The checks in use, by filter.

    errors: {text of a filter: number of events on which its evaluation failed}; at most 1,000 entries.
    """

    def __init__(self) -> None:
        self.errors: Counter[str] = Counter()
        self._checks: dict[Filter, Check] = {}

    def __len__(self) -> int:
        return len(self._checks)

    def __getitem__(self, wanted: Filter) -> Check:
        """The check of a filter that is in use."""
        return self._checks[wanted]

    def use(self, wanted: Filter) -> Check:
        """The check of a filter, made if there is none. Call `release` once for each call of this."""
        check = self._checks.get(wanted)
        if check is None:
            check = self._checks[wanted] = self._made(wanted)
        check.uses += 1
        return check

    def release(self, check: Check) -> None:
        """End one use of a check; after the last it is removed, and its parts have one use less."""
        check.uses -= 1
        if not check.uses:
            del self._checks[check.filter]
            for part in check.parts:
                self.release(part)

    def _made(self, wanted: Filter) -> Check:
        if isinstance(wanted, (Any, All)):
            parts = tuple(map(self.use, wanted.filters))
            joined = any if isinstance(wanted, Any) else all
            return Check(
                wanted,
                parts,
                lambda event, lookup_number: joined(part.passes(event, lookup_number) for part in parts),
            )
        if isinstance(wanted, Not):
            part = self.use(wanted.filter)
            return Check(wanted, (part,), lambda event, lookup_number: not part.passes(event, lookup_number))
        if isinstance(wanted, Comparison):
            return Check(wanted, (), lambda event, _: wanted.accepts(event))  # it cannot fail
        return Check(wanted, (), lambda event, _: self._verdict(wanted, event))

    def _verdict(self, wanted: Filter, event: Event) -> bool:
        try:
            accepted, error, _, _ = wanted.verdict(event)
        except Exception as raised:  # noqa: BLE001  # a faulty filter must not keep the event from others
            accepted, error = False, str(raised)
        if error is not None:
            text = str(wanted)
            known = text in self.errors or len(self.errors) < MAX_ERRORS - 1
            self.errors[text if known else OTHER_FILTERS] += 1
        return accepted
