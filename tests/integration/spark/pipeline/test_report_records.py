"""The records of the engine, and the names of waits, as the report reads them, in a real local Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from interlock.spark.pipeline.report import records
from interlock.spark.pipeline.report.firings import _outcome

from tests.integration.spark.pipeline.report_log import ANY_OPS, BOTH, ORDERS, RATES, T0, Log, rows_in, wait

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_report_reads_an_action_record_as_the_engine_wrote_it(spark: SparkSession) -> None:
    log = Log()
    made = log.registered(T0, wait("d"), BOTH, key="2026-11-20")
    parts = {"orders": log.event(ORDERS, T0), "rates": log.event(RATES, T0 + 1)}
    log.firing(made, parts, T0 + 2, missing=["x"], timer_ms=7, incomplete=True, left_out={"orders": 2})
    action = log.records[-1]
    [row] = (
        records.actions_of(rows_in(spark, [action])).select("key", "removed", "readable", "record").collect()
    )
    written = json.loads(action.value or b"")
    read = row.record.asDict(True)
    assert (row.key, row.removed, row.readable) == (made.subscription, False, True)
    for name in ("v", "subscription", "kind", "incarnation", "state"):
        assert read[name] == written[name]
    for name in ("id", "outcome", "key", "fired_at", "missing", "timer_ms", "incomplete"):
        assert read["firing"][name] == written["firing"][name]
    assert read["firing"]["events"] == {
        "orders": [{"type": ORDERS, "source": "/shop"}],
        "rates": [{"type": RATES, "source": "/shop"}],
    }
    assert read["firing"]["origins"] == {
        "orders": [{"timestamp_ms": T0}],
        "rates": [{"timestamp_ms": T0 + 1}],
    }
    # it reads no member that the engine does not write
    assert set(read) <= set(written)
    assert set(read["firing"]) <= set(written["firing"])


def test_the_report_reads_a_registration_as_the_engine_wrote_it(spark: SparkSession) -> None:
    log = Log()
    made = log.registered(T0, "airflow/dispatch/settle", BOTH, kind="durable")
    log.removed(T0 + 1, made)
    log.removed(T0 + 2, made, leftover=True)
    registers, removes = (
        records.registrations_of(rows_in(spark, log.records)).orderBy("appended_ms").collect()
    )
    assert (registers.incarnation, registers.removes) == (made.incarnation, False)
    assert json.loads(registers.record.condition) == BOTH.to_json()
    for name in ("v", "subscription", "kind", "incarnation"):
        assert registers.record[name] == getattr(made, name)
    assert (removes.incarnation, removes.removes, removes.appended_ms) == (made.incarnation, True, T0 + 1)


def test_a_firing_by_fail_on_has_its_own_outcome(spark: SparkSession) -> None:
    rows = [("met", {"fail_on: failed": 1}), ("met", {"orders": 1}), ("expired", {"fail_on: failed": 1})]
    from pyspark.sql.functions import col

    firing = "firing STRUCT<outcome: STRING, events: MAP<STRING, INT>>"
    found = spark.createDataFrame([(row,) for row in rows], firing).select(_outcome(col("firing")))
    assert [row[0] for row in found.collect()] == ["fail_on", "met", "expired"]


def test_a_subscriptions_name_says_who_waits(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    named = {
        ("airflow/d/r/t", "one-shot"): ("wait", "d", "r", "t", None),
        ("airflow/d/r/group.t/12", "one-shot"): ("wait", "d", "r", "group.t", 12),
        ("airflow/d/a/b/t", "one-shot"): ("wait", "d", "a/b", "t", None),
        ("airflow/dispatch/r/t", "one-shot"): ("wait", "dispatch", "r", "t", None),
        ("airflow/dispatch/settle", "durable"): ("dispatch", "settle", None, None, None),
        ("airflow/deliver/ship", "durable"): ("deliver", "ship", None, None, None),
        ("airflow/asset/trades", "durable"): ("asset watcher", "trades", None, None, None),
        ("somebody", "one-shot"): ("other", "somebody", None, None, None),
        ("airflow/other/name", "durable"): ("other", "airflow/other/name", None, None, None),
    }
    rows = spark.createDataFrame(list(named), "subscription STRING, kind STRING")
    read = rows.select("*", records.waiter(f.col("subscription"), f.col("kind")).alias("named")).collect()
    assert {(row.subscription, row.kind): tuple(row.named) for row in read} == named


def test_operators_and_triggers_name_waits_and_dispatchers_as_the_report_reads_them() -> None:
    """The report must not import operators and triggers, which make these names."""
    from types import SimpleNamespace

    from interlock.operators.deliver import DeliverOperator
    from interlock.operators.dispatch import DispatchOperator
    from interlock.operators.identity import task_identity
    from interlock.triggers.asset import ConditionTrigger

    ti = SimpleNamespace(dag_id="d", run_id="r", task_id="group.t", map_index=12)
    assert task_identity({"ti": ti}, "airflow") == "airflow/d/r/group.t/12"  # type: ignore[typeddict-item]
    for operator in (DispatchOperator, DeliverOperator):
        task: Any = SimpleNamespace(dag_id="settle", kind=operator.kind)
        bus: Any = SimpleNamespace(deployment="airflow")
        assert operator._subscription(task, bus) == f"airflow/{operator.kind}/settle"
    assert {DispatchOperator.kind, DeliverOperator.kind} == {"dispatch", "deliver"}
    assert ConditionTrigger("trades", ANY_OPS, deployment="airflow").subscription == "airflow/asset/trades"
