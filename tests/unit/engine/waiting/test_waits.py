"""The waits of a process, on a reader and a producer that play a given part."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException
from interlock import event
from interlock.engine.bus import End, Record
from interlock.engine.errors import EngineError, UnknownVersion
from interlock.engine.records import (
    ActionRecord,
    LeaseRecord,
    Registration,
    RegistrationKey,
    RenewalRecord,
    decode_json,
    encode_json,
)
from interlock.engine.registry.pause import MOST_PAUSE_S
from interlock.engine.waiting.dispatching import Durable
from interlock.engine.waiting.latest_firings import KEPT_MS, LatestFirings
from interlock.engine.waiting.lease_writer import LEASE_S
from interlock.engine.waiting.notices import Notice
from interlock.engine.waiting.waits import MOST_MISSES, PROBE_S, FiringForWait
from msgspec.structs import replace

from tests.unit.engine.waiting.waits_stage import ENDS, REGISTRY, Stage, V, W, action, bus_record


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr("interlock.engine.kafka.wait_clients.check", lambda *_, **__: {"b-action": 1})
    monkeypatch.setattr("interlock.engine.kafka.wait_clients.KafkaReader", lambda *_, **__: made)
    monkeypatch.setattr("confluent_kafka.Producer", lambda _: made)
    # The real one reads the topic again; tests/integration/engine shows it.
    monkeypatch.setattr("interlock.engine.waiting.waits.fetch", made.fetch)
    return made


def test_a_process_that_stood_still_for_hours_reads_all_again(stage: Stage) -> None:
    """A removal from that time may be gone: its registration would look as if it were in force."""
    stage.open(W)
    stage.run(ENDS)
    with pytest.raises(EngineError, match=r"b-subscription\[0\] was not read for 6\.0 hours"):
        stage.run([stage.registered(), *ENDS], stage.after(MOST_PAUSE_S + 1))
    stage.run(ENDS)
    assert len(stage.produced) == 2


def test_a_wait_is_registered_once_all_is_read_and_not_before(stage: Stage) -> None:
    stage.open(W)
    stage.run([End(REGISTRY, 0)])
    assert stage.produced == []
    stage.run(ENDS)
    [(key, value)] = stage.produced
    assert key.startswith(W.incarnation.encode() + b":")
    assert decode_json(Registration, value, "x") == W


def test_what_is_waited_for_is_leased_now_and_then_and_the_lease_ends_with_the_process(stage: Stage) -> None:
    wait, _ = stage.open(W)
    stage.open(V)
    later = stage.after(LEASE_S + 1)

    def closes() -> list[Any]:
        stage.waits.close(wait)
        return later()

    stage.run(ENDS, later, closes, list)
    key, value = stage.leases[0]
    assert key.startswith(b"lease/airflow-")
    assert set(decode_json(LeaseRecord, value or b"", "x").incarnations) == {W.incarnation, V.incarnation}
    renewal, renewed = b"renewal/" + key.split(b"/")[1], encode_json(RenewalRecord())
    # The registry shows neither registration, so nothing that the lease names needs its day.
    assert stage.leases[1:] == [(renewal, renewed), (renewal, renewed), (key, None), (renewal, None)]


def test_the_leases_of_a_connection_that_broke_are_renewed_by_the_next_one(stage: Stage) -> None:
    stage.open(W)

    def opens() -> list[Any]:
        stage.open(V)
        return stage.after(PROBE_S + 1)()

    def breaks() -> list[Any]:
        raise EngineError("the connection broke")

    with pytest.raises(EngineError, match="broke"):
        stage.run(ENDS, stage.after(PROBE_S + 1), opens, breaks)
    leases = [
        Record(REGISTRY, offset, 0, key, value, None) for offset, (key, value) in enumerate(stage.leases)
    ]
    first, renewal, second = (key for key, _ in stage.leases)  # a lease for each wait
    assert {first, second} == {each.key for each in leases} - {renewal}
    stage.leases.clear()
    stage.echoed = 0
    stage.run([*leases, *ENDS], stage.after(PROBE_S + 1))
    assert [key for key, _ in stage.leases] == [renewal, first, second, renewal]
    assert [value is None for _, value in stage.leases] == [False, True, True, True]


def test_durable_subscriptions_whose_firings_are_handed_on_here_are_leased_too(stage: Stage) -> None:
    durable = Durable(
        subscription="s", condition=event("x", by="subject").to_json(), since_ms=0, since_given=False,
        max_keys=10, at_limit="dead-letter",
    )  # fmt: skip
    registration = durable.registration()
    key = RegistrationKey(registration.incarnation, "n").encode()
    stage.waits.dispatching.open(durable, [].append)
    shown = Record(REGISTRY, 1, 0, key, encode_json(registration), None)
    stage.run([bus_record(2), shown, *ENDS], stage.after(LEASE_S + 1))
    (_, value), _, ended = stage.leases
    assert decode_json(RenewalRecord, ended[1] or b"", "x").ended
    assert decode_json(LeaseRecord, value, "x").incarnations == [registration.incarnation]


def test_nothing_is_leased_in_a_version_that_the_registry_has_not_shown_yet(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease of the next release ended the engines of this one during a rolling upgrade."""
    bus = bus_record(7)
    monkeypatch.setattr("interlock.engine.records.versions.VERSION", 2)
    monkeypatch.setattr("interlock.engine.registry.registry.VERSION", 2)
    stage.open(W)
    stage.run(stage.after(PROBE_S + 1), [bus, *ENDS], stage.after(PROBE_S + 1), list)
    assert {json.loads(value)["v"] for _, value in stage.leases if value} == {1}


