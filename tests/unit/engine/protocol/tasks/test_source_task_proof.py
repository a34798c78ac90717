"""The event hop on a bus that takes events of Interlock's own types only with proof."""

from __future__ import annotations

import pytest
from interlock import Event
from interlock.engine.config import BusConfig
from interlock.events.kafka import decode, encode
from interlock.events.proof import Proof
from interlock.events.taxonomy import DAG_RUN_SUCCEEDED

from tests.unit.engine.protocol import source_world
from tests.unit.engine.protocol.source_world import World

FROM_MS = 1_796_083_200_000
SETTINGS = {"interlock.proof.secret": "s" * 32, "interlock.proof.from": "2026-12-01T00:00:00Z"}
EVENT = Event.of(DAG_RUN_SUCCEEDED, "/prod/ledger", id="r1", subject="ledger", data={"rows": 1})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    client = {"bootstrap.servers": "nowhere", **SETTINGS}
    monkeypatch.setattr(source_world, "CONFIG", BusConfig(name="b", client=client))
    return World()


def put(world: World, event: Event, timestamp_ms: int = FROM_MS) -> None:
    key, value, headers = encode(event)
    world.put(key, value, headers, timestamp_ms)


def signed(topic: str = "b-event") -> Event:
    proof = Proof.of(SETTINGS, topic)
    assert proof is not None
    return proof.signed(EVENT)


def test_a_forged_event_becomes_a_dead_letter_and_the_real_one_a_match(world: World) -> None:
    w = world.register("w", DAG_RUN_SUCCEEDED, 0)
    for event in (EVENT, signed("other-event"), signed()):
        put(world, event)
    world.run()
    assert world.reached(w) == [2]
    [lacks, changed] = world.reasons
    assert "only with a proof of its emitters" in lacks
    assert "give its sender a connection with interlock.proof.secret" in lacks
    assert "made for another topic than b-event" in changed


def test_events_of_other_types_and_of_earlier_times_need_none(world: World) -> None:
    w = world.register("w", DAG_RUN_SUCCEEDED, 0)
    x = world.register("x", "com.shop.done", 0)
    put(world, EVENT, FROM_MS - 1)
    put(world, Event.of("com.shop.done", "/prod/ledger"))
    world.run()
    assert (world.reached(w), world.reached(x), world.dead) == ([0], [1], [])


def test_a_look_back_finds_what_was_accepted_live_and_no_forged_event(world: World) -> None:
    put(world, EVENT, FROM_MS - 1)
    put(world, EVENT)
    put(world, signed())
    world.run()
    assert len(world.dead) == 1
    late = world.register("late", DAG_RUN_SUCCEEDED, 0)
    world.run()
    world.run()
    assert (world.reached(late), len(world.dead)) == ([0, 2], 1)


def test_a_match_keeps_the_proof_so_that_its_dead_letter_can_be_redriven(world: World) -> None:
    world.register("w", DAG_RUN_SUCCEEDED, 0)
    put(world, signed())
    world.run()
    [(_, match)] = world.matches
    proof = Proof.of(SETTINGS, "b-event")
    assert proof is not None
    proof.check(decode(*encode(match.event)), FROM_MS)


def test_a_connection_without_the_settings_takes_any_event() -> None:
    world = World()
    w = world.register("w", DAG_RUN_SUCCEEDED, 0)
    put(world, EVENT)
    world.run()
    assert (world.reached(w), world.dead) == ([0], [])
