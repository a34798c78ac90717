"""The trigger hop's timers: opened once, ticked by a cut, kept over aborts."""

from __future__ import annotations

import pytest
from interlock import event
from interlock.conditions import absent
from interlock.engine.bus import Committed
from interlock.engine.protocol import outputs as outputs_module
from interlock.engine.protocol.tasks.start import TaskStart
from interlock.engine.protocol.tasks.trigger_task import TriggerTask
from interlock.engine.records import MatchTarget, Registration, partition_of
from interlock.engine.registry.registry import Registry

from tests.unit.engine.protocol.trigger_log import (
    HOUR,
    LATE,
    PAIR,
    TP,
    TTL,
    Log,
    an_event,
    at,
    durable,
    log_of_durable,
    log_of_wait,
    met,
    pair,
    register,
    seen_by_all,
    unregister,
)


def test_an_expiry_runs_from_the_registration_though_no_event_comes() -> None:
    log, _ = log_of_wait(LATE, at_ms=5000)
    task, outputs = log.task(), log.outputs()
    task.apply()
    assert task.due_at() == 5000 + HOUR
    assert (task.has_timer_due(4999 + HOUR), task.has_timer_due(5000 + HOUR)) == (False, True)
    log.commit(task, outputs)
    log.tick(4999 + HOUR)
    assert log.firings == []
    log.tick(9000 + HOUR, incomplete=True)
    [firing] = [f["firing"] for f in log.firings]
    assert (firing["outcome"], firing["missing"]) == ("expired", ["x", "y"])
    assert (firing["timer_ms"], firing["incomplete"]) == (5000 + HOUR, True)
    log.tick(9 * HOUR)
    assert (len(log.firings), log.task().due_at(), log.task().open_keys) == (1, None, 0)


@pytest.mark.parametrize("match_first", [True, False])
def test_timers_are_opened_once_whether_a_match_or_the_registry_comes_first(match_first: bool) -> None:
    log, w = log_of_wait(LATE, at_ms=5000)
    x = met(90_000, an_event("x", "1"), MatchTarget(0, w.incarnation, (0,), ""))
    task, outputs = log.task(), log.outputs()
    if match_first:
        task.process(at(0), x, outputs, 0)
        log.commit(task, outputs)
        task = log.task()
        task.apply()
    else:
        task.apply()
        task.process(at(0), x, outputs, 0)
    assert task.due_at() == 5000 + HOUR
    outputs = log.outputs()
    assert task.tick(5000 + HOUR, outputs, 0, seen_by_all, False)
    log.commit(task, outputs)
    [firing] = [f["firing"] for f in log.firings]
    assert (firing["outcome"], firing["missing"], list(firing["events"])) == ("expired", ["y"], ["x"])
    # registered again after that, it starts again
    unregister(log.registry, 1, w)
    log.run()
    register(log.registry, 2, w, "again", at_ms=7000)
    task = log.task()
    task.apply()
    assert task.due_at() == 7000 + HOUR


def test_timers_are_opened_on_the_partition_of_the_subscription_only() -> None:
    log = Log(partitions=4)
    registrations = [
        register(log.registry, n, Registration.of(f"w{n}", LATE, None, 0), at_ms=5000) for n in range(12)
    ]
    here = [partition_of("one-shot", r.subscription, "", 4) == TP.partition for r in registrations]
    log.tick(HOUR * 2)
    expired = {f"w{n}" for n, is_here in enumerate(here) if is_here}
    assert {f["subscription"] for f in log.firings} == expired
    assert 0 < len(expired) < 12


def test_timers_of_keys_that_events_bring_are_not_opened_by_the_registration() -> None:
    log, _ = log_of_wait(PAIR.expires(after="1h"), at_ms=5000)
    task = log.task()
    task.apply()
    assert (task.due_at(), task.changed) == (None, False)


def test_states_of_registrations_that_are_not_read_yet_are_kept_and_ticked_once_they_are() -> None:
    log, w = log_of_wait(absent(event("x", by="data.k"), "1h"), at_ms=5000, key="p")
    log.run(met(0, an_event("x", "1"), MatchTarget(0, w.incarnation, (0,), "p")))
    later = Registry()
    task = TriggerTask(TaskStart(TP, Committed(0, ""), 1), log.context(later))
    for record in log.states:
        task.load(record)
    task.recovered()
    task.forget([w.incarnation])
    outputs = log.outputs()
    assert task.tick(2 * HOUR, outputs, 0, seen_by_all, False)
    assert (outputs.records, task.open_keys, task.due_at()) == ([], 1, 1000 + HOUR)
    register(later, 0, w, at_ms=5000)
    assert task.tick(2 * HOUR + 1, outputs, 0, seen_by_all, False)
    log.commit(task, outputs)
    assert [f["firing"]["key"] for f in log.firings] == ["p"]


