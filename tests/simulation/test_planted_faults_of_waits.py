"""Rules of waits, taken out one by one: the hunt finds each within a stated number of worlds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from interlock.engine.bus import TopicPartition
from interlock.engine.records import ActionRecord, Registration, decode_json
from interlock.engine.registry.leases import Leases
from interlock.engine.registry.registry import Registry
from interlock.engine.waiting import lease_writer
from interlock.engine.waiting.acknowledge import write
from interlock.engine.waiting.latest_firings import FiringRef
from interlock.engine.waiting.lease_writer import LeaseWriter
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
NAME, OLD = LeaseWriter._name, Leases.old


class WaitsThatAcknowledgeAtOnce(Waits):
    def deliver_firing(self, wait: Wait, value: bytes, place: str) -> None:
        super().deliver_firing(wait, value, place)
        action = decode_json(ActionRecord, value, "a firing")
        write(CONFIG, self.clients, (action,), self.registration_keys(wait))


def test_a_firing_that_is_acknowledged_before_its_task_is_resumed_is_found() -> None:
    made_of = MadeOf(waits=WaitsThatAcknowledgeAtOnce)
    assert_found(200, "acked", kept=1, turn=TURN, every=EVERY, made_of=made_of)


def test_leases_that_are_not_renewed_are_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(lease_writer, "LEASE_S", float("inf"))  # only new waits are put into a lease
    assert_found(4000, "lease", kept=9, turn=LEFT_ALONE, every=LATER_EVERY)


def test_a_renewal_that_is_not_written_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(LeaseWriter, "_renew", lambda *_, **__: True)
    assert_found(4000, "lease", kept=9, turn=LEFT_ALONE, every=LATER_EVERY)


def test_an_engine_that_looks_at_the_time_of_the_lease_alone_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Leases, "_renewed_ms", lambda _, lease: lease.written_ms)
    assert_found(4000, "lease", kept=9, turn=LEFT_ALONE, every=LATER_EVERY)


def test_a_renewal_that_keeps_what_its_process_has_released_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Leases, "_last_ms", Leases._renewed_ms)
    assert_found(4000, "lease", kept=9, turn=LEFT_ALONE, every=LATER_EVERY)


def test_a_process_that_releases_nothing_is_found(monkeypatch: Patch) -> None:
    def name(self: LeaseWriter, names: Iterable[str], registry: Registry, *, released: bool = False) -> bool:
        return released or NAME(self, names, registry)

    monkeypatch.setattr(LeaseWriter, "_name", name)
    assert_found(4000, "lease", kept=9, turn=LEFT_ALONE, every=LATER_EVERY)


class LeasesThatARenewalKeeps(Leases):
    """An old renewal counts for ever."""

    def last_ms(self, incarnation: str) -> int:
        renewed = [self._renewal_of(lease) for lease in self._last_ones(incarnation)]
        return 1 << 62 if any(renewed) else super().last_ms(incarnation)

    def old(self, before_ms: int) -> list[bytes]:
        return [
            key for key in super().old(before_ms) if self._renewals.get(key.decode().split("/")[1]) is None
        ]


def test_a_renewal_that_is_left_behind_and_counts_for_ever_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr("interlock.engine.registry.registry.Leases", LeasesThatARenewalKeeps)
    assert_found(4000, "lease", kept=73, turn=LEFT_ALONE, every=LATER_EVERY)


def test_an_engine_that_leaves_the_renewal_of_a_dead_process_is_found(monkeypatch: Patch) -> None:
    def old(self: Leases, before_ms: int) -> list[bytes]:
        return [key for key in OLD(self, before_ms) if not key.startswith(b"renewal/")]

    monkeypatch.setattr(Leases, "old", old)
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
