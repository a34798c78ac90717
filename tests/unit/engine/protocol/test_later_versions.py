"""Records of a later version in the registry: the engine ends, and nothing is passed over."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from interlock import Event, event
from interlock.engine.errors import UnknownVersion
from interlock.engine.protocol.partitions.registry_reader import RegistryReader
from interlock.engine.records import (
    BUS_KEY,
    BusRecord,
    MatchRecord,
    MatchTarget,
    Registration,
    RegistrationKey,
    encode_json,
    encode_msgpack,
    versions,
)

from tests.kit.pool import EVENT, REGISTRY, TRIGGER, Pool

NEXT = versions.VERSION + 1
ONE, LATER = (Registration.of(name, event("x"), None, 0) for name in ("one", "later"))
KEY = RegistrationKey(LATER.incarnation, "n").encode()


def with_later() -> Pool:
    """An engine runs, and a later release registers a wait; then an event comes for both waits."""
    pool = Pool.started(ONE)
    pool.write(REGISTRY, KEY, encode_json(msgspec.structs.replace(LATER, v=NEXT)))
    pool.emit("x")
    return pool


def test_no_event_passes_a_registration_of_a_later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was ignored: the engine went on, and the wait never got the event."""
    pool = with_later()
    before = pool.committed(EVENT)
    with pytest.raises(
        UnknownVersion, match=rf"b-subscription\[0\]@\d+ holds a Registration of version {NEXT}"
    ):
        pool.run()
    assert pool.committed(EVENT) == before
    pool.kill("one")
    with pytest.raises(UnknownVersion, match="Upgrade this process to the release that wrote it"):
        pool.boot("again")
    monkeypatch.setattr(versions, "VERSION", NEXT)
    pool.boot("upgraded")
    pool.run()
    assert sorted(pool.fired()) == [("later", "met"), ("one", "met")]


def test_the_earlier_release_goes_on_when_the_record_is_removed() -> None:
    """What the text says."""
    pool = with_later()
    with pytest.raises(UnknownVersion):
        pool.run()
    pool.kill("one")
    pool.write(REGISTRY, KEY, None)
    pool.boot("again")
    pool.run()
    assert pool.fired() == [("one", "met")]


@pytest.mark.parametrize(
    ("key", "record"),
    [(KEY, msgspec.structs.replace(LATER, v=NEXT)), (BUS_KEY, BusRecord(v=NEXT, partitions=1))],
    ids=["registration", "bus record"],
)
def test_a_match_that_needs_a_record_of_a_later_version_holds_no_partition(
    monkeypatch: pytest.MonkeyPatch, key: bytes, record: Any
) -> None:
    """It paused the match's partition, and the engine went on by the rules of the earlier version."""
    pool = Pool.started(ONE)
    monkeypatch.setattr(RegistryReader, "read_new", lambda _: None)  # it came after this pass looked
    at = pool.write(REGISTRY, key, encode_json(record))
    made = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "x"})
    match = MatchRecord(1, EVENT.topic, 0, 7, 0, made, [MatchTarget(at, LATER.incarnation, (0,), "")])
    pool.write(TRIGGER, b"k", encode_msgpack(match))
    with pytest.raises(UnknownVersion, match=rf"b-subscription\[0\]@{at} holds a"):
        pool.run()
