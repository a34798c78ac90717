"""Creates runs of firings; decides whether a firing or the target caused a failure (docs/use/dispatch.md)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..engine.records import ActionRecord
from ..events.visible import visible
from .target import RunRefused, TargetFails

PROBES: Final = 3  # if Airflow fails, its client tries each 5 times, which takes many seconds


@dataclass(frozen=True, eq=False)
class FiringToRun:
    """A firing without a run. place: its partition and offset in the action topic."""

    place: tuple[int, int]
    action: ActionRecord

    @property
    def key(self) -> str | None:
        return self.action.firing.key


class RunCreator:
    """Creates the runs of open firings while the target has room.

    create: creates the run of one firing and returns False if it existed. Raises RunRefused, TargetRefuses
        or TargetFails.
    room: how many runs may be created.
    blocked: keys with a held firing. Later firings of these keys are held too, to keep their order.

    created: number of new runs. held: places of held firings. blocked: those given, and the new ones.
    """

    def __init__(
        self, create: Callable[[ActionRecord], bool], room: int, blocked: Iterable[str], log: Any
    ) -> None:
        self.created = 0
        self.held: list[tuple[int, int]] = []
        self.blocked = set(blocked)
        self._create, self._room, self._log = create, room, log

    def create_runs(self, firings: Iterable[FiringToRun]) -> Iterator[ActionRecord]:
        """Yields each firing as soon as its run exists; firings of one key in their order.

        Raises TargetRefuses if the target does not accept any run.
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
                    "Creating the run of firing %s failed; trying others: %s",
                    visible(each.action.firing.id),
                    visible(e),
                )
                yield from self._try_others(each, todo, e)
            else:
                if new is not None:
                    yield each.action

    def _try_others(
        self, failed: FiringToRun, todo: list[FiringToRun], error: TargetFails
    ) -> Iterator[ActionRecord]:
        """Tries others until one gets a new run, then `failed` again, which is held if it fails again.

        Raises `error` if none of the others gets a new run: then the target may be the cause.
        """
        for other in self._probes(failed, todo):
            try:
                new = self._run(other)
            except TargetFails:
                continue
            todo.remove(other)
            if new is not None:
                yield other.action
            if new:  # an existing run does not prove that new runs are possible
                break
        else:
            raise error
        if self._room <= 0:
            return  # it stays open and is tried again when the target has room
        try:
            new = self._run(failed)
        except TargetFails as e:
            behind = "" if failed.key is None else f", and so are later firings of its key {failed.key!r}"
            self._log.error(
                "Firing %s is held%s. Airflow failed twice to create its run, but created the run of another "
                "firing in between: %s",
                visible(failed.action.firing.id),
                visible(behind),
                visible(e),
            )
            self.held.append(failed.place)
            if failed.key is not None:
                self.blocked.add(failed.key)
        else:
            if new is not None:
                yield failed.action

    def _probes(self, failed: FiringToRun, todo: list[FiringToRun]) -> list[FiringToRun]:
        """Returns firings, each the first of its key; random ones, so that the same bad ones do not recur."""
        skipped = {failed.key, *self.blocked} - {None}
        candidates = []
        for each in todo:
            if each.key not in skipped:
                candidates.append(each)
            if each.key is not None:
                skipped.add(each.key)
        return random.sample(candidates, min(PROBES, len(candidates)))

    def _run(self, each: FiringToRun) -> bool | None:
        """Creates the run. Returns whether it is new; None if it was refused, and the firing is held."""
        try:
            new = self._create(each.action)
        except RunRefused as e:
            self._log.error("Firing %s is held: %s", visible(each.action.firing.id), visible(e))
            self.held.append(each.place)
            return None
        self._room -= new
        self.created += new
        return new
