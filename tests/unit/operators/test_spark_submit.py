"""`SparkSubmitEventOperator` without Spark: the driver's settings, and the events of its reports."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as hooks
from airflow.sdk import DAG, Connection
from airflow.sdk.exceptions import AirflowTaskTimeout
from interlock import Event
from interlock.events.errors import EmitError, EventError
from interlock.operators import SparkSubmitEventOperator
from interlock.operators import spark_submit as module
from interlock.spark.completion.application import Application
from interlock.spark.completion.outcome import Failure
from interlock.spark.completion.report import Report
from interlock.spark.settings import read_settings
from interlock.testing.task_context import context_of

PASSWORD = "hunter2"
BEGAN = datetime(2026, 11, 20, 6, tzinfo=UTC)
ORDERS = Application("local-1", "app", "ada", started_at=BEGAN, spark_version="4.0.0")
Driver = Callable[[dict[str, str], Path, list[str]], None]


class Site:
    """A fake of spark-submit and the broker: plays a driver, and keeps the emitted events."""

    def __init__(self) -> None:
        self.driver: Driver = lambda conf, folder, command: None
        self.emitted: list[Event] = []
        self.refuses = False
        self.folders: list[Path] = []
        self.commands: list[list[str]] = []

    def submit(self, hook: Any, application: str = "", **_: Any) -> None:
        conf = hook._conf
        command = hook._build_spark_submit_command(application)
        self.commands.append(command)
        folder = Path(conf.get("spark.interlock.report.dir", "/none"))
        self.folders.append(folder)
        self.driver(conf, folder, command)

    def emit_all(self, events: list[Event], timeout_s: float) -> list[tuple[str, int, int]]:
        if self.refuses:
            raise EmitError("the broker is away")
        self.emitted += events
        return [("t", 0, n) for n in range(len(events))]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site()
    extra = f'{{"bootstrap.servers": "a:1", "sasl.password": "{PASSWORD}"}}'
    connections = (
        Connection(conn_id="kafka_default", conn_type="kafka", extra=extra),
        Connection(conn_id="spark_default", conn_type="spark", host="local[1]"),
        Connection(conn_id="yarn", conn_type="spark", host="yarn"),
        Connection(conn_id="k8s", conn_type="spark", host="k8s://https://k8s.example.com"),
        Connection(conn_id="standalone", conn_type="spark", host="spark://master:7077"),
        Connection(conn_id="cluster", conn_type="spark", host="yarn", extra='{"deploy-mode": "cluster"}'),
    )
    found = {connection.conn_id: connection for connection in connections}
    for owner in (module.BaseHook, hooks.BaseHook):
        monkeypatch.setattr(owner, "get_connection", found.__getitem__)

    class FakeEmitter:
        def __init__(self, *_: object) -> None:
            self.emit_all = made.emit_all

        def __enter__(self) -> FakeEmitter:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(module, "Emitter", FakeEmitter)
    monkeypatch.setattr(hooks, "kube_client", object(), raising=False)  # its package is optional
    monkeypatch.setattr(
        hooks.SparkSubmitHook, "submit", lambda hook, application="", **more: made.submit(hook, application)
    )
    return made


def run(**arguments: Any) -> None:
    with DAG("daily", schedule=None):
        task = SparkSubmitEventOperator(
            task_id="orders", **{"application": "job.py", "name": "app", **arguments}
        )
    task.execute(context_of(task, run_after=BEGAN))


def rendered(native: bool, **arguments: Any) -> None:
    """Renders the arguments for a run without a partition, and executes the operator."""
    with DAG("daily", schedule=None, render_template_as_native_obj=native) as dag:
        SparkSubmitEventOperator(task_id="orders", **{"application": "job.py", "name": "app", **arguments})
    context = context_of(dag.get_task("orders").prepare_for_execution(), run_after=BEGAN)
    context["task"].render_template_fields(context)
    context["task"].execute(context)


def test_the_driver_gets_the_connection_in_a_file_that_is_removed_afterwards(site: Site) -> None:
    def driver(conf: dict[str, str], folder: Path, command: list[str]) -> None:
        settings = read_settings(conf)
        assert settings.client["sasl.password"] == PASSWORD
        assert (settings.topic, settings.report_folder) == ("interlock-event", folder)
        file = Path(conf["spark.interlock.client.config.file"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert PASSWORD not in " ".join(command)

    site.driver = driver
    run()
    assert [folder.exists() for folder in site.folders] == [False]


def test_a_python_job_runs_in_the_wrapper_by_default(site: Site) -> None:
    run(application_args=["--date", "x"], completion="orders", completion_data={"date": "2026-11-20"})
    wrapper = str(Path(module.__file__).parents[1] / "spark" / "__main__.py")
    assert site.commands[0][-4:] == [wrapper, "job.py", "--date", "x"]
    assert "spark.interlock.data.date=2026-11-20" in site.commands[0]
    assert "spark.interlock.name=orders" in site.commands[0]
    run(application="job.jar")
    run(wrap=False)
    assert [command[-1] for command in site.commands[1:]] == ["job.jar", "job.py"]


@pytest.mark.parametrize("application", ["file:///jobs/job.py", "local:///jobs/job.py", "file:/jobs/job.py"])
def test_a_job_with_a_local_uri_runs_in_the_wrapper(site: Site, application: str) -> None:
    run(application=application)
    assert site.commands[0][-1] == "/jobs/job.py"


def test_a_job_that_spark_submit_must_fetch_runs_without_the_wrapper(site: Site) -> None:
    run(application="s3a://bucket/job.py")
    assert site.commands[0][-1] == "s3a://bucket/job.py"


def test_the_connections_brokers_override_sparks_defaults(site: Site) -> None:
    def driver(conf: dict[str, str], folder: Path, command: list[str]) -> None:
        defaults = {"spark.interlock.bootstrap.servers": "other:9092"}
        assert read_settings({**defaults, **conf}).client["bootstrap.servers"] == "a:1"

    site.driver = driver
    run()
    assert len(site.emitted) == 1


def raiser(error: BaseException) -> Driver:
    def raises(*_: object) -> None:
        raise error

    return raises


def test_a_timed_out_task_ends_its_driver_before_it_emits(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    monkeypatch.setattr(SparkSubmitEventOperator, "on_kill", lambda _: happened.append("killed"))

    site.driver = raiser(AirflowTaskTimeout("after 1 s"))
    emit_all = site.emit_all

    def noted(events: list[Event], timeout_s: float) -> list[tuple[str, int, int]]:
        happened.append("emitted")
        return emit_all(events, timeout_s)

    site.emit_all = noted  # type: ignore[method-assign]
    with pytest.raises(AirflowTaskTimeout):
        run()
    assert happened == ["killed", "emitted"]


def test_the_event_is_emitted_even_if_the_driver_does_not_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck:
        def wait(self, timeout_s: float) -> int:
            raise subprocess.TimeoutExpired("spark-submit", timeout_s)

    def kill(task: SparkSubmitEventOperator) -> None:
        task._hook._submit_sp = Stuck()

    site.driver = raiser(AirflowTaskTimeout("after 1 s"))
    monkeypatch.setattr(SparkSubmitEventOperator, "on_kill", kill)
    with pytest.raises(AirflowTaskTimeout):
        run()
    assert [event.type.rpartition(".")[2] for event in site.emitted] == ["failed"]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"completion": "{{ dag_run.partition_key }}"}, "the template of completion gave nothing"),
        ({"completion": "{{ dag_run.partition_key or '' }}"}, "the template of completion gave nothing"),
        ({"name": "{{ dag_run.partition_key }}"}, "the template of name gave nothing"),
    ],
)
def test_a_subject_whose_template_gives_nothing_fails_the_task_before_it_submits(
    site: Site, native: bool, arguments: dict[str, str], sentence: str
) -> None:
    """The event had the subject "None", or another subject than the one that the author chose."""
    with pytest.raises(EventError, match=f"SparkSubmitEventOperator 'orders': {sentence}"):
        rendered(native, **arguments)
    assert (site.commands, site.emitted) == ([], [])


def test_the_driver_gets_data_as_text_or_json_and_nothing_for_none(site: Site) -> None:
    """It got "True", "{'a': 1}" and "None", which events would have as keys."""
    run(completion_data={"date": "2026-11-20", "full": True, "part": {"a": 1}, "region": None})
    given = {each for each in site.commands[0] if each.startswith("spark.interlock.data.")}
    assert given == {
        "spark.interlock.data.date=2026-11-20",
        "spark.interlock.data.full=true",
        'spark.interlock.data.part={"a":1}',
    }


def test_a_name_that_is_not_the_subject_may_be_any_text(site: Site) -> None:
    rendered(False, name="{{ dag_run.partition_key }}", completion="None")
    assert [event.subject for event in site.emitted] == ["None"]


def test_without_a_report_the_event_has_what_the_task_knows(site: Site) -> None:
    run(completion="orders", completion_data={"date": "2026-11-20"})
    [event] = site.emitted
    assert (event.type, event.subject) == ("interlock.spark.application.succeeded", "orders")
    assert isinstance(event.payload, dict)
    assert (event.payload["date"], event.payload["application"]["id"]) == ("2026-11-20", None)
    assert event.payload["airflow"]["task_id"] == "orders"


@pytest.mark.parametrize("exit_fails", [False, True])
@pytest.mark.parametrize("failure", [None, Failure("ValueError", "no rows")])
def test_each_report_becomes_one_event_with_its_failure_or_the_exit_codes(
    site: Site, failure: Failure | None, exit_fails: bool
) -> None:
    def driver(_conf: dict[str, str], folder: Path, _command: list[str]) -> None:
        Report("orders", ORDERS, data={"rows": 3}, ended=True, failure=failure).save(folder)
        Report("rates", ORDERS).save(folder)  # killed before it ended
        if exit_fails:
            raise RuntimeError("Cannot execute: spark-submit --api-token x. Error code is: 137.\nKilled")

    site.driver = driver
    if exit_fails:
        with pytest.raises(RuntimeError):
            run()
    else:
        run()
    outcomes = {event.subject: event.type.rpartition(".")[2] for event in site.emitted}
    assert outcomes == {
        "orders": "failed" if failure or exit_fails else "succeeded",
        "rates": "failed" if exit_fails else "succeeded",
    }
    errors = {event.subject: event.payload.get("error") for event in site.emitted}  # type: ignore[attr-defined]
    if failure:
        assert errors["orders"] == failure.to_data()
    elif exit_fails:
        assert errors["orders"] == {
            "class": "RuntimeError",
            "message": "spark-submit: Error code is: 137.\nKilled",  # not the command line
        }


def test_an_unacknowledged_event_fails_the_task_only_if_required(site: Site) -> None:
    site.refuses = True
    run()
    with pytest.raises(EmitError):
        run(required=True)
    site.driver = raiser(RuntimeError("it failed by itself"))
    with pytest.raises(RuntimeError):
        run(required=True)


def test_an_event_that_a_block_requires_is_required_of_the_task_too(site: Site) -> None:
    site.refuses = True
    site.driver = lambda _conf, folder, _command: Report("orders", ORDERS, required=True).save(folder)
    with pytest.raises(EmitError):
        run()


def test_in_cluster_mode_the_driver_gets_no_settings(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def execute(task: Any, context: Any) -> None:
        given.append((task.conf, task.application))

    monkeypatch.setattr(module.SparkSubmitOperator, "execute", execute)
    run(conn_id="cluster")
    assert given == [(None, "job.py")]
    assert len(site.emitted) == 1


def test_cluster_mode_in_the_settings_is_cluster_mode(site: Site) -> None:
    """apache/airflow#67459 has it there. The wrapper and its files are on this machine, so the job failed."""
    run(conn_id="k8s", conf={"spark.submit.deployMode": "cluster"})
    assert "spark.interlock.report.dir" not in str(site.commands)
    assert site.commands[0][-1] == "job.py"
    assert len(site.emitted) == 1


