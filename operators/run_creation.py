"""One pass of a dispatcher over firings, and whose fault it is where a run cannot be created
(rule: docs/use/dispatch.md)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..engine.records import ActionRecord
from .target import RunRefused, TargetFails

PROBES: Final = 3  # each takes Airflow's client 5 tries, so many seconds, where Airflow fails


@dataclass(frozen=True, eq=False)
class Open:
    """A firing without a run, and where it stands: partition and offset of the action topic."""

    place: tuple[int, int]
    action: ActionRecord

    @property
    def key(self) -> str | None:
        return self.action.firing.key


class Pass:
    """Creates the runs of firings while there is room.

    create: of one firing; False if its run was there. RunRefused, TargetRefuses, TargetFails.
    blocked: keys of which one is held, and none may go before it.

    created: how many runs are new. held: places of firings that get none for now. blocked: the keys by now.
    """

    def __init__(
        self, create: Callable[[ActionRecord], bool], room: int, blocked: Iterable[str], log: Any
    ) -> None:
        self.created = 0
        self.held: list[tuple[int, int]] = []
        self.blocked = set(blocked)
        self._create, self._room, self._log = create, room, log

    def over(self, firings: Iterable[Open]) -> Iterator[ActionRecord]:
        """Each firing whose run is there, once it is; those of a key in their order.

        TargetRefuses where it is the target's fault that the next run cannot be created.
        """
        todo = list(firings)
        while todo and self._room > 0:
            each = todo.pop(0)
            if each.key in self.blocked:
                self.held.append(each.place)
                continue
            try:
                new = self._run(each)
            except TargetFails as e:
                self._log.warning(
                    "The run of firing %s failed, others are tried: %s", each.action.firing.id, e
                )
                yield from self._judge(each, todo, e)
            else:
                if new is not None:
                    yield each.action

    def _judge(self, failed: Open, todo: list[Open], error: TargetFails) -> Iterator[ActionRecord]:
        """Hold `failed` if another gets a run and this one, after that, still does not; else raise."""
        for other in self._probes(failed, todo):
            try:
                new = self._run(other)
            except TargetFails:
                continue
            todo.remove(other)
            if new is not None:
                yield other.action
            if new:  # one that was there says nothing of new ones
                break
        else:
            raise error
        if self._room <= 0:
            return  # the next pass has it again
        try:
            new = self._run(failed)
        except TargetFails as e:
            behind = "" if failed.key is None else f", nor do those of its key {failed.key!r} after it"
            self._log.error(
                "Firing %s gets no run for now%s. Airflow failed twice with it, and not with another in "
                "between: %s",
                failed.action.firing.id,
                behind,
                e,
            )
            self.held.append(failed.place)
            if failed.key is not None:
                self.blocked.add(failed.key)
        else:
            if new is not None:
                yield failed.action

    def _probes(self, failed: Open, todo: list[Open]) -> list[Open]:
        """At random, so that no number of bad firings in front is always met first."""
        passed = {failed.key, *self.blocked} - {None}
        candidates = []
        for each in todo:
            if each.key not in passed:
                candidates.append(each)
            if each.key is not None:
                passed.add(each.key)
        return random.sample(candidates, min(PROBES, len(candidates)))

    def _run(self, each: Open) -> bool | None:
        """Whether the run is new; None if there is none, and the firing is held."""
        try:
            new = self._create(each.action)
        except RunRefused as e:
            self._log.error("Firing %s gets no run for now: %s", each.action.firing.id, e)
            self.held.append(each.place)
            return None
        self._room -= new
        self.created += new
        return new
