"""The scope of a node: the events that count for it, and the bounds that exclude others."""

from __future__ import annotations

from typing import NamedTuple

from ..evaluate.evaluation import view_after, view_before
from ..evaluate.state import Match
from ..evaluate.view import Found, Parts, View


class Bound(NamedTuple):
    """A bound of a scope: events outside the times [lo_us, hi_us] do not count. why: as in Apart."""

    why: str
    lo_us: int
    hi_us: int


class Scope(NamedTuple):
    """The events that count for a node, and the bounds that exclude others, outermost first."""

    view: View
    bounds: tuple[Bound, ...] = ()

    def narrowed(self, why: str, lo_us: int, hi_us: int) -> Scope:
        """The scope without events outside these times. why: as in Apart."""
        view = self.view._replace(lo_us=max(lo_us, self.view.lo_us), hi_us=min(hi_us, self.view.hi_us))
        return Scope(view, (*self.bounds, Bound(why, lo_us, hi_us)))

    def only(self, parts: Parts) -> Scope:
        """The scope with only these events."""
        pools: list[list[Match]] = [[] for _ in self.view.pools]
        for number, match in parts:
            if match not in pools[number]:
                pools[number].append(match)
        for pool in pools:
            pool.sort(key=lambda match: match.rank)
        return self._replace(view=self.view._replace(pools=pools))

    def beside(self, found: Found, backward: bool) -> Scope:
        """The scope of the next step of a sequence; backward: of the previous one."""
        view = view_before(self.view, found) if backward else view_after(self.view, found)
        return Scope(view, (*self.bounds, Bound("sequence", view.lo_us, view.hi_us)))