def test_a_process_without_waits_leases_nothing(stage: Stage) -> None:
    stage.run(ENDS, stage.after(LEASE_S + 1), stage.after(LEASE_S + 1))
    assert stage.leases == []


@pytest.mark.parametrize(
    "other",
    [replace(action(W), key=b"w\0firing"), action(Registration.of("w", event("x"), None, 9))],
    ids=["a durable subscription", "another incarnation"],
)
def test_a_firing_of_another_registration_is_nobodys(stage: Stage, other: Record) -> None:
    _, received = stage.open(W)
    stage.run(ENDS, [other])
    stage.run([other, *ENDS])
    assert received == []


def test_a_wait_that_is_registered_already_is_not_registered_again(stage: Stage) -> None:
    stage.open(W)
    stage.run(ENDS)
    shown = stage.registered()
    stage.run([shown, *ENDS])
    assert len(stage.produced) == 1


def test_a_firing_is_delivered_with_the_keys_of_its_registration(stage: Stage) -> None:
    _, received = stage.open(W)
    stage.run(ENDS, lambda: [stage.registered()], [action(W)])
    [firing] = received
    assert isinstance(firing, FiringForWait)
    assert firing.action.incarnation == W.incarnation
    assert [key.encode() for key in firing.registration_keys] == [stage.produced[0][0]]


@pytest.mark.parametrize("accepts", [True, False])
def test_a_firing_of_another_incarnation_is_delivered_where_it_serves_and_else_the_wait_is_registered(
    stage: Stage, accepts: bool
) -> None:
    other = Registration.of("w", event("x"), None, 0, generation=1)
    asked: list[Any] = []
    received: list[Any] = []

    def will_do(action: ActionRecord) -> bool:
        asked.append(action.incarnation)
        return accepts

    stage.waits.open(other, received.append, will_do)
    stage.run([action(W), *ENDS], [], [])
    assert asked == [W.incarnation]
    assert [d.action.incarnation for d in received] == ([W.incarnation] if accepts else [])
    registered = [decode_json(Registration, value, "x").incarnation for _, value in stage.produced]
    assert registered == ([] if accepts else [other.incarnation])


def test_a_firing_that_cannot_be_read_serves_nobody(stage: Stage) -> None:
    other = Registration.of("w", event("x"), None, 0, generation=1)
    stage.waits.open(other, pytest.fail, lambda _: True)
    unreadable = replace(action(W), value=b'{"incarnation": "i"}')
    stage.run([unreadable, *ENDS], [], [])
    assert len(stage.produced) == 1


def test_a_withdrawn_wait_takes_its_own_registration_back_and_no_later_one(stage: Stage) -> None:
    later = Registration.of("w", event("x"), None, 0, generation=1)
    wait, _ = stage.open(W)

    def opens() -> list[Any]:
        stage.waits.open(later, lambda _: None)
        return [stage.registered()]

    def withdraws() -> list[Any]:
        stage.waits.withdraw(wait)
        return [stage.registered(1)]

    stage.run(ENDS, opens, withdraws, [])
    own = stage.produced[0][0]
    assert [(key, value) for key, value in stage.leases if not key.startswith(b"lease/")] == [(own, None)]


def test_a_wait_that_is_opened_again_is_not_withdrawn(stage: Stage) -> None:
    wait, _ = stage.open(W)

    def again() -> list[Any]:
        stage.open(W)
        stage.waits.withdraw(wait)
        return [stage.registered()]

    stage.run(ENDS, again, [])
    assert [key for key, _ in stage.leases if not key.startswith(b"lease/")] == []


