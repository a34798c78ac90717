"""Rules of those who wait, taken out one by one: the hunt finds each within a stated number of worlds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.records import ActionRecord, Registration, decode_json
from interlock.engine.waiting import registration_writer
from interlock.engine.waiting.acknowledge import write
from interlock.engine.waiting.latest_firings import FiringRef, LatestFirings
from interlock.engine.waiting.waits import Waits

from tests.kit.clients import SimulatedClients, SimulatedReader
from tests.simulation import waiting
from tests.simulation.actors import CONFIG
from tests.simulation.faults import wrap
from tests.simulation.finding import OF_WAITS, assert_found, often
from tests.simulation.hunt import LATER_EVERY, LEFT_ALONE
from tests.simulation.waiters import ACTION
from tests.simulation.waiting import EVERY, TURN

Patch = pytest.MonkeyPatch


def test_a_firing_that_is_acknowledged_before_its_task_is_resumed_is_found(monkeypatch: Patch) -> None:
    def at_once(original: Any, self: Waits, wait: Any, value: bytes) -> None:
        original(self, wait, value)
        action = decode_json(ActionRecord, value, "a firing")
        clients = self._clients
        assert isinstance(clients, SimulatedClients)
        write(CONFIG, clients, (action,), self.registration_keys(wait))

    wrap(monkeypatch, Waits, "_deliver", at_once)
    assert_found(200, "acked", kept=1, turn=TURN, every=EVERY)


def test_leases_that_are_not_renewed_are_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(registration_writer, "LEASE_S", float("inf"))  # new ones are named, and that is all
    assert_found(4000, "lease", kept=9, turn=LEFT_ALONE, every=LATER_EVERY)


def test_a_removal_of_one_key_where_several_are_known_is_found(monkeypatch: Patch) -> None:
    def one(original: Any, self: Waits, wait: Any) -> tuple[str, ...]:
        return tuple(original(self, wait)[:1])

    wrap(monkeypatch, Waits, "registration_keys", one)
    assert_found(4000, "left", kept=1, turn=TURN, every=EVERY)


def test_firings_that_are_read_from_their_end_after_a_restart_are_found(monkeypatch: Patch) -> None:
    def from_the_end(original: Any, self: SimulatedReader, positions: Mapping[TopicPartition, int]) -> None:
        logs = self._fetching._cluster.topics[ACTION].logs
        if len(positions) > len(logs):  # the registry and all
            positions = {**positions, **{log.tp: log.stable_end for log in logs}}
        original(self, positions)

    wrap(monkeypatch, SimulatedReader, "read", from_the_end)
    assert_found(1000, "lost", kept=13, turn=TURN, every=EVERY)


def test_a_firing_of_another_incarnation_that_is_taken_for_ones_own_is_found(monkeypatch: Patch) -> None:
    waited: dict[str, str] = {}

    def whosever(original: Any, self: LatestFirings, subscription: str) -> FiringRef | None:
        place: FiringRef | None = original(self, subscription)
        return None if place is None else place._replace(incarnation=waited[subscription])

    def opened(original: Any, self: Waits, registration: Registration, *rest: Any) -> Any:
        waited[registration.subscription] = registration.incarnation
        return original(self, registration, *rest)

    wrap(monkeypatch, LatestFirings, "newest", whosever)
    wrap(monkeypatch, Waits, "open", opened)
    assert_found(1000, "once", kept=1, turn=TURN, every=EVERY)


def test_a_registration_that_was_not_written_and_is_not_tried_again_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Waits, "_register_again", lambda self: None)
    often(monkeypatch, "no answer", 40, of=waiting)
    assert_found(2000, "lost", kept=101, turn=TURN, every=EVERY)


def test_waits_without_a_fault_hold() -> None:
    with pytest.raises(pytest.fail.Exception, match="not found"):
        assert_found(100, *OF_WAITS, kept=0, turn=TURN, every=EVERY)
