"""Random logs: whatever is written and acknowledged, each firing is given once, in the order of its lane."""

from __future__ import annotations

from collections import Counter

import pytest
from interlock.engine.delivery.noted_firings import NotedFirings
from interlock.engine.delivery.scan import Scan
from interlock.engine.delivery.window import Scope

from tests.unit.engine.delivery.random_log import RandomLog

SEEDS = 30
MUST_BE_SEEN = (
    "acknowledged by somebody else",
    "compacted",
    "full scan",
    "lanes changed",
    "of another version",
    "short scan",
    "written twice",
)


def test_each_firing_is_given_once_in_the_order_of_its_lane_and_no_offset_passes_an_open_one() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        played = RandomLog(seed).play()
        assert played.problems == [], seed
        seen += played.seen
    assert [what for what in MUST_BE_SEEN if not seen[what]] == []


class ForgetsNoSink(NotedFirings):
    def forget(self, subscription: str) -> None: ...


class KeepsWhatIsAcknowledged(NotedFirings):
    def remove(self, key: bytes) -> bool:
        return key in self._offsets


class TakesWhatIsBeyondTheNotes(Scan):
    def reads(self, scope: Scope, offset: int) -> bool:
        return scope in self.scopes


class CoversUnreadableSinks(Scan):
    def refuse_unreadable(self, subscription: str, offset: int) -> None:
        self.refuse((subscription, None), offset)


# kept: a seed that shows the fault, tried first.
@pytest.mark.parametrize(("noted", "kept"), [(ForgetsNoSink, 1), (KeepsWhatIsAcknowledged, 1)])
def test_a_fault_in_what_is_noted_is_found(noted: type[NotedFirings], kept: int) -> None:
    assert any(RandomLog(seed, noted_firings=noted).play().problems for seed in (kept, *range(200)))


@pytest.mark.parametrize(("scan", "kept"), [(TakesWhatIsBeyondTheNotes, 41), (CoversUnreadableSinks, 4)])
def test_a_fault_in_a_scan_is_found(scan: type[Scan], kept: int) -> None:
    assert any(RandomLog(seed, scan=scan).play().problems for seed in (kept, *range(200)))