@pytest.mark.parametrize(
    ("master", "conf", "remedy"),
    [
        (
            "yarn",
            {"spark.yarn.submit.waitAppCompletion": "false"},
            "spark.yarn.submit.waitAppCompletion to true",
        ),
        ("k8s", {"spark.kubernetes.submission.waitAppCompletion": False}, "waitAppCompletion to true"),
        ("standalone", {}, 'the argument deploy_mode="cluster"'),
    ],
)
def test_an_application_whose_end_is_not_known_is_not_submitted(
    site: Site, master: str, conf: dict[str, Any], remedy: str
) -> None:
    """apache/airflow#20949, #39524: the task's state is not the application's. The event said succeeded."""
    with pytest.raises(EventError, match=f"its end is not known here. Set .*{re.escape(remedy)}"):
        run(conn_id=master, conf={"spark.submit.deployMode": "cluster", **conf})
    assert (site.commands, site.emitted) == ([], [])


def test_an_application_that_spark_submit_waits_for_is_submitted(site: Site) -> None:
    run(conn_id="yarn", conf={"spark.submit.deployMode": "cluster"})
    waits = {"spark.standalone.submit.waitAppCompletion": "true"}
    run(conn_id="standalone", conf={"spark.submit.deployMode": "cluster", **waits})
    run(conn_id="yarn", conf={"spark.yarn.submit.waitAppCompletion": "false"})  # client mode waits
    assert len(site.emitted) == 3


