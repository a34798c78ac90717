"""Which firings of durable subscriptions are open, as the records of the action topic are read."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import UnknownVersion
from interlock.engine.records import ActionRecord, FiringRecord, encode_json
from interlock.engine.records.sizes import MAX_FIRING_BYTES
from interlock.engine.waiting import open_firings as module
from interlock.engine.waiting.open_firings import OpenFirings
from msgspec.structs import replace

T0, T1 = TopicPartition("b-action", 0), TopicPartition("b-action", 1)


def fired(firing: str, offset: int, tp: TopicPartition = T0, at: int = 0, state: str = "fired") -> Record:
    value = b'{"state": "%s"}' % state.encode()
    return Record(tp, offset, at, b"s\0" + firing.encode(), value, None)


def places(firings: OpenFirings, most: int = 100, without: Any = ()) -> list[tuple[int, int]]:
    return [(p.source.partition, p.offset) for p in firings.oldest("s", most, without)]


def following(*records: Record) -> OpenFirings:
    firings = OpenFirings()
    for record in records:
        firings.follow(record)
    return firings


def test_a_firing_is_open_until_it_is_acknowledged_or_removed() -> None:
    firings = OpenFirings()
    assert firings.follow(fired("a", 0)) == "s"
    assert firings.follow(fired("b", 1)) == "s"
    assert places(firings) == [(0, 0), (0, 1)]
    assert firings.follow(fired("a", 2, state="acked")) is None
    assert places(firings) == [(0, 1)]
    assert firings.follow(Record(T0, 3, 0, b"s\0b", None, None)) is None
    assert places(firings) == []


def test_firings_of_one_shot_waits_and_what_cannot_be_read_are_passed_over() -> None:
    firings = OpenFirings()
    assert firings.follow(Record(T0, 0, 0, b"s", b'{"state": "fired"}', None)) is None
    assert firings.follow(Record(T0, 1, 0, b"s\0a", b"\xff", None)) is None
    assert firings.follow(Record(T0, 2, 0, None, None, None)) is None
    assert places(firings) == []


def test_a_firing_that_is_written_again_stands_once_and_at_its_last_place() -> None:
    assert places(following(fired("a", 0), fired("a", 5))) == [(0, 5)]


def test_the_oldest_come_first_and_those_of_a_partition_in_its_order() -> None:
    one, other = (fired("a", 0, at=10), fired("b", 1, at=10)), (fired("c", 0, T1, 5), fired("d", 1, T1, 20))
    firings = following(*one, *other)
    assert places(firings) == [(1, 0), (0, 0), (0, 1), (1, 1)]
    assert places(firings, 2, without={(1, 0)}) == [(0, 0), (0, 1)]


def test_firings_of_a_partition_keep_their_order_when_the_clock_of_the_brokers_goes_back() -> None:
    firings = following(fired("a", 0, at=1000), fired("b", 1, at=400), fired("c", 0, T1, 500))
    assert places(firings) == [(1, 0), (0, 0), (0, 1)]
    assert places(firings, 2) == [(1, 0), (0, 0)]


def test_firings_that_are_read_again_keep_their_order_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 1)
    monkeypatch.setattr(module, "FEW", 1)
    topic = [fired("a", 0, at=400), fired("b", 1, at=1000), fired("c", 2, at=300), fired("d", 3, at=2000)]
    firings = following(*topic)
    firings.follow(fired("a", 4, at=2000, state="acked"))
    monkeypatch.setattr(module, "MOST_HELD", 10)
    for record in topic[firings.take_left_out("s")[T0] :]:
        firings.follow(record)
    assert places(firings) == [(0, 1), (0, 2), (0, 3)]


def test_what_is_gone_from_the_topic_is_forgotten() -> None:
    firings = following(fired("a", 0), fired("b", 1))
    firings.forget("s", {(0, 0)})
    assert places(firings) == [(0, 1)]


def test_beyond_the_limit_a_partition_waits_to_be_read_again_and_keeps_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_HELD", 2)
    monkeypatch.setattr(module, "FEW", 1)
    firings = following(*(fired(f"f{n}", n) for n in range(4)))
    assert places(firings) == [(0, 0), (0, 1)]
    assert firings.take_left_out("s") == {}  # too many are left
    firings.follow(fired("f0", 4, state="acked"))
    # There is room by now; but f2, which is older, is not held.
    firings.follow(fired("f4", 5))
    assert places(firings) == [(0, 1)]
    starts = firings.take_left_out("s")
    assert starts == {T0: 2}
    assert firings.take_left_out("s") == {}
    for record in (fired("f2", 2), fired("f3", 3)):
        firings.follow(record)
    assert places(firings) == [(0, 1), (0, 2)]
    firings.follow(fired("f1", 6, state="acked"))
    assert firings.take_left_out("s") == {T0: 3}


def test_large_firings_are_fitted_one_by_one_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(n: int) -> bytes:
        data = [{"id": str(i), "source": "/s", "type": "t", "data": "x" * 50_000} for i in range(20)]
        origins = [{"topic": "b-event", "partition": 0, "offset": i, "timestamp_ms": 0} for i in range(20)]
        firing = FiringRecord(
            id=str(n), outcome="met", key=None, fired_at="t", events={"a": data}, origins={"a": origins}
        )
        return encode_json(ActionRecord(subscription="s", incarnation="i", state="fired", firing=firing))

    monkeypatch.setattr(
        module, "fetch", lambda _, wanted: ((place, record(place.offset)) for place in wanted)
    )
    config = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
    tracemalloc.start()
    try:
        found = list(module.read(config, [(0, n) for n in range(30)]))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [action and action.firing.id for action in found] == [str(n) for n in range(30)]
    assert max(len(encode_json(action)) for action in found if action) < MAX_FIRING_BYTES + 200
    assert most < 15_000_000  # of 30 MB


def test_what_is_gone_or_cannot_be_read_is_none_in_its_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = {0: None, 1: b"{"}
    monkeypatch.setattr(module, "fetch", lambda _, wanted: ((p, values[p.offset]) for p in reversed(wanted)))
    config = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
    assert list(module.read(config, [(0, 0), (0, 1)])) == [None, None]
    assert "b-action[0]@1" in caplog.text


def of_version(version: int, name: str = "a") -> bytes:
    firing = FiringRecord(id=name, outcome="met", key=None, fired_at="", events={}, origins={})
    made = ActionRecord(v=version, subscription="s", incarnation="i", state="fired", firing=firing)
    return encode_json(made)


def test_no_firing_overtakes_one_of_a_later_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was reported as gone: later firings got their runs, and it never got one."""
    values = {0: of_version(1, "a"), 1: of_version(9), 2: of_version(1, "b")}
    monkeypatch.setattr(module, "fetch", lambda _, wanted: ((p, values[p.offset]) for p in wanted))
    config = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
    assert [each and each.firing.id for each in module.read(config, [(0, 0), (0, 1), (0, 2)])] == ["a"]
    with pytest.raises(
        UnknownVersion, match=r"b-action\[0\]@1 holds an ActionRecord of version 9; .* Upgrade"
    ):
        next(module.read(config, [(0, 1), (0, 2)]))


def test_a_firing_of_a_later_version_is_open_even_if_its_form_is_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    firings = following(Record(T0, 0, 0, b"s\0a", b'{"v": 9, "state": ["other"]}', None), fired("b", 1))
    assert places(firings) == [(0, 0), (0, 1)]
    assert "b-action[0]@0 holds an ActionRecord of version 9" in caplog.text


@pytest.mark.parametrize("state", ["fired", "acked"])
def test_a_firing_that_the_client_cannot_unpack_changes_nothing(state: str) -> None:
    """A header whose name is not UTF-8 (confluent-kafka)."""
    firings = following(fired("a", 0), replace(fired("a", 1, state=state), fault="x"))
    assert firings.follow(replace(fired("b", 2), fault="x")) is None
    assert places(firings) == [(0, 0)]