def test_a_registration_that_is_removed_under_an_open_wait_is_written_again(stage: Stage) -> None:
    """As when a triggerer that had lost its waits to another one notices it late, and withdraws them."""
    stage.open(W)
    stage.run(
        ENDS, lambda: [stage.registered()], lambda: [replace(stage.registered(), offset=1, value=None)], []
    )
    assert len(stage.produced) == 2


def test_a_registration_that_another_incarnation_replaced_is_not_written_again(stage: Stage) -> None:
    later = Registration.of("w", event("x"), None, 0, generation=1)
    stage.open(W)
    replacing = Record(REGISTRY, 1, 0, f"{later.incarnation}:n".encode(), encode_json(later), None)
    stage.run(ENDS, lambda: [stage.registered()], [replacing], [])
    assert len(stage.produced) == 1


def test_hundreds_of_waits_are_registered_in_one_pass(stage: Stage) -> None:
    def opens() -> list[Any]:
        for number in range(500):
            stage.open(Registration.of(f"w/{number}", event("x"), None, 0))
        return []

    counts: list[int] = []
    stage.run(ENDS, opens, lambda: counts.append(len(stage.produced)) or [])
    assert counts == [500]


def test_a_wait_that_is_opened_later_is_served_as_well(stage: Stage) -> None:
    received: list[Any] = []

    def opens() -> list[Any]:
        stage.waits.open(W, received.append)
        stage.waits.open(V, received.append)
        return []

    stage.run([action(V), *ENDS], opens)
    assert [d.action.subscription for d in received] == ["v"]
    assert [decode_json(Registration, value, "x") for _, value in stage.produced] == [W]


def test_an_existing_firing_is_delivered_without_registering(stage: Stage) -> None:
    _, received = stage.open(W)
    stage.run([action(W, state="acked"), *ENDS])
    assert [d.action.state for d in received] == ["acked"]
    assert stage.produced == []


def test_a_firing_that_was_replaced_while_it_was_fetched_is_looked_for_again(stage: Stage) -> None:
    """The task wrote it again, acknowledged, and compaction removed the first."""
    _, received = stage.open(W)
    stage.removed = True
    stage.run([action(W), *ENDS])
    assert received == []
    stage.removed = False
    stage.run([action(W), *ENDS], [action(W, offset=1, state="acked")])
    assert "acked" in [d.action.state for d in received]


def test_a_wait_whose_firing_retention_removed_is_registered_again(stage: Stage) -> None:
    _, received = stage.open(W)
    stage.removed = True
    stage.run([action(W), *ENDS], *([[]] * MOST_MISSES))
    assert received == []
    assert len(stage.produced) == 1


def test_firings_older_than_their_topic_keeps_them_take_no_memory() -> None:
    actions = LatestFirings()
    actions.follow(replace(action(W), timestamp_ms=0))
    actions.follow(replace(action(V, 1), timestamp_ms=KEPT_MS + 1))
    assert actions.newest("w") is None
    assert actions.newest("v") is not None


def test_a_firing_read_before_the_registry_waits_for_the_keys_it_must_null(stage: Stage) -> None:
    """After a reconnection the partitions come in any order."""
    stage.open(W)
    stage.run(ENDS)
    shown = stage.registered()
    stage.waits = stage.new_waits()  # another triggerer's, which did not register this wait itself
    _, received = stage.open(W)
    stage.run([action(W)], [shown, *ENDS])
    [firing] = received
    assert [key.encode() for key in firing.registration_keys] == [shown.key]


def test_a_wait_knows_the_key_it_registered_before_the_registry_shows_it(stage: Stage) -> None:
    wait, received = stage.open(W)
    stage.run(ENDS, [action(W)])
    keys = {stage.produced[0][0].decode()}
    assert set(received[0].registration_keys) == keys
    assert set(stage.waits.registration_keys(wait)) == keys


def test_open_waits_are_served_by_the_next_connection(stage: Stage) -> None:
    _, received = stage.open(W)

    def breaks() -> list[Any]:
        raise EngineError("the connection broke between read and deliver")

    with pytest.raises(EngineError, match="broke"):
        stage.run(ENDS, breaks)
    assert received == []
    stage.run([action(W), stage.registered(), *ENDS])
    assert len(received) == 1


def test_a_closed_wait_gets_nothing_and_is_not_registered(stage: Stage) -> None:
    wait, received = stage.open(W)
    stage.waits.close(wait)
    stage.waits.close(wait)
    stage.run(ENDS, [action(W)])
    assert (received, stage.produced) == ([], [])


