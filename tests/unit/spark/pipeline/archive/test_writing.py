"""What the log tells of a run."""

from __future__ import annotations

import json

import pytest
from interlock.spark.pipeline.archive.writing import behind


@pytest.mark.parametrize(
    ("at", "latest", "expected"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ({"t": {"0": 5}}, {"t": {"0": 5}, "new": {"0": 3}}, 3),
        ({"t": {"0": 5}}, {"t": {"0": 4}}, 0),
        (None, {"t": {"0": 4}}, 4),
        ({"t": {"0": 5}}, None, 0),
        ({"t": {"0": 5}}, "None", 0),
    ],
)
def test_how_far_behind_counts_the_offsets_of_all_partitions(
    at: object, latest: object, expected: int
) -> None:
    assert (
        behind(*(each if each in (None, "None") else json.dumps(each) for each in (at, latest))) == expected
    )
