"""What comes next for a wait, and how long each step of its firing took. Pure; times in ms since 1970."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ...conditions import Explanation
from ...conditions.explanation.node import Explained
from ...conditions.explanation.wording import given
from ..following.fired import Fired
from .words import came_ms

# The notes of an explanation that name a time at which something happens by itself.
_DUE: Final = ("expires", "fires", "settles", "over")
MOST_STEPS: Final = 50


class Next(NamedTuple):
    """What happens at a time if nothing comes before.

    what: expires, fires, settles (it is met unless a match comes), over (a window ends), timeout (Airflow's
    task ends), or retry (Airflow tries the task again).
    """

    what: str
    at_ms: int

    def to_json(self) -> dict[str, object]:
        return self._asdict()


class Step(NamedTuple):
    """What happened. took_ms: since the step before; None for the first one, and if clocks do not agree.

    what: registered, event (with its label), firing, or resumed (the task continued).
    """

    what: str
    at_ms: int
    label: str | None = None
    took_ms: int | None = None

    def to_json(self) -> dict[str, object]:
        return given(self._asdict())


def next_of(explanation: Explanation | None, of_task: Mapping[str, int | None]) -> tuple[Next, ...]:
    """The nearest first. of_task: {"timeout" or "retry": when}, as far as Airflow knows."""
    found = {Next(what, at_ms) for what, at_ms in of_task.items() if at_ms is not None}
    if explanation is not None:
        found.update(_due(explanation.tree))
    return tuple(sorted(found, key=lambda each: (each.at_ms, each.what)))


def steps_of(firing: Fired, continued_ms: int | None = None) -> tuple[Step, ...]:
    """The latest MOST_STEPS events of a firing, the firing, and when its task continued if that is known."""
    came = sorted((came_ms(event), label) for label, events in firing.events.items() for event in events)
    steps = [Step("event", at_ms, label) for at_ms, label in came[-MOST_STEPS:]]
    # The clocks of brokers and engines may not agree.
    last_ms = max((step.at_ms for step in steps if step.at_ms <= firing.fired_ms), default=None)
    took_ms = None if last_ms is None else firing.fired_ms - last_ms
    steps.append(Step("firing", firing.fired_ms, took_ms=took_ms))
    if continued_ms is not None and continued_ms >= firing.fired_ms:
        steps.append(Step("resumed", continued_ms, took_ms=continued_ms - firing.fired_ms))
    return tuple(steps)


def _due(node: Explained) -> Iterator[Next]:
    for note in node.notes:
        if note.what in _DUE and note.at_ms is not None:
            yield Next(note.what, note.at_ms)
    for below in node.of:
        yield from _due(below)
