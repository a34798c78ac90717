"""The trigger hop of durable subscriptions, and of waits with many keys: what is kept, and how much."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pytest
from interlock import event
from interlock.conditions import EMPTY, Match, Part, absent, firing_id, step
from interlock.conditions.evaluate.seen import SEEN_MS
from interlock.engine.bus import Record
from interlock.engine.records import (
    DEFAULT_MAX_KEYS,
    MatchRecord,
    MatchTarget,
    Registration,
    StateRecord,
    encode_msgpack,
    state_key,
)

from tests.unit.engine.protocol.trigger_log import (
    EITHER,
    HALVES,
    PAIR,
    STATE,
    TTL,
    Log,
    an_event,
    at,
    durable,
    log_of_durable,
    met,
    pair,
    register,
)


def test_a_durable_subscription_fires_again_and_again_each_firing_under_its_own_key() -> None:
    log, d = log_of_durable()
    log.run(pair(d, 0, "x", "1", "p"), pair(d, 1, "y", "2", "p"), pair(d, 2, "x", "3", "p"))
    log.run(pair(d, 3, "y", "4", "p"), pair(d, 4, "x", "5", "q"), pair(d, 5, "y", "6", "q"))
    assert [[e["id"] for e in f["firing"]["events"]["x"]] for f in log.firings] == [["1"], ["3"], ["5"]]
    assert len(set(log.keys)) == 3
    assert all(
        key == f"d\0{f['firing']['id']}".encode() for key, f in zip(log.keys, log.firings, strict=True)
    )


def test_every_firing_of_one_tick_is_written() -> None:
    log, d = log_of_durable(absent(event("h"), "1s"))
    target = MatchTarget(0, d.incarnation, (0,), "")
    for n, stamp in enumerate((1000, 3000, 5000)):
        log.run(MatchRecord(1, "b-event", 0, n, stamp, an_event("h", str(n)), [target]))
    assert log.firings == []
    log.tick(5500)
    assert [f["firing"]["timer_ms"] for f in log.firings] == [2000, 4000]
    heartbeat = Match(an_event("h", "1"), (0,), "b-event", 0, 1, 3000)
    expected = firing_id(d.incarnation, "", "met", [Part("h", heartbeat)], 4000)
    assert log.firings[1]["firing"]["id"] == expected
    assert len(set(log.keys)) == 2


def test_a_repeat_after_a_firing_is_known_until_the_key_closes() -> None:
    log, d = log_of_durable(event("x", by="data.k"))
    log.run(pair(d, 0, "x", "1", "p"), pair(d, 1, "x", "1", "p"))
    assert len(log.firings) == 1
    assert log.task().due_at() == 1000 + SEEN_MS + 1
    log.tick(1000 + SEEN_MS)
    log.run(pair(d, 2, "x", "1", "p"))
    assert (len(log.firings), log.task().open_keys) == (1, 1)
    log.tick(1000 + SEEN_MS + 1)
    assert log.task().open_keys == 0
    assert set(log.live_states()) == {state_key(d.incarnation, None)}


def test_at_the_limit_a_new_key_goes_to_the_dead_letters_and_open_ones_continue() -> None:
    log = Log(partitions=2)
    d = durable(log, max_keys=3)  # two on each partition
    log.run(*(pair(d, n, "x", str(n), key) for n, key in enumerate("pqr")))
    [dead] = log.dead
    headers = dict(dead.headers)
    assert (headers["interlock_stage"], headers["interlock_origin"]) == (b"trigger", b"b-event[0]@2")
    assert b"max_keys=3" in headers["interlock_reason"]
    log.run(pair(d, 3, "y", "3", "p"), pair(d, 4, "y", "4", "q"))
    assert [f["firing"]["key"] for f in log.firings] == ["p", "q"]


def test_at_the_limit_the_key_that_was_opened_first_is_dropped_where_that_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, d = log_of_durable(max_keys=2, at_limit="drop-oldest")
    with caplog.at_level("WARNING", "interlock.engine"):
        log.run(*(pair(d, n, "x", str(n), key) for n, key in enumerate("pqrs")))
    assert (log.dead, log.task().open_keys) == ([], 2)
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "r", "s")}
    assert len(caplog.records) == 1


@pytest.mark.parametrize("at_limit", ["dead-letter", "drop-oldest"])
@pytest.mark.parametrize("together", [True, False])
def test_at_the_limit_keys_with_nothing_pending_make_room_first(
    at_limit: Literal["dead-letter", "drop-oldest"], together: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log, d = log_of_durable(max_keys=3, at_limit=at_limit)
    matches = [
        pair(d, 0, "x", "0", "open"),
        *(pair(d, 2 * n + half, kind, f"{kind}{n}", f"k{n}") for n in range(1, 20) for half, kind in HALVES),
    ]
    if together:
        log.run(*matches)
    else:
        for match in matches:
            log.run(match)
    assert (len(log.firings), log.dead, log.stats.keys_dropped, caplog.records) == (19, [], 0, [])
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "open", "k18", "k19")}


def test_a_key_that_has_something_pending_again_makes_no_room() -> None:
    log, d = log_of_durable(max_keys=2)
    log.run(*(pair(d, n, kind, kind, "p") for n, kind in HALVES), pair(d, 2, "x", "2", "q"))
    log.run(pair(d, 3, "x", "3", "p"), pair(d, 4, "x", "4", "r"))
    assert len(log.dead) == 1
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "p", "q")}


def test_room_made_in_an_aborted_transaction_is_taken_back() -> None:
    log, d = log_of_durable(max_keys=2)
    log.run(*(pair(d, n, kind, kind, "p") for n, kind in HALVES), pair(d, 2, "x", "2", "q"))
    task = log.task()
    offset = log.committed.offset
    for _ in range(2):
        outputs = log.outputs()
        task.process(at(offset), pair(d, 3, "x", "3", "r"), outputs, 0)
        assert (outputs.records, task.open_keys) == ([], 2)
        task.rollback()
    outputs = log.outputs()
    task.process(at(offset), pair(d, 3, "x", "3", "r"), outputs, 0)  # takes the room of p
    log.commit(task, outputs)
    assert log.dead == []
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "q", "r")}


def test_an_event_that_cannot_be_evaluated_drops_no_key_at_the_limit() -> None:
    log, d = log_of_durable(max_keys=2, at_limit="drop-oldest")
    log.run(*(pair(d, n, "x", str(n), key) for n, key in enumerate("pq")))
    log.run(met(2, an_event("x", "2"), MatchTarget(0, d.incarnation, (7,), "r")))
    assert len(log.dead) == 1
    assert set(log.live_states()) == {state_key(d.incarnation, key) for key in (None, "p", "q")}


def keyless(log: Log, **more: Any) -> Registration:
    """A wait that names no key, of a condition that has some."""
    limited = msgspec.structs.replace(Registration.of("w", PAIR, None, 0), **more)
    return register(log.registry, 0, limited)


def test_a_wait_without_a_key_has_as_many_open_keys_as_a_durable_subscription_at_most() -> None:
    assert keyless(Log()).max_keys == DEFAULT_MAX_KEYS == 100_000


def test_beyond_the_limit_of_a_wait_new_keys_go_to_the_dead_letters_and_that_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = Log(partitions=4)  # all its keys are on one of them
    w = keyless(log, max_keys=20)
    with caplog.at_level("WARNING", "interlock.engine"):
        log.run(*(pair(w, n, "x", str(n), f"k{n}") for n in range(23)))
    assert len(log.dead) == 3
    reason = dict(log.dead[0].headers)["interlock_reason"]
    assert reason == (
        b"'w' has no room for another key: 20 are open on b-trigger[0], the limit of a wait, max_keys=20."
    )
    [text] = [record.message for record in caplog.records]
    assert text.startswith("'w' waits without a key and has 20 open keys, the limit")
    log.run(pair(w, 23, "y", "y", "k7"))
    assert [f["firing"]["key"] for f in log.firings] == ["k7"]


def test_a_wait_without_room_is_reported_until_a_tenth_of_its_keys_are_closed_or_it_is_over() -> None:
    log = Log()
    w = keyless(log, max_keys=20)
    task, outputs = log.task(), log.outputs()
    assert task.full_waits() == []
    for n in range(22):
        task.process(at(n), pair(w, n, "x", str(n), f"k{n}"), outputs, 0)
    [text] = task.full_waits()
    assert "'w' waits without a key" in text
    kept = task.store.get(w.incarnation)
    task.store.close(w.incarnation, kept, "k0")
    assert task.full_waits() == [text]
    task.store.close(w.incarnation, kept, "k1")
    assert task.full_waits() == []
    for n in range(22, 25):
        task.process(at(n), pair(w, n, "x", str(n), f"k{n}"), outputs, 0)
    assert len(task.full_waits()) == 1
    task.process(at(25), pair(w, 25, "y", "y", "k5"), outputs, 0)  # fires
    assert task.full_waits() == []


def test_keys_of_a_wait_that_have_nothing_pending_make_room_first() -> None:
    log = Log()
    w = keyless(log, max_keys=2)
    half, _ = step(PAIR, EMPTY, Match(an_event("x", "0"), (0,), "b-event", 0, 0, 0))
    repeats_only, _ = step(PAIR, half, Match(an_event("y", "1"), (1,), "b-event", 0, 1, 0))
    log.run(pair(w, 0, "x", "2", "p"))
    kept = encode_msgpack(StateRecord(1, 0, SEEN_MS, repeats_only.encode()))
    log.states.append(Record(STATE, len(log.states), 0, state_key(w.incarnation, "seen"), kept, None))
    log.run(pair(w, 1, "x", "3", "q"))
    assert (log.dead, log.task().full_waits()) == ([], [])
    assert set(log.live_states()) == {state_key(w.incarnation, key) for key in (None, "p", "q")}


def test_a_key_that_fired_closes_when_its_events_are_forgotten_not_when_they_would_have_been() -> None:
    log, d = log_of_durable()
    log.run(pair(d, 0, "x", "1", "p"))
    assert log.task().due_at() == 1000 + TTL
    log.run(pair(d, 1, "y", "2", "p"))
    assert log.task().due_at() == 1001 + SEEN_MS + 1


def test_a_changed_durable_subscription_drops_what_the_old_one_had_and_says_how_much(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, d = log_of_durable()
    log.run(pair(d, 0, "x", "1", "p"), pair(d, 1, "x", "2", "q"))
    task, outputs = log.task(), log.outputs()
    durable(log, EITHER, offset=1)
    before = log.stats.counted()
    with caplog.at_level("WARNING", "interlock.engine"):
        task.forget([d.incarnation])
        log.stats.take_back(before)
        task.rollback()
    assert caplog.text.count("2 open keys") == 1
    assert (log.stats.keys_dropped, task.open_keys, task.changed) == (2, 0, True)
    log.commit(task, outputs)
    assert log.live_states() == {}
