"""Firings that a scan notes, and what the next scans need not read because of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from interlock.engine.bus import Record
from interlock.engine.delivery.firings import OpenFiring
from interlock.engine.delivery.noted_firings import NotedFirings
from interlock.engine.delivery.partition import ActionPartition
from interlock.engine.delivery.window import FiringWindow

from tests.unit.engine.delivery.firings import SINK, record
from tests.unit.engine.delivery.test_partition import partition

SCOPE = SINK, None
KEY = SINK.encode() + b"\0f"


def name(firing: OpenFiring) -> str:
    return firing.key.decode().partition("\0")[2]


def scan(made: ActionPartition, log: Sequence[Record]) -> int:
    """Makes the scan for which there is room, if any. Returns how many records it read."""
    start = made.begin_scan()
    position = start or 0
    while made.is_scanning:
        made.scan(log[position])
        position += 1
        made.end_scan(position)
    return position - (start or 0)


def drained(made: ActionPartition, firings: int) -> tuple[list[str], int]:
    """Fires, then acknowledges whatever is held and scans, until nothing is open.

    Returns what was held, in this order, and how many records the scans read.
    """
    log = [record(offset, f"f{offset}", f"key {offset}") for offset in range(firings)]
    for item in log:
        made.follow(item)
    given, reads = [], 0
    while made.held:
        for firing in made.held:
            given.append(name(firing))
            log.append(record(len(log), name(firing), state="acked"))
            made.follow(log[-1])
        reads += scan(made, log)
    assert (made.left_out, made.offset_to_commit) == ({}, len(log))
    return given, reads


@pytest.mark.parametrize("noted", [0, 7, 400, 10_000])
def test_a_backlog_of_any_size_is_given_once_and_in_order(noted: int) -> None:
    given, _ = drained(partition(window=FiringWindow(sink=10, noted=noted)), 1_000)
    assert given == [f"f{n}" for n in range(1_000)]


def test_each_firing_of_a_noted_backlog_is_read_a_few_times_however_large_it_is() -> None:
    window = FiringWindow(sink=10, noted=10_000)
    for firings in (500, 1_000, 2_000):
        _, reads = drained(partition(window=window), firings)
        assert reads < 4 * firings
    _, reads = drained(partition(window=window._replace(noted=0)), 500)
    assert reads > 40 * 500  # each scan reads to the end


def test_a_firing_is_noted_from_its_lowest_offset_on_until_it_is_removed() -> None:
    noted = NotedFirings()
    noted.add({KEY: 5})
    noted.add({KEY: 8})
    assert [noted.has(KEY, offset) for offset in (4, 5, 8)] == [False, True, True]
    assert (noted.remove(KEY), noted.remove(KEY), noted.has(KEY, 5)) == (True, False, False)


def test_what_is_forgotten_of_a_sink_leaves_the_others() -> None:
    noted = NotedFirings()
    other = SINK + "2"
    noted.add({KEY: 5, other.encode() + b"\0f": 6})
    noted.cover([SCOPE, (SINK, "key a"), (other, None)], 9)
    noted.forget(SINK)
    assert (len(noted), noted.covered(SCOPE), noted.covered((SINK, "key a"))) == (1, 0, 0)
    assert noted.covered((other, None)) == 9


def test_what_is_covered_is_kept_only_of_sinks_of_which_something_below_is_left_out() -> None:
    noted = NotedFirings()
    lane = SINK, "key a"
    noted.cover([SCOPE, lane, (SINK + "2", None)], 9)
    noted.uncover_all_but({lane: 8})
    assert (noted.covered(SCOPE), noted.covered(lane), noted.covered((SINK + "2", None))) == (9, 9, 0)
    noted.uncover_all_but({lane: 9})
    assert (noted.covered(SCOPE), noted.covered(lane)) == (0, 0)


def test_a_firing_that_is_acknowledged_elsewhere_while_it_is_noted_is_not_given() -> None:
    made = partition(window=FiringWindow(sink=2, noted=10))
    log = [record(offset, f"f{offset}", f"key {offset}") for offset in range(6)]
    for item in log:
        made.follow(item)
    for acked in ("f0", "f1", "f4", "f2", "f3"):
        log.append(record(len(log), acked, state="acked"))
        made.follow(log[-1])
        scan(made, log)
    assert [name(firing) for firing in made.held] == ["f5"]


def test_memory_has_a_bound_however_many_sinks_have_a_backlog() -> None:
    """What is noted of other sinks is then forgotten, and their next scan reads to the end again."""
    sizes = []

    class Measured(NotedFirings):
        def add(self, offsets: Mapping[bytes, int]) -> None:
            super().add(offsets)
            sizes.append(len(self))

    made = partition(window=FiringWindow(sink=1, noted=3), noted_firings=Measured)
    log = [record(n, f"f{n}", "k", subscription=f"{SINK}{n % 3}") for n in range(30)]
    for item in log:
        made.follow(item)
    given: list[str] = []
    while made.held:
        for firing in made.held:
            given.append(name(firing))
            log.append(record(len(log), name(firing), state="acked", subscription=firing.subscription))
            made.follow(log[-1])
        scan(made, log)
    assert sorted(given) == sorted(f"f{n}" for n in range(30))
    assert max(sizes) <= 6  # twice what one scan notes
