"""What a running engine reports, with a fake engine."""

from __future__ import annotations

import logging
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol.stats import Stats
from interlock.engine.runtime.reporting import EngineSize, EngineStatus, StatusReporter
from interlock.engine.waiting.notices import Notice, NoticeBoard


class FakeEngine:
    def __init__(self, status: EngineStatus) -> None:
        self.stats: Stats = status.stats
        self.errors: Counter[str] = Counter()
        self.ownership = SimpleNamespace(unread={}, triggers={}, listed=SimpleNamespace(unreadable={}))
        self.missing: list[str] = []
        self.elsewhere: list[str] = []
        self.full: list[str] = []
        self.problems = SimpleNamespace(
            unread=lambda: list(self.ownership.unread.values()),
            look_backs=lambda: self.missing,
            elsewhere=lambda: self.elsewhere,
            full_waits=lambda: self.full,
            timers=None,
        )
        self.registry = _Registry()
        self.partitions = (TopicPartition("b-event", 0),)

    def take_filter_errors(self) -> Counter[str]:
        taken, self.errors = self.errors, Counter()
        return taken


class _Registry:
    bus = SimpleNamespace(topics=("other",))

    def __len__(self) -> int:
        return 3


class Stage:
    """A reporter, its engine, and a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.notices: list[Notice] = []
        self.board = NoticeBoard()
        self.board.listen("me", self.notices.append)
        self.status = EngineStatus()
        self.engine = FakeEngine(self.status)
        engine: Any = self.engine
        self.reporter = StatusReporter(engine, self.board.post, self.status, lambda: self.now)

    def look(self, after_s: float = 1.0) -> None:
        self.now += after_s
        self.reporter.report()


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_stopped_partition_is_posted_to_waiting_tasks_while_the_engine_continues(stage: Stage) -> None:
    stage.look()
    stage.engine.ownership.unread = {TopicPartition("b-event", 1): "b-event[1] is paused."}
    stage.look()
    stage.look()
    stage.board.post("The engine", None)  # the loop is well all the time
    stage.engine.ownership.unread = {}
    stage.look()
    assert stage.notices == [Notice("b-event[1] is paused."), Notice(None)]


@pytest.mark.parametrize(
    ("elsewhere", "full"),
    [(["b-event[1] is paused.", "b-event[2] is paused."], []), ([], ["'w' waits without a key."])],
    ids=["of other engines", "full waits"],
)
def test_problems_are_posted_until_they_are_over(stage: Stage, elsewhere: list[str], full: list[str]) -> None:
    stage.engine.elsewhere, stage.engine.full = elsewhere, full
    stage.look()
    assert stage.notices == [Notice(" ".join(elsewhere + full))]
    stage.engine.elsewhere, stage.engine.full = [], []
    stage.look()
    assert stage.notices[1:] == [Notice(None)]


def test_a_look_back_that_misses_records_is_posted_to_waiting_tasks_while_it_is_a_problem(
    stage: Stage,
) -> None:
    stage.engine.missing = ["b-event[0]: records 2 to 29 were removed."]
    stage.look()
    stage.engine.missing = []
    stage.look()
    stage.engine.missing = ["b-event[0]: records 2 to 29 were removed."]
    stage.look()
    stage.reporter.close()
    assert stage.notices == [Notice("b-event[0]: records 2 to 29 were removed."), Notice(None)] * 2


def test_late_timers_are_posted_at_once_then_each_minute_and_cleared(stage: Stage) -> None:
    for end in range(5, 70):
        stage.engine.problems.timers = f"Timers are waiting for b-event[0], which is read up to 1 of {end}."
        stage.look()
    assert stage.status.size.late_timers == 1
    stage.engine.problems.timers = None
    stage.look()
    assert stage.status.size.late_timers == 0
    assert stage.notices == [
        Notice("Timers are waiting for b-event[0], which is read up to 1 of 5."),
        Notice("Timers are waiting for b-event[0], which is read up to 1 of 65."),
        Notice(None),
    ]


def test_listed_topics_that_cannot_be_read_are_counted_although_they_have_no_partition(stage: Stage) -> None:
    stage.engine.ownership.listed.unreadable = {"orders": "the topic does not exist."}
    stage.look()
    assert (stage.status.size.unread_topics, stage.status.size.unread_partitions) == (1, 0)


def test_a_failing_filter_is_counted_and_logged_once_a_minute(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(61):
        stage.engine.errors = Counter({"CEL data.rows > 1": 4})
        stage.look()
    assert stage.status.stats.filter_errors == 244
    assert [record.getMessage().count("CEL data.rows > 1") for record in caplog.records] == [1, 1]


def test_it_looks_once_a_second(stage: Stage) -> None:
    stage.look()
    stage.engine.errors = Counter({"f": 1})
    stage.look(0.5)
    assert stage.status.stats.filter_errors == 0
    stage.look(0.5)
    assert stage.status.stats.filter_errors == 1


def test_an_engine_that_ends_withdraws_its_problems_but_not_those_of_its_successor(stage: Stage) -> None:
    stage.engine.ownership.unread = {TopicPartition("b-event", 1): "b-event[1] is paused."}
    stage.look()
    assert stage.status.size == EngineSize(1, 1, 0, 3, ("other",))
    other: Any = FakeEngine(stage.status)
    successor = StatusReporter(other, stage.board.post, stage.status, lambda: stage.now + 1)
    successor.report()
    stage.reporter.close()
    assert stage.status.size == EngineSize(1, 0, 0, 3, ("other",))
    successor.close()
    assert stage.status.size == EngineSize(topics=("other",))
    assert stage.notices[-1] == Notice(None)
