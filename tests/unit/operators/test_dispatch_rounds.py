"""Rounds of a dispatcher: exactly one run for each firing wherever a round ends; held firings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.observability import stats
from interlock import event
from interlock.engine.errors import UnreachableError
from interlock.engine.records import FiringRecord
from interlock.operators import dispatch as module
from interlock.operators.target import RunRefused, TargetFails, TargetRefuses

from tests.unit.operators.dispatching import (
    Log,
    action_topic,
    context,
    deferral,
    fired,
    firing,
    resumed,
    task,
)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return action_topic(monkeypatch)


def test_each_firing_gets_a_run_in_order_and_is_acknowledged(supervisor: Any, log: Log) -> None:
    log.fire(*(firing(f"f{n}") for n in range(120)))
    kwargs, kept = resumed(task(max_runs_in_flight=500), log.open())
    assert list(supervisor.runs) == [f"dispatch__f{n}" for n in range(120)]
    assert log.acknowledged == [f"f{n}" for n in range(120)]
    assert (kwargs["held"], kwargs["gone"], kept["created"]) == ([], [], 120)
    run = supervisor.runs["dispatch__f7"]
    assert (run.dag_id, run.logical_date, run.note) == ("t", None, None)
    assert run.conf == {
        "version": 1, "firing_id": "f7", "outcome": "met", "key": "2026-11-20", "fired_at": "at",
        "events": {"x": [{"specversion": "1.0", "id": "f7", "data": {"market": "lse"}}]},
        "recorded": {"x": ["1970-01-01T00:00:00.000+00:00"]}, "missing": [],
    }  # fmt: skip


def test_firings_are_counted_when_they_are_acknowledged(
    supervisor: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(stats, "incr", lambda name, count, *, tags: counted.append((name, count, tags)))
    log.fire(*(firing(f"f{n}") for n in range(60)))
    log.unreachable = True
    operator = task()
    kept = deferral(operator.execute, context())[1]
    with pytest.raises(UnreachableError):
        operator.resume(context(), event=fired(log.open()), **kept)
    assert counted == []
    log.unreachable = False
    resumed(operator, log.open(), kept)
    tags = {"bus": "interlock", "deployment": "airflow"}
    assert counted == [("interlock.acknowledged", n, tags) for n in (50, 10)]
    assert len(log.acknowledged) == 60


def test_a_conf_that_may_fit_is_no_error(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"))
    conf = {"x": "x" * 60_000, "y": "{{ firing.key or '" + "y" * 9000 + "' }}"}
    resumed(task(conf=conf), log.open())
    assert supervisor.runs["dispatch__a"].conf == {"x": "x" * 60_000, "y": "2026-11-20"}


def test_a_failing_template_is_named_with_the_existing_labels() -> None:
    operator = task(conf={"day": "{{ firing.key }}", "market": "{{ firing.events.x[0].data.markt }}"})
    with pytest.raises(RunRefused, match=r"template of conf\['market'\] failed: UndefinedError.*labels: \w"):
        operator._run(firing("1", "2026-11-20"), {})


def test_an_integer_that_airflow_cannot_send_is_named_when_it_is_rendered() -> None:
    """It was held with the reason that no logical date is free."""
    operator = task(conf={"order": "{{ firing.key }}"})
    operator.dag.render_template_as_native_obj = True
    with pytest.raises(RunRefused, match=r"conf\['order'\] failed: .* 99999999999999999999 has more than 64"):
        operator._run(firing("1", "99999999999999999999"), {})
    assert operator._run(firing("1", "99"), {})["conf"] == {"order": 99}


def test_a_logical_date_that_renders_to_nothing_is_none() -> None:
    operator = task(logical_date="{{ firing.key if firing.key[:2] == '20' else '' }}")
    dates = [operator._run(firing("1", key), {})["logical_date"] for key in ("2026-11-20", "not a date")]
    assert dates == [datetime(2026, 11, 20, tzinfo=UTC), None]


@pytest.mark.parametrize(("key", "day"), [("2026-11", 1), ("2026-W47", 16), ("2026-11-20", 20)])
def test_the_logical_date_of_a_month_or_week_is_its_first_day(key: str, day: int) -> None:
    """The firings of a condition by month() were held."""
    operator = task(logical_date="{{ firing.key }}")
    assert operator._run(firing("1", key), {})["logical_date"] == datetime(2026, 11, day, tzinfo=UTC)


def test_conf_note_and_logical_date_come_from_the_event(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"), firing("b", "20261121"), firing("c", "2026-11-20T06:00:00+02:00"))
    operator = task(
        conf={"market": "{{ firing.events.x[0].data.market }}", "n": 1},
        logical_date="{{ firing.key }}",
        note="{{ firing.outcome }} {{ 'x' * 2000 }}",
    )
    resumed(operator, log.open())
    runs = list(supervisor.runs.values())
    assert [run.conf for run in runs] == [{"market": "lse", "n": 1}] * 3
    dates = [datetime(2026, 11, 20), datetime(2026, 11, 21), datetime(2026, 11, 20, 4)]  # noqa: DTZ001
    assert [run.logical_date for run in runs] == [date.replace(tzinfo=UTC) for date in dates]
    assert runs[0].note is not None
    assert runs[0].note.startswith("met xx")
    assert len(runs[0].note) == 1000


def test_a_template_has_the_record_time_of_an_event_without_time(supervisor: Any, log: Log) -> None:
    origins = {"x": [{"topic": "t", "partition": 0, "offset": 5, "timestamp_ms": 1795154400123}]}
    log.fire(firing("a", origins=origins))
    resumed(task(conf={"at": "{{ firing.recorded.x[0] }}"}), log.open())
    assert supervisor.runs["dispatch__a"].conf == {"at": "2026-11-20T06:00:00.123+00:00"}


def test_event_data_is_not_rendered(supervisor: Any, log: Log) -> None:
    log.fire(firing("a", "{{ 1 + 1 }}"))
    resumed(task(conf={"key": "{{ firing.key }}"}), log.open())
    assert supervisor.runs["dispatch__a"].conf == {"key": "{{ 1 + 1 }}"}


def test_firings_of_one_date_get_distinct_dates_in_their_order(supervisor: Any, log: Log) -> None:
    log.fire(*(firing(f"f{n}") for n in range(3)))
    resumed(task(logical_date="{{ firing.key }}"), log.open())
    assert [run.logical_date.microsecond for run in supervisor.runs.values()] == [0, 1, 2]


def test_no_more_runs_are_created_than_may_be_in_flight(supervisor: Any, log: Log) -> None:
    log.fire(*(firing(f"f{n}") for n in range(5)))
    operator = task(max_runs_in_flight=2)
    _, kept = resumed(operator, log.open())
    assert log.acknowledged == ["f0", "f1"]
    resumed(operator, log.open(), kept)
    assert log.acknowledged == ["f0", "f1"]  # for example if the target is paused
    supervisor.over.add("dispatch__f0")
    resumed(operator, log.open(), kept)
    assert log.acknowledged == ["f0", "f1", "f2"]


def test_a_failed_run_does_not_block_the_next_of_its_key(supervisor: Any, log: Log) -> None:
    operator = task(max_runs_in_flight=1)
    log.fire(firing("first"), firing("second"))
    resumed(operator, log.open())
    supervisor.over.add("dispatch__first")  # it has ended, so Airflow does not count it
    resumed(operator, log.open())
    assert list(supervisor.runs) == ["dispatch__first", "dispatch__second"]


@pytest.mark.parametrize("killed_after", range(8))
def test_a_worker_that_is_killed_anywhere_repeats_and_loses_no_run(
    supervisor: Any, log: Log, killed_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ACKNOWLEDGE_EVERY", 3)
    log.fire(*(firing(f"f{n}") for n in range(7)))
    operator = task()
    supervisor.killed_after = killed_after
    log.unreachable = True  # a killed process does not acknowledge
    with pytest.raises((KeyboardInterrupt, UnreachableError)):
        resumed(operator, log.open())
    supervisor.killed_after, log.unreachable = None, False
    resumed(operator, log.open())
    assert list(supervisor.runs) == [f"dispatch__f{n}" for n in range(7)]
    assert log.acknowledged == [f"f{n}" for n in range(7)]


def test_an_unreachable_broker_fails_the_try_and_nothing_is_acknowledged_before_its_run(
    supervisor: Any, log: Log
) -> None:
    log.fire(firing("a"))
    log.unreachable = True
    with pytest.raises(UnreachableError):
        resumed(task(), log.open())
    assert log.acknowledged == []
    assert list(supervisor.runs) == ["dispatch__a"]


def test_a_target_that_refuses_runs_fails_the_try_and_created_runs_are_acknowledged(
    supervisor: Any, log: Log
) -> None:
    log.fire(firing("a"), firing("b"))
    supervisor.refusals = [None, supervisor.refusal(404, "not_found", "Dag 't' not found")]
    with pytest.raises(TargetRefuses, match="Dag 't' not found"):
        resumed(task(), log.open())
    assert log.acknowledged == ["a"]


@pytest.mark.parametrize("other", ["airflow/dispatch/billing", "airflow/dag/run/wait"])
def test_a_firing_of_another_subscription_is_not_run_or_acknowledged(
    supervisor: Any, log: Log, other: str
) -> None:
    """The bus of the DAG file or connection was edited after the trigger had yielded its places."""
    log.fire(firing("foreign"), of=other)
    log.fire(firing("own"))
    kwargs, _ = resumed(task(), log.open())
    assert (list(supervisor.runs), log.acknowledged) == (["dispatch__own"], ["own"])
    assert (kwargs["gone"], kwargs["held"]) == ([[0, 0]], [])


def test_firings_that_do_not_exist_any_more_are_skipped_and_counted(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"))
    kwargs, _ = resumed(task(), [[0, 0], [3, 17]])
    assert (kwargs["gone"], kwargs["held"]) == ([[3, 17]], [])
    assert log.acknowledged == ["a"]


# -- firings that cannot be mapped


@pytest.mark.parametrize(
    ("arguments", "bad"),
    [
        ({"logical_date": "{{ firing.key }}"}, firing("bad", "soon")),
        ({"logical_date": "{{ firing.key }}"}, firing("bad", None)),
        ({"logical_date": "{{ firing.key }}"}, firing("bad", "0001-01-01T00:00:00+05:00")),
        ({"logical_date": "{{ firing.key }}"}, firing("bad", "9999-12-31T23:00:00-05:00")),
        ({"conf": {"n": 1}, "note": "{{ firing.key }}"}, firing("bad", "a\0b")),
        ({"conf": {"n": 1}, "note": "{{ firing.key }}"}, firing("bad", "a\ud800b")),
        ({"conf": {"x": "{{ firing.events.x[0].data.market }}"}}, firing("bad", events={}, origins={})),
        ({"conf": {"x": "{{ firing.key * 90 }}"}}, firing("bad", "k" * 1000)),
        ({}, firing("bad", "a\0b")),
        ({}, firing("bad", "a\ud800b")),
    ],
)
def test_a_firing_that_cannot_be_mapped_is_held_and_the_others_continue(
    supervisor: Any, log: Log, arguments: dict[str, Any], bad: FiringRecord
) -> None:
    log.fire(bad, firing("good"))
    kwargs, kept = resumed(task(**arguments), log.open())
    assert list(supervisor.runs) == ["dispatch__good"]
    assert log.acknowledged == ["good"]
    assert kwargs["held"] == [[0, 0]]
    with pytest.raises(AirflowFailException, match="1 firings have no run yet"):
        task(**arguments).resume(context(), event=fired([]), **kept)


def test_a_refused_run_is_held_and_the_others_continue(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad"), firing("good"))
    supervisor.refusals = [supervisor.refusal(400, "value_error", "before the start_date")]
    kwargs, _ = resumed(task(), log.open())
    assert list(supervisor.runs) == ["dispatch__good"]
    assert kwargs["held"] == [[0, 0]]


# -- firings with which Airflow fails


def test_a_firing_with_which_airflow_always_fails_is_held_with_its_key_and_the_others_continue(
    supervisor: Any, log: Log
) -> None:
    log.fire(firing("bad", "a"), firing("a2", "a"), firing("b", "b"), firing("c", "c"))
    supervisor.fails_with = {"dispatch__bad"}
    operator = task()
    kwargs, kept = resumed(operator, log.open())
    assert (sorted(log.acknowledged), kwargs["held"]) == (["b", "c"], [[0, 0], [0, 1]])
    log.fire(firing("a3", "a"), firing("d", "d"))  # a later round of the same run
    kwargs, kept = resumed(operator, [[0, 4], [0, 5]], kept)
    assert (sorted(log.acknowledged), kwargs["held"]) == (["b", "c", "d"], [[0, 0], [0, 1], [0, 4]])
    with pytest.raises(AirflowFailException, match="3 firings have no run yet"):
        operator.resume(context(), event=fired([]), **kept)
    supervisor.fails_with = set()
    resumed(operator, log.open())  # the next run
    assert log.acknowledged[-3:] == ["bad", "a2", "a3"]


def test_a_held_firing_without_a_key_blocks_no_other(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad", None), firing("good", None), firing("better", None))
    supervisor.fails_with = {"dispatch__bad"}
    kwargs, _ = resumed(task(event("x")), log.open())
    assert (sorted(log.acknowledged), kwargs["held"]) == (["better", "good"], [[0, 0]])


def test_if_airflow_fails_with_all_probes_the_target_is_the_cause(supervisor: Any, log: Log) -> None:
    log.fire(*(firing(f"f{n}", f"k{n}") for n in range(100)))
    supervisor.fails_with = {f"dispatch__f{n}" for n in range(100)}
    with pytest.raises(TargetFails):
        resumed(task(), log.open())
    assert (supervisor.queries, log.acknowledged) == (5, [])  # one of them counts the runs
    supervisor.fails_with = set()
    resumed(task(), log.open())
    assert log.acknowledged == [f"f{n}" for n in range(100)]


@pytest.mark.parametrize("others", [[], ["a2"]])
def test_a_firing_without_another_key_to_compare_with_is_tried_again(
    supervisor: Any, log: Log, others: list[str]
) -> None:
    log.fire(*(firing(name, "a") for name in ("bad", *others)))
    supervisor.fails_with = {"dispatch__bad"}
    with pytest.raises(TargetFails):
        resumed(task(), log.open())
    log.fire(firing("good", "b"))
    resumed(task(), log.open())
    assert log.acknowledged == ["good"]


def test_bad_firings_at_the_front_do_not_block_the_others_for_ever(supervisor: Any, log: Log) -> None:
    log.fire(
        *(firing(f"bad{n}", f"bad{n}") for n in range(10)), *(firing(f"f{n}", f"k{n}") for n in range(10))
    )
    supervisor.fails_with = {f"dispatch__bad{n}" for n in range(10)}
    for _ in range(1000):  # a try fails if all its probes are bad
        try:
            kwargs, _ = resumed(task(), log.open())
        except TargetFails:
            continue
        if len(kwargs["held"]) == 10:
            break
    assert sorted(log.acknowledged) == [f"f{n}" for n in range(10)]


def test_a_firing_that_succeeds_the_second_time_is_not_held(supervisor: Any, log: Log) -> None:
    log.fire(firing("a", "a"), firing("a2", "a"), firing("b", "b"))
    supervisor.refusals = [supervisor.refusal(500, "Internal Server Error")]
    kwargs, _ = resumed(task(), log.open())
    assert (log.acknowledged, kwargs["held"]) == (["b", "a", "a2"], [])


def test_an_existing_run_does_not_prove_that_airflow_creates_others(supervisor: Any, log: Log) -> None:
    log.fire(firing("b", "b"))
    resumed(task(), log.open())
    log.acknowledged.clear()
    log.fire(firing("bad", "a"))
    supervisor.fails_with = {"dispatch__bad"}
    with pytest.raises(TargetFails):
        resumed(task(), [[0, 1], [0, 0]])
    assert log.acknowledged == ["b"]


def test_a_firing_that_cannot_be_mapped_proves_nothing_either_and_is_held(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad", "2026-11-20"), firing("soon", "soon"), firing("good", "2026-11-21"))
    supervisor.fails_with = {"dispatch__bad"}
    kwargs, _ = resumed(task(logical_date="{{ firing.key }}"), log.open())
    assert log.acknowledged == ["good"]
    assert sorted(kwargs["held"]) == [[0, 0], [0, 1]]


def test_probes_do_not_exceed_the_targets_room(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad", "a"), firing("b", "b"), firing("c", "c"))
    supervisor.fails_with = {"dispatch__bad"}
    kwargs, kept = resumed(task(max_runs_in_flight=1), log.open())
    assert (len(supervisor.runs), kwargs["held"]) == (1, [])
    supervisor.over |= set(supervisor.runs)
    resumed(task(max_runs_in_flight=1), log.open(), kept)
    assert sorted(log.acknowledged) == ["b", "c"]


def test_a_correction_in_the_dag_file_takes_effect_in_the_next_run(supervisor: Any, log: Log) -> None:
    log.fire(firing("a", "soon"))
    resumed(task(logical_date="{{ firing.key }}"), log.open())
    resumed(task(), log.open())
    assert log.acknowledged == ["a"]


def test_too_many_that_cannot_be_mapped_are_tried_again_later(
    supervisor: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 2)
    log.fire(*(firing(f"f{n}", "soon") for n in range(3)))
    operator = task(logical_date="{{ firing.key }}")
    _, kept = deferral(operator.execute, context())
    with pytest.raises(AirflowException, match="3 firings have no run yet") as raised:
        operator.resume(context(), event=fired(log.open()), **kept)
    assert not isinstance(raised.value, AirflowFailException)  # so that it is retried


def test_a_run_of_the_dispatcher_ends_at_renew_at(supervisor: Any, log: Log) -> None:
    operator = task()
    log.fire(firing("a"))
    _, kept = resumed(operator, log.open())
    assert operator.resume(context(), event=fired([]), **kept) == 1


def test_a_run_of_the_dispatcher_ends_at_renew_at_even_if_firings_never_end(
    supervisor: Any, log: Log
) -> None:
    operator = task()
    log.fire(firing("a"))
    _, kept = deferral(operator.execute, context())
    kept["renew_at"] = datetime.now(UTC).isoformat()
    assert operator.resume(context(), event=fired(log.open()), **kept) == 1
    assert log.acknowledged == ["a"]


def test_dag_test_which_passes_only_the_event_makes_one_round(supervisor: Any, log: Log) -> None:
    log.fire(firing("a"), firing("b"))
    assert task().resume(context(), event=fired(log.open())) == 2
    assert log.acknowledged == ["a", "b"]
    assert task().resume(context(), event=fired([])) == 0


def test_dag_test_fails_if_a_firing_is_held(supervisor: Any, log: Log) -> None:
    log.fire(firing("bad", "soon"), firing("good"))
    operator = task(logical_date="{{ firing.key }}")
    with pytest.raises(AirflowFailException, match="1 firings have no run yet"):
        operator.resume(context(), event=fired(log.open()))
    assert log.acknowledged == ["good"]
