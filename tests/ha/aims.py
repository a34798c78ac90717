"""Aims for figures, and how measured figures compare with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Aim:
    """A figure up to `most` meets the aim. Above that it is only reported, since another load of the machine
    can cause it. From `far` on the run fails."""

    most: float
    far: float


FLOOR = Aim(1.2, 3.0)  # ratio to stock triggers, the least that Airflow needs
KIB_PER_WAIT = Aim(20, 60)
PER_WAIT = Aim(0, 0.1)  # threads and clients, of which there should be none per wait
# Fewer waits are reported but not judged: the noise of a process of 300 MiB would dominate.
JUDGED_FROM = 500


def judged(name: str, figure: float | None, aim: Aim) -> dict[str, Any]:
    """The figure, its aim, and how they compare: met, missed, far off, or not measured."""
    if figure is None:
        verdict = "not measured"
    else:
        verdict = "met" if figure <= aim.most else "missed" if figure < aim.far else "far off"
    return {name: figure, f"{name}_aim": aim.most, f"{name}_verdict": verdict}


def met(result: Mapping[str, Any]) -> dict[str, bool]:
    """{figure: whether it is within its aim} for the judged figures of a run's result.

    The exit code differs: it is 0 for a figure that is missed but not far off.
    """
    return {each: result[f"{each}_verdict"] == "met" for each in result if f"{each}_verdict" in result}


def verdicts(result: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """(sentence, whether the run fails because of it) for each judged figure of a run's result."""
    for name in met(result):
        verdict = result[f"{name}_verdict"]
        line = f"{name} is {result[name]}, its aim at most {result[f'{name}_aim']}: {verdict}"
        yield line, verdict in ("far off", "not measured")
