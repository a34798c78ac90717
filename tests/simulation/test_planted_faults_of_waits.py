"""Rules of waits, taken out one by one: the hunt finds each within a stated number of worlds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.records import ActionRecord, Registration, decode_json
from interlock.engine.waiting import registration_writer
from interlock.engine.waiting.acknowledge import write
from interlock.engine.waiting.latest_firings import FiringRef
from interlock.engine.waiting.waits import Wait, Waits

from tests.kit.clients import ClientReader, SimulatedClients
from tests.kit.made_of import MadeOf
from tests.simulation import waiting
from tests.simulation.actors import CONFIG
from tests.simulation.finding import OF_WAITS, assert_found, often
from tests.simulation.hunt import LATER_EVERY, LEFT_ALONE
from tests.simulation.topics import ACTION
from tests.simulation.waiting import EVERY, TURN

Patch = pytest.MonkeyPatch


class WaitsThatAcknowledgeAtOnce(Waits):
    def deliver_firing(self, wait: Wait, value: bytes, place: str) -> None:
        super().deliver_firing(wait, value, place)
        action = decode_json(ActionRecord, value, "a firing")
        write(CONFIG, self.clients, (action,), self.registration_keys(wait))


def test_a_firing_that_is_acknowledged_before_its_task_is_resumed_is_found() -> None:
    made_of = MadeOf(waits=WaitsThatAcknowledgeAtOnce)
    assert_found(200, "acked", kept=1, turn=TURN, every=EVERY, made_of=made_of)


def test_leases_that_are_not_renewed_are_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(registration_writer, "LEASE_S", float("inf"))  # only new waits are put into a lease
    assert_found(4000, "lease", kept=9, turn=LEFT_ALONE, every=LATER_EVERY)


class WaitsThatRemoveOneKey(Waits):
    def registration_keys(self, wait: Wait) -> tuple[str, ...]:
        return super().registration_keys(wait)[:1]


def test_a_removal_of_one_key_where_several_are_known_is_found() -> None:
    made_of = MadeOf(waits=WaitsThatRemoveOneKey)
    assert_found(4000, "left", kept=1, turn=TURN, every=EVERY, made_of=made_of)


class ReaderFromTheEnd(ClientReader):
    def __init__(self, clients: SimulatedClients) -> None:
        super().__init__(clients)
        self.cluster = clients.cluster

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        logs = self.cluster.topics[ACTION].logs
        if len(positions) > len(logs):  # the registry and all partitions of the action topic
            positions = {**positions, **{log.tp: log.stable_end for log in logs}}
        super().read(positions)


class ClientsThatReadFromTheEnd(SimulatedClients):
    def make_reader(self) -> ClientReader:
        return ReaderFromTheEnd(self)


def test_an_action_topic_that_is_read_from_its_end_after_a_restart_is_found() -> None:
    made_of = MadeOf(clients=ClientsThatReadFromTheEnd)
    assert_found(1000, "lost", kept=13, turn=TURN, every=EVERY, made_of=made_of)


class WaitsThatTakeAnyIncarnation(Waits):
    """Takes a firing of another incarnation of a subscription for that of the newest wait on it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.waited: dict[str, str] = {}

    def open(self, registration: Registration, *rest: Any) -> Wait:
        self.waited[registration.subscription] = registration.incarnation
        return super().open(registration, *rest)

    def newest_firing(self, subscription: str) -> FiringRef | None:
        found = super().newest_firing(subscription)
        return None if found is None else found._replace(incarnation=self.waited[subscription])


def test_a_wait_that_takes_a_firing_of_another_incarnation_is_found() -> None:
    made_of = MadeOf(waits=WaitsThatTakeAnyIncarnation)
    assert_found(1000, "once", kept=1, turn=TURN, every=EVERY, made_of=made_of)


class WaitsThatRegisterOnce(Waits):
    def register_again(self) -> None:
        pass


def test_a_registration_that_was_not_written_and_is_not_tried_again_is_found(monkeypatch: Patch) -> None:
    often(monkeypatch, {"no answer": 40}, of=waiting)
    made_of = MadeOf(waits=WaitsThatRegisterOnce)
    assert_found(2000, "lost", kept=101, turn=TURN, every=EVERY, made_of=made_of)


def test_waits_without_a_fault_hold() -> None:
    with pytest.raises(pytest.fail.Exception, match="not found"):
        assert_found(30, *OF_WAITS, kept=0, turn=TURN, every=EVERY)
