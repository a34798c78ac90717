"""Which key is explained, and what else is said to hold a subscription up."""

from __future__ import annotations

from typing import Any

import pytest
from interlock import absent, event
from interlock.conditions import EMPTY, Match, Seen, step
from interlock.engine.admin.explaining import (
    _state_of,
    open_keys,
    wanted_key,
    watches_silence,
)
from interlock.engine.admin.pending import missing
from interlock.engine.admin.progress import RegistrationProgress, stage_of
from interlock.engine.bus import Committed, Topic, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError
from interlock.engine.following.states import Pending
from interlock.engine.kafka.positions import Position
from interlock.engine.records import OffsetMetadata, Registration
from interlock.engine.registry.registry import Registered
from interlock.events import Event

ORDERS, RATES = event("orders", by="data.day", label="orders"), event("rates", by="data.day", label="rates")
BOTH = ORDERS & RATES
ALL = BOTH & event("stock", by="data.day", label="stock")


def registered(condition: Any, key: str | None = None, kind: Any = "one-shot", ms: int = 5000) -> Registered:
    return Registered(Registration.of("s", condition, key, 0, kind=kind), condition, 7, ms)


def state(*types: str, subject: str = "s") -> bytes:
    """What is kept of ALL after an event of each of these types."""
    kept = EMPTY
    for number, event_type in enumerate(types):
        happened = Event.of(event_type, "/t", id=str(number), subject=subject)
        matchers = (("orders", "rates", "stock").index(event_type),)
        kept, _ = step(ALL, kept, Match(happened, matchers, "t", 0, number, 1000 + number))
    return kept.encode()


@pytest.mark.parametrize(
    ("condition", "own", "asked", "wanted"),
    [
        (event("t"), None, None, ""),
        (BOTH, "2026-11-20", None, "2026-11-20"),
        (BOTH, "2026-11-20", "20261120", "2026-11-20"),
        (BOTH, None, None, None),
        (BOTH, None, "20261120", "2026-11-20"),
        (event("t", by=("subject", "data.n")), None, '["20261120", 7]', '["2026-11-20","7"]'),
    ],
)
def test_the_key_to_explain_is_the_only_one_or_the_given_one_in_canonical_form(
    condition: Any, own: str | None, asked: str | None, wanted: str | None
) -> None:
    assert wanted_key(registered(condition, own), asked) == wanted


@pytest.mark.parametrize(
    ("condition", "own", "asked", "expected"),
    [
        (event("t"), None, "k", "has no keys"),
        (BOTH, "2026-11-20", "2026-11-21", "waits for key '2026-11-20' only"),
        (BOTH, None, "", "a key cannot be empty"),
        (event("t", by=("subject", "data.n")), None, "a", "has 2 values: write them as a JSON list"),
        (event("t", by=("subject", "data.n")), None, "[" * 20_000, "write them as a JSON list"),
    ],
)
def test_a_key_that_makes_no_sense_is_an_error(
    condition: Any, own: str | None, asked: str, expected: str
) -> None:
    with pytest.raises(EngineError, match=expected):
        wanted_key(registered(condition, own), asked)


def test_the_open_keys_nearest_to_firing_come_first_and_no_more_than_requested() -> None:
    large = state("orders", subject="s" * 5000)
    pending = Pending(keys={"a": large, "b": b"\xc1", "c": state("orders", "stock"), "d": EMPTY.encode()})
    keys = open_keys(registered(ALL, kind="durable"), pending)
    assert [(each.key, each.missing) for each in keys] == [
        ("c", ("rates",)),
        ("a", ("rates", "stock")),
        ("d", ("orders", "rates", "stock")),
    ]
    assert len(open_keys(registered(ALL, kind="durable"), pending, 1)) == 1


def test_a_key_without_a_stored_state_has_its_initial_state() -> None:
    plain = registered(BOTH, "k")
    assert Pending().state(plain, "k") == EMPTY
    assert missing(plain, EMPTY) == ("orders", "rates")
    expiring = registered(BOTH.expires(after="1h"), "k")
    assert Pending().state(expiring, "k").opened_ms == expiring.timestamp_ms


@pytest.mark.parametrize(
    ("metadata", "place"),
    [
        (OffsetMetadata(applied=7), "not applied"),
        (OffsetMetadata(applied=8), "live"),
        (OffsetMetadata(applied=9, scans=[(5, 8, 100)]), "scan"),
        (OffsetMetadata(applied=9, scans=[(5, 7, 100), (8, 9, 100)]), "live"),
    ],
)
def test_where_a_source_partition_is_with_a_registration(metadata: OffsetMetadata, place: str) -> None:
    assert stage_of(metadata, 7) == place


@pytest.mark.parametrize(
    ("condition", "watches"),
    [
        (absent(event("a"), "10m"), True),
        (event("b") & absent(event("a"), "10m"), True),
        (event("a").quiet("5m"), True),
        ((event("a") & ~event("b")).within("1h"), True),
        (absent(event("a"), "10m").ordered(), False),
        ((event("a") & event("b")).expires("1h"), False),
        (event("a") | event("b"), False),
    ],
)
def test_a_condition_that_waits_for_silence_is_told_apart_from_one_that_cannot_miss_it(
    condition: Any, watches: bool
) -> None:
    """An alarm that is missed around a failover, when events of a key are in several partitions."""
    assert watches_silence(condition) is watches


ORDERS_0 = TopicPartition("bus-event", 0)


def progress(
    offset: int | None, metadata: OffsetMetadata, matches: int = 0, *, listed: bool = False
) -> RegistrationProgress:
    committed = None if offset is None else Committed(offset, "")
    at = Position(ORDERS_0, committed, 0, 20, Topic("t", 1), listed)
    return RegistrationProgress(True, {ORDERS_0: (at, stage_of(metadata, 7))}, matches)


@pytest.mark.parametrize(
    ("known", "read"),
    [
        (progress(10, OffsetMetadata(applied=8)), [True, False]),
        (progress(9, OffsetMetadata(applied=8)), [False, False]),
        (progress(10, OffsetMetadata(applied=7)), [False, False]),
        (progress(10, OffsetMetadata(applied=9, scans=[(5, 8, 100)])), [None, None]),
        (progress(10, OffsetMetadata(applied=8), matches=1), [None, False]),
        (progress(None, OffsetMetadata(applied=8)), [False, False]),
        (progress(None, OffsetMetadata(applied=8), listed=True), [None, None]),
    ],
    ids=["read", "behind", "not applied", "scan", "its match is on the way", "no offset", "a listed topic"],
)
def test_whether_an_event_was_read_for_a_registration_is_shown_where_it_is_known(
    known: RegistrationProgress, read: list[bool | None]
) -> None:
    """explain reported both as "fits: not read yet, or no longer held"."""
    sent = Event.of("orders", "/t", id="1")
    assert [known.was_read(Seen(sent, "bus-event", 0, offset)) for offset in (9, 10)] == read
    assert known.was_read(Seen(sent, "other", 0, 9)) is known.was_read(Seen(sent)) is None


@pytest.mark.parametrize("data", [b"\xc1", b"{}", b"\x91\xc1"])
def test_a_damaged_state_is_named_with_its_subscription_and_what_to_do(data: bytes) -> None:
    """`explain` said only that "the stored state" cannot be read."""
    config = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
    expected = r"key '7' of 's' in 'b-state' is damaged .*subscriptions cancel s --bus b"
    with pytest.raises(EngineError, match=expected):
        _state_of(config, registered(ALL, kind="durable"), Pending(keys={"7": data}), "7")
