"""Names and ids of a task instance: the same in every try, and unique."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.taskinstance import clear_task_instances
from interlock import Event
from interlock.operators.identity import event_id, event_source, generation, task_identity

from tests.kit.state_store import task_instance


def context(**changes: Any) -> Any:
    return {"ti": task_instance(**{"max_tries": 0, **changes})}


def test_a_task_instance_has_one_name_in_every_try_and_after_a_clear() -> None:
    name = task_identity(context(), "airflow")
    assert name == "airflow/dag/run/task"
    assert task_identity(context(try_number=3, max_tries=5), "airflow") == name


def test_mapped_task_instances_have_distinct_names() -> None:
    assert task_identity(context(map_index=0), "airflow") == "airflow/dag/run/task/0"
    assert task_identity(context(map_index=None), "airflow") == "airflow/dag/run/task"


def test_a_generation_is_the_number_of_ended_tries_at_the_last_clear() -> None:
    assert [generation(context(try_number=n, max_tries=3, retries=3)) for n in (1, 2)] == [0, 0]
    assert [generation(context(try_number=n, max_tries=5, retries=3)) for n in (3, 4)] == [2, 2]
    assert generation(context(max_tries=None, retries=None)) == 0
    assert generation(context(max_tries=0, retries=3)) == 0  # `retries` was raised in the DAG


def test_a_retry_keeps_the_id() -> None:
    """Airflow raises the try number, and keeps max_tries."""
    first = event_id(context(try_number=1, max_tries=3, retries=3), "airflow")
    assert event_id(context(try_number=2, max_tries=3, retries=3), "airflow") == first


def test_a_clear_changes_the_id_and_later_retries_keep_it() -> None:
    """Airflow sets max_tries to the ended tries plus the task's retries."""
    first = event_id(context(try_number=1, max_tries=3, retries=3), "airflow")
    cleared = event_id(context(try_number=2, max_tries=1 + 3, retries=3), "airflow")
    again = event_id(context(try_number=3, max_tries=1 + 3, retries=3), "airflow")
    twice = event_id(context(try_number=4, max_tries=3 + 3, retries=3), "airflow")
    assert cleared == again
    assert len({first, cleared, twice}) == 3


@pytest.mark.parametrize("state", ["success", "running"])
def test_airflow_itself_makes_a_clear_of_a_task_that_runs_a_retry(state: str) -> None:
    """Until the executor reports its end; then the scheduler may treat it as a clear after all."""
    ti = SimpleNamespace(
        **vars(context(try_number=1, max_tries=3, retries=3)["ti"]),
        state=state,
        prepare_db_for_next_try=lambda _: None,
        refresh_from_task=lambda *_, **__: None,
        clear_next_method_args=lambda: None,
        dag_version_id=1,
        dag_run=SimpleNamespace(context_carrier=None, created_dag_version_id=1),
    )
    before = event_id({"ti": ti}, "airflow")
    dag = SimpleNamespace(has_task=lambda _: True, get_task=lambda _: ti.task)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow.models.dagbag.DBDagBag.get_dag_for_run", lambda *_, **__: dag)
        session = SimpleNamespace(merge=lambda _: None, flush=lambda: None)
        clear_task_instances([ti], session, dag_run_state=False)
    assert (event_id({"ti": ti}, "airflow") == before) is (state == "running")


def test_each_distinguishing_part_is_in_the_id() -> None:
    different = [
        event_id(context(), "airflow"),
        event_id(context(), "other"),
        event_id(context(dag_id="d"), "airflow"),
        event_id(context(run_id="r"), "airflow"),
        event_id(context(task_id="t"), "airflow"),
        event_id(context(map_index=0), "airflow"),
        event_id(context(map_index=1), "airflow"),
        event_id(context(), "airflow", ordinal=1),
    ]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(("max_tries", "retries"), [(None, None), (0, None), (None, 2), (-1, 0)])
def test_missing_numbers_of_tries_count_as_0(max_tries: int | None, retries: int | None) -> None:
    unknown = context(max_tries=max_tries, retries=retries)
    assert event_id(unknown, "airflow") == event_id(context(), "airflow")


def test_the_source_is_a_valid_uri_reference_whatever_the_names_hold() -> None:
    source = event_source(context(dag_id="my dag", task_id="a/b.ü"), "prod")
    assert source == "/prod/my%20dag/a%2Fb.%C3%BC"
    Event.of("t", source)
