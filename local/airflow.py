"""A real Airflow on this machine: one folder, SQLite, LocalExecutor, everything on 127.0.0.1.

Only for demonstrations and integration tests: it is neither tuned nor secured for more. Each home has its own
secrets, in airflow.cfg and passwords.json (mode 600).

The log servers of scheduler and triggerer are off: Airflow would bind them to all interfaces, and the API
server reads the log files on the same machine.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

from interlock.plugin.broker.ports import free_ports, try_bind

from .polling import poll
from .processes import Processes, ServiceError
from .rest import AirflowRest

USER = "admin"
DATABASE = "airflow.db"
# An empty database of the installed version, for `LocalAirflow(migrated=...)`: a checkout makes it once.
MIGRATED = Path(__file__).parents[1] / ".build" / f"airflow-{version('apache-airflow-core')}.db"
# Short intervals, so that a local Airflow reacts quickly; it polls more often.
QUICK = {
    ("scheduler", "scheduler_idle_sleep_time"): "0.4",
    ("scheduler", "job_heartbeat_sec"): "2",
    ("scheduler", "scheduler_heartbeat_sec"): "2",
    ("scheduler", "use_job_schedule"): "True",
    ("triggerer", "job_heartbeat_sec"): "2",
    ("dag_processor", "min_file_process_interval"): "300",
    ("dag_processor", "refresh_interval"): "300",
    ("dag_processor", "parsing_processes"): "1",
    ("core", "min_serialized_dag_update_interval"): "5",
    # The interval at which a task's supervisor checks its process: how late the executor may notice a
    # deferral. Airflow 3.3 fails a task that is running again by then (apache/airflow#72716).
    ("workers", "min_heartbeat_interval"): "1",
}


@dataclass(frozen=True)
class Login:
    url: str
    user: str
    password: str = field(repr=False)


class LocalAirflow:
    """An Airflow in `home`, which runs the DAGs of `dags_folder` and stops with the `with` block.

    connections: by id, as dictionaries in Airflow's JSON form (conn_type, host, extra, ...).
    variables: Airflow variables by name.
    settings: {(section, option): value} of airflow.cfg; override those of this class.
    environment: more variables for its processes. port: of the UI and REST API; 0 chooses a free one.
    migrated: file with the empty database, which takes 15 s to create: the first home writes the file, later
    homes copy it. It must be of the same Airflow version.
    `start` and `wait_ready` raise ServiceError with the reason if a component does not start.
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        *,
        connections: Mapping[str, Mapping[str, Any]] | None = None,
        variables: Mapping[str, str] | None = None,
        settings: Mapping[tuple[str, str], str] | None = None,
        environment: Mapping[str, str] | None = None,
        port: int = 0,
        triggerers: int = 1,
        migrated: Path | None = None,
    ) -> None:
        self.home = home.resolve()
        self.dags_folder = dags_folder.resolve()
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.login = Login(self.url, USER, secrets.token_urlsafe(12))
        self.api = self.new_client()
        self.processes = Processes(
            self.home / "logs" / "components", self._environment(connections, variables, environment)
        )
        self._settings = dict(settings or {})
        self._migrated = migrated
        self._wanted_triggerers = triggerers
        self._triggerers: list[str] = []
        self._triggerers_started = 0
        self._warm_up: threading.Thread | None = None

    def __enter__(self) -> LocalAirflow:
        try:
            self.prepare()
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def prepare(self) -> None:
        """Writes the configuration, creates the database. Raises ServiceError if the home was used before."""
        if (self.home / "airflow.cfg").exists():
            raise ServiceError(f"{self.home} was used already; give LocalAirflow an empty folder")
        self.home.mkdir(parents=True, exist_ok=True)
        self._write_private(self.home / "airflow.cfg", self._configuration())
        self._write_private(self.home / "passwords.json", json.dumps({USER: self.login.password}) + "\n")
        if self._migrated is not None and self._migrated.exists():
            shutil.copyfile(self._migrated, self.home / DATABASE)
            return
        done = self.cli("db", "migrate", timeout_s=120.0)
        if done.returncode:
            raise ServiceError(f"airflow db migrate ended with {done.returncode}:\n{done.stdout[-2000:]}")
        if self._migrated is not None:
            self._keep_database(self._migrated)

    def start(self) -> None:
        """Starts all components at once; they are not ready yet."""
        self.require_port()
        self._component("api-server", "--workers", "1")
        self._component("scheduler", "--skip-serve-logs")
        self._component("dag-processor")
        for _ in range(self._wanted_triggerers):
            self._start_triggerer()

    def require_port(self) -> None:
        """Raises ServiceError if something listens on the port. `start` calls it too."""
        if not port_is_free(self.port):
            raise ServiceError(f"port {self.port} of 127.0.0.1 is in use; free it or choose another one")

    def wait_ready(self, timeout_s: float = 240.0, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Returns when the REST API answers and every component is healthy.

        meanwhile: called at every poll, several times a second; may raise.
        """
        deadline = time.monotonic() + timeout_s
        missing = ["api-server"]
        while missing:
            self.processes.check()
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"not ready after {timeout_s:.0f} s: {', '.join(missing)}; "
                    f"logs are in {self.processes.log_folder}"
                )
            meanwhile()
            time.sleep(0.3)
            missing = self._not_ready()

    def cli(self, *arguments: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Runs an `airflow` command in this Airflow's environment; output and errors are in `.stdout`."""
        return subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.processes.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )

    def new_client(self) -> AirflowRest:
        """Returns a new REST client, for another thread. The caller closes it."""
        return AirflowRest(self.url, USER, self.login.password)

    def kill_triggerer(self, name: str | None = None) -> None:
        """Kills a triggerer, by default the oldest, and its process tree with SIGKILL."""
        killed = self._triggerers[0] if name is None else name
        self._triggerers.remove(killed)
        self.processes.kill(killed)

    def start_triggerer(
        self, *options: str, timeout_s: float = 180.0, environment: Mapping[str, str] | None = None
    ) -> str:
        """Starts one more triggerer and returns its name when it is alive.

        options: of the command. environment: more variables for this triggerer.
        """
        before = datetime.now(UTC)
        self._start_triggerer(*options, environment=environment)

        def alive() -> bool:
            self.processes.check()
            return any(job["start_date"] >= before for job in self.api.jobs("TriggererJob"))

        if not poll(alive, timeout_s):
            raise ServiceError(f"{self._triggerers[-1]} is not alive after {timeout_s:.0f} s")
        return self._triggerers[-1]

    def stop(self) -> None:
        """Stops everything that was started, also running tasks. Keeps the folder."""
        self.processes.stop()
        if self._warm_up is not None:
            self._warm_up.join()
        self.api.close()

    def _keep_database(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Other processes read the file, so it is renamed when complete. SQLite's backup includes the journal.
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            whole = Path(folder) / DATABASE
            with (
                contextlib.closing(sqlite3.connect(self.home / DATABASE)) as made,
                contextlib.closing(sqlite3.connect(whole)) as copy,
            ):
                made.backup(copy)
            whole.replace(file)

    def _component(
        self,
        name: str,
        *options: str,
        command: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        # The API server can deadlock with itself on SQLite (see rest.py) until this timeout ends.
        patience_s = 2 if name == "api-server" else 60
        self.processes.start(
            name,
            [sys.executable, "-m", "airflow", command or name, *options],
            {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self._database(patience_s), **(environment or {})},
        )

    def _database(self, patience_s: int) -> str:
        return f"sqlite:///{self.home / DATABASE}?timeout={patience_s}"

    def _start_triggerer(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self._triggerers_started += 1
        name = f"triggerer-{self._triggerers_started}"
        self._component(name, "--skip-serve-logs", *options, command="triggerer", environment=environment)
        self._triggerers.append(name)

    def _not_ready(self) -> list[str]:
        health = self.api.health()
        if health is None:
            return ["api-server"]
        if self._warm_up is None:
            # Otherwise the first task would wait 3 s while the execution API builds its routes.
            self._warm_up = threading.Thread(target=self.api.warm_up, name="warm-up", daemon=True)
            self._warm_up.start()
        missing = [
            part
            for part in ("metadatabase", "scheduler", "dag_processor")
            if (health.get(part) or {}).get("status") != "healthy"
        ]
        if not missing and len(self.api.jobs("TriggererJob")) < len(self._triggerers):
            missing = ["triggerer"]
        return missing

    def _environment(
        self,
        connections: Mapping[str, Mapping[str, Any]] | None,
        variables: Mapping[str, str] | None,
        environment: Mapping[str, str] | None,
    ) -> dict[str, str]:
        # The caller's own Airflow settings must not reach this one.
        result = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        result["PATH"] = str(Path(sys.executable).parent) + os.pathsep + result.get("PATH", os.defpath)
        result["AIRFLOW_HOME"] = str(self.home)
        result["PYTHONUNBUFFERED"] = "1"
        for name in ("NO_PROXY", "no_proxy"):
            # Requests to the API server on this machine must not go through the caller's proxy.
            result[name] = ",".join(filter(None, [result.get(name), "127.0.0.1,localhost"]))
        for name, connection in (connections or {}).items():
            result[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(dict(connection))
        for name, value in (variables or {}).items():
            result[f"AIRFLOW_VAR_{name.upper()}"] = value
        return {**result, **(environment or {})}

    def _configuration(self) -> str:
        values = {
            ("core", "dags_folder"): str(self.dags_folder),
            ("core", "plugins_folder"): str(self.home / "plugins"),
            ("core", "executor"): "LocalExecutor",
            ("core", "parallelism"): "8",
            ("core", "load_examples"): "False",
            ("core", "hostname_callable"): "airflow.utils.net.get_host_ip_address",
            ("core", "fernet_key"): base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            ("core", "execution_api_server_url"): f"{self.url}/execution/",
            ("core", "simple_auth_manager_users"): f"{USER}:admin",
            ("core", "simple_auth_manager_passwords_file"): str(self.home / "passwords.json"),
            ("database", "sql_alchemy_conn"): self._database(patience_s=60),
            ("logging", "base_log_folder"): str(self.home / "logs"),
            ("logging", "dag_processor_child_process_log_directory"): str(
                self.home / "logs" / "dag_processor"
            ),
            ("logging", "colored_console_log"): "False",
            ("logging", "worker_log_server_port"): str(free_port()),
            ("logging", "trigger_log_server_port"): str(free_port()),
            ("api", "host"): "127.0.0.1",
            ("api", "port"): str(self.port),
            ("api", "base_url"): self.url,
            ("api", "workers"): "1",
            ("api", "secret_key"): secrets.token_urlsafe(32),
            ("api_auth", "jwt_secret"): secrets.token_urlsafe(32),
            ("scheduler", "enable_health_check"): "False",
            **QUICK,
            **self._settings,
        }
        lines: dict[str, list[str]] = {}
        for (section, option), value in values.items():
            # Airflow reads the file with interpolation.
            lines.setdefault(f"[{section}]", []).append(f"{option} = {value.replace('%', '%%')}")
        return "".join("\n".join((section, *options, "")) for section, options in lines.items())

    @staticmethod
    def _write_private(path: Path, text: str) -> None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)


def free_port() -> int:
    """Returns a TCP port of 127.0.0.1 on which nothing listens now."""
    [port] = free_ports(1)
    return port


def port_is_free(port: int) -> bool:
    try:
        try_bind("127.0.0.1", port)
    except OSError:
        return False
    return True