@pytest.mark.parametrize("keys", [("p", "p"), ("p", "q")])
def test_keys_recovered_before_their_registration_are_closed_in_time(keys: tuple[str, str]) -> None:
    """Such a key counted as one with timers until an event came. A tick then took it from those without: it
    lost another key's wakeup, or ended the engine."""
    log, d = log_of_durable()
    log.run(pair(d, 0, "x", "1", keys[0]))
    later = Registry()
    task = TriggerTask(TaskStart(TP, Committed(1, ""), 1), log.context(later))
    for record in log.states:
        task.load(record)
    task.recovered()
    register(later, 0, d)
    outputs = log.outputs()
    task.process(at(1), pair(d, 1, "x", "2", keys[1]), outputs, 0)
    assert task.tick(3 * TTL, outputs, 0, lambda _: False, False)
    assert task.open_keys == len(set(keys))
    assert task.tick(3 * TTL, outputs, 0, seen_by_all, False)
    assert (task.open_keys, task.due_at()) == (0, None)


def test_an_abort_undoes_apply_and_tick_and_both_can_be_repeated() -> None:
    log, _ = log_of_wait(LATE, at_ms=5000)
    task = log.task()
    for _ in range(2):
        outputs = log.outputs()
        task.apply()
        assert task.tick(HOUR * 2, outputs, 0, seen_by_all, False)
        assert len(outputs.records) == 1
        task.commit_into(outputs, "me", 1)
        task.rollback()
        assert (task.applied, task.changed, task.open_keys, task.due_at()) == (0, False, 0, None)
    outputs = log.outputs()
    task.apply()
    log.commit(task, outputs)
    for _ in range(2):
        outputs = log.outputs()
        assert task.tick(HOUR * 2, outputs, 0, seen_by_all, False)
        assert len(outputs.records) == 1
        task.rollback()
        assert (task.open_keys, task.due_at()) == (1, 5000 + HOUR)


def test_a_tick_stops_when_the_pass_is_full_and_continues_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs_module, "MAX_PASS_RECORDS", 4)  # each tick: a firing and a state
    log, d = log_of_durable(absent(event("x", by="data.k"), "1s"))
    log.run(*(pair(d, n, "x", str(n), key) for n, key in enumerate("pqrst")))
    task, done, passes = log.task(), False, 0
    while not done:
        outputs = log.outputs()
        done = task.tick(HOUR, outputs, HOUR, seen_by_all, False)
        log.commit(task, outputs)
        passes += 1
    assert (sorted(f["firing"]["key"] for f in log.firings), passes) == (list("pqrst"), 3)


def test_keys_of_registrations_that_have_not_seen_all_events_before_a_tick_stay_due() -> None:
    log = Log()
    silent = absent(event("x", by="data.k"), "1s")
    d = durable(log, silent)
    e = register(log.registry, 1, Registration.of("e", silent, None, 0, kind="durable"))
    for n, key in enumerate("pqr"):
        both = MatchTarget(0, d.incarnation, (0,), key), MatchTarget(1, e.incarnation, (0,), key)
        log.run(met(n, an_event("x", str(n)), *both))
    task, outputs = log.task(), log.outputs()
    assert task.tick(HOUR, outputs, HOUR, lambda place: place == 1, False)
    assert task.due_at() == 2000
    log.commit(task, outputs)
    assert {f["subscription"] for f in log.firings} == {"e"}
    outputs = log.outputs()
    assert task.tick(HOUR, outputs, HOUR, seen_by_all, False)
    log.commit(task, outputs)
    assert sorted(f["firing"]["key"] for f in log.firings if f["subscription"] == "d") == list("pqr")


def test_where_keys_close_only_no_timer_is_due() -> None:
    log, d = log_of_durable()
    log.run(pair(d, 0, "x", "1", "p"))
    task = log.task()
    assert task.due_at() == 1000 + TTL
    assert not task.has_timer_due(1000 + TTL)
    log.run(pair(d, 1, "x", "2", "p"))  # it continues: the scheduled look stays, and finds it
    log.tick(1000 + TTL)
    assert log.task().due_at() == 1001 + TTL
    log.tick(1001 + TTL)
    assert log.task().open_keys == 0


def test_a_window_closes_when_its_events_are_let_go_of() -> None:
    log, d = log_of_durable(PAIR.within("2h"))
    log.run(pair(d, 0, "x", "1", "p"))
    due = log.task().due_at()
    assert due < 1000 + TTL // 2
    log.tick(due)
    assert log.task().open_keys == 0
