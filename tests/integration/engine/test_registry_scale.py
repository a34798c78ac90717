"""Waits by the thousand on a real broker: what one engine reads, writes and keeps for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import psutil
import pytest
from interlock import Event, event
from interlock.engine.protocol import outputs
from interlock.engine.protocol.lookback import scanning
from interlock.engine.protocol.tasks.source_task import MAX_TARGETS
from interlock.engine.records import CLOCK_KEY, Registration, RegistrationKey, encode_json

from .crowd import Transactions, counted_engine, produce, register, write

SOLO = event("orders", by="subject")
PAIR = event("left", by="subject") & event("right", by="subject")


def an_event(kind: str, n: int, subject: str, **more: Any) -> Event:
    return Event.of(kind, "/crowd", id=f"{kind}-{n}", subject=subject, **more)


def in_force(bench: Any, kind: str) -> dict[bytes | None, bytes]:
    """What a topic holds once it is compacted: the last value of each key that is not removed."""
    last = {record.key: record.value for record in bench.records(kind)}
    return {key: value for key, value in last.items() if value is not None}


def registrations(bench: Any) -> list[bytes]:
    return [key for key in in_force(bench, "subscription") if RegistrationKey.decode(key or b"") is not None]


def states(bench: Any) -> list[bytes]:
    return [key for key in in_force(bench, "state") if key != CLOCK_KEY]


def test_three_thousand_waits_fire_once_each_and_leave_nothing_behind(bench: Any, eventually: Any) -> None:
    """Opened by a process, met, acknowledged and removed as tasks do it."""
    subjects = [f"s{n}" for n in range(3000)]
    with counted_engine(bench.config) as account, bench.waiting() as waiting:
        waits = [waiting(f"w-{subject}", SOLO, subject) for subject in subjects]
        produce(bench.config, (an_event("orders", n, s) for n, s in enumerate(subjects)))
        eventually("all are delivered", lambda: all(wait.firings for wait in waits))
        delivered = [wait.firings[0] for wait in waits]
        fired = Counter(firing["subscription"] for firing in bench.firings())
        acked = (msgspec.structs.replace(found.action, state="acked") for found in delivered)
        write(bench.config, "action", ((found.key, encode_json(found), None) for found in acked))
        nulls = (key.encode() for found in delivered for key in found.registration_keys)
        write(bench.config, "subscription", ((key, None, None) for key in nulls))
        eventually("the engine holds no registration", lambda: not account.size.registrations)
        eventually("no state is left", lambda: not states(bench))
        assert account.size.open_keys == 0
    assert fired == Counter(f"w-{subject}" for subject in subjects)
    assert account.stats.fired == 3000
    assert registrations(bench) == []


def test_three_hundred_look_backs_that_are_registered_together_read_the_log_together(
    bench: Any, eventually: Any
) -> None:
    events = 6000
    produce(bench.config, (an_event("orders", n, f"s{n}") for n in range(events)))
    with counted_engine(bench.config) as account:
        eventually("the log is read", lambda: account.stats.consumed >= events)
        assert account.stats.scanned == 0
        register(bench.config, [(f"w{n}", SOLO, f"s{n * 20}") for n in range(300)])
        eventually("all fire", lambda: account.stats.fired == 300)
    assert len({firing["subscription"] for firing in bench.firings()}) == 300
    # Once, or some of it again for those that the engine met in a later read of the registry.
    assert events - 4 <= account.stats.scanned <= 4 * events


@pytest.mark.long
def test_one_event_that_meets_ten_thousand_waits_is_spread_over_transactions_of_bounded_size(
    bench: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half met first, then met; a pair beside them is served as well. The limit is lower than the crowd."""
    most = 4 * MAX_TARGETS
    monkeypatch.setattr(outputs, "MAX_PASS_RECORDS", most)
    done = Transactions.watched(bench.config, monkeypatch)
    names = [f"w{n}" for n in range(10_000)]
    with counted_engine(bench.config) as account:
        register(bench.config, [(name, PAIR, "all") for name in names])
        register(bench.config, [("other", PAIR, "other")])
        eventually("all are registered", lambda: account.size.registrations == 10_001)
        for kind in ("left", "right"):
            bench.emit(kind, subject="all")
            bench.emit(kind, subject="other")
        eventually("all fire", lambda: account.stats.fired == 10_001)
    assert Counter(firing["subscription"] for firing in bench.firings()) == Counter([*names, "other"])
    # A match of at most 1,000 targets is not divided: each may bring a firing and a state.
    assert done.most_records <= most + 2 * MAX_TARGETS
    assert done.most_bytes <= 2 * outputs.MAX_PASS_BYTES


