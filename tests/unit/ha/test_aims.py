"""How figures of `make ha` and `make burst` are compared with their aims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.ha.aims import FLOOR, JUDGED_FROM, judged, met, verdicts
from tests.ha.crowd import NOTHING, costs
from tests.ha.measure import Figures

ONE = Figures(cpu_windows=(7.0, 8.0, 30.0), uss_kib=300_000, threads=40, kafka_clients=5)
WAITS = Figures(cpu_windows=(9.0, 9.0, 8.5), uss_kib=300_000 + 999 * 15, threads=45, kafka_clients=5)
# Six windows around 8 with a standard deviation of 0.63.
NOTHINGS = [replace(ONE, cpu_windows=each) for each in ((7.0, 8.0), (8.0, 9.0), (8.0, 8.0))]
STOCK = {"one stock trigger": ONE, "stock triggers": replace(ONE, uss_kib=300_000 + 999 * 10)}
FIGURES = {"one wait": ONE, "waits": WAITS, **STOCK, **dict(zip(NOTHING, NOTHINGS, strict=True))}


@pytest.mark.parametrize(
    ("figure", "verdict", "fails"),
    [
        (None, "not measured", True),
        (0.9, "met", False),
        (FLOOR.most, "met", False),
        (1.201, "missed", False),
        (FLOOR.far, "far off", True),
    ],
)
def test_a_figure_is_reported_with_its_aim_and_fails_the_run_when_far_off_or_missing(
    figure: float | None, verdict: str, fails: bool
) -> None:
    result = judged("ratio_p50", figure, FLOOR)
    assert result == {"ratio_p50": figure, "ratio_p50_aim": 1.2, "ratio_p50_verdict": verdict}
    line = f"ratio_p50 is {figure}, its aim at most 1.2: {verdict}"
    assert list(verdicts({"seed": 1, **result})) == [(line, fails)]
    assert met({"seed": 1, **result}) == {"ratio_p50": verdict == "met"}


def test_waits_that_cost_only_memory_meet_their_aims() -> None:
    result = costs(FIGURES, 1000)
    assert (result["kib_per_wait"], result["kib_per_stock_trigger"]) == (15.0, 10.0)
    assert result["ratio_idle_cpu"] == 1.125
    assert (result["threads_per_wait"], result["clients_per_wait"]) == (0, 0)
    assert (result["idle_cpu_over_nothing"], result["idle_cpu_over_nothing_aim"]) == (1.0, 1.3)
    assert result["idle_cpu_over_one_wait"] == 1.0
    assert [line.rpartition(": ")[2] for line, _ in verdicts(result)] == ["met"] * 5
    assert set(met(result).values()) == {True}


@pytest.mark.parametrize(
    ("name", "figures", "verdict"),
    [
        ("kib_per_wait", {"uss_kib": 300_000 + 999 * 21}, "missed"),
        ("kib_per_wait", {"uss_kib": 300_000 + 999 * 61}, "far off"),
        ("threads_per_wait", {"threads": 40 + 30}, "missed"),
        ("threads_per_wait", {"threads": 40 + 999}, "far off"),
        ("clients_per_wait", {"kafka_clients": 5 + 999}, "far off"),
        ("ratio_idle_cpu", {"cpu_windows": (25.0,)}, "far off"),
        ("idle_cpu_over_nothing", {"cpu_windows": (9.3,)}, "met"),
        ("idle_cpu_over_nothing", {"cpu_windows": (9.4,)}, "missed"),
        ("idle_cpu_over_nothing", {"cpu_windows": (90.0,)}, "missed"),
    ],
)
def test_a_cost_of_each_wait_is_judged_by_its_own_aim(
    name: str, figures: dict[str, Any], verdict: str
) -> None:
    result = costs({**FIGURES, "waits": replace(WAITS, **figures)}, 1000)
    assert result[f"{name}_verdict"] == verdict


def test_a_missing_measurement_fails_the_run() -> None:
    result = costs({"one wait": ONE, "waits": WAITS}, 1000)
    assert [line for line, fails in verdicts(result) if fails] == [
        "ratio_idle_cpu is None, its aim at most 1.2: not measured",
        "idle_cpu_over_nothing is None, its aim at most 0.0: not measured",
    ]
    assert all(fails for _, fails in verdicts(costs({}, 1000)))


def test_figures_of_few_waits_are_reported_and_not_judged() -> None:
    result = costs(FIGURES, JUDGED_FROM - 1)
    assert (result["kib_per_wait"], result["idle_cpu_over_nothing"]) == (30.1, 1.0)
    assert list(verdicts(result)) == []
