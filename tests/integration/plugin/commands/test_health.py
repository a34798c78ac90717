"""`airflow interlock health` as an administrator reads it."""

from __future__ import annotations

import json
from typing import Any

from interlock import event


def test_health_shows_all_and_exits_with_a_sentence_for_what_is_wrong(
    interlock: Any, bench: Any, eventually: Any
) -> None:
    well = interlock("health")
    whole = json.loads(well.out)
    assert (well.code, whole["ok"], whole["problems"]) == (0, True, [])
    assert len(whole["partitions"]) == 4
    with bench.waiting() as waiting:
        waiting("w", event("a"))
        eventually("it is registered", lambda: bench.records("subscription")[-1].key != b"bus")
        ill = interlock("health")
    assert ill.code == 1
    whole = json.loads(ill.out)
    assert whole["registrations"]["one_shot"] == 1
    assert "No engine is a member of group" in ill.err
    assert set(whole["alerts"].values()) == {"InterlockNoEngine"}


def test_health_as_a_table_and_as_yaml(interlock: Any, bench: Any) -> None:
    table = interlock("health", output="table")
    assert table.code == 0
    assert "dead letters" in table.out
    # of partitions without lag how many there are is enough for people
    assert bench.config.topic("event") not in table.out
    assert "4 partitions without lag." in table.err
    assert f"bus: {bench.config.name}" in interlock("health", output="yaml").out