def test_reserved_names_are_refused_in_the_dag_file() -> None:
    with pytest.raises(
        EventError, match="completion_data of 'orders' contains names that Interlock uses: airflow"
    ):
        SparkSubmitEventOperator(task_id="orders", completion_data={"airflow": 1})


@pytest.mark.parametrize(
    ("given", "message"),
    [({"error": "x"}, "contains names that Interlock uses: error"), ("text", "is a str: give a mapping")],
)
def test_data_of_another_task_is_checked_when_the_task_runs(site: Site, given: Any, message: str) -> None:
    with DAG("daily", schedule=None):
        task = SparkSubmitEventOperator(task_id="orders", application="job.py", name="app")
    task.completion_data = given
    with pytest.raises(EventError, match=message):
        task.execute(context_of(task, run_after=BEGAN))
    assert site.commands == []


WITHOUT_THE_PROVIDER = """
import sys
sys.modules["airflow.providers.apache.spark.operators"] = None
import interlock.operators
from interlock.operators import *
print("SparkSubmitEventOperator" in dir(), EventSensor, EmitEventOperator, dispatch_dag, emit)
for use in (
    "from interlock.operators import SparkSubmitEventOperator", "interlock.operators.SparkSubmitEventOperator"
):
    try:
        exec(use)
    except ImportError as error:
        print(error)
"""


def test_without_the_spark_provider_there_are_the_other_operators_and_an_error_that_names_the_extra() -> None:
    """The core installs neither PySpark nor the provider (a fresh install by pip)."""
    ran = subprocess.run([sys.executable, "-c", WITHOUT_THE_PROVIDER], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    names, *errors = ran.stdout.splitlines()[-3:]
    assert names.startswith("False")
    missing = (
        "SparkSubmitEventOperator needs Airflow's Spark provider, which is not installed: "
        "pip install 'airflow-interlock[spark]'"
    )
    assert errors == [missing, missing]


def test_import_star_gives_the_operator_where_the_provider_is_installed() -> None:
    names: dict[str, Any] = {}
    exec("from interlock.operators import *", names)
    assert names["SparkSubmitEventOperator"] is SparkSubmitEventOperator
