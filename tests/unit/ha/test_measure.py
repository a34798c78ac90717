"""Measurements of a triggerer's processes in `make ha` and `make burst`."""

from __future__ import annotations

import json
import os

from tests.ha.measure import Figures, measure


def test_processor_time_is_measured_in_each_window_by_itself() -> None:
    measured = measure(os.getpid(), 0.01, windows=3)
    assert len(measured.cpu_windows) == 3
    assert measured.uss_kib > 0
    assert measured.threads >= 1


def test_a_state_is_printed_with_all_its_windows_and_their_median() -> None:
    figures = Figures(cpu_windows=(7.0, 8.0, 30.0), uss_kib=1, threads=1, kafka_clients=0)
    form = json.loads(json.dumps(figures.form()))
    assert (form["cpu_percent"], form["cpu_windows"]) == (8.0, [7.0, 8.0, 30.0])
