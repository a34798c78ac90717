"""Checks: filters that are evaluated at most once an event, however many subscriptions hold them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from ...events.event import Event
from ..filters import All, Any, Filter, Not
from ..filters.dialects import Comparison

MAX_ERRORS: Final = 1000
# Stands in `errors` for all filters beyond MAX_ERRORS - 1; no filter's text is in parentheses.
OTHER_FILTERS: Final = "(other filters)"


class Check:
    """One filter in use. Equal filters are one check, also those inside `any`, `all` and `not`."""

    __slots__ = ("_ask", "filter", "parts", "passed", "turn", "uses")

    def __init__(self, filter: Filter, parts: tuple[Check, ...], ask: Callable[[Event, int], bool]) -> None:  # noqa: A002
        self.filter = filter
        self.parts = parts
        self.uses = 0
        self.turn = 0  # of the look-up that `passed` belongs to
        self.passed = False
        self._ask = ask

    def passes(self, event: Event, turn: int) -> bool:
        """What the filter says of the event of this turn; asked once in a turn. Never raises."""
        if self.turn != turn:
            self.passed = self._ask(event, turn)
            self.turn = turn
        return self.passed


class Checks:
    """The checks in use, by filter.

    errors: {text of the filter: events on which it failed}, since it was last cleared; 1,000 entries at most.
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
        """The check of a filter, made if there is none; `release` it as often as it was used."""
        check = self._checks.get(wanted)
        if check is None:
            check = self._checks[wanted] = self._made(wanted)
        check.uses += 1
        return check

    def release(self, check: Check) -> None:
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
                wanted, parts, lambda event, turn: joined(part.passes(event, turn) for part in parts)
            )
        if isinstance(wanted, Not):
            part = self.use(wanted.filter)
            return Check(wanted, (part,), lambda event, turn: not part.passes(event, turn))
        if isinstance(wanted, Comparison):
            return Check(wanted, (), lambda event, _: wanted.accepts(event))  # it cannot fail
        return Check(wanted, (), lambda event, _: self._verdict(wanted, event))

    def _verdict(self, asked: Filter, event: Event) -> bool:
        try:
            accepted, error, _, _ = asked.verdict(event)
        except Exception as raised:  # noqa: BLE001  # a filter's fault must not cost the others their event
            accepted, error = False, str(raised)
        if error is not None:
            text = str(asked)
            known = text in self.errors or len(self.errors) < MAX_ERRORS - 1
            self.errors[text if known else OTHER_FILTERS] += 1
        return accepted
