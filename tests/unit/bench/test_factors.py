"""The points of the factors benchmark."""

from __future__ import annotations

from bench.engine.factors import FACTORS, combinations


def test_all_combinations_are_measured_except_with_an_engine_that_would_own_nothing() -> None:
    points = list(combinations())
    assert len(points) == len(set(points))
    assert all(point.engines <= point.partitions for point in points)
    for factor, (_, values) in FACTORS.items():
        assert {getattr(point, factor) for point in points} == set(values)
