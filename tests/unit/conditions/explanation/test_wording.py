"""How an explanation writes times, durations and texts."""

from __future__ import annotations

import pytest
from interlock.conditions.explanation.wording import about, clean, printed, when

from tests.unit.conditions.explanation.states import (
    at,
)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0s"), (999, "999ms"), (1500, "1s500ms"), (61_500, "1m1s"), (4_813_000, "1h20m")],
)
def test_a_duration_is_shown_in_two_units(ms: int, text: str) -> None:
    assert about(ms) == text


def test_a_time_is_shown_with_its_distance_from_now() -> None:
    assert when(at(1), at(0)) == "2026-11-20T12:01:00Z (in 1m)"
    assert when(at(0), at(1)) == "2026-11-20T12:00:00Z (1m ago)"
    assert when(at(0), at(0)) == "2026-11-20T12:00:00Z (now)"


def test_text_is_cut_and_its_line_breaks_are_escaped() -> None:
    assert printed("a\nb") == "a\\nb"
    assert printed("x" * 200) == "x" * 80 + "..."
    assert clean("a\ud800b", 10) == "a?b"