@pytest.mark.long
def test_a_thousand_look_backs_over_a_long_log_stay_small_while_live_keys_continue(
    bench: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scans are slowed, so that a live pair that is not served between slices would come last."""
    events, waits = 50_000, 1000
    monkeypatch.setattr(scanning, "MOST_ALONE", 500)
    done = Transactions.watched(bench.config, monkeypatch)
    produce(bench.config, (an_event("orders", n, f"s{n}") for n in range(events)))
    produce(bench.config, (an_event("found", p, f"s{p}") for p in range(40)))
    looks_back = event("found", by="subject")
    with counted_engine(bench.config) as account:
        eventually("the log is read", lambda: account.stats.consumed >= events + 40)
        process = psutil.Process()
        before = process.memory_info().rss
        live = register(bench.config, [("live", PAIR, "live")], since_ms=_now_ms(bench))
        assert len(live) == 1
        register(bench.config, [(f"w{n}", looks_back, f"s{n % 40}") for n in range(waits)])
        eventually("the scans run", lambda: account.stats.scanned > 0)
        bench.emit("left", subject="live")
        bench.emit("right", subject="live")
        grown = 0

        def all_fire() -> bool:
            nonlocal grown
            grown = max(grown, process.memory_info().rss - before)
            return account.stats.fired == waits + 1

        eventually("all fire", all_fire)
    counts = Counter(firing["subscription"] for firing in bench.firings())
    assert counts == Counter(["live", *(f"w{n}" for n in range(waits))])
    [at] = done.of("live")
    assert at <= max(done.of(f"w{n}")[0] for n in range(waits)), "the live pair waited for the scans"
    assert account.stats.scanned <= 8 * events
    assert done.most_records <= outputs.MAX_PASS_RECORDS + 2 * MAX_TARGETS
    assert done.most_bytes <= 2 * outputs.MAX_PASS_BYTES
    assert grown < 256 * 2**20


def _now_ms(bench: Any) -> int:
    """The brokers' time: events that are appended from now on are stamped at or after it."""
    return max(record.timestamp_ms for record in bench.records("event")) + 1


def test_a_wait_that_is_registered_again_and_again_counts_once(bench: Any, eventually: Any) -> None:
    """A thousand processes wait for the same, half of them after it fired: one registration, one firing."""
    registration = Registration.of("w", SOLO, "s", 0)
    keys = [RegistrationKey(registration.incarnation, f"n{n}").encode() for n in range(1000)]
    with counted_engine(bench.config) as account, bench.waiting() as waiting:
        for n, together in enumerate((keys[:500], keys[500:])):
            write(bench.config, "subscription", ((key, encode_json(registration), None) for key in together))
            marker = waiting(f"marker-{n}", event("marker", by="subject"), f"m{n}")
            eventually("both are registered", lambda n=n: account.size.registrations == 2 + n)
            bench.emit("orders", subject="s")
            bench.emit("marker", subject=f"m{n}")
            marker.firing()
            bench.eventually_fired("w", 1)
        write(bench.config, "subscription", ((key, None, None) for key in keys))
        eventually("it is gone", lambda: account.size.registrations == 2)
    assert Counter(firing["subscription"] for firing in bench.firings()) == {
        "w": 1,
        "marker-0": 1,
        "marker-1": 1,
    }
