"""One partition of the action topic: open firings, the window of memory, scans, and the offset to commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from interlock.engine.bus import End, Record
from interlock.engine.config import BusConfig
from interlock.engine.delivery.context import DelivererContext, DeliveryLimits
from interlock.engine.delivery.firings import subscription_of
from interlock.engine.delivery.noted_firings import NotedFirings
from interlock.engine.delivery.partition import ActionPartition
from interlock.engine.delivery.parts import DelivererParts
from interlock.engine.delivery.scan import Scan
from interlock.engine.delivery.sinks import Sinks
from interlock.engine.delivery.window import WINDOW, FiringWindow

from tests.unit.engine.delivery.firings import SINK, TP, record

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
PREFIX = subscription_of("airflow", "")


class SinksOfLanes(Sinks):
    """Sinks that have one lane in each partition while `one_lane` returns True for their subscription."""

    def __init__(self, one_lane: Callable[[str], bool]) -> None:
        super().__init__()
        self.is_one_lane = one_lane  # type: ignore[method-assign]


def partition(
    start: int = 0,
    end: int = 0,
    *,
    window: FiringWindow = WINDOW,
    one_lane: Callable[[str], bool] = lambda _: False,
    noted_firings: type[NotedFirings] = NotedFirings,
    scan: type[Scan] = Scan,
) -> ActionPartition:
    bus: Any = SimpleNamespace(transactional_id="me")
    parts = DelivererParts(limits=DeliveryLimits(window=window), noted_firings=noted_firings, scan=scan)
    context = DelivererContext.of(bus, CONFIG, parts)
    return ActionPartition(replace(context, sinks=SinksOfLanes(one_lane)), TP, start, end)


def names(made: ActionPartition) -> list[str]:
    return [firing.key.decode().partition("\0")[2] for firing in made.held]


def test_the_offset_to_commit_is_the_first_open_firing_or_the_position() -> None:
    made = partition()
    for item in (record(0, "f0"), record(1, "f1"), record(2, "f0", state="acked")):
        made.follow(item)
    assert (made.offset_to_commit, names(made)) == (1, ["f1"])
    made.follow(record(3, "f1", state="acked"))
    assert made.offset_to_commit == 4
    made.follow(End(TP, 7))  # past markers
    assert made.offset_to_commit == 7


def test_it_is_recovered_when_it_is_read_to_the_end_that_it_had_at_the_takeover() -> None:
    made = partition(2, 5)
    made.follow(record(3, "f3"))
    assert not made.is_recovered
    made.follow(End(TP, 5))
    assert made.is_recovered
    assert partition(5, 5).is_recovered


@pytest.mark.parametrize(
    "other",
    [
        record(0, "x", subscription="airflow/dispatch/d"),
        record(0, "x", subscription="other/deliver/s"),
        Record(TP, 0, 0, b"task", b"{}", None),
        Record(TP, 0, 0, b"airflow/deliver/s", b"{}", None),  # a wait with the name of a sink
        Record(TP, 0, 0, b"airflow/deliver/s\0x", b"\xff", None),
        Record(TP, 0, -1, b"airflow/deliver/s\0x", None, None, fault="cannot be unpacked"),
        Record(TP, 0, 0, None, b"{}", None),
    ],
    ids=["dispatcher", "deployment", "wait", "wait named so", "damaged", "fault", "no key"],
)
def test_what_is_not_for_a_sink_of_this_deployment_is_passed(other: Record) -> None:
    made = partition()
    assert made.follow(other) == (None, None)
    assert (made.offset_to_commit, names(made)) == (1, [])


def test_its_own_acknowledgement_is_known_by_its_header_and_not_decoded() -> None:
    made = partition()
    opened, _ = made.follow(record(0, "f0"))
    assert opened is not None
    for owner, expected in ((b"other", None), (b"me", opened)):
        _, closed = made.follow(Record(TP, 2, 0, opened.key, b"\xff", [("interlock_deliverer", owner)]))
        assert closed is expected


def test_a_firing_that_was_written_twice_is_not_given_again_once_it_is_acknowledged_here() -> None:
    """The second record was read before the acknowledgement, which was written later."""
    made = partition()
    opened, _ = made.follow(record(0, "f0"))
    assert opened is not None
    made.acknowledged(opened.key)
    assert made.follow(record(1, "f0")) == (None, None)
    made.follow(record(2, "f0", state="acked"))
    again, _ = made.follow(record(3, "f0"))  # redriven
    assert again is not None


def test_a_null_closes_a_firing() -> None:
    made = partition()
    opened, _ = made.follow(record(0, "f0"))
    assert opened is not None
    _, closed = made.follow(Record(TP, 1, 0, opened.key, None, None))
    assert (closed, made.offset_to_commit) == (opened, 2)


def test_a_record_of_another_version_is_not_passed() -> None:
    made = partition()
    made.follow(record(0, "f0", v=99))
    made.follow(record(1, "f1"))
    assert (made.offset_to_commit, names(made), made.left_out) == (0, [], {(SINK, None): 0})
    assert made.begin_scan() is None
    assert "b-action[0]@0 holds an ActionRecord of version 99" in made.problem


def test_a_scan_of_what_was_left_out_ends_before_a_record_of_another_version() -> None:
    made = partition(window=FiringWindow(sink=10, lane=1))
    log = [record(0, "a0", "a"), record(1, "a1", "a"), record(2, "later", "b", v=99), record(3, "a2", "a")]
    for item in log:
        made.follow(item)
    assert made.left_out == {(SINK, "key a"): 1, (SINK, None): 2}
    log.append(record(4, "a0", "a", state="acked"))
    made.follow(log[-1])
    assert made.begin_scan() == 1
    for item in log[1:]:
        made.scan(item)
    assert [firing.record.offset for firing in made.end_scan(5) or []] == [1]
    assert (made.left_out, made.begin_scan()) == ({(SINK, None): 2}, None)


def test_a_firing_that_is_written_twice_while_it_is_open_keeps_its_place() -> None:
    made = partition()
    made.follow(record(0, "f0"))
    assert made.follow(record(1, "f0")) == (None, None)
    assert made.offset_to_commit == 0


def test_the_offset_to_commit_without_some_firings_changes_nothing() -> None:
    made = partition()
    for offset in range(3):
        made.follow(record(offset, f"f{offset}"))
    first, second, _ = made.held
    assert made.offset_to_commit_without([first]) == 1
    assert made.offset_to_commit_without([first, second]) == 2
    assert made.offset_to_commit_without([second]) == 0
    assert made.offset_to_commit == 0


def test_a_full_lane_leaves_out_only_its_own_firings() -> None:
    made = partition(window=FiringWindow(sink=10, lane=2))
    for offset in range(4):
        made.follow(record(offset, f"a{offset}", "a"))
    made.follow(record(4, "b4", "b"))
    assert names(made) == ["a0", "a1", "b4"]
    assert made.left_out == {(SINK, "key a"): 2}
    assert made.begin_scan() is None  # it has no room


def test_a_full_sink_leaves_out_everything_from_there_on_and_no_other_sink() -> None:
    made = partition(window=FiringWindow(sink=2, lane=2))
    for offset, key in enumerate("abab"):
        made.follow(record(offset, f"f{offset}", key))
    made.follow(record(4, "other", "a", subscription=subscription_of("airflow", "t")))
    assert names(made) == ["f0", "f1", "other"]
    assert made.left_out == {(SINK, None): 2}
    assert made.offset_to_commit == 0


def test_a_firing_of_many_bytes_is_held_if_it_is_the_only_one() -> None:
    made = partition(window=FiringWindow(sink_bytes=10))
    made.follow(record(0, "f0", "a"))
    made.follow(record(1, "f1", "b"))
    assert (names(made), made.left_out) == (["f0"], {(SINK, None): 1})


def test_if_a_partition_is_one_lane_the_sink_has_no_gap() -> None:
    made = partition(window=FiringWindow(sink=10, lane=2), one_lane=lambda _: True)
    for offset in range(4):
        made.follow(record(offset, f"a{offset}", "a"))
    assert (names(made), made.left_out) == (["a0", "a1", "a2", "a3"], {})


def test_a_scan_finds_what_was_left_out_without_what_was_acknowledged() -> None:
    made = partition(window=FiringWindow(sink=10, lane=2))
    log = [record(n, f"a{n}", "a") for n in range(5)]
    log.append(record(5, "a2", "a", state="acked"))
    for item in log:
        made.follow(item)
    for name in ("a0", "a1"):
        log.append(record(len(log), name, "a", state="acked"))
        made.follow(log[-1])
    assert (names(made), made.offset_to_commit) == ([], 2)
    start = made.begin_scan()
    assert start == 2
    for item in log[start:5]:
        made.scan(item)
    assert (names(made), made.end_scan(5)) == ([], None)  # acknowledgements may follow
    for item in log[5:]:
        made.scan(item)
    found = made.end_scan(len(log))
    assert found is not None
    assert [firing.record.offset for firing in found] == [3]
    assert made.left_out == {(SINK, "key a"): 4}  # it did not fit, since a2 took its place
    assert made.offset_to_commit == 3


def test_when_the_lanes_of_a_sink_change_and_something_is_left_out_all_of_it_is() -> None:
    made = partition(window=FiringWindow(sink=10, lane=1))
    for offset, key in enumerate("aab"):
        made.follow(record(offset, f"f{offset}", key))
    assert [firing.record.offset for firing in made.leave_out(SINK)] == [0, 2]
    assert (names(made), made.left_out, made.offset_to_commit) == ([], {(SINK, None): 0}, 0)


def test_when_the_lanes_of_a_sink_change_and_nothing_is_left_out_all_is_held() -> None:
    made = partition(window=FiringWindow(sink=10, lane=5))
    made.follow(record(0, "f0", "a"))
    assert (made.leave_out(SINK), names(made)) == ([], ["f0"])


def test_a_key_that_filled_the_window_of_a_sink_without_keys_leaves_room_once_it_has_keys() -> None:
    has_keys: list[bool] = []
    made = partition(window=FiringWindow(sink=4, lane=1), one_lane=lambda _: not has_keys)
    log = [record(offset, f"f{offset}", key) for offset, key in enumerate("aaaab")]
    for item in log:
        made.follow(item)
    assert (names(made), made.begin_scan()) == (["f0", "f1", "f2", "f3"], None)
    has_keys.append(True)
    made.leave_out(SINK)
    assert made.begin_scan() == 0
    for item in log:
        made.scan(item)
    found = made.end_scan(len(log)) or []
    assert [firing.record.offset for firing in found] == [0, 4]
    assert made.left_out == {(SINK, "key a"): 1}


def test_a_key_that_held_most_of_a_sink_without_keys_leaves_room_for_others_once_it_has_keys() -> None:
    """Nothing was left out before: the world of `make simulate-deliveries SEED=469203293`."""
    has_keys: list[bool] = []
    made = partition(window=FiringWindow(sink=4, lane=1), one_lane=lambda _: not has_keys)
    log = [record(offset, f"f{offset}", key) for offset, key in enumerate("aaa")]
    for item in log:
        made.follow(item)
    has_keys.append(True)
    assert [firing.record.offset for firing in made.leave_out(SINK)] == [0, 1, 2]
    assert made.begin_scan() == 0
    for item in log:
        made.scan(item)
    assert [firing.record.offset for firing in made.end_scan(len(log)) or []] == [0]
    assert made.left_out == {(SINK, "key a"): 1}
    later = record(3, "f3", "b")
    assert made.follow(later)[0] is not None


def scanned(made: ActionPartition, log: list[Record]) -> list[str] | None:
    """The firings that a scan of what is left out finds; None if none begins."""
    start = made.begin_scan()
    if start is None:
        return None
    for item in log:
        if item.offset >= start:
            made.scan(item)
    return [found.key.decode().partition("\0")[2] for found in made.end_scan(made.position) or []]


def test_a_record_of_another_version_during_a_scan_loses_nothing_that_the_scan_found() -> None:
    made = partition(window=FiringWindow(sink=3, lane=3))
    log = [record(offset, f"f{offset}", f"k{offset}") for offset in range(8)]
    log += [record(8, "f1", "k1", state="acked"), record(9, "f2", "k2", state="acked")]
    for item in log:
        made.follow(item)
    assert made.begin_scan() == 3
    for item in log[3:6]:
        made.scan(item)
    log.append(record(10, "f0", "k0", state="acked", v=99))
    made.follow(log[10])
    assert (made.offset_to_commit, made.is_scanning, scanned(made, log)) == (0, False, None)
    log.append(record(11, "f0", "k0", state="acked"))
    made.follow(log[11])
    found = []
    while (more := scanned(made, log)) is not None:
        found += more
        for name in more:
            offset = int(name[1:])
            made.follow(record(made.position, name, f"k{offset}", state="acked"))
    assert found == ["f3", "f4", "f5", "f6", "f7"]


def test_a_scan_does_not_deliver_a_firing_about_which_another_version_wrote() -> None:
    made = partition(window=FiringWindow(sink=2, lane=2))
    log = [record(offset, f"f{offset}", f"k{offset}") for offset in range(4)]
    log.append(record(4, "f2", "k2", state="acked", v=99))
    log += [record(5 + n, f"f{n}", f"k{n}", state="acked") for n in range(2)]
    for item in log:
        made.follow(item)
    assert scanned(made, log) == []
    assert (made.offset_to_commit, scanned(made, log)) == (2, None)
    log.append(record(7, "f2", "k2", state="acked"))  # written again by a version that can be read
    made.follow(log[7])
    assert scanned(made, log) == ["f3"]
