"""Leases as they are written: each wait is named once, small records renew them, and nothing is left over."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec
import pytest
from interlock import event
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.records import (
    LeaseRecord,
    Registration,
    RegistrationKey,
    RenewalRecord,
    decode_json,
    encode_json,
)
from interlock.engine.registry.leases import LEASED_MS
from interlock.engine.registry.registry import Registry
from interlock.engine.waiting import lease_writer
from interlock.engine.waiting.lease_writer import LEASE_S, MOST_NAMED, LeaseWriter, ProcessLeases

TOPIC = TopicPartition("b-subscription", 0)
MOST_BYTES = 1_000_000  # of a record, by the client's default
ONE = Registration.of("w", event("x"), None, 0)


def waits(count: int, first: int = 0) -> set[str]:
    return {f"{n:032x}" for n in range(first, first + count)}


class Bench:
    """A registry topic, the process that reads and leases in it, and a clock.

    room: how many more records it takes. lost: how many of the next ones do not arrive. bytes: of all.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.room = 10**6
        self.lost = 0
        self.written: list[tuple[bytes, bytes | None]] = []
        self.bytes = 0
        self.log: list[Record] = []
        self.registry = Registry()
        self.leases = ProcessLeases("p")
        self.writer = self.connect()

    def connect(self) -> LeaseWriter:
        self.writer = LeaseWriter("d", self.write, self.leases, lambda: self.now)
        return self.writer

    def write(self, key: bytes, value: bytes | None) -> bool:
        if not self.room:
            return False
        self.room -= 1
        assert len(value or b"") < MOST_BYTES
        self.written.append((key, value))
        self.bytes += len(key) + len(value or b"") + 20
        if self.lost:
            self.lost -= 1
        else:
            self.append(key, value)
        return True

    def append(self, key: bytes, value: bytes | None) -> None:
        self.log.append(Record(TOPIC, len(self.log), int(self.now * 1000), key, value, None))

    def register(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            one = msgspec.structs.replace(ONE, subscription=name, incarnation=name)
            self.append(RegistrationKey(name, "n").encode(), encode_json(one))
        self.read()

    def unregister(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self.append(RegistrationKey(name, "n").encode(), None)
        self.read()

    def read(self) -> None:
        for record in self.log[self.registry.position :]:
            self.registry.apply(record)

    def call(self, waited: set[str]) -> list[bytes]:
        """The next call, five seconds later. Returns the keys that it wrote, a removed one behind a `-`."""
        self.now += 5
        before = len(self.written)
        self.writer.lease(waited, self.registry)
        self.read()
        return [(b"" if value is not None else b"-") + key for key, value in self.written[before:]]

    def renew(self, waited: set[str]) -> list[bytes]:
        """The next call after the renewal interval."""
        self.now += LEASE_S
        return self.call(waited)

    def end(self) -> None:
        self.writer.end(self.registry)
        self.read()

    def standing(self) -> dict[bytes, bytes]:
        last = {record.key or b"": record.value for record in self.log}
        return {key: value for key, value in last.items() if value is not None and b"/" in key}

    def held(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if self.registry.leases.of(name)}

    def orphans(self, after_ms: int) -> set[str]:
        """What engines would remove so much later: one that runs, and one that starts then."""
        before_ms = int(self.now * 1000) + after_ms - LEASED_MS
        found = {each.incarnation for each in self.registry.orphans(before_ms)}
        assert {each.incarnation for each in self.compacted().orphans(before_ms)} == found
        return found

    def compacted(self) -> Registry:
        """What a process reads that starts now, if brokers have removed all that they may."""
        last = {record.key: record.offset for record in self.log}
        fresh = Registry()
        for record in self.log:
            age_ms = self.now * 1000 - record.timestamp_ms
            is_last = last[record.key] == record.offset
            if age_ms < LEASED_MS or (is_last and record.value is not None):
                fresh.apply(record)
        return fresh


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(
    ("count", "parts"), [(1, 1), (MOST_NAMED, 1), (MOST_NAMED + 1, 2), (8 * MOST_NAMED, 8)]
)
def test_leases_name_all_waits_in_records_that_the_client_takes(bench: Bench, count: int, parts: int) -> None:
    bench.call(waits(count))
    standing = bench.standing()
    assert list(standing) == [*(f"lease/p/{n}".encode() for n in range(parts)), b"renewal/p"]
    leases = [decode_json(LeaseRecord, value, "x") for value in list(standing.values())[:-1]]
    assert sorted(name for lease in leases for name in lease.incarnations) == sorted(waits(count))


def test_what_is_named_is_renewed_by_one_small_record_and_not_named_again(bench: Bench) -> None:
    bench.call(waits(3 * MOST_NAMED))
    assert bench.call(waits(3 * MOST_NAMED)) == []
    for _ in range(300):  # more than a day
        assert bench.renew(waits(3 * MOST_NAMED)) == [b"renewal/p"]
    assert len(bench.standing()[b"renewal/p"]) < 40
    assert bench.held(waits(3 * MOST_NAMED)) == waits(3 * MOST_NAMED)


def test_a_wait_stays_registered_for_a_day_after_the_last_renewal_however_old_its_lease_is(
    bench: Bench,
) -> None:
    bench.register(waits(2))
    bench.call(waits(2))
    for _ in range(600):
        bench.renew(waits(2))
    assert bench.orphans(LEASED_MS) == set()
    assert bench.orphans(LEASED_MS + 1) == waits(2)


def test_new_waits_are_named_at_once_in_a_lease_of_their_own(bench: Bench) -> None:
    bench.call(waits(2))
    assert bench.call(waits(3)) == [b"lease/p/1"]
    assert bench.call(waits(5)) == [b"lease/p/2"]
    assert bench.held(waits(5)) == waits(5)


def test_a_process_that_never_had_a_wait_writes_nothing(bench: Bench) -> None:
    bench.call(set())
    bench.renew(set())
    bench.end()
    assert bench.written == []


def test_leases_whose_waits_are_no_longer_registered_are_removed_and_in_the_end_the_renewal(
    bench: Bench,
) -> None:
    bench.register(waits(2 * MOST_NAMED))
    bench.call(waits(2 * MOST_NAMED))
    first, rest = waits(MOST_NAMED), waits(MOST_NAMED, MOST_NAMED)
    bench.unregister(first)
    assert bench.renew(rest) == [b"-lease/p/0", b"renewal/p"]
    bench.unregister(rest)
    assert bench.renew(set()) == [b"-lease/p/1", b"-renewal/p"]
    assert bench.renew(set()) == []


def test_a_wait_that_comes_back_after_its_lease_was_removed_is_named_at_once(bench: Bench) -> None:
    bench.register(waits(2))
    bench.call(waits(1))
    bench.call(waits(2))
    bench.unregister(waits(1, 1))
    assert bench.renew(waits(1)) == [b"-lease/p/1", b"renewal/p"]
    bench.register(waits(1, 1))
    assert bench.call(waits(2)) == [b"lease/p/2"]


def test_a_lease_that_was_lost_is_written_again_at_the_second_renewal(bench: Bench) -> None:
    bench.call(waits(1))
    bench.lost = 1
    bench.call(waits(2))
    assert bench.renew(waits(2)) == [b"renewal/p"]  # it may be on its way
    assert bench.renew(waits(2)) == [b"lease/p/2", b"renewal/p"]
    assert bench.held(waits(2)) == waits(2)


def test_a_lease_that_somebody_removed_is_written_again(bench: Bench) -> None:
    """As a sweeper does with those of a process that was away for a day."""
    bench.call(waits(2))
    bench.renew(waits(2))
    for key in (b"lease/p/0", b"renewal/p"):
        bench.append(key, None)
    bench.read()
    assert bench.renew(waits(2)) == [b"lease/p/1", b"renewal/p"]


def test_new_waits_whose_lease_was_refused_are_named_in_the_next_call(bench: Bench) -> None:
    bench.call(waits(1))
    bench.room = 1
    bench.call(waits(2 * MOST_NAMED))
    bench.room = 10
    assert len(bench.call(waits(2 * MOST_NAMED))) == 1
    assert bench.held(waits(2 * MOST_NAMED)) == waits(2 * MOST_NAMED)


def test_a_renewal_that_was_refused_is_written_in_the_next_call(bench: Bench) -> None:
    bench.call(waits(2))
    bench.room = 0
    assert bench.renew(waits(3)) == []
    bench.room = 1
    assert bench.call(waits(3)) == [b"lease/p/2"]
    bench.room = 10
    assert bench.call(waits(3)) == [b"renewal/p"]
    assert bench.held(waits(3)) == waits(3)


def test_the_next_connection_goes_on_with_the_leases_that_the_registry_has(bench: Bench) -> None:
    bench.call(waits(2))
    bench.connect()
    assert bench.call(waits(3)) == [b"lease/p/1", b"renewal/p"]


def test_leases_that_a_process_of_the_same_name_left_behind_end_when_their_waits_do(bench: Bench) -> None:
    bench.register(waits(4))
    bench.call(waits(4))
    bench.leases = ProcessLeases("p")
    bench.connect()
    assert bench.call(waits(2)) == [b"renewal/p"]
    assert bench.renew(waits(2)) == [b"lease/p/1", b"renewal/p"]
    assert bench.held(waits(4)) == waits(2)
    bench.unregister(waits(2, 2))
    bench.call(waits(2) | waits(1, 9))
    assert bench.held(waits(1, 9)) == waits(1, 9)
    assert bench.orphans(LEASED_MS - 10_000) == set()


def test_a_day_of_many_waits_takes_few_bytes(bench: Bench) -> None:
    """It was a gigabyte for 100,000 waits, 36 bytes for each of them in each interval."""
    many = waits(20_000)
    bench.call(many)
    named, bench.bytes = bench.bytes, 0
    bench.renew(many)
    assert named < 40 * len(many)
    assert bench.bytes * 24 * 3600 / LEASE_S < 50_000


# -- waits that have moved to another process


def test_a_registered_wait_that_is_not_waited_for_in_two_renewals_is_released(bench: Bench) -> None:
    bench.register(waits(3))
    bench.call(waits(3))
    assert bench.renew(waits(1)) == [b"renewal/p"]
    assert bench.held(waits(3)) == waits(3)
    assert bench.renew(waits(1)) == [b"lease/p/1", b"renewal/p"]
    assert bench.held(waits(3)) == waits(1)
    for _ in range(20):
        assert bench.renew(waits(1)) == [b"renewal/p"]


def test_a_released_wait_is_an_orphan_a_day_later_while_its_process_goes_on(bench: Bench) -> None:
    bench.register(waits(2))
    bench.call(waits(2))
    bench.renew(waits(1))
    bench.renew(waits(1))
    released_at = bench.now
    while bench.now < released_at + LEASED_MS / 1000 - 2 * LEASE_S:
        bench.renew(waits(1))
    assert bench.orphans(0) == set()
    for _ in range(3):
        bench.renew(waits(1))
    assert bench.orphans(0) == waits(1, 1)
    for _ in range(20):  # the record that releases it stays as long as its lease does
        bench.renew(waits(1))
        assert bench.orphans(0) == waits(1, 1)
    bench.unregister(waits(1, 1))
    bench.renew(waits(1))
    assert list(bench.standing()) == [b"lease/p/0", b"renewal/p"]


def test_a_released_wait_that_comes_back_is_named_again(bench: Bench) -> None:
    bench.register(waits(2))
    bench.call(waits(2))
    for _ in range(2):
        bench.renew(waits(1))
    assert bench.call(waits(2)) == [b"lease/p/2"]
    assert bench.held(waits(2)) == waits(2)
    assert bench.renew(waits(2)) == [b"-lease/p/1", b"renewal/p"]
    assert bench.renew(waits(2)) == [b"renewal/p"]
    assert bench.held(waits(2)) == waits(2)


def test_a_wait_is_released_though_connections_break_more_often_than_leases_are_renewed(
    bench: Bench,
) -> None:
    bench.register(waits(2))
    bench.call(waits(2))
    for _ in range(4):
        bench.now += LEASE_S / 3
        bench.connect()
        bench.call(waits(1))
    assert bench.held(waits(2)) == waits(1)


def test_a_wait_that_is_done_soon_is_never_released(bench: Bench) -> None:
    bench.register(waits(2))
    bench.call(waits(2))
    bench.renew(waits(1))
    bench.unregister(waits(1, 1))
    assert bench.renew(waits(1)) == [b"renewal/p"]


# -- merging


def test_many_small_leases_are_merged_and_removed_once_the_registry_shows_the_new_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_writer, "MOST_SMALL", 3)
    for count in range(1, 6):
        bench.call(waits(count))
    assert bench.renew(waits(5)) == [b"lease/p/5", b"renewal/p"]
    removed = [f"-lease/p/{n}".encode() for n in range(5)]
    assert bench.renew(waits(5)) == [*removed, b"renewal/p"]
    assert bench.renew(waits(5)) == [b"renewal/p"]
    assert bench.held(waits(5)) == waits(5)


def test_nothing_is_removed_for_a_merged_lease_that_was_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_writer, "MOST_SMALL", 1)
    bench.call(waits(1))
    bench.call(waits(2))
    bench.lost = 1
    bench.renew(waits(2))
    assert bench.renew(waits(2)) == [b"lease/p/3", b"renewal/p"]
    assert bench.held(waits(2)) == waits(2)


