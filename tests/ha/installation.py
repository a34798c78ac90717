"""Everything that a run needs: PostgreSQL, a broker with a bus, and an Airflow with several triggerers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from interlock.events import Emitter
from interlock.plugin.broker import LocalBroker

from demo.airflow import LocalAirflow
from demo.processes import ServiceError
from tests.chaos.oracle import Follower

from .postgres import Postgres
from .rest import PAGE, Client

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUS, DEPLOYMENT = "ha", "ha"
Say = Callable[[str], None]


class PostgresAirflow(LocalAirflow):
    """LocalAirflow on PostgreSQL."""

    def __init__(self, *arguments: Any, url: str, **options: Any) -> None:
        self._url = url
        super().__init__(*arguments, **options)

    def _database(self, patience_s: int) -> str:
        return self._url

    def triggerer_pids(self) -> list[int]:
        """Of the triggerers' first processes, the oldest first."""
        return [self.processes._running[name].pid for name in self._triggerers]

    def stop_triggerer(self) -> None:
        """SIGTERM to the youngest triggerer, as when a pool shrinks; returns when it has ended."""
        process = self.processes._running.pop(self._triggerers.pop())
        process.terminate()
        process.wait(120)


class Installation:
    """As a context manager; all of it is gone at the end, but the logs in `folder`."""

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
            triggerers=self._triggerers,
        )
        self._stack.callback(self.airflow.stop)
        self.airflow.prepare()
        done = self.airflow.cli("interlock", "topics", "create", "--bus", BUS)
        if done.returncode:
            raise ServiceError(f"airflow interlock topics create:\n{done.stdout[-2000:]}")
        self.airflow.start()
        self.airflow.wait_ready()
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
        """The first true value of fact(); ServiceError when there is none in time."""
        deadline = time.monotonic() + deadline_s
        while not (value := fact()):
            self.airflow.processes.check()
            if time.monotonic() > deadline:
                raise ServiceError(f"not within {deadline_s:.0f} s: {what}; logs are in {self.folder}")
            time.sleep(every_s)
        return value

    def hold(
        self, dag_id: str, task_id: str, classpath: str, kwargs: Callable[[str], Sequence[Mapping[str, Any]]]
    ) -> str:
        """Starts a run and defers its mapped task without workers; gives the run's id.

        kwargs: of the triggers, by map index, for a run id.
        """
        self.api.unpause(dag_id)
        run_id = self.api.trigger(dag_id)
        wanted = list(kwargs(run_id))

        def expanded() -> bool:
            ready = {
                task["map_index"]
                for task in self.tasks(dag_id, run_id, task_id)
                if task["state"] == "scheduled"
            }
            return ready >= set(range(len(wanted)))

        self.until(f"{dag_id} is expanded", expanded, 120)
        form = {
            "dag_id": dag_id,
            "run_id": run_id,
            "task_id": task_id,
            "classpath": classpath,
            "kwargs": wanted,
        }
        done = subprocess.run(
            [sys.executable, "-P", str(HERE / "held.py")],
            input=json.dumps(form),
            env=self.airflow.processes.environment,
            cwd=self.airflow.home,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode or json.loads(done.stdout.splitlines()[-1])["deferred"] != len(wanted):
            raise ServiceError(f"{dag_id} was not deferred:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
        return run_id

    def claimed(self, dag_id: str, run_id: str, task_id: str) -> int:
        """How many of the deferred instances a triggerer has taken."""
        tasks = self.tasks(dag_id, run_id, task_id)
        return sum(bool(task["trigger"] and task["trigger"]["triggerer_id"]) for task in tasks)
