"""What happens to a wait: the rows of docs/use/waiting.md that need a real Airflow, played side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from typing import Any

import pytest
from interlock.events import Emitter

from local.rest import instant
from tests.integration.triggers.plays import (
    DAY,
    Row,
    backfilled,
    clear_after_failing,
    clear_after_firing,
    clear_of_the_upstream,
    dag_test,
    deleted,
    edited,
    edited_end,
    execution_timeout,
    killed,
    made_again,
    mapped,
    marked,
    paused,
    retried,
    two_deployments,
    updated,
)

LOOKBACK = timedelta(hours=24)
AT_ONCE = 4  # more make Airflow wait for SQLite's lock, which it answers with errors


def _to_the_millisecond(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


# The long ones first.
PLAYS = (
    killed,
    marked,
    clear_after_firing,
    clear_after_failing,
    clear_of_the_upstream,
    execution_timeout,
    retried,
    deleted,
    made_again,
)
LONG_PLAYS = (
    dag_test,
    edited,
    edited_end,
    paused,
    mapped,
    updated,
    backfilled,
    two_deployments,
)  # of the tests marked long


@pytest.fixture(scope="module")
def rows(
    request: pytest.FixtureRequest, site: Any, eventually: Callable[..., Any]
) -> Iterator[dict[Any, Future[dict[str, Any]]]]:
    """The plays of the selected tests, some at a time: a test asks for its own.

    The backfill is played when the others are over: while Airflow creates one on SQLite, it may hold its own
    writes up until they fail, and a task whose retry is not written fails instead.
    """
    own = [item for item in request.session.items if item.path == request.path]
    tiers = {item.get_closest_marker("long") is not None for item in own}
    plays = [*(PLAYS if False in tiers else ()), *(LONG_PLAYS if True in tiers else ())]
    with Emitter(site.bus.client, site.bus.topic("event")) as emitter:
        made = {play: Row(site, emitter, eventually) for play in plays}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            others = {play: pool.submit(play, row) for play, row in made.items() if play is not backfilled}
            last = {
                play: pool.submit(_after, others.values(), play, made[play]) for play in made.keys() - others
            }
            yield others | last
        for row in made.values():
            row.api.close()


def _after(
    others: Iterable[Future[dict[str, Any]]], play: Callable[[Row], dict[str, Any]], row: Row
) -> dict[str, Any]:
    wait(others)
    return play(row)


def test_clear_after_firing_finds_the_same_firing_again(rows: Any) -> None:
    played = rows[clear_after_firing].result()
    assert played["after"] == played["before"]
    assert [e["id"] for e in played["before"]["events"]["row"]] == ["first"]


def test_clear_after_firing_of_fail_on_waits_again_and_counts_no_earlier_failure(rows: Any) -> None:
    played = rows[clear_after_failing].result()
    assert "fail_on was met by row.failed from /test, id before the wait" in played["log"]
    assert [e["id"] for e in played["output"]["events"]["row"]] == ["mended"]


def test_clear_of_the_upstream_emits_a_new_event_and_leaves_the_wait_its_firing(rows: Any) -> None:
    played = rows[clear_of_the_upstream].result()
    assert played["after"] == played["before"]
    first, second = played["events"]
    assert first != second
    assert [e["id"] for e in played["before"]["events"]["row"]] == [first]


def test_marked_success_or_failed_waits_take_their_registration_back(rows: Any) -> None:
    """A wait that is cleared after that registers again."""
    played = rows[marked].result()
    assert played.keys() == {"success", "failed"}
    for state, output in played.values():
        assert state == "success"
        assert _taken(output) == ("marked", "row", "after the clear")


def test_execution_timeout_does_not_count_while_a_wait_is_deferred(rows: Any) -> None:
    assert rows[execution_timeout].result() == {
        "timed by Airflow": True, "then": "deferred", "same try": True, "ended": "success",
    }  # fmt: skip


@pytest.mark.long
def test_dag_edited_while_waiting_leaves_the_wait_its_condition_and_key(rows: Any) -> None:
    played = rows[edited].result()
    assert played["tasks"]["wait"] == ("success", 1)
    assert _taken(played["wait"]) == ("wait-first", "row.met.first", "first")


@pytest.mark.long
def test_dag_edited_while_waiting_leaves_the_wait_its_fail_on(rows: Any) -> None:
    played = rows[edited].result()
    assert played["tasks"]["fails"] == ("failed", 1)
    assert "fail_on was met by row.failed.first from /test, id first." in played["log"]


@pytest.mark.long
def test_dag_edited_while_waiting_has_a_later_try_wait_for_what_it_says_then(rows: Any) -> None:
    played = rows[edited].result()
    assert played["tasks"]["again"] == ("success", 2)
    assert _taken(played["again"]["before"]) == ("again-first", "row.met.first", "first")
    assert _taken(played["again"]["after"]) == ("again-second", "row.met.second", "second")


def _taken(output: dict[str, Any]) -> tuple[str, str, str]:
    """The key of a firing, and the type and id of its one event."""
    [[found]] = output["events"].values()
    return output["key"], found["type"], found["id"]


@pytest.mark.long
def test_dag_edited_while_waiting_resumes_the_wait_with_its_new_code(rows: Any) -> None:
    played = rows[edited_end].result()
    assert played["states"] == {"wait": "success", "soft": "skipped"}
    assert played["output"]["outcome"] == "expired"


def test_retry_after_the_resumption_finds_the_same_firing(rows: Any) -> None:
    played = rows[retried].result()
    assert played["after"] == played["before"]
    assert [e["id"] for e in played["before"]["events"]["row"]] == ["first"]


def test_retry_keeps_its_since(rows: Any) -> None:
    played = rows[retried].result()
    expected = (played["run after"] - LOOKBACK).isoformat(timespec="seconds")
    assert len(played["since"]) >= 2
    assert set(played["since"]) == {expected}


def test_killed_before_it_deferred_and_while_it_is_resumed_a_task_finds_its_firing(rows: Any) -> None:
    played = rows[killed].result()
    assert played["state"] == "success"
    assert played["firings"] == {played["output"]["firing_id"]}
    assert [e["id"] for e in played["output"]["events"]["row"]] == ["first"]


@pytest.mark.long
def test_backfill_weeks_later_counts_events_since_its_logical_date(rows: Any) -> None:
    assert rows[backfilled].result() == {"type": "backfill", "state": "success", "since": {DAY - LOOKBACK}}


@pytest.mark.long
def test_asset_triggered_run_waits_as_a_manual_run_and_a_missing_partition_key_fails_it(rows: Any) -> None:
    played = rows[updated].result()
    run = played["run"]
    assert (run["run_type"], run["logical_date"]) == ("asset_triggered", None)
    assert played["states"] == {"wait": "success", "partition": "failed"}
    assert "was rendered to 'None'" in played["log"]
    [since] = played["since"]
    assert since == _to_the_millisecond(instant(run["run_after"]) - LOOKBACK)


@pytest.mark.long
def test_two_deployments_on_one_bus_get_an_event_each_by_its_own_subscription(rows: Any) -> None:
    played = rows[two_deployments].result()
    assert played["state"] == "success"
    run_id = played["run"]
    assert played["subscriptions"] == {
        f"airflow/shared/{run_id}/wait",
        f"elsewhere/shared/{run_id}/elsewhere",
    }
    one, other = played["outputs"]
    assert one["events"] == other["events"]
    assert [e["id"] for e in one["events"]["row"]] == ["for both"]
    assert one["firing_id"] != other["firing_id"]


@pytest.mark.long
def test_dag_paused_waits_take_their_firing_and_their_task_stays_scheduled(rows: Any) -> None:
    assert rows[paused].result()["while paused"] == "scheduled"


@pytest.mark.long
def test_dag_unpaused_continues_with_the_firing(rows: Any) -> None:
    assert rows[paused].result()["then"] == "success"


def test_dag_deleted_while_waiting_leaves_no_registration(rows: Any) -> None:
    rows[deleted].result()


def test_run_deleted_and_created_again_takes_no_firing_of_the_deleted_one(rows: Any) -> None:
    played = rows[made_again].result()
    assert played["states"] == ["failed", "success"]
    assert [e["id"] for e in played["output"]["events"]["row"]] == ["there by now"]


@pytest.mark.long
def test_mapped_task_instances_wait_each_for_its_key(rows: Any) -> None:
    played = rows[mapped].result()
    assert (played["state"], len(played["tasks"])) == ("success", 8)


@pytest.mark.long
def test_dag_test_waits_beside_the_others_and_leaves_the_group_as_it_was(rows: Any) -> None:
    played = rows[dag_test].result()
    assert played["code"] == 0, played["printed"][-3000:]
    assert "Firing " in played["printed"]
    assert played["after"] == played["before"]
    assert played["beside"] == "success"