def test_a_lease_that_names_mostly_what_has_ended_is_written_without_it(bench: Bench) -> None:
    many = 3 * MOST_NAMED
    bench.register(waits(many))
    bench.call(waits(many))
    few = {name for n, name in enumerate(sorted(waits(many))) if n % 100 == 0}
    bench.unregister(waits(many) - few)
    bench.renew(few)
    bench.renew(few)
    [lease] = [value for key, value in bench.standing().items() if key.startswith(b"lease/")]
    assert decode_json(LeaseRecord, lease, "x").incarnations == sorted(few)


def test_a_registered_wait_in_a_merged_lease_keeps_its_day(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction may remove the old lease at once: it is older than a day."""
    monkeypatch.setattr(lease_writer, "MOST_SMALL", 1)
    bench.register(waits(2))
    bench.call(waits(1))
    bench.renew(waits(1))
    bench.now += LEASED_MS / 1000
    bench.call(waits(2))
    bench.renew(waits(1))
    bench.renew(waits(1))
    assert bench.orphans(LEASED_MS - 3 * int(LEASE_S) * 1000) == set()


# -- the end of a process


def test_what_a_process_leased_has_a_day_after_it_ended_and_nobody_is_shown_as_its_holder(
    bench: Bench,
) -> None:
    bench.register(waits(2))
    bench.call(waits(2))
    bench.now += 2 * LEASED_MS / 1000
    bench.end()
    assert decode_json(RenewalRecord, bench.standing()[b"renewal/p"], "x").ended
    assert bench.held(waits(2)) == set()
    assert bench.orphans(LEASED_MS) == set()
    assert bench.orphans(LEASED_MS + 1) == waits(2)
    bench.connect()
    assert bench.call(waits(2)) == [b"renewal/p"]
    assert bench.held(waits(2)) == waits(2)


def test_a_process_whose_client_was_full_as_it_ended_is_shown_as_no_holder(bench: Bench) -> None:
    bench.register(waits(2))
    bench.call(waits(1))
    bench.call(waits(2))
    bench.unregister(waits(1))
    answers = [False]  # the null for the first lease is refused
    bench.writer = LeaseWriter(
        "d",
        lambda key, value: answers.pop() if answers else bench.write(key, value),
        bench.leases,
        lambda: bench.now,
    )
    bench.end()
    assert bench.held(waits(2)) == set()
    assert decode_json(RenewalRecord, bench.standing()[b"renewal/p"], "x").ended


def test_a_process_whose_waits_are_done_leaves_nothing(bench: Bench) -> None:
    bench.register(waits(2))
    bench.call(waits(2))
    bench.unregister(waits(2))
    bench.end()
    assert bench.standing() == {}


# -- any history


@pytest.mark.parametrize("seed", range(10))
def test_at_each_time_what_is_waited_for_is_leased_and_the_rest_for_a_day_only(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits begin, end, move away and come back; records are lost, and connections break."""
    monkeypatch.setattr(lease_writer, "MOST_SMALL", 2)
    monkeypatch.setattr(lease_writer, "MOST_NAMED", 4)
    rng, bench = Random(seed), Bench()
    waited: set[str] = set()
    registered: set[str] = set()
    left: dict[str, float] = {}  # when a registered wait was last waited for
    for _ in range(60):
        for _ in range(rng.randrange(3)):
            name = rng.choice(sorted(waits(12)))
            if name in waited:
                waited.discard(name)
                left[name] = bench.now
                if rng.random() < 0.5:
                    registered.discard(name)
                    bench.unregister([name])
            else:
                if name not in registered:
                    bench.register([name])
                registered.add(name)
                waited.add(name)
                left.pop(name, None)
        if rng.random() < 0.1:
            bench.connect()
        bench.lost = rng.random() < 0.1
        bench.call(set(waited))
        bench.lost = 0
        bench.renew(set(waited))
        bench.now += rng.choice((0, 0, 3600))
        for name in sorted(registered & bench.orphans(0)):
            assert name not in waited
            assert bench.now - left[name] >= LEASED_MS / 1000
            registered.discard(name)
            bench.unregister([name])
    for _ in range(3):
        bench.renew(set(waited))
    assert bench.held(registered) == waited
    bench.now += LEASED_MS / 1000
    assert bench.orphans(4 * int(LEASE_S) * 1000) == registered
