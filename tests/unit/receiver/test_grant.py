"""What a grant refuses, of one event and of several."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from interlock.events import Event
from interlock.receiver.grant import ANYBODY, Grant

TYPES = st.sampled_from(["com.example.a", "com.example.b", "interlock.a", "org.apache.kafka.record"])
EVENTS = st.lists(st.builds(Event.of, TYPES, st.sampled_from(["/a", "/b"]), id=st.just("1")), max_size=4)
GRANTS = {
    "anybody": ANYBODY,
    "own types too": Grant("a", ["*", "interlock.a"]),
    "some types": Grant("b", ["com.example.a", "interlock.*"]),
    "some sources": Grant("c", ["*"], ["/a"]),
}


@given(st.sampled_from(sorted(GRANTS)), EVENTS)
def test_events_are_refused_together_as_each_by_itself(name: str, events: list[Event]) -> None:
    grant = GRANTS[name]
    alone = [grant.refusal(event) for event in events]
    assert grant.refusals(events) == [each for each in alone if each is not None]
