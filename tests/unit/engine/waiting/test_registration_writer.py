"""Leases as they are written: in parts that the client takes, and none left over."""

from __future__ import annotations

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.clients import ClientErrors
from interlock.engine.kafka.wait_clients import KafkaWriter
from interlock.engine.records import LeaseRecord, decode_json
from interlock.engine.waiting.environment import WaitEnvironment
from interlock.engine.waiting.registration_writer import (
    LEASE_S,
    MOST_NAMED,
    ProcessLeases,
    RegistrationWriter,
)

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
MOST_BYTES = 1_000_000  # of a record, by the client's default


class Bench:
    """A registry that keeps the last record of each key, and a clock. `room`: how many records it takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.room = 10**6
        self.standing: dict[bytes, bytes] = {}
        self.written: list[tuple[bytes, bool]] = []
        monkeypatch.setattr("confluent_kafka.Producer", lambda _: self)
        writer = KafkaWriter(CONFIG, ClientErrors())
        self.registering = RegistrationWriter(
            CONFIG, writer, ProcessLeases("p"), WaitEnvironment(monotonic=lambda: self.now)
        )

    def produce(
        self, topic: str, value: bytes | None, key: bytes, partition: int, on_delivery: object
    ) -> None:
        if not self.room:
            raise BufferError("full")
        self.room -= 1
        self.written.append((key, value is not None))
        self.standing.pop(key, None)
        if value is not None:
            assert len(value) < MOST_BYTES
            self.standing[key] = value

    def flush(self, timeout_s: float) -> int:
        return 0

    def lease(self, incarnations: list[str]) -> None:
        self.now += LEASE_S + 1
        self.registering.lease(incarnations, 1)

    def named(self) -> list[str]:
        found: list[str] = []
        for value in self.standing.values():
            found += decode_json(LeaseRecord, value, "x").incarnations
        return sorted(found)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def waits(count: int) -> list[str]:
    return [f"{n:032x}" for n in range(count)]


def test_a_sink_record_is_written_under_the_name_of_its_subscription(bench: Bench) -> None:
    bench.registering.write_sink("one/deliver/d", b"{}", lambda why: pytest.fail(why))
    assert bench.standing == {b"sink/one/deliver/d": b"{}"}


@pytest.mark.parametrize(("count", "parts"), [(1, 1), (MOST_NAMED, 1), (MOST_NAMED + 1, 2), (40_000, 8)])
def test_a_lease_names_all_waits_in_records_that_the_client_takes(
    bench: Bench, count: int, parts: int
) -> None:
    bench.lease(waits(count))
    assert list(bench.standing) == [f"lease/p/{n}".encode() for n in range(parts)]
    assert bench.named() == waits(count)


def test_a_part_that_is_no_longer_needed_is_removed(bench: Bench) -> None:
    bench.lease(waits(3 * MOST_NAMED))
    bench.lease(waits(2 * MOST_NAMED))
    assert list(bench.standing) == [b"lease/p/0", b"lease/p/1"]
    assert bench.named() == waits(2 * MOST_NAMED)
    bench.lease([])
    assert bench.standing == {}


def test_all_parts_end_with_the_process(bench: Bench) -> None:
    bench.lease(waits(3 * MOST_NAMED))
    bench.registering.close()
    assert bench.standing == {}


def test_a_process_that_never_had_a_wait_writes_nothing(bench: Bench) -> None:
    bench.lease([])
    bench.registering.close()
    assert bench.written == []


def test_a_lease_that_is_written_is_not_written_again_before_its_time(bench: Bench) -> None:
    bench.lease(waits(2))
    bench.registering.lease(waits(2), 1)
    bench.registering.lease(waits(1), 1)
    assert bench.written == [(b"lease/p/0", True)]


def test_new_waits_are_named_at_once_in_a_record_of_their_own_until_all_are_named_again(bench: Bench) -> None:
    bench.lease(waits(2))
    for count in (2, 3, 5):
        bench.registering.lease(waits(count), 1)
    assert list(bench.standing) == [b"lease/p/0", b"lease/p/1", b"lease/p/2"]
    assert bench.named() == waits(5)
    bench.lease(waits(4))
    assert list(bench.standing) == [b"lease/p/0"]
    assert bench.named() == waits(4)


def test_new_waits_whose_lease_was_refused_are_named_in_the_next_call(bench: Bench) -> None:
    bench.lease(waits(1))
    bench.room = 1
    bench.registering.lease(waits(2 * MOST_NAMED), 1)
    bench.room = 10
    bench.registering.lease(waits(2 * MOST_NAMED), 1)
    assert bench.named() == waits(2 * MOST_NAMED)


def test_a_lease_of_which_a_part_was_refused_is_written_again_at_once(bench: Bench) -> None:
    bench.room = 1
    bench.lease(waits(2 * MOST_NAMED))
    assert list(bench.standing) == [b"lease/p/0"]
    bench.room = 10
    bench.registering.lease(waits(2 * MOST_NAMED), 1)
    assert bench.named() == waits(2 * MOST_NAMED)
    bench.room = 0
    bench.lease(waits(1))
    bench.room = 1
    bench.registering.lease(waits(1), 1)
    assert list(bench.standing) == [b"lease/p/1", b"lease/p/0"]
    bench.room = 10
    bench.registering.lease(waits(1), 1)
    assert list(bench.standing) == [b"lease/p/0"]
    bench.registering.close()
    assert bench.standing == {}
