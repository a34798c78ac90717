"""What a process records of an engine that ends again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from interlock.engine.config import BusConfig
from interlock.engine.errors import TopicsError, UnreachableError
from interlock.engine.protocol.context import Clocks
from interlock.engine.records import FailingRecord
from interlock.engine.runtime.failures import AFTER_S, AGAIN_S, HEALTHY_S, LEAST, EngineFailures

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})


class Process:
    """A process whose engine fails when a test says so; `written`: its records."""

    def __init__(self) -> None:
        self.now = 100.0
        self.written: list[tuple[bytes, FailingRecord | None]] = []
        self.reachable = True
        self.failures = EngineFailures(
            "p", self.write, lambda work: work(), Clocks(lambda: 1000 + self.now, lambda: self.now)
        )

    def write(self, config: BusConfig, records: Mapping[bytes, bytes | None]) -> None:
        assert config is CONFIG
        if not self.reachable:
            raise UnreachableError("no answer")
        for key, value in records.items():
            found = None if value is None else msgspec.json.decode(value, type=FailingRecord)
            self.written.append((key, found))

    def fail(self, times: int = 1, every_s: float = 10.0, text: str = "why") -> None:
        for _ in range(times):
            self.failures.failed(CONFIG, TopicsError(text))
            self.now += every_s

    def healthy(self, for_s: float) -> None:
        for _ in range(10):
            self.failures.healthy(CONFIG)
            self.now += for_s / 10
        self.failures.healthy(CONFIG)


def test_an_engine_that_cannot_start_is_recorded_with_its_reason_and_how_often_it_ended() -> None:
    process = Process()
    process.fail(5)
    [(key, record)] = process.written
    assert key == b"failing/p"
    assert record is not None
    assert (record.count, record.since_ms, record.text) == (4, 1_100_000, "why")
    assert record.deployment == CONFIG.deployment
    assert record.host


def test_a_failure_now_and_then_is_not_recorded() -> None:
    """Brokers that restart make engines fail for some seconds."""
    process = Process()
    process.fail(10, every_s=AFTER_S / 20)
    process.healthy(HEALTHY_S * 2)
    process.fail(LEAST - 1, every_s=AFTER_S)
    assert process.written == []


def test_the_record_is_written_again_once_a_minute_with_the_last_reason() -> None:
    process = Process()
    process.fail(4)
    process.fail(13, text="another")
    assert [each.text for _, each in process.written if each] == ["why", "another", "another"]
    assert AGAIN_S == 60.0


def test_an_engine_that_fails_between_short_good_times_is_recorded_too() -> None:
    process = Process()
    for _ in range(8):
        process.healthy(HEALTHY_S / 4)
        process.fail(every_s=1)
    assert process.written[0][1] is not None


def test_an_engine_that_fails_after_each_slow_recovery_is_recorded_too() -> None:
    """A recovery longer than HEALTHY_S, and then one good pass, is no healthy time."""
    process = Process()
    for _ in range(8):
        process.fail(every_s=HEALTHY_S * 2)
        process.failures.healthy(CONFIG)
    assert process.written[0][1] is not None


def test_the_record_is_removed_when_the_engine_has_been_well_for_a_while() -> None:
    process = Process()
    process.fail(5)
    process.healthy(HEALTHY_S)
    assert process.written[1:] == [(b"failing/p", None)]
    assert process.failures.lasting_s == 0
    process.healthy(HEALTHY_S)
    assert len(process.written) == 2


def test_a_slow_record_is_not_written_after_the_null_that_removes_it() -> None:
    process = Process()
    written, process.written = process.written, []

    def write_slowly(config: BusConfig, records: Mapping[bytes, bytes | None]) -> None:
        if not written and None not in records.values():
            process.healthy(HEALTHY_S)  # it has recovered before its record is written
        process.write(config, records)
        written.append(process.written.pop())

    process.failures._write = write_slowly
    process.fail(4)
    assert [record is None for _, record in written] == [False, True]


def test_of_several_values_that_wait_only_the_last_is_written() -> None:
    process, calls = Process(), []
    process.failures._run = calls.append
    process.fail(13)
    process.healthy(HEALTHY_S)
    (call,) = calls
    call()
    assert process.written == [(b"failing/p", None)]
    process.fail(4)
    assert len(calls) == 2


def test_without_a_thread_nothing_is_written_and_the_next_value_is() -> None:
    def refuse(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    process = Process()
    process.failures._run = refuse
    process.fail(4)
    assert process.written == []
    process.failures._run = lambda work: work()
    process.healthy(HEALTHY_S)
    assert process.written == [(b"failing/p", None)]


def test_after_an_unexpected_error_of_a_write_later_ones_are_made() -> None:
    process = Process()

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    process.failures._write = fail
    with pytest.raises(ZeroDivisionError):
        process.fail(4)
    process.failures._write = process.write
    process.healthy(HEALTHY_S)
    assert process.written == [(b"failing/p", None)]


def test_a_cluster_that_takes_no_record_changes_nothing() -> None:
    process = Process()
    process.reachable = False
    process.fail(10)
    process.healthy(HEALTHY_S)
    assert process.written == []


def test_a_long_reason_is_cut() -> None:
    process = Process()
    process.fail(5, text="x" * 100_000)
    record = process.written[0][1]
    assert record is not None
    assert len(record.text) == 2000


@pytest.mark.parametrize(("failures", "lasting_s"), [(0, 0), (1, 0), (3, 20)])
def test_how_long_it_has_failed_is_known(failures: int, lasting_s: float) -> None:
    process = Process()
    process.fail(failures)
    assert process.failures.lasting_s == lasting_s
