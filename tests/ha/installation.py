"""The installation of a run: PostgreSQL, a broker with a bus, and an Airflow with several triggerers."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psutil
from interlock.events import Emitter
from interlock.plugin.broker import LocalBroker

from local.airflow import LocalAirflow
from local.processes import ServiceError
from tests.chaos.log import Log
from tests.chaos.oracle import Follower

from .postgres import Postgres
from .rest import PAGE, Client

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUS, DEPLOYMENT = "ha", "ha"
STOP_S = 120.0  # for a triggerer to end after SIGTERM
READ_S = 120.0  # for the follower, which a broker that was away may have held up
# The follower's sentences about what it could not read, without those about unfinished work of engines.
UNREAD = re.compile("is read to|does not answer")
Say = Callable[[str], None]


class PostgresAirflow(LocalAirflow):
    """LocalAirflow on PostgreSQL."""

    def __init__(self, *arguments: Any, url: str, **options: Any) -> None:
        self._url = url
        self._hanging: list[psutil.Process] = []
        self._jobs: dict[int, str] = {}
        super().__init__(*arguments, **options)

    def _database(self, patience_s: int) -> str:
        return self._url

    def triggerer_pids(self) -> list[int]:
        """The ids of the triggerers' main processes, the oldest first."""
        return [self.processes._running[name].pid for name in self._triggerers]

    @property
    def triggerers(self) -> list[str]:
        """The names of the running triggerers, the oldest first."""
        return list(self._triggerers)

    def name_jobs(self) -> None:
        """Assigns the new job to the youngest triggerer: Airflow reports jobs only by their ids."""
        new = [job["id"] for job in self.api.jobs("TriggererJob") if job["id"] not in self._jobs]
        if len(new) != 1:
            raise ServiceError(f"starting {self._triggerers[-1]} created {len(new)} jobs instead of one")
        self._jobs[new[0]] = self._triggerers[-1]

    def name_of(self, job_id: int) -> str:
        """The name of the triggerer with this job."""
        return self._jobs[job_id]

    def start_triggerer(
        self, *options: str, timeout_s: float = 60.0, environment: Mapping[str, str] | None = None
    ) -> str:
        name = super().start_triggerer(*options, timeout_s=timeout_s, environment=environment)
        self.name_jobs()
        return name

    def stop_triggerer(self) -> None:
        """Sends SIGTERM to the youngest triggerer, as when a pool shrinks; waits until it has ended."""
        name = self._triggerers.pop()
        process = self.processes._running.pop(name)
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise ServiceError(f"{name} has not ended {STOP_S:.0f} s after SIGTERM") from None

    def hang_triggerer(self, name: str) -> None:
        """Sends SIGSTOP to this triggerer and its descendants, as when a machine hangs."""
        leader = psutil.Process(self.processes._running[name].pid)
        leader.suspend()  # first, so that it starts no other
        self._hanging = [leader, *leader.children(recursive=True)]
        for process in self._hanging[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def continue_triggerer(self) -> None:
        """Sends SIGCONT to the stopped processes."""
        for process in self._hanging:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        self._hanging = []


class Installation:
    """A context manager; at the end everything is removed except the logs in `folder`."""

    def __init__(self, folder: Path, say: Say, *, triggerers: int, waits: int, floors: int) -> None:
        self.folder, self._say = folder, say
        self._triggerers = triggerers
        self._environment = {"INTERLOCK_HA_WAITS": str(waits), "INTERLOCK_HA_FLOORS": str(floors)}
        self._stack = ExitStack()
        self.broker: LocalBroker
        self.airflow: PostgresAirflow
        self.api: Client
        self.follower: Follower
        self.emitter: Emitter

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        enter = self._stack.enter_context
        postgres = enter(Postgres())
        self.broker = enter(LocalBroker(self.folder / "broker", report=self._say))
        servers = self.broker.bootstrap_servers
        self._say("PostgreSQL and the broker run; Airflow starts")
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": servers}}
        self.airflow = PostgresAirflow(
            self.folder / "airflow",
            HERE / "dags",
            url=postgres.url,
            connections={"kafka_default": kafka},
            settings={
                ("database", "sql_alchemy_conn"): postgres.url,
                ("core", "plugins_folder"): str(HERE / "plugins"),
                ("api", "maximum_page_limit"): str(PAGE),
                ("interlock", "bus"): BUS,
                ("interlock", "deployment"): DEPLOYMENT,
            },
            environment=self._environment,
            triggerers=1,
        )
        self._stack.callback(self.airflow.stop)
        self.airflow.prepare()
        done = self.airflow.cli("interlock", "topics", "create", "--bus", BUS)
        if done.returncode:
            raise ServiceError(f"airflow interlock topics create:\n{done.stdout[-2000:]}")
        self.airflow.start()
        self.airflow.wait_ready()
        self.airflow.name_jobs()
        # One after the other: jobs that begin together cannot be told apart.
        for _ in range(self._triggerers - 1):
            self.airflow.start_triggerer()
        self.api = Client.of(self.airflow)
        self._stack.callback(self.api.close)
        self.follower = Follower(servers, BUS)
        self.follower.start()
        self._stack.callback(self.follower.stop)
        self.emitter = enter(Emitter({"bootstrap.servers": servers}, f"{BUS}-event"))
        self.api.make_pool("held", 0)

    def tasks(self, dag_id: str, run_id: str, task_id: str) -> list[dict[str, Any]]:
        return self.api.mapped(dag_id, run_id, task_id)

    def until(self, what: str, fact: Callable[[], Any], deadline_s: float, every_s: float = 1.0) -> Any:
        """Waits for a true value of fact() and returns it; ServiceError after the deadline."""
        deadline = time.monotonic() + deadline_s
        while not (value := fact()):
            self.airflow.processes.check()
            if time.monotonic() > deadline:
                raise ServiceError(f"not within {deadline_s:.0f} s: {what}; logs are in {self.folder}")
            time.sleep(every_s)
        return value

    def hold(
        self,
        dag_id: str,
        task_id: str,
        classpath: str,
        count: int,
        kwargs: Callable[[str, int], Mapping[str, Any]],
    ) -> str:
        """Starts a run and defers the first instances of its mapped task without workers; returns the run's
        id.

        kwargs: returns the trigger's arguments for a run id and a map index; called just before its creation.
        """
        self.api.unpause(dag_id)
        run_id = self.api.trigger(dag_id)

        def expanded() -> bool:
            ready = {
                task["map_index"]
                for task in self.tasks(dag_id, run_id, task_id)
                if task["state"] == "scheduled"
            }
            return ready >= set(range(count))

        self.until(f"{dag_id} is expanded", expanded, 120)
        wanted = [kwargs(run_id, number) for number in range(count)]
        held = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id}
        done = self._held("defer", {**held, "classpath": classpath, "kwargs": wanted})
        if done != count:
            raise ServiceError(f"deferred {done} of {count} tasks of {dag_id}")
        return run_id

    def resumed(self, dag_id: str, run_id: str, task_id: str) -> dict[int, dict[str, Any]]:
        """{map index: next_method and event} of the tasks that left `deferred`."""
        found = self._held("resumed", {"dag_id": dag_id, "run_id": run_id, "task_id": task_id})
        return {each.pop("map_index"): each for each in found}

    def _held(self, order: str, form: Mapping[str, Any]) -> Any:
        done = subprocess.run(
            [sys.executable, "-P", str(HERE / "held.py"), order],
            input=json.dumps(form),
            env=self.airflow.processes.environment,
            cwd=self.airflow.home,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise ServiceError(f"held.py {order}:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def record(self) -> tuple[Log, list[str]]:
        """(all records of the bus's topics, sentences about what could not be read)."""
        deadline = time.monotonic() + READ_S
        while unread := [line for line in self.follower.undone(f"{BUS}-engine") if UNREAD.search(line)]:
            if time.monotonic() > deadline:
                break
            time.sleep(1)
        return self.follower.snapshot(), [f"not judged: {line}" for line in (*self.follower.lost, *unread)]

    def places(self, dag_id: str, run_id: str, task_id: str) -> dict[int, str]:
        """{map index: name of its triggerer} of the deferred instances that a triggerer has taken."""
        return {
            task["map_index"]: self.airflow.name_of(task["trigger"]["triggerer_id"])
            for task in self.tasks(dag_id, run_id, task_id)
            if task["trigger"] and task["trigger"]["triggerer_id"]
        }
