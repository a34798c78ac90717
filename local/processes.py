"""Starts the processes of a local service in their own sessions, and stops them with all descendants.

Each has a marker in its environment, which descendants inherit. With it `stop` finds those that lost
their parent, such as Airflow's tasks and spark-submit's JVM, and are not in the process tree any more.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

MARKER = "INTERLOCK_LOCAL_SERVICE"


class ServiceError(RuntimeError):
    """A local service did not start, or stopped by itself; the message has the reason and the log's path."""


class Processes:
    """The processes of one service. `stop` may be called at any time, any number of times."""

    def __init__(self, log_folder: Path, environment: Mapping[str, str]) -> None:
        self.log_folder = log_folder
        self.marker = uuid.uuid4().hex
        # SPT_NOENV: setproctitle, which Airflow uses, would otherwise overwrite the environment in memory.
        self.environment = {**environment, MARKER: self.marker, "SPT_NOENV": "1"}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts `command` in its own session; appends its output to `<log_folder>/<name>.log`.

        environment: more variables, for this process only.
        """
        if name in self._running:
            raise ValueError(f"{name} is running already")
        self.log_folder.mkdir(parents=True, exist_ok=True)
        with self.log_path(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self.environment, **(environment or {})},
                cwd=self.log_folder,
                start_new_session=True,
            )
        self._running[name] = process
        return process

    def log_path(self, name: str) -> Path:
        return self.log_folder / f"{name}.log"

    def log_tail(self, name: str, lines: int = 15) -> str:
        with contextlib.suppress(OSError):
            text = self.log_path(name).read_text(errors="replace")
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def tails(self, lines: int = 15) -> dict[str, str]:
        """Returns {name: last lines} of each process with output, also of ended ones."""
        names = sorted(path.stem for path in self.log_folder.glob("*.log"))
        return {name: tail for name in names if (tail := self.log_tail(name, lines))}

    def check(self) -> None:
        """Raises ServiceError if a process has ended by itself."""
        for name, process in self._running.items():
            code = process.poll()
            if code is not None:
                raise ServiceError(
                    f"{name} ended by itself with code {code}; "
                    f"its log is {self.log_path(name)} and ends with:\n{self.log_tail(name)}"
                )

    def kill(self, name: str) -> None:
        """Kills the process and all its descendants with SIGKILL, so that none runs a signal handler."""
        process = self._running.pop(name)
        for victim in self._family(process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        process.wait()

    def stop(self, grace_s: float = 3.0) -> None:
        """Ends each process: SIGTERM, and after `grace_s` seconds SIGKILL. Then kills all descendants."""
        leaders = list(self._running.values())
        everything = {process for leader in leaders for process in self._family(leader.pid)}
        everything |= set(marked(self.marker))
        for leader in leaders:
            with contextlib.suppress(ProcessLookupError):
                leader.terminate()
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and any(leader.poll() is None for leader in leaders):
            time.sleep(0.05)
        for process in everything | set(marked(self.marker)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for leader in leaders:
            leader.wait()
        self._running.clear()

    def _family(self, pid: int) -> Iterator[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(pid)
            yield from leader.children(recursive=True)
            yield leader


def marked(marker: str) -> Iterator[psutil.Process]:
    """Yields this user's processes with `marker` in their environment, except the calling one."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARKER) == marker:
                yield process
