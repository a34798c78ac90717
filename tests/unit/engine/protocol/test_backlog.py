"""Records that were taken and are not processed yet."""

from __future__ import annotations

from interlock.engine.bus import End, TopicPartition
from interlock.engine.protocol.backlog import Backlog

TP = TopicPartition("orders", 0)


def ends(*offsets: int) -> list[End]:
    return [End(TP, offset) for offset in offsets]


def holding(*offsets: int) -> Backlog:
    backlog = Backlog()
    backlog.add(ends(*offsets))
    return backlog


def test_iteration_continues_where_it_was_left_and_new_records_follow() -> None:
    backlog = holding(1, 2, 3)
    for item in backlog:
        if item.offset == 2:
            break
    backlog.add(ends(4))
    backlog.add([])
    assert len(backlog) == 2
    assert list(backlog) == ends(3, 4)
    assert len(backlog) == 0


def test_iteration_that_stopped_at_the_last_item_does_not_lose_later_ones() -> None:
    backlog = holding(1)
    for _ in backlog:
        break
    assert len(backlog) == 0
    backlog.add(ends(2))
    assert list(backlog) == ends(2)


def test_records_put_back_come_first_also_when_nothing_else_is_left() -> None:
    backlog = holding(1, 2, 3, 4)
    given = []
    for item in backlog:
        given.append(item)
        if item.offset == 3:
            break
    backlog.put_back(*given[:2])
    assert len(backlog) == 3
    assert list(backlog) == ends(1, 2, 4)
    backlog.put_back(*ends(1, 2))
    backlog.add(ends(5))
    assert list(backlog) == ends(1, 2, 5)
    assert len(backlog) == 0


def test_a_backlog_that_is_cleared_during_iteration_gives_nothing_more() -> None:
    backlog = holding(1, 2)
    backlog.add(ends(3))
    given = []
    for item in backlog:
        given.append(item)
        backlog.clear()
    assert given == ends(1)
    assert len(backlog) == 0


def test_the_next_one_can_be_looked_at_and_put_back() -> None:
    backlog = Backlog()
    assert backlog.first() is None
    backlog.add(ends(1, 2, 3))
    backlog.add(ends(4))
    assert backlog.first() == backlog.first() == End(TP, 1)
    assert len(backlog) == 4
    for item in backlog:
        if item.offset == 3:
            backlog.put_back(item)
            break
    assert len(backlog) == 2
    assert list(backlog) == ends(3, 4)
