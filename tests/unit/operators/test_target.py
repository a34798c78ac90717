"""Runs of a target DAG: created once, with a free logical date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from interlock.operators import target as module
from interlock.operators.target import RunRefused, Target, TargetFails, TargetRefuses

DAY = datetime(2026, 11, 20, tzinfo=UTC)


def create(target: Target, run_id: str, logical_date: datetime | None = None) -> bool:
    return target.create(run_id, {"n": 1}, logical_date, "a note", None)


def dates(supervisor: Any) -> list[int]:
    """Returns the microseconds after the day."""
    return [(run.logical_date - DAY) // timedelta(microseconds=1) for run in supervisor.runs.values()]


def test_a_run_is_created_with_the_given_arguments(supervisor: Any) -> None:
    assert create(Target("t"), "one", DAY)
    [run] = supervisor.runs.values()
    assert (run.dag_id, run.run_id, run.conf, run.logical_date, run.note, run.reset_dag_run) == (
        "t", "one", {"n": 1}, DAY, "a note", False,
    )  # fmt: skip


@pytest.mark.parametrize("date", [None, DAY])
def test_an_existing_run_is_distinguished_from_a_created_one(supervisor: Any, date: Any) -> None:
    assert create(Target("t"), "one", date)
    assert not create(Target("t"), "one", date)
    assert len(supervisor.runs) == 1


def test_a_used_logical_date_gives_the_next_free_microsecond(supervisor: Any) -> None:
    target = Target("t")
    assert all(create(target, f"r{n}", DAY) for n in range(5))
    assert dates(supervisor) == [0, 1, 2, 3, 4]
    # Another pass does not know these dates. A repeated run keeps its date.
    target = Target("t")
    assert not create(target, "r3", DAY)
    assert create(target, "r5", DAY)
    assert dates(supervisor) == [0, 1, 2, 3, 4, 5]


def test_a_date_that_is_used_after_the_query_is_not_an_error(
    supervisor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(Target("t"), "other", DAY)
    target = Target("t")
    count = target.count_runs
    monkeypatch.setattr(
        target, "count_runs", lambda **which: 0 if which.get("logical_dates") == [DAY] else count(**which)
    )
    assert create(target, "r", DAY)
    assert dates(supervisor) == [0, 1]


def test_dates_of_runs_of_another_origin_are_skipped(supervisor: Any) -> None:
    for n in (1, 3):
        create(Target("t"), f"other{n}", DAY + n * timedelta(microseconds=1))
    target = Target("t")
    for n in range(4):
        assert create(target, f"r{n}", DAY)
    found = dates(supervisor)
    assert len(found) == len(set(found)) == 6
    assert found[2:] == sorted(found[2:])


def test_hundreds_of_one_date_need_few_queries_and_have_a_limit(
    supervisor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RUNS_OF_A_DATE", 300)
    target = Target("t")
    for n in range(300):
        create(target, f"r{n}", DAY)
    supervisor.queries = 0
    with pytest.raises(RunRefused, match="300 runs of 't' have the logical date"):
        create(Target("t"), "beyond", DAY)
    assert supervisor.queries < 10


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "value_error", RunRefused),
        (400, "not_partitioned", RunRefused),
        (400, "invalid_partition_key", RunRefused),
        (422, "invalid", RunRefused),
        (400, "import_errors", TargetRefuses),
        (400, "denied_run_type", TargetRefuses),
        (404, "not_found", TargetRefuses),
        (403, "forbidden", TargetRefuses),
        (400, "of a later Airflow", TargetFails),
        (500, "Internal Server Error", TargetFails),
    ],
)
def test_a_refused_run_is_distinguished_from_a_refusing_target(
    supervisor: Any, status: int, reason: str, kind: type[Exception]
) -> None:
    supervisor.refusals = [supervisor.refusal(status, reason, "as Airflow says")]
    with pytest.raises(kind, match="as Airflow says") as raised:
        create(Target("t"), "one")
    assert raised.type is kind


def test_an_internal_error_of_the_api_server_says_where_its_reason_is(supervisor: Any) -> None:
    """The kind of apache/airflow#58065: "Internal server error", and not where to look."""
    error = supervisor.refusal(500, "x")
    error.error.detail["detail"] = {"message": "Internal server error", "correlation-id": "0192-ab"}
    supervisor.refusals = [error]
    with pytest.raises(TargetFails, match=r"Internal server error\. The API server's log .* 0192-ab"):
        create(Target("t"), "one")


def test_an_answer_without_details_leaves_the_cause_unknown(supervisor: Any) -> None:
    error = supervisor.refusal(502, "x")
    error.error.detail = None
    supervisor.refusals = [error]
    with pytest.raises(TargetFails):
        create(Target("t"), "one")


def test_a_failing_query_leaves_the_cause_unknown(supervisor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: Any) -> int:
        raise supervisor.refusal(500, "Internal Server Error")

    target = Target("t")
    monkeypatch.setattr(target, "count_runs", fails)
    with pytest.raises(TargetFails):
        create(target, "one", DAY)


def test_no_date_is_free_after_the_last_possible_one(supervisor: Any) -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert create(Target("t"), "one", last)
    with pytest.raises(RunRefused, match="no logical date after 9999-12-31"):
        create(Target("t"), "two", last)


def test_only_a_date_that_cannot_be_is_reported_as_one(
    supervisor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any) -> Any:
        raise OverflowError("can't serialize ints")

    monkeypatch.setattr(supervisor, "send", fails)
    with pytest.raises(OverflowError, match="can't serialize ints"):
        create(Target("t"), "one")


def test_runs_in_flight_are_those_queued_or_running(supervisor: Any) -> None:
    target = Target("t")
    for n in range(3):
        create(target, f"r{n}")
    supervisor.over.add("r1")
    assert target.in_flight() == 2
