"""Notices: each change once, to everybody, whatever one listener does."""

from __future__ import annotations

import logging

import pytest
from interlock.engine.waiting.notices import Notice, NoticeBoard


def test_a_problem_and_its_end_are_notified_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    board, received = NoticeBoard(), []
    board.listen("me", received.append)
    with caplog.at_level(logging.INFO, "interlock.engine"):
        for text in ("down", "down", None, None, "other"):
            board.post("The engine", text)
    assert len(caplog.records) == 3
    assert received == [Notice("down"), Notice(None), Notice("other")]


def test_a_later_listener_gets_the_present_problems_at_once_and_nothing_if_all_is_well() -> None:
    board, received = NoticeBoard(), []
    board.listen("early", received.append)
    assert received == []
    board.post("The engine", "down")
    late: list[Notice] = []
    board.listen("late", late.append)
    assert late == [Notice("down")]


def test_parts_that_fail_for_one_reason_say_it_once_and_are_well_when_all_are() -> None:
    board, received = NoticeBoard(), []
    board.listen("me", received.append)
    board.post("The engine", "down")
    board.post("The waits", "down")
    board.post("The engine", None)
    assert received == [Notice("down")]
    board.post("The waits", "also slow")
    board.post("The waits", None)
    assert received == [Notice("down"), Notice("also slow"), Notice(None)]


def test_a_listener_that_stops_gets_nothing_more_and_may_stop_twice() -> None:
    board, received = NoticeBoard(), []
    board.listen("me", received.append)
    board.stop_listening("me")
    board.stop_listening("me")
    board.post("The engine", "down")
    assert received == []


def test_a_listener_that_fails_keeps_the_news_from_nobody_and_fails_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its event loop is closed, say."""
    board, received = NoticeBoard(), []

    def broken(notice: Notice) -> None:
        raise RuntimeError("Event loop is closed")

    board.listen("broken", broken)
    board.listen("me", received.append)
    with caplog.at_level(logging.WARNING, "interlock.engine"):
        board.post("The engine", "down")
    assert received == [Notice("down")]
    assert "Event loop is closed" in caplog.text


def test_texts_posted_while_listeners_are_notified_reach_them_in_order() -> None:
    """Two parts post from two threads: the last notice received must be the last one posted."""
    board, received = NoticeBoard(), []

    def says_more(notice: Notice) -> None:
        if notice.text == "down":
            board.post("The engine", None)

    board.listen("first", says_more)
    board.listen("second", received.append)
    board.post("The engine", "down")
    assert received[-1] == Notice(None)
