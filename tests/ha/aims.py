"""What is wanted of a figure, and how what was measured compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Aim:
    """Met up to `most`. What is above may be the machine's and is told; from `far` on the run fails."""

    most: float
    far: float


FLOOR = Aim(1.2, 3.0)  # of a ratio to stock triggers, which are Airflow's floor
KIB_PER_WAIT = Aim(20, 60)
PER_WAIT = Aim(0, 0.1)  # of threads and clients, which are a process's own
# Fewer waits are told and not judged: the noise of a process of 300 MiB would be all there is to see.
JUDGED_FROM = 500


def judged(name: str, figure: float | None, aim: Aim) -> dict[str, Any]:
    """The figure, its aim, and how they compare: met, missed, far off, or not measured."""
    if figure is None:
        verdict = "not measured"
    else:
        verdict = "met" if figure <= aim.most else "missed" if figure < aim.far else "far off"
    return {name: figure, f"{name}_aim": aim.most, f"{name}_verdict": verdict}


def met(told: Mapping[str, Any]) -> dict[str, bool]:
    """Of each judged figure in the object that a run prints, whether it is within its aim.

    The exit code does not say so: it is 0 where a figure is missed and not far off.
    """
    return {each: told[f"{each}_verdict"] == "met" for each in told if f"{each}_verdict" in told}


def verdicts(told: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Of each judged figure in the object that a run prints: a sentence, and whether the run fails by it."""
    for name in met(told):
        verdict = told[f"{name}_verdict"]
        line = f"{name} is {told[name]}, its aim at most {told[f'{name}_aim']}: {verdict}"
        yield line, verdict in ("far off", "not measured")
