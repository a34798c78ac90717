"""What the log says about sinks."""

from __future__ import annotations

import logging

import pytest
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.delivery.firings import OpenFiring
from interlock.engine.delivery.reports import FAILED_EVERY_S, GIVEN_UP_EVERY_S, SinkReports
from interlock.engine.delivery.sinks import SinkRecord

CRM = SinkRecord(subscription="s", connection="crm", path="/a?token=secret")


def firing(name: str, subscription: str = "s") -> OpenFiring:
    key = f"{subscription}\0{name}".encode()
    return OpenFiring(Record(TopicPartition("b-action", 0), 0, 0, key, b"", None), subscription, "")


class Log:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "interlock.engine")
        self._caplog, self.now = caplog, 0.0
        self.reports = SinkReports(lambda: self.now)

    def lines(self) -> list[str]:
        found = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return found


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def test_the_last_record_of_each_sink_is_logged_when_the_registry_is_read(log: Log) -> None:
    other = SinkRecord(subscription="s", connection="crm", order="none", max_in_flight=1)
    log.reports.change("s", other)
    log.reports.change("gone", CRM)
    log.reports.change("gone", None)
    log.reports.change("s", CRM)
    assert log.lines() == []
    log.reports.log_changes()
    assert log.lines() == ["Sink s: connection crm, path '/a?token=***', order key, at most 32 at a time."]
    log.reports.change("s", SinkRecord(subscription="s", connection="crm", path="/a?token=secret"))
    log.reports.log_changes()
    assert log.lines() == []
    log.reports.change("s", other)
    log.reports.log_changes()
    log.reports.change("s", None)
    log.reports.log_changes()
    assert log.lines() == [
        "Sink s: connection crm, path '', order none, at most 1 at a time.",
        "Sink s was removed.",
    ]


def test_a_pause_is_logged_once_for_each_reason_and_at_its_end(log: Log) -> None:
    for reason in ("", "HTTP 401", "HTTP 401", "There is no connection 'crm'", "", ""):
        log.reports.pause("s", reason)
    assert log.lines() == [
        "Sink s is paused; one delivery at a time tries it: HTTP 401",
        "Sink s is paused; one delivery at a time tries it: There is no connection 'crm'",
        "Sink s takes deliveries again.",
    ]


def test_of_many_firings_that_are_given_up_some_are_logged_and_all_are_counted(log: Log) -> None:
    for number in range(5):
        log.reports.give_up(firing(f"f{number}"), "HTTP 400")
    log.reports.give_up(firing("f9", "other"), "HTTP 400")
    assert log.lines() == [
        "Firing f0 of s becomes a dead letter: HTTP 400.",
        "Firing f9 of other becomes a dead letter: HTTP 400.",
    ]
    log.now += GIVEN_UP_EVERY_S
    log.reports.give_up(firing("f5"), "HTTP 400")
    log.now += GIVEN_UP_EVERY_S
    log.reports.give_up(firing("f6"), "HTTP 400")
    assert log.lines() == [
        "Firing f5 of s becomes a dead letter: HTTP 400. So did 4 others before it.",
        "Firing f6 of s becomes a dead letter: HTTP 400.",
    ]


def test_of_many_deliveries_that_fail_some_are_logged_and_a_pause_replaces_them(log: Log) -> None:
    for _ in range(3):
        log.reports.fail("s", "it answered 503")
    log.reports.fail("t", "no answer within 30 s")
    assert log.lines() == [
        "A delivery to sink s failed: it answered 503.",
        "A delivery to sink t failed: no answer within 30 s.",
    ]
    log.now = FAILED_EVERY_S
    log.reports.fail("s", "it answered 502")
    assert log.lines() == ["A delivery to sink s failed: it answered 502. So did 2 others before it."]
    log.reports.pause("s", "it answered 401")
    log.now *= 2
    log.reports.fail("s", "it answered 401")
    assert log.lines() == ["Sink s is paused; one delivery at a time tries it: it answered 401"]
