"""Ends as a real Airflow tells them: workers, scheduler, API server, and reconcile after a crash."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.events.ends import DagRun, DagRunEnd, TaskInstanceEnd
from interlock.events.schemas import data_schema
from interlock.plugin.broker import LocalBroker

from demo.airflow import LocalAirflow
from demo.topics import Record, read_all

ROOT = Path(__file__).parents[3]
DAY = datetime(2026, 11, 20, tzinfo=UTC)
PREFIX = "interlock.airflow."
DAGS = """
    from __future__ import annotations

    from datetime import timedelta

    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, task
    from airflow.sdk.exceptions import AirflowSkipException
    from interlock import dag_run
    from interlock.operators import EventSensor, emit

    with DAG("ends", schedule=None):

        @task
        def good(number):
            pass

        @task(trigger_rule="all_done")
        def skips():
            raise AirflowSkipException

        @task(retries=1, retry_delay=timedelta(0))
        def bad():
            emit("before.it.failed", ordinal="only")
            raise ValueError("a secret of the task")

        good.expand(number=[1, 2]) >> [skips(), bad(), EmptyOperator(task_id="empty")]

    with DAG("plain", schedule=None):

        @task(task_id="good")
        def plain():
            pass

        plain()

    with DAG("hidden", schedule=None):
        plain()

    with DAG("idle", schedule=None):  # stays paused
        plain()

    with DAG("after", schedule=None):
        day_before = dag_run("plain", offset=timedelta(days=1), label="plain")
        EventSensor(task_id="wait", condition=day_before, key="{{ ts }}")
    """


@dataclass
class Site:
    airflow: LocalAirflow
    broker: LocalBroker
    bus: BusConfig

    def records(self, run_id: str) -> list[Record]:
        """What the bus was told of a run, by time."""
        found = read_all(self.broker.bootstrap_servers, self.bus.topic("event"))
        return [r for r in found if (r.header("ce_type") or "").startswith(PREFIX) and run_id in str(r.value)]

    def told(self, run_id: str) -> Counter[str]:
        """`type subject` of each event of a run, with the map index where there is one."""
        return Counter(map(_short, self.records(run_id)))

    def run(self, dag_id: str, **arguments: Any) -> str:
        """A run that has ended."""
        self.airflow.api.unpause(dag_id)
        run_id = self.airflow.api.trigger(dag_id, **arguments)
        self.airflow.api.wait_for_run(dag_id, run_id)
        return run_id

    def send(self, method: str, path: str, body: dict[str, Any]) -> None:
        self.airflow.api._send(method, f"/api/v2/dags/{path}", body)


def _short(record: Record) -> str:
    index = record.json().get("map_index", -1)
    kind = (record.header("ce_type") or "").removeprefix(PREFIX)
    return f"{kind} {record.header('ce_subject')}" + (f" {index}" if index >= 0 else "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]) -> Iterator[Site]:
    """Airflow that tells the ends of all DAGs but `hidden`, and a broker of its own."""
    folder = tmp_path_factory.mktemp("listener")
    dags = folder / "dags"
    dags.mkdir()
    (dags / "ends.py").write_text(textwrap.dedent(DAGS))
    shutil.copy(ROOT / "dags_examples" / "interlock_reconcile.py", dags)
    with LocalBroker(folder / "broker", report=say) as broker:
        bus = BusConfig(client={"bootstrap.servers": broker.bootstrap_servers})
        create(bus, partitions=2)
        with LocalAirflow(
            folder / "home",
            dags,
            connections={"kafka_default": {"conn_type": "kafka", "extra": dict(bus.client)}},
            settings={
                ("interlock", "listener"): "dag_run,task_instance",
                ("interlock", "listener_dags"): "!hidden,!interlock_*",
                ("interlock", "listener_timeout"): "2",
            },
        ) as airflow:
            airflow.api.wait_for_dags("ends", "plain", "hidden", "idle", "after", "interlock_reconcile")
            yield Site(airflow, broker, bus)


ENDS = Counter(
    {
        "task_instance.succeeded ends/good 0": 1,
        "task_instance.succeeded ends/good 1": 1,
        "task_instance.skipped ends/skips": 1,
        "task_instance.failed ends/bad": 1,
        "dag_run.failed ends": 1,
    }
)


def test_each_end_is_told_once_a_clear_again_and_a_mark_by_its_state(
    site: Site, eventually: Callable[..., Any]
) -> None:
    run_id = site.run("ends", logical_date=DAY)
    eventually("all ends are told", lambda: site.told(run_id) == ENDS)
    for record in site.records(run_id):
        jsonschema.validate(record.json(), data_schema(record.header("ce_type") or ""))
        assert (record.header("ce_ds"), record.json()["ds"]) == ("2026-11-20", "2026-11-20")
        assert b"secret" not in (record.value or b"")
    before = {record.header("ce_id") for record in site.records(run_id)}
    _test_emit_of_a_retry(site, 1)

    # a clear: new events of what ran again, none of what did not
    clear = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["bad"], "reset_dag_runs": True}
    site.send("POST", "ends/clearTaskInstances", clear)
    site.airflow.api.wait_for_run("ends", run_id)
    again = ENDS + Counter({"task_instance.failed ends/bad": 1, "dag_run.failed ends": 1})
    eventually("the ends after the clear are told", lambda: site.told(run_id) == again)
    assert len({record.header("ce_id") for record in site.records(run_id)} - before) == 2
    _test_emit_of_a_retry(site, 2)

    # a mark, there and back: the API server tells it; the way back repeats an id
    path = f"ends/dagRuns/{run_id}/taskInstances/skips"
    for state in ("failed", "skipped"):
        site.send("PATCH", path, {"new_state": state})
    marked = again + Counter({"task_instance.failed ends/skips": 1, "task_instance.skipped ends/skips": 1})
    eventually("the marks are told", lambda: site.told(run_id) == marked)
    of_skips = [r for r in site.records(run_id) if r.header("ce_type") == f"{PREFIX}task_instance.skipped"]
    assert len({record.header("ce_id") for record in of_skips}) == 1


def _test_emit_of_a_retry(site: Site, events: int) -> None:
    """emit() in `bad`, which runs twice each time: so many different events, each sent twice."""
    found = read_all(site.broker.bootstrap_servers, site.bus.topic("event"))
    ids = Counter(r.header("ce_id") for r in found if r.header("ce_type") == "before.it.failed")
    assert list(ids.values()) == [2] * events


def test_a_run_that_is_marked_by_hand_is_told_though_none_of_it_ran(
    site: Site, eventually: Callable[..., Any]
) -> None:
    for state, kind in (("success", "succeeded"), ("failed", "failed")):
        run_id = site.airflow.api.trigger("idle")
        site.send("PATCH", f"idle/dagRuns/{run_id}", {"state": state})
        wanted = f"dag_run.{kind} idle"
        eventually("the mark is told", lambda run_id=run_id, wanted=wanted: site.told(run_id)[wanted] == 1)
        [record] = [r for r in site.records(run_id) if _short(r) == wanted]
        assert record.json()["logical_date"] is None
        assert record.header("ce_ds") is None


def test_a_dag_waits_for_the_run_of_another_of_the_day_before(site: Site) -> None:
    """As ExternalTaskSensor with execution_delta, without a poke."""
    api, day = site.airflow.api, datetime(2026, 11, 10, tzinfo=UTC)
    api.unpause("after")
    waiting = api.trigger("after", logical_date=day)
    api.wait_for_task("after", waiting, "wait", "deferred")
    site.run("plain", logical_date=day)
    wanted = site.run("plain", logical_date=day - timedelta(days=1))
    assert api.wait_for_run("after", waiting) == "success"
    output = api.xcom("after", waiting, "wait")
    assert output["key"] == "2026-11-10T00:00:00Z"
    assert [each["data"]["run_id"] for each in output["events"]["plain"]] == [wanted]


def test_what_an_outage_and_a_killed_scheduler_swallowed_is_reconciled_with_the_same_ids(
    site: Site, eventually: Callable[..., Any]
) -> None:
    api = site.airflow.api
    hidden = site.run("hidden")
    site.broker.stop()
    run_id = site.run("plain", logical_date=DAY)
    assert api.task("plain", run_id, "good")["state"] == "success"

    def warnings() -> list[str]:
        lines = map(str, api.log("plain", run_id, "good"))
        return [line for line in lines if "Interlock's listener" in line]

    eventually("the task's log has the warning", warnings)
    assert len(warnings()) == 1
    assert "airflow interlock reconcile" in warnings()[0]
    site.airflow.processes.kill("scheduler")  # it holds the end of the run, which it has not told
    site.broker.start()
    assert site.told(run_id) == Counter()

    def reconcile() -> str:
        done = site.airflow.cli("interlock", "reconcile", "--since", "1h", "--until", "now")
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert "emitted" in reconcile()
    assert site.told(run_id) == Counter(
        {"dag_run.succeeded plain": 1, "task_instance.succeeded plain/good": 1}
    )
    known = DagRun(deployment="airflow", dag_id="plain", run_id=run_id, run_type="manual", run_after=None)
    common: dict[str, Any] = {"run": known, "state": "success", "started_at": None, "ended_at": None}
    task = TaskInstanceEnd(task_id="good", map_index=-1, try_number=1, max_tries=0, **common)
    assert {r.header("ce_id") for r in site.records(run_id)} == {DagRunEnd(**common).id, task.id}
    # what Airflow calls no listener for is told by reconcile, what is filtered by nobody
    found = read_all(site.broker.bootstrap_servers, site.bus.topic("event"))
    assert [_short(r) for r in found if r.header("ce_subject") == "ends/empty"] == [
        "task_instance.succeeded ends/empty"
    ]
    assert site.told(hidden) == Counter()
    assert "0 emitted" in reconcile()

    # the same command from a DAG
    site.airflow._component("scheduler", "--skip-serve-logs")
    site.run("interlock_reconcile")
    assert len(site.records(run_id)) == 2
