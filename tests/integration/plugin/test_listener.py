"""Completion events of a real Airflow: from workers, scheduler and API server, and from reconcile."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.events.completions import DagRun, DagRunCompletion, TaskInstanceCompletion
from interlock.events.schemas import data_schema
from interlock.plugin.broker import LocalBroker

from local.airflow import MIGRATED, LocalAirflow
from local.rest import instant
from local.topics import Record, read_all

ROOT = Path(__file__).parents[3]
DAY = datetime(2026, 11, 20, tzinfo=UTC)
PREFIX = "interlock.airflow."
BOUND_S, MARGIN_S = 8, 30  # listener_timeout, and what a busy machine needs beside it
RECENT = timedelta(minutes=1)  # the last of it is left to the listener by `reconcile`
DAGS = """
    from __future__ import annotations

    import os
    import signal
    from datetime import timedelta

    from airflow.providers.standard.operators.bash import BashOperator
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, PartitionedAtRuntime, task
    from airflow.sdk.exceptions import AirflowSkipException
    from interlock import dag_run, task_instance
    from interlock.operators import EventSensor, emit

    with DAG("ends", schedule=None, tags=["watched"]):

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

    with DAG("plain", schedule=None, tags=["watched"]):

        @task(task_id="good")
        def plain():
            pass

        plain()

    with DAG("hidden", schedule=None, tags=["watched"]):
        plain()

    with DAG("excluded", schedule=None, tags=["of its own"]):
        plain()

    with DAG("idle", schedule=None, tags=["watched"]):  # stays paused
        plain()

    with DAG("away", schedule=None, tags=["watched"]):

        @task
        def fails():
            raise ValueError("a deliberate failure")

        [plain(), fails(), skips()] >> EmptyOperator(task_id="empty", trigger_rule="all_done")

    with DAG("dies", schedule=None, tags=["watched"]):

        @task
        def alone():
            os.kill(os.getpid(), signal.SIGKILL)

        def with_its_worker():
            os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

        @task(retries=1, retry_delay=timedelta(0))
        def mended(ti=None):
            if ti.try_number == 1:
                with_its_worker()

        [alone(), task(with_its_worker)(), mended()]

    with DAG("by_hand", schedule=None, tags=["watched"]):
        BashOperator(task_id="marked", bash_command="exec sleep 600")
        BashOperator(
            task_id="cleared",
            bash_command="[ {{ ti.try_number }} -gt 1 ] || exec sleep 600",
            retry_delay=timedelta(0),  # which is how Airflow 3.3.0 takes a clear of a running task
        )

    with DAG("after", schedule=None, tags=["watched"]):
        day_before = dag_run("plain", offset=timedelta(days=1), label="plain")
        EventSensor(task_id="wait", condition=day_before, key="{{ ts }}")

    with DAG("regional", schedule=PartitionedAtRuntime(), tags=["watched"]):
        plain()

    with DAG("matching", schedule=None, tags=["watched"]):
        mapped = task_instance("ends", "good", by=["ds", "data.map_index"], label="end")
        skipped = task_instance("ends", "skips", state=["failed", "skipped"], by="logical_date", label="end")
        report = dag_run("plain", dates={"2026-11-05": "2026-11-02", "2026-11-06": "2026-11-05"}, label="end")
        region = dag_run("regional", by="partition_key", label="end")
        EventSensor(task_id="mapped", condition=mapped, key=["{{ ds }}", 1])
        EventSensor(task_id="skipped", condition=skipped, key="{{ ts }}")
        EventSensor(task_id="dates", condition=report, key="{{ ds }}")
        EventSensor(task_id="partition", condition=region, key="{{ dag_run.conf['region'] }}")
    """


@dataclass
class Site:
    airflow: LocalAirflow
    broker: LocalBroker
    bus: BusConfig

    def records(self, run_id: str) -> list[Record]:
        """Returns the events of a run on the bus, by time."""
        found = read_all(self.broker.bootstrap_servers, self.bus.topic("event"))
        return [r for r in found if (r.header("ce_type") or "").startswith(PREFIX) and run_id in str(r.value)]

    def emitted(self, run_id: str) -> Counter[str]:
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
    """Airflow with a listener for all DAGs except `hidden` and `excluded`, and its own broker."""
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
            migrated=MIGRATED,
            connections={"kafka_default": {"conn_type": "kafka", "extra": dict(bus.client)}},
            settings={
                ("interlock", "listener"): "dag_run,task_instance",
                ("interlock", "listener_dags"): "!hidden,!interlock_*",
                ("interlock", "listener_tags"): "watched",
                ("interlock", "listener_timeout"): str(BOUND_S),
                # a task whose worker died is found dead sooner than after Airflow's default of 300 s
                ("scheduler", "task_instance_heartbeat_timeout"): "20",
                ("scheduler", "task_instance_heartbeat_timeout_detection_interval"): "2",
            },
        ) as airflow:
            airflow.api.wait_for_dags(
                "ends",
                "plain",
                "hidden",
                "excluded",
                "idle",
                "away",
                "dies",
                "by_hand",
                "after",
                "regional",
                "matching",
                "interlock_reconcile",
            )
            yield Site(airflow, broker, bus)


@dataclass
class Crash:
    """Runs that ended while the broker was away; then the scheduler, which held their ends, was killed."""

    away: str
    plain: str
    hidden: str
    ended_at: datetime
    warnings: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def crash(site: Site, eventually: Callable[..., Any]) -> Crash:
    """Plays the crash; afterwards broker and scheduler run again."""
    api, tasks = site.airflow.api, ("good", "fails", "skips")
    hidden = site.run("hidden")
    site.broker.stop()
    away, plain = site.run("away"), site.run("plain", logical_date=DAY)

    def warnings(task_id: str) -> list[dict[str, Any]]:
        lines = api.log("away", away, task_id)
        return [line for line in lines if "Interlock's listener" in str(line)]

    for task_id in tasks:
        eventually(f"the log of {task_id} has the warning", lambda t=task_id: warnings(t))
    site.airflow.processes.kill("scheduler")
    site.broker.start()
    site.airflow._component("scheduler", "--skip-serve-logs")
    ended = [
        instant(api.run(dag_id, run_id)["end_date"]) for dag_id, run_id in (("away", away), ("plain", plain))
    ]
    return Crash(away, plain, hidden, max(ended), {task_id: warnings(task_id) for task_id in tasks})


@pytest.fixture(scope="module")
def dying(site: Site, request: pytest.FixtureRequest) -> str:
    """The run of `dies`, which continues beside the tests until Airflow has found its tasks dead."""
    if any("crash" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("crash")  # which kills the scheduler: not while this runs
    site.airflow.api.unpause("dies")
    return site.airflow.api.trigger("dies")


@pytest.mark.long
def test_tasks_that_end_while_kafka_is_away_have_their_states_and_one_warning_within_the_bound(
    site: Site, crash: Crash
) -> None:
    tasks = {task["task_id"]: task for task in site.airflow.api.tasks("away", crash.away)}
    states = {task_id: task["state"] for task_id, task in tasks.items()}
    assert states == {"good": "success", "fails": "failed", "skips": "skipped", "empty": "success"}
    for task_id, warnings in crash.warnings.items():
        [warning] = warnings
        assert "airflow interlock reconcile" in str(warning)
        task = tasks[task_id]
        assert task["try_number"] == 1
        assert task["duration"] < BOUND_S + MARGIN_S
        late = instant(warning["timestamp"]) - instant(task["end_date"])
        assert late < timedelta(seconds=BOUND_S + MARGIN_S)
    assert site.emitted(crash.away) == site.emitted(crash.plain) == Counter()


ENDS = Counter(
    {
        "task_instance.succeeded ends/good 0": 1,
        "task_instance.succeeded ends/good 1": 1,
        "task_instance.skipped ends/skips": 1,
        "task_instance.failed ends/bad": 1,
        "dag_run.failed ends": 1,
    }
)


@pytest.mark.usefixtures("dying")
def test_each_end_has_one_event_a_clear_another_one_and_a_mark_that_of_its_state(
    site: Site, eventually: Callable[..., Any]
) -> None:
    run_id = site.run("ends", logical_date=DAY)
    eventually("all ends have their events", lambda: site.emitted(run_id) == ENDS)
    for record in site.records(run_id):
        jsonschema.validate(record.json(), data_schema(record.header("ce_type") or ""))
        assert (record.header("ce_ds"), record.json()["ds"]) == ("2026-11-20", "2026-11-20")
        assert b"secret" not in (record.value or b"")
        started, ended = record.json()["started_at"], record.json()["ended_at"]
        assert record.header("ce_time") == ended
        assert instant(started) <= instant(ended)
    before = {record.header("ce_id") for record in site.records(run_id)}
    _test_emit_of_a_retry(site, 1)

    # a clear: new events of what ran again, none of what did not
    clear = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["bad"], "reset_dag_runs": True}
    site.send("POST", "ends/clearTaskInstances", clear)
    site.airflow.api.wait_for_run("ends", run_id)
    again = ENDS + Counter({"task_instance.failed ends/bad": 1, "dag_run.failed ends": 1})
    eventually("the ends after the clear have their events", lambda: site.emitted(run_id) == again)
    assert len({record.header("ce_id") for record in site.records(run_id)} - before) == 2
    _test_emit_of_a_retry(site, 2)

    # a mark, there and back: the API server emits its event; the way back repeats an id
    path = f"ends/dagRuns/{run_id}/taskInstances/skips"
    for state in ("failed", "skipped"):
        site.send("PATCH", path, {"new_state": state})
    marked = again + Counter({"task_instance.failed ends/skips": 1, "task_instance.skipped ends/skips": 1})
    eventually("the marks have their events", lambda: site.emitted(run_id) == marked)
    of_skips = [r for r in site.records(run_id) if r.header("ce_type") == f"{PREFIX}task_instance.skipped"]
    assert len({record.header("ce_id") for record in of_skips}) == 1


def _test_emit_of_a_retry(site: Site, events: int) -> None:
    """emit() in `bad`, which runs twice each time: so many different events, each sent twice."""
    found = read_all(site.broker.bootstrap_servers, site.bus.topic("event"))
    ids = Counter(r.header("ce_id") for r in found if r.header("ce_type") == "before.it.failed")
    assert list(ids.values()) == [2] * events


def test_a_run_that_is_marked_by_hand_has_an_event_though_none_of_it_ran(
    site: Site, eventually: Callable[..., Any]
) -> None:
    for state, kind in (("success", "succeeded"), ("failed", "failed")):
        run_id = site.airflow.api.trigger("idle")
        site.send("PATCH", f"idle/dagRuns/{run_id}", {"state": state})
        wanted = f"dag_run.{kind} idle"
        eventually("its event comes", lambda run_id=run_id, wanted=wanted: site.emitted(run_id)[wanted] == 1)
        [record] = [r for r in site.records(run_id) if _short(r) == wanted]
        assert record.json()["logical_date"] is None
        assert record.header("ce_ds") is None


@pytest.mark.long
def test_a_running_task_that_is_marked_or_cleared_emits_no_event_of_its_own_end(
    site: Site, eventually: Callable[..., Any]
) -> None:
    api = site.airflow.api
    api.unpause("by_hand")
    run_id = api.trigger("by_hand")

    def works(task_id: str) -> bool:
        """Airflow ends a task that only starts without asking its listeners."""
        return "Running command" in str(api.log("by_hand", run_id, task_id))

    for task_id in ("marked", "cleared"):
        api.wait_for_task("by_hand", run_id, task_id, "running")
        eventually(f"{task_id} works", partial(works, task_id))
    api.mark("by_hand", run_id, "marked", "success")
    api.clear("by_hand", run_id, "cleared")

    def says_what_it_does_not_emit(task_id: str) -> bool:
        return f"emits no event for {task_id}" in str(api.log("by_hand", run_id, task_id))

    for task_id in ("marked", "cleared"):
        eventually(f"{task_id} says what it does not emit", partial(says_what_it_does_not_emit, task_id))
    assert api.wait_for_run("by_hand", run_id) == "success"
    wanted = Counter(
        {
            "task_instance.succeeded by_hand/marked": 1,
            "task_instance.succeeded by_hand/cleared": 1,
            "dag_run.succeeded by_hand": 1,
        }
    )
    eventually("the ends have their events", lambda: site.emitted(run_id) == wanted)


def test_worker_scheduler_and_api_server_emit_no_event_of_a_dag_without_the_tag(
    site: Site, eventually: Callable[..., Any]
) -> None:
    """Each of them emits the events of a DAG that has it, in the order in which the ends came."""
    marks = (
        ("/taskInstances/good", {"new_state": "failed"}, "task_instance.failed plain/good"),
        ("", {"state": "failed"}, "dag_run.failed plain"),
    )
    excluded = site.run("excluded")
    worker = site.airflow.api.task("excluded", excluded, "good")["pid"]
    for path, body, _ in marks:
        site.send("PATCH", f"excluded/dagRuns/{excluded}{path}", body)
    included = site.run("plain")
    ran = Counter({"task_instance.succeeded plain/good": 1, "dag_run.succeeded plain": 1})
    eventually("worker and scheduler emit a later run's events", lambda: site.emitted(included) == ran)
    for path, body, end in marks:
        site.send("PATCH", f"plain/dagRuns/{included}{path}", body)
        eventually("the API server emits that of a mark", lambda end=end: site.emitted(included)[end] == 1)
    eventually("the worker's process is over", lambda: not psutil.pid_exists(worker))
    assert site.emitted(excluded) == Counter()


@pytest.mark.long
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
    assert (output["key"], output["canonical_key"]) == ("2026-11-10T00:00:00+00:00", "2026-11-10T00:00:00Z")
    assert [each["data"]["run_id"] for each in output["events"]["plain"]] == [wanted]


@pytest.mark.long
def test_waits_for_tasks_dates_and_partitions_take_the_events_of_airflows_listener(site: Site) -> None:
    api, day = site.airflow.api, datetime(2026, 11, 5, tzinfo=UTC)
    api.unpause("matching")
    waiting = api.trigger("matching", logical_date=day, conf={"region": "eu"})
    for dag_id in ("ends", "plain", "regional"):
        api.unpause(dag_id)
    api.trigger("plain", logical_date=day)  # the date of the key, and not the one that goes with it
    api.trigger("regional", partition_key="asia")
    ends = api.trigger("ends", logical_date=day)
    wanted = {
        "mapped": ends,
        "skipped": ends,
        "dates": api.trigger("plain", logical_date=day - timedelta(days=3)),
        "partition": api.trigger("regional", partition_key="eu"),
    }
    assert api.wait_for_run("matching", waiting) == "success"
    taken = {}
    for task_id in wanted:
        [[end]] = api.xcom("matching", waiting, task_id)["events"].values()
        taken[task_id] = end["data"]
    assert {task_id: end["run_id"] for task_id, end in taken.items()} == wanted
    assert taken["mapped"]["map_index"] == 1
    assert taken["partition"]["partition_key"] == "eu"


DEATHS = Counter(
    {
        "task_instance.failed dies/with_its_worker": 1,
        "task_instance.succeeded dies/mended": 1,
        "dag_run.failed dies": 1,
    }
)


def _all_are_dead(site: Site, dying: str, eventually: Callable[..., Any]) -> None:
    assert site.airflow.api.wait_for_run("dies", dying) == "failed"
    # The process of the last task may emit its event behind the scheduler's.
    eventually("all ends have their events", lambda: site.emitted(dying) == DEATHS)


def test_the_scheduler_emits_the_event_of_a_task_killed_with_its_worker_and_not_of_one_killed_alone(
    site: Site, dying: str, eventually: Callable[..., Any]
) -> None:
    _all_are_dead(site, dying, eventually)
    states = {task["task_id"]: task["state"] for task in site.airflow.api.tasks("dies", dying)}
    assert states == {"alone": "failed", "with_its_worker": "failed", "mended": "success"}


@pytest.mark.long
def test_reconcile_emits_events_that_an_outage_and_killed_processes_prevented(
    site: Site, crash: Crash, dying: str, eventually: Callable[..., Any]
) -> None:
    _all_are_dead(site, dying, eventually)
    everywhere = ("--dags", "away,dies,excluded")  # tags are as the listener's
    done = site.airflow.cli("interlock", "reconcile", "--since", "1h", "--until", "now", *everywhere)
    assert (done.returncode, "6 events emitted" in done.stdout) == (0, True), done.stdout
    assert site.emitted(dying) == DEATHS + Counter({"task_instance.failed dies/alone": 1})
    assert site.emitted(crash.away) == Counter(
        {
            "dag_run.succeeded away": 1,
            "task_instance.succeeded away/good": 1,
            "task_instance.failed away/fails": 1,
            "task_instance.skipped away/skips": 1,
            # Airflow calls no listener for it
            "task_instance.succeeded away/empty": 1,
        }
    )


@pytest.mark.long
def test_the_example_dag_completes_the_record_after_a_crash_with_the_listeners_ids(
    site: Site, crash: Crash, eventually: Callable[..., Any]
) -> None:
    assert site.emitted(crash.plain) == Counter()
    eventually("the ends are old enough", lambda: datetime.now(UTC) > crash.ended_at + RECENT, 90)
    site.run("interlock_reconcile")
    assert site.emitted(crash.plain) == Counter(
        {"dag_run.succeeded plain": 1, "task_instance.succeeded plain/good": 1}
    )
    known = DagRun(
        deployment="airflow", dag_id="plain", run_id=crash.plain, run_type="manual", run_after=None
    )
    common: dict[str, Any] = {"run": known, "state": "success", "started_at": None, "ended_at": None}
    task = TaskInstanceCompletion(task_id="good", map_index=-1, try_number=1, max_tries=0, **common)
    assert {r.header("ce_id") for r in site.records(crash.plain)} == {DagRunCompletion(**common).id, task.id}
    # nothing emits events of excluded DAGs
    assert site.emitted(crash.hidden) == Counter()
    again = site.airflow.cli("interlock", "reconcile", "--since", "1h", "--until", "now", "--dags", "plain")
    assert "0 events emitted" in again.stdout
