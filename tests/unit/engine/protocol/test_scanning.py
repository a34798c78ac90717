"""Look-backs of a running engine: what a scan keeps."""

from __future__ import annotations

import pytest
from interlock import event
from interlock.engine.protocol import scanning
from interlock.engine.protocol.scans import LEAST_KEPT
from interlock.engine.records import Registration

from tests.unit.engine.protocol.pool import Pool


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans read one record in each pass."""
    monkeypatch.setattr(scanning, "MOST_ALONE", 1)
    monkeypatch.setattr(scanning, "MOST_BESIDE_LIVE", 1)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("removed", [True, False])
def test_look_backs_that_overlap_without_end_keep_no_more_than_is_in_a_scan(removed: bool) -> None:
    pool = Pool()
    for _ in range(12):
        pool.emit("a")
    engine = pool.boot()
    pool.run()
    most = 0
    for n in range(4 * LEAST_KEPT):
        made = pool.register(Registration.of(f"w{n}", event("x"), None, 0))
        pool.run(3)
        assert not engine.up_to_date, "a scan is running all the time"
        if removed:
            pool.remove(made)
        most = max(most, len(engine._scanning._index))
    assert most <= (6 if removed else LEAST_KEPT + 4)
