"""A PostgreSQL server in its own folder, from the machine's binaries."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from local.airflow import free_port
from local.processes import Processes, ServiceError

DEBIAN = Path("/usr/lib/postgresql")
USER, DATABASE = "airflow", "airflow"
START_S = 30.0
TOOLS = ("postgres", "initdb", "createdb")


def binaries() -> Path:
    """The folder with TOOLS; ServiceError says how to install them."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(DEBIAN.glob("*/bin"), key=lambda bin_: _number(bin_.parent.name), reverse=True)
    for folder in folders:
        if all((folder / name).exists() for name in TOOLS):
            return folder
    raise ServiceError(
        "no PostgreSQL server found on PATH or under /usr/lib/postgresql; several triggerers need one "
        "(Debian and Ubuntu: apt install postgresql). It need not run: one is started in a temporary folder"
    )


class Postgres:
    """A server on a free port of 127.0.0.1 inside the `with` block; removed with its data after it.

    PostgreSQL refuses to run as root: then it runs as the user `postgres`, or `nobody`.
    """

    def __init__(self) -> None:
        self._bin = binaries()
        self._folder = Path(tempfile.mkdtemp(prefix="interlock-postgres-"))
        self._password = secrets.token_urlsafe(16)
        self._as_user = _unprivileged()
        self.port = free_port()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        self._processes = Processes(self._folder / "log", environment)

    @property
    def url(self) -> str:
        """The URL for SQLAlchemy, with the password."""
        return f"postgresql+psycopg2://{USER}:{self._password}@127.0.0.1:{self.port}/{DATABASE}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        secret = self._folder / "password"
        with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(self._password)
        data = self._folder / "data"
        data.mkdir(mode=0o700)
        if self._as_user:
            for path in (self._folder, secret, data):
                shutil.chown(path, *self._as_user)
        self._run(
            "initdb",
            *("--pgdata", str(data), "--username", USER, "--pwfile", str(secret)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"),
        )
        server = [str(self._bin / "postgres"), "-D", str(data), "-p", str(self.port)]
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "300"}
        for name, value in options.items():
            server += ["-c", f"{name}={value}"]
        self._processes.start("postgres", [*self._lowered(), *server])
        deadline = time.monotonic() + START_S
        while (done := self._run("createdb", DATABASE, check=False)).returncode:
            self._processes.check()
            if time.monotonic() > deadline:
                raise ServiceError(f"PostgreSQL cannot create a database:\n{done.stdout[-2000:]}")
            time.sleep(0.2)

    def _run(self, tool: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        own = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": USER, "PGPASSWORD": self._password}
        done = subprocess.run(
            [*self._lowered(), str(self._bin / tool), *arguments],
            cwd=self._folder,
            env={**self._processes.environment, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        if check and done.returncode:
            raise ServiceError(f"{tool} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done

    def _lowered(self) -> list[str]:
        if self._as_user is None:
            return []
        user, group = self._as_user
        return ["setpriv", "--reuid", str(user), "--regid", str(group), "--clear-groups"]


def _unprivileged() -> tuple[int, int] | None:
    """(user, group) to run as; None: the present user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    raise ServiceError("PostgreSQL does not run as root, and there is no user postgres or nobody: create one")


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