def test_two_waits_on_one_incarnation_both_get_the_firing(stage: Stage) -> None:
    (one, first), (_, second) = stage.open(W), stage.open(W)
    stage.run(ENDS, [action(W)])
    assert (len(first), len(second)) == (1, 1)
    stage.waits.close(one)
    stage.run([action(W), *ENDS])
    assert (len(first), len(second)) == (1, 2)


@pytest.mark.parametrize(
    "value", [b"rubbish", b"\xff", b'{"incarnation": "%s", "v": 9}' % W.incarnation.encode()]
)
def test_an_action_record_that_cannot_be_read_stops_no_other_wait(
    stage: Stage, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (_, mine), (_, others) = stage.open(W), stage.open(V)
    bad = replace(action(W), value=value)
    with caplog.at_level(logging.ERROR, "interlock.engine"):
        stage.run(ENDS, [bad, action(V, 1)])
        stage.run([bad, action(V, 1), *ENDS])
    assert len(others) == 2
    assert not [item for item in mine if isinstance(item, FiringForWait)]
    assert "'w'" in caplog.text or "b-action[0]@0" in caplog.text


def test_a_wait_whose_firing_cannot_be_read_is_notified(stage: Stage) -> None:
    _, received = stage.open(W)
    newer = msgspec.json.encode({**msgspec.json.decode(action(W).value or b""), "v": 9})
    stage.run(ENDS, [replace(action(W), value=newer)])
    stage.run([replace(action(W), value=newer), *ENDS])  # as after a start
    for notice in received:
        assert isinstance(notice, Notice)
        assert notice.text == (
            "The firing of 'w', b-action[0]@0, holds an ActionRecord of version 9; this Interlock reads 1. "
            "Upgrade this process to the release that wrote it, or a later one."
        )
    assert len(received) == 2


def test_waits_end_at_a_registry_record_of_a_later_version_which_each_task_hears_of(stage: Stage) -> None:
    later = encode_json(LeaseRecord(v=9, deployment="d", incarnations=[], host="h"))
    stage.open(W)
    with pytest.raises(UnknownVersion, match=r"b-subscription\[0\]@0 holds a LeaseRecord of version 9"):
        stage.run([Record(REGISTRY, 0, 0, b"lease/p/0", later, None), *ENDS])
    assert stage.produced == []
    with pytest.raises(UnknownVersion):
        stage.run(ENDS, [Record(REGISTRY, 0, 0, b"lease/p/0", later, None)])


def test_a_waiter_whose_event_loop_is_closed_stops_no_other_wait(stage: Stage) -> None:
    def closed(_: object) -> None:
        raise RuntimeError("Event loop is closed")

    stage.waits.open(W, closed)
    _, received = stage.open(V)
    stage.run(ENDS, [action(W), action(V, 1)])
    assert len(received) == 1


def test_a_registration_that_the_client_refuses_is_notified_to_its_task_and_stops_no_other(
    stage: Stage,
) -> None:
    (_, mine), _ = stage.open(W), stage.open(V)
    stage.refusals = [KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))]
    stage.run(ENDS)
    assert [decode_json(Registration, value, "x") for _, value in stage.produced] == [V]
    [notice] = mine
    assert "too large" in notice.text


def test_a_full_queue_delays_a_registration_only(stage: Stage) -> None:
    stage.open(W)
    stage.refusals = [BufferError("Local: Queue full"), BufferError("Local: Queue full")]
    stage.run(ENDS)
    assert len(stage.produced) == 1


@pytest.mark.parametrize("by_me", [True, False])
def test_a_wait_whose_registration_is_not_there_is_registered_again(stage: Stage, by_me: bool) -> None:
    """It was lost on its way, or somebody removed what another triggerer had registered."""
    stage.open(W)
    if by_me:
        stage.run(ENDS, stage.after(100), list)
    else:
        stage.open(V)
        theirs = Record(REGISTRY, 0, 0, f"{W.incarnation}:theirs".encode(), encode_json(W), None)
        gone = replace(theirs, offset=1, value=None)
        stage.run([theirs, *ENDS], stage.after(100, gone), list)
    mine = [key for key, _ in stage.produced if key.startswith(W.incarnation.encode())]
    assert len(mine) == (2 if by_me else 1)


def test_a_registration_that_the_broker_refuses_is_notified_to_its_task(stage: Stage) -> None:
    """The client takes the record; only its delivery fails."""
    _, received = stage.open(W)
    stage.delivery_error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    stage.run(ENDS)
    [notice] = received
    assert isinstance(notice, Notice)
    assert "'w' could not be registered" in str(notice.text)
