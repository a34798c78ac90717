"""The last firings: in the order in which they were decided, each once, bounded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.following import fired as fired_module
from interlock.engine.following import firings as module
from interlock.engine.following.fired import EventPlace, fired_in
from interlock.engine.following.firings import LastFirings

from tests.unit.engine.following.logs import an_event, of_action

PLACE = TopicPartition("bus-action", 0)
ACTIONS = st.tuples(
    st.sampled_from(["a", "b", "d"]),
    st.sampled_from(["f1", "f2", "f3"]),
    st.sampled_from(["fired", "acked", "removed", "damaged"]),
    st.integers(0, 5),
)


def record_of(offset: int, name: str, firing: str, what: str, second: int) -> Record:
    kind = "durable" if name == "d" else "one-shot"
    state = what if what in ("fired", "acked") else "fired"
    record = of_action(offset, name, firing, state=state, kind=kind, second=second)  # type: ignore[arg-type]
    if what in ("removed", "damaged"):
        value = None if what == "removed" else b"{"
        return Record(record.source, offset, record.timestamp_ms, record.key, value, None)
    return record


def read(records: Sequence[Record], most: int = 100) -> LastFirings:
    firings = LastFirings(most)
    for record in records:
        firings.apply(record)
    return firings


@settings(max_examples=300)
@given(st.lists(ACTIONS, max_size=25))
def test_those_in_the_topic_are_known_newest_first(steps: Sequence[tuple[str, str, str, int]]) -> None:
    records = [record_of(offset, *each) for offset, each in enumerate(steps)]
    last: dict[bytes | None, Record] = {}
    for record in records:
        if record.value is None:
            last.pop(record.key, None)
        elif record.value != b"{":
            last[record.key] = record
    found = list(read(records).newest())
    expected = [fired_in(record) for record in last.values()]
    assert sorted((each.place, each.subscription, each.open) for each in found) == sorted(
        (each.place, each.subscription, each.open) for each in expected if each is not None
    )
    assert [each.place for each in found] == sorted((each.place for each in found), reverse=True)


@settings(max_examples=100)
@given(st.lists(ACTIONS, max_size=25))
def test_no_more_than_the_limit_are_kept_and_those_are_the_latest(
    steps: Sequence[tuple[str, str, str, int]],
) -> None:
    records = [record_of(offset, *each) for offset, each in enumerate(steps)]
    firings = read(records, most=2)
    assert len(firings) <= 2
    assert len(list(firings.newest())) == len(firings)


def test_an_acknowledgement_keeps_when_the_firing_was_written() -> None:
    [fired] = read([of_action(0, "a", "f"), of_action(5, "a", "f", state="acked")]).newest()
    assert (fired.open, fired.written_ms, fired.acked_ms) == (False, 60_000, 60_005)
    [fired] = read([of_action(5, "a", "f", state="acked")]).newest()
    assert (fired.written_ms, fired.acked_ms) == (None, 60_005)


def test_firings_from_before_a_place_begin_behind_it() -> None:
    firings = read([of_action(n, f"w{n}", f"f{n}", second=n // 2) for n in range(6)])
    newest = list(firings.newest())
    assert [each.id for each in newest] == ["f5", "f4", "f3", "f2", "f1", "f0"]
    for number, each in enumerate(newest):
        assert list(firings.newest(each.place)) == newest[number + 1 :]


def test_open_firings_are_counted_beyond_those_that_are_kept() -> None:
    records = [of_action(n, "d", f"f{n}", kind="durable", second=n) for n in range(5)]
    records.append(of_action(9, "d", "f0", kind="durable", state="acked"))
    found = read(records, most=2).durable("d")
    assert (found.open.count, found.open.since_ms) == (4, 60_001)
    assert [each.id for each in found.last] == ["f4", "f3"]
    assert read(records).open_of("other").since_ms is None


def test_places_of_open_firings_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_OPEN", 3)
    records = [of_action(n, "d", f"f{n}", kind="durable", second=n) for n in range(5)]
    assert read(records).open_of("d").count == 3
    records += [of_action(9, "d", "f0", kind="durable", state="acked")]
    records += [of_action(10, "d", "f9", kind="durable", second=9)]
    assert read(records).open_of("d").count == 3


def test_events_of_all_firings_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 3)
    two = (an_event("e1"), an_event("e2"))
    firings = read([of_action(n, f"w{n}", f"f{n}", second=n, events=two) for n in range(3)])
    assert [each.id for each in firings.newest()] == ["f2"]


def test_of_an_event_its_identity_place_and_times_are_known_and_no_data() -> None:
    one = an_event("e1", time=datetime(2026, 11, 20, 12, tzinfo=UTC), data={"secret": 1})
    fired = fired_in(of_action(0, "a", "f", events=(one, an_event("e2"))))
    assert fired is not None
    assert fired.events == {
        "x": (
            EventPlace("e1", "/shop", "x", "s", 1795176000000, "bus-event", 1, 7, 5),
            EventPlace("e2", "/shop", "x", "s", 5, "bus-event", 1, 7, 5),
        )
    }


def test_of_a_firing_with_many_events_the_first_are_kept_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fired_module, "MOST_EVENTS", 2)
    events = tuple(an_event(f"e{n}") for n in range(5))
    fired = fired_in(of_action(0, "a", "f", events=events, left_out={"x": 4}))
    assert fired is not None
    assert ([each.id for each in fired.events["x"]], fired.left_out) == (["e0", "e1"], 7)


def test_a_firing_whose_time_is_none_has_that_of_its_record() -> None:
    fired = fired_in(of_action(0, "a", "f", fired_at="yesterday"))
    assert fired is not None
    assert (fired.fired_at, fired.fired_ms) == ("yesterday", 60_000)


@pytest.mark.parametrize("value", [None, b"{", b'{"v":99}', b"{}"])
def test_what_is_no_firing_of_a_version_that_is_read_is_none(value: bytes | None) -> None:
    assert fired_in(Record(PLACE, 0, 0, b"a", value, None)) is None


def test_whose_firing_it_is_is_what_the_key_says() -> None:
    record = of_action(0, "d", "f", kind="durable")
    fired = fired_in(Record(PLACE, 0, 0, b"other", record.value, None))
    assert fired is not None
    assert (fired.subscription, fired.kind) == ("other", "one-shot")
