"""The graph of senders, event types, subscriptions and DAGs."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from interlock import event
from interlock.conditions import dag_run, openlineage_run, spark_application, task_instance
from interlock.engine.admin.graph import Feeding, Graph, graph_of

ORDERS, RATES = event("orders", label="orders"), event("rates", label="rates")


class Sent(NamedTuple):
    source: str
    type: str


def feeding(name: str = "airflow/report/r1/wait", condition: Any = ORDERS, **more: Any) -> Feeding:
    given = {"one_shot": True, "dag_id": "report", "task_id": "wait", **more}
    return Feeding(name, condition=condition, **given)


def drawn(*feeds: Feeding, sent: tuple[Sent, ...] = ()) -> Graph:
    return graph_of(feeds, sent, "airflow")


def edges(graph: Graph) -> set[tuple[str, str, str]]:
    return {tuple(each) for each in graph.edges}  # type: ignore[misc]


def test_a_type_feeds_a_wait_whose_dag_continues() -> None:
    graph = drawn(feeding(condition=ORDERS & RATES), sent=(Sent("/shop", "orders"), Sent("/x", "unwanted")))
    assert edges(graph) == {
        ("event:orders", "wait:report/wait", "orders"),
        ("event:rates", "wait:report/wait", "rates"),
        ("wait:report/wait", "dag:report", "the task continues"),
        ("sender:/shop", "event:orders", ""),
    }
    assert {each.id: each.kind for each in graph.nodes} == {
        "wait:report/wait": "wait",
        "event:orders": "event",
        "event:rates": "event",
        "dag:report": "dag",
        "sender:/shop": "sender",
    }


def test_waits_of_many_runs_of_a_task_are_one_node() -> None:
    graph = drawn(*(feeding(f"airflow/report/r{n}/wait") for n in range(50)))
    [wait] = [each for each in graph.nodes if each.kind == "wait"]
    assert (wait.title, wait.dag_id, wait.waits) == ("report / wait", "report", 50)
    assert len(graph.edges) == 2


@pytest.mark.parametrize(
    ("condition", "origin"),
    [
        (dag_run("ledger", label="l"), "dag:ledger"),
        (dag_run("ledger", state=["success", "failed"], label="l"), "dag:ledger"),
        (task_instance("ledger", "close", label="l"), "dag:ledger"),
        (spark_application("orders", label="l"), "job:orders"),
        (openlineage_run("load", label="l"), "job:load"),
        (event(source="/shop", label="l"), "sender:/shop"),
        (event(tenant="t", label="l"), "event:"),
    ],
)
def test_the_dag_the_job_or_the_sender_that_a_matcher_names_feeds_it(condition: Any, origin: str) -> None:
    graph = drawn(feeding(condition=condition))
    assert (origin, "wait:report/wait", "l") in edges(graph)
    assert not [each for each in graph.nodes if each.id.startswith("event:interlock.")]


def test_a_source_that_is_a_task_or_a_spark_application_is_its_dag_or_its_job() -> None:
    sent = (
        Sent("/airflow/load%20er/emit", "orders"),
        Sent("/spark/etl", "orders"),
        Sent("/other/a/b", "orders"),
    )
    found = edges(drawn(feeding(), sent=sent))
    assert {start for start, end, _ in found if end == "event:orders"} == {
        "dag:load er",
        "job:etl",
        "sender:/other/a/b",
    }


def test_a_source_that_a_matcher_names_sends_the_type() -> None:
    assert ("sender:/shop", "event:orders", "") in edges(
        drawn(feeding(condition=event("orders", source="/shop")))
    )


@pytest.mark.parametrize(
    ("name", "more", "edge"),
    [
        ("airflow/dispatch/settle", {"target": "settlement"}, ("dag:settlement", "a run for each firing")),
        ("airflow/deliver/ship", {"sink": "connection crm"}, ("sink:connection crm", "each firing")),
        ("airflow/asset/prices/eu", {}, ("asset:prices/eu", "an asset event for each firing")),
    ],
)
def test_a_durable_subscription_feeds_what_its_firings_start(
    name: str, more: dict[str, Any], edge: tuple[str, str]
) -> None:
    graph = drawn(feeding(name, one_shot=False, task_id=None, **more))
    assert edge in {(end, title) for _, end, title in edges(graph)}


def test_a_dispatcher_whose_target_is_not_known_has_no_edge_to_it() -> None:
    graph = drawn(feeding("airflow/dispatch/settle", one_shot=False, task_id=None))
    assert edges(graph) == {("event:orders", "dispatcher:airflow/dispatch/settle", "orders")}


def test_the_late_waits_of_a_node_are_counted_and_the_first_is_told() -> None:
    late = [feeding(f"airflow/report/r{n}/wait", late=f"Run {n} is late." if n else "") for n in range(3)]
    nodes = {each.id: each.late for each in drawn(*late).nodes}
    assert nodes["wait:report/wait"] == "Run 1 is late. And 1 more."
    assert nodes["event:orders"] == ""


def test_the_graph_is_bounded_and_says_what_it_left_out() -> None:
    feeds = [feeding(f"w{n}", event(f"t{n}", label="l"), dag_id=f"d{n}") for n in range(500)]
    graph = drawn(*feeds)
    assert len(graph.nodes) == 500
    assert graph.left_out > 0
    known = {each.id for each in graph.nodes}
    assert all({each.start, each.end} <= known for each in graph.edges)


def test_many_labels_on_one_edge_are_counted() -> None:
    condition = event("t", subject="0", label="l0")
    for number in range(1, 6):
        condition = condition & event("t", subject=str(number), label=f"l{number}")
    assert ("event:t", "wait:report/wait", "l0, l1, l2 and 3 more") in edges(
        drawn(feeding(condition=condition))
    )


def test_the_json_names_the_ends_and_whether_something_is_late() -> None:
    found: Any = drawn(feeding(late="It is late.")).to_json()
    assert found["edges"][0] == {"from": "event:orders", "to": "wait:report/wait", "title": "orders"}
    assert {each["id"]: each["late"] for each in found["nodes"]} == {
        "wait:report/wait": "It is late.",
        "event:orders": False,
        "dag:report": False,
    }
    assert found["left_out"] == 0
