"""States that are kept undecoded: what they say is what an engine's store says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.conditions import ConditionError, State
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.errors import RecordError
from interlock.engine.following.states import Pending, States
from interlock.engine.protocol.tasks.store import Store
from interlock.engine.protocol.tasks.trigger_task import single_key
from interlock.engine.records import CLOCK_KEY, Registration
from interlock.engine.registry.registry import Registered

from tests.unit.engine.following.logs import HALF_MET, IDLE, PAIR, meta, of_state, state

ONE = Registered(Registration.of("one", PAIR, "k", 0), PAIR, 1, 0)
MANY = Registered(Registration.of("many", PAIR, None, 0, kind="durable"), PAIR, 2, 0)
VALUES = {
    None: [None, meta(), meta(HALF_MET), meta(closed=True), b"damaged", meta(v=99)],
    "k": [None, state(HALF_MET), state(IDLE), state(b"\xc1"), b"damaged", state(HALF_MET, v=99)],
}
STEPS = st.lists(
    st.sampled_from([ONE, MANY]).flatmap(
        lambda whose: st.sampled_from([None, "k", "l"]).flatmap(
            lambda key: st.tuples(
                st.just(whose.incarnation),
                st.just(key),
                st.sampled_from(VALUES[None if key is None else "k"]),
            )
        )
    ),
    max_size=20,
)


def by_store(records: Sequence[Record], registered: Registered) -> Pending:
    """As an engine reads them."""
    store, pending = Store(), Pending()
    for record in records:
        try:
            store.load(record)
        except RecordError:
            pending.unreadable += (record.key or b"").startswith(registered.incarnation.encode())
    kept = store.get(registered.incarnation)
    if kept is not None:
        pending.closed = kept.closed
        if kept.only is not None:
            pending.keys[single_key(registered) or ""] = kept.only[1]
        for key, (_, data) in kept.keys.items():
            try:
                is_idle = State.decode(data).is_idle
            except ConditionError:
                is_idle = False
            (pending.idle if is_idle else pending.keys)[key] = data
    return pending


@settings(max_examples=300)
@given(STEPS)
def test_what_is_pending_is_what_a_store_has(steps: Sequence[tuple[str, Any, Any]]) -> None:
    records = [of_state(offset, *each) for offset, each in enumerate(steps)]
    states = States()
    for record in records:
        states.apply(record)
    for registered in (ONE, MANY):
        found = Pending()
        states.add_to(found, registered)
        assert found == by_store(records, registered)


@settings(max_examples=100)
@given(STEPS)
def test_the_size_is_that_of_what_is_kept(steps: Sequence[tuple[str, Any, Any]]) -> None:
    records = [of_state(offset, *each) for offset, each in enumerate(steps)]
    states = States()
    for record in records:
        states.apply(record)
    for number, (incarnation, key, _) in enumerate(steps):
        states.apply(of_state(100 + number, incarnation, key, None))
    assert (states.size, len(states)) == (0, 0)


def test_keys_with_a_state_are_counted_without_a_look_at_them() -> None:
    states = States()
    states.apply(of_state(0, ONE.incarnation, None, meta(HALF_MET)))
    for number, key in enumerate("kl"):
        states.apply(of_state(number, MANY.incarnation, key, state(b"\xc1")))
    states.apply(of_state(9, MANY.incarnation, None, meta()))
    assert [states.count(each.incarnation) for each in (ONE, MANY)] == [1, 2]


def test_a_key_alone_is_kept_or_asked_for() -> None:
    records = [of_state(n, MANY.incarnation, key, state(HALF_MET)) for n, key in enumerate("kl")]
    one, all_ = States(lambda _, key: key in (None, "k")), States()
    for record in records:
        one.apply(record)
        all_.apply(record)
    for states, key in ((one, None), (all_, "k")):
        pending = Pending()
        states.add_to(pending, MANY, key)
        assert list(pending.keys) == ["k"]


@pytest.mark.parametrize(
    "record",
    [
        of_state(0, "x", None, None),
        Record(TopicPartition("bus-state", 0), 0, 0, CLOCK_KEY, b"", None),
        Record(TopicPartition("bus-state", 0), 0, 0, b"\xff", b"", None),
        Record(TopicPartition("bus-state", 0), 0, 0, b"x", b"", None, "the client cannot read it"),
    ],
    ids=["a removal of nothing", "a clock", "no text", "a fault"],
)
def test_records_that_hold_no_state_leave_nothing(record: Record) -> None:
    states = States()
    states.apply(record)
    assert (states.size, len(states)) == (0, 0)
