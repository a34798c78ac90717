"""Which events took part in the firings of a durable subscription, read from the action topic."""

from __future__ import annotations

import pytest
from interlock import event
from interlock.conditions import EMPTY, Match, Seen, State, step
from interlock.engine.admin import firings
from interlock.engine.admin.firings import open_sentence, repeats
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.following.firings import DurableFirings, LastFirings
from interlock.engine.records import ActionRecord, FiringRecord, Registration, encode_json
from interlock.engine.registry.registry import Registered
from interlock.events import Event

ORDERS = event("orders", by="data.day", label="orders")
REGISTERED = Registered(Registration.of("d", ORDERS, None, 0, kind="durable"), ORDERS, 7, 5000)
PLACE = TopicPartition("b-action", 0)


def sent(id_: str) -> Event:
    return Event.of("orders", "/shop", id=id_, data={"day": "2026-11-20"})


def an_event(id_: str, stamp: int = 1000) -> Seen:
    return Seen(sent(id_), "b-event", 0, 0, stamp)


def action(id_: str, *events: str, state: str = "acked", name: str = "d", incarnation: str = "") -> Record:
    firing = FiringRecord(
        id=id_,
        outcome="met",
        key="2026-11-20",
        fired_at="2026-11-20T12:00:00Z",
        events={"orders": [sent(each).to_json_dict() for each in events]},
        origins={"orders": []},
    )
    record = ActionRecord(
        subscription=name,
        kind="durable",
        incarnation=incarnation or REGISTERED.incarnation,
        state=state,  # type: ignore[arg-type]
        firing=firing,
    )
    return Record(PLACE, 0, 2000, record.key, encode_json(record), None)


def read(*records: Record) -> DurableFirings:
    found = LastFirings()
    for record in records:
        found.apply(record)
    return found.durable("d")


def taken(
    *records: Record, among: tuple[str, ...] = ("e1", "e2"), sink: str = ""
) -> dict[tuple[str, str], str]:
    return firings.taken(REGISTERED, read(*records), [an_event(each) for each in among], sink)


def test_an_event_whose_run_exists_is_shown_with_its_firing() -> None:
    """explain said "fits: not read yet, or let go since" of events whose runs exist."""
    assert taken(action("f1", "e1"), action("f2", "e2", state="fired")) == {
        ("/shop", "e1"): "firing f1 of 2026-11-20T12:00:00Z; its run was created or skipped",
        ("/shop", "e2"): "firing f2 of 2026-11-20T12:00:00Z; its run was not created yet",
    }


@pytest.mark.parametrize(
    "record",
    [
        action("f", "e1", name="other"),
        action("f", "e1", incarnation="earlier"),
        action("f", "e9"),
        Record(PLACE, 0, 0, b"d\0f", None, None),
        Record(PLACE, 0, 0, b"d\0f", b"{", None),
        Record(PLACE, 0, 0, b"d", action("f", "e1").value, None),
    ],
    ids=["another subscription", "an earlier meaning", "another event", "swept", "unreadable", "a wait"],
)
def test_firings_of_others_do_not_count(record: Record) -> None:
    assert taken(record) == {}


def test_of_several_firings_of_an_event_the_latest_is_shown() -> None:
    assert [*taken(action("f1", "e1"), action("f2", "e1", state="fired")).values()] == [
        "firing f2 of 2026-11-20T12:00:00Z; its run was not created yet"
    ]


def test_open_firings_are_counted_with_the_time_of_the_oldest() -> None:
    found = read(action("f1", "e1", state="fired"), action("f2", "e2", state="fired"), action("f2", "e2"))
    assert "not dispatched yet: 1, the oldest of 1970-01-01T00:00:02+00:00" in open_sentence(found)
    assert open_sentence(read(action("f1", "e1"))) == ""


def test_firings_of_a_sink_are_delivered_instead_of_dispatched() -> None:
    records = (action("f1", "e1"), action("f2", "e2", state="fired"))
    sentence = open_sentence(read(*records), sink="connection crm, path /a")
    assert "not delivered yet: 1, the oldest of 1970" in sentence
    assert "They go to connection crm, path /a" in sentence
    assert [text.partition("; ")[2] for text in taken(*records, sink="connection crm").values()] == [
        "it was delivered, given up or skipped",
        "it was not delivered yet",
    ]


def test_events_that_a_key_without_partial_matches_has_seen_are_repeats() -> None:
    """Without --key, the states of the keys that have fired were not looked at."""
    state, [_] = step(ORDERS, EMPTY, Match(sent("e1"), (0,), "b-event", 0, 0, 1000))
    assert state.is_idle
    idle = {"2026-11-20": state.encode(), "2026-11-21": b"\xc1"}
    assert repeats(ORDERS, idle, [an_event("e1"), an_event("e2")]) == {("/shop", "e1"): ""}
    assert repeats(ORDERS, idle, [an_event("e1", 1000 + 3_600_001)]) == {}
    assert repeats(ORDERS, {}, [an_event("e1")]) == {}
    assert repeats(ORDERS, {"2026-11-20": State().encode()}, [an_event("e1")]) == {}
