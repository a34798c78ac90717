"""The rule of versions, shown with a made-up next one: N and N-1 are read, the bus record's is written."""

from __future__ import annotations

import json

import msgspec
import pytest
from interlock import event
from interlock.engine.errors import UnknownVersion
from interlock.engine.records import BusRecord, Registration, versions
from interlock.engine.records.versions import VERSION

from tests.kit.pool import ACTION, EVENT, STATE, TRIGGER, Pool

WAIT = Registration.of("w", event("a") & event("b"), None, 0)
NEXT = VERSION + 1


def written(pool: Pool, before: dict[object, int]) -> set[int]:
    """The versions of what engines have written since the last call; `before` is how much there was then."""
    found = set[int]()
    for tp in (TRIGGER, STATE, ACTION):
        values = [value for _, value in pool.records(tp) if value]
        decode = json.loads if tp == ACTION else msgspec.msgpack.decode
        for value in values[before.get(tp, 0) :]:
            record = decode(value)
            found.add(record["v"] if tp == ACTION else record[0])
        before[tp] = len(values)
    return found | {pool.metadata(EVENT).v}


def test_a_pool_is_upgraded_engine_by_engine_and_then_its_bus_record(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, before = Pool(), dict[object, int]()
    pool.register(WAIT)
    pool.boot("old")
    pool.emit("a")
    pool.run()
    assert written(pool, before) == {VERSION}
    pool.kill("old")
    with monkeypatch.context() as release:
        release.setattr(versions, "VERSION", NEXT)
        pool.boot("upgraded")
        pool.emit("a")
        pool.run()
        assert written(pool, before) == {VERSION}  # so that the engine before could still take over
        pool.write_bus_record(BusRecord(v=NEXT, partitions=1))
        pool.emit("b")
        pool.run()
        assert pool.fired() == [("w", "met")]  # with the half that was met in the version before
        assert written(pool, before) == {NEXT}
        pool.kill("upgraded")
    with pytest.raises(UnknownVersion, match=rf"BusRecord of version {NEXT}; this .* reads {VERSION}\."):
        pool.make("old")
