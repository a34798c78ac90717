"""Which DAG and task instance a subscription belongs to."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine.following.owner import Owner, name_of, owner_of

RUN = "scheduled__2026-11-20T00:00:00+00:00"


@pytest.mark.parametrize(
    "owner",
    [Owner("d", RUN, "t"), Owner("d", RUN, "t", 3), Owner("d", "a/b", "t"), Owner("d", "5", "7")],
)
def test_the_name_of_a_wait_says_whose_it_is(owner: Owner) -> None:
    assert owner_of(name_of(owner, "airflow"), "one-shot", "airflow") == owner


def test_an_instance_that_is_not_mapped_has_no_index_in_its_name() -> None:
    assert name_of(Owner("d", "r", "t", -1), "airflow") == "airflow/d/r/t"


@pytest.mark.parametrize(
    ("name", "kind", "dag_id"),
    [
        ("airflow/dispatch/d", "durable", "d"),
        ("airflow/deliver/d", "durable", "d"),
        ("airflow/asset/d", "durable", None),
        ("airflow/d/r/t", "durable", None),
        ("other/dispatch/d", "durable", None),
        ("other/d/r/t", "one-shot", None),
        ("airflow/d/t", "one-shot", None),
        ("w", "one-shot", None),
        ("", "one-shot", None),
    ],
)
def test_a_subscription_of_no_dag_of_this_airflow_has_no_owner(
    name: str, kind: Any, dag_id: str | None
) -> None:
    assert owner_of(name, kind, "airflow") == Owner(dag_id)
