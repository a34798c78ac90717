"""LocalBroker: one real Kafka node on this machine, for development and tests."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from ...engine.config import BusConfig
from ...engine.errors import UnreachableError
from ...engine.kafka.reachability import require_answer
from .errors import BrokerError
from .jars import KAFKA_VERSION, class_path
from .java import find_java
from .maven import Report
from .ports import free_ports, try_bind

MIN_FREE_BYTES = 256 * 2**20  # a segment of each internal topic, and a day's development data
START_TIMEOUT_S = 60.0  # measured: 2-3 s on two cores
STOP_TIMEOUT_S = 15.0

_HERE = Path(__file__).parent
_CAUSE_MARKS = (" ERROR ", " FATAL ", "Exception: ", "Error: ")
# The JVM prints such a line first if JAVA_TOOL_OPTIONS or JDK_JAVA_OPTIONS is set.
_JVM_NOTES = ("Picked up J", "NOTE: Picked up J")
# One node without replicas, tuned for quick starts and quick group joins.
_PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # After a kill the node waits until the session of its predecessor ends: 9 s by default.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "auto.create.topics.enable": "false",  # a misspelt topic is an error here as in production
    "default.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "metadata.max.idle.interval.ms": "0",  # otherwise an empty record twice a second
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
}


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class LocalBroker:
    """One real Kafka node: KRaft, no replicas, no authentication or TLS; bound to 127.0.0.1 by default.

    directory: holds topics (`data/`) and logs (`logs/`); a broker started on it again has the same topics.
    port: 0 chooses a free port at the first start and keeps it.
    properties: more lines of server.properties; they override the defaults.
    version: of Kafka, one of `jars.versions()`. A directory needs the version that created it, or a later
        one.
    report: gets a line about each slow step (fetching jars); stderr by default.

    As a context manager it starts and stops the node. The node ends with the process that started it, even
    if that is killed. Not thread-safe. Needs Java 17; the first start on a machine fetches 45 MB. Options of
    the JVM are taken from KAFKA_OPTS, as Kafka's own scripts do.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        port: int = 0,
        host: str = "127.0.0.1",
        properties: Mapping[str, str] | None = None,
        *,
        version: str = KAFKA_VERSION,
        report: Report = _to_stderr,
    ) -> None:
        self.directory = Path(directory).absolute()
        self.port = port
        self.host = host
        self.properties = dict(properties or {})
        self.version = version
        self.log = self.directory / "logs" / "broker.log"
        self._console = self.directory / "logs" / "console.log"
        self._report = report
        self._node: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` for clients. Raises BrokerError before the first start if `port` was 0."""
        if not self.port:
            raise BrokerError("The broker chooses a free port when it starts; start it first.")
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the running node; None if no node runs."""
        return self._node.pid if self._node is not None and self._node.poll() is None else None

    def start(self) -> LocalBroker:
        """Starts the node and returns when it answers clients.

        Raises BrokerError, and leaves nothing running, when there is no suitable Java, a jar has the wrong
        checksum, the port is in use, the disk is full, or the node ends or does not answer within 60 s.
        """
        if self.pid is not None:
            raise BrokerError(f"The broker at {self.bootstrap_servers} is running already.")
        self._reap()  # what is left of a node that ended by itself
        java = find_java()
        jars = class_path(self._report, version=self.version)
        self._prepare_directory()
        with self._locked_directory() as lock:
            self._start(java, jars, lock)
        return self

    def _start(self, java: str, jars: str, lock: IO[str]) -> None:
        if self.port:
            _require_free(self.host, self.port)
        else:
            [self.port] = free_ports(1, self.host)
        command = [
            java, "-Xms128m", "-Xmx512m", *shlex.split(os.environ.get("KAFKA_OPTS", "")),
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={(_HERE / 'log4j2.properties').as_uri()}",
            f"-Dinterlock.broker.log={self.log}", "-cp", jars,
        ]  # fmt: skip
        settings = self._write_settings()
        if not (self.directory / "data" / "meta.properties").exists():
            self._format([*command, "kafka.tools.StorageTool"], settings)
        try:
            self._launch([*command, "kafka.Kafka", str(settings)], lock)
            self._wait_until_ready(time.monotonic() + START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stops the node cleanly (SIGTERM; SIGKILL after 15 s). Does nothing if no node runs."""
        if self._node is not None:
            self._node.terminate()
            try:
                self._node.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._node.kill()
        self._reap()

    def kill(self) -> None:
        """Ends the node at once (SIGKILL), as a crash would. Does nothing if no node runs."""
        if self._node is not None:
            self._node.kill()
        self._reap()

    def restart(self) -> LocalBroker:
        """Stops the node if it runs, and starts one on the same port and data."""
        self.stop()
        return self.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the node to end; returns whether it did within the time. None waits for ever."""
        if self._node is None:
            return True
        try:
            self._node.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def __enter__(self) -> LocalBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- starting

    def _prepare_directory(self) -> None:
        if "," in str(self.directory):
            raise BrokerError(f"Kafka does not accept a comma in its directory's name: {self.directory}.")
        try:
            (self.directory / "data").mkdir(parents=True, exist_ok=True)
            self.log.parent.mkdir(exist_ok=True)
            free = shutil.disk_usage(self.directory).free
        except OSError as e:
            raise BrokerError(f"The broker cannot keep its data in {self.directory}: {e}.") from e
        if free < MIN_FREE_BYTES:
            raise BrokerError(
                f"{self.directory} has {free // 2**20} MiB free, and the broker needs "
                f"{MIN_FREE_BYTES // 2**20} MiB. Free some space, or give a directory on another disk."
            )

    @contextlib.contextmanager
    def _locked_directory(self) -> Iterator[IO[str]]:
        # The node inherits the locked file, so the lock lasts until the node ends.
        with (self.directory / "node.pid").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise BrokerError(
                    f"{self.directory} is in use by the broker with process id {lock.read().strip() or '?'}. "
                    "Stop that broker, or give another directory."
                ) from None
            yield lock

    def _write_settings(self) -> Path:
        controller = next(port for port in free_ports(2, self.host) if port != self.port)
        settings = {
            **_PROPERTIES,
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "controller.quorum.voters": f"1@{self.host}:{controller}",
            "log.dirs": str(self.directory / "data"),
            **self.properties,
        }
        path = self.directory / "server.properties"
        lines = "".join(f"{key}={_escape(value)}\n" for key, value in sorted(settings.items()))
        path.write_text(lines, encoding="ascii")
        return path

    def _format(self, tool: list[str], settings: Path) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # With "=", since an id that begins with a dash would be read as an option.
        made = subprocess.run(
            [*tool, "format", f"--cluster-id={cluster}", "--config", str(settings)],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            lines = (made.stderr + made.stdout).strip().splitlines()
            reason = next((line for line in lines if not line.startswith(_JVM_NOTES)), "no reason given")
            raise BrokerError(f"Kafka cannot format {self.directory} as a log directory: {reason[:400]}")

    def _launch(self, command: list[str], lock: IO[str]) -> None:
        # In a session of its own, so that Ctrl-C reaches only the parent, which then stops the node cleanly.
        with self._console.open("wb") as console:
            self._node = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                pass_fds=[lock.fileno()],
            )
        lock.truncate(0)
        lock.write(str(self._node.pid))
        lock.flush()
        self._guard = subprocess.Popen(
            [sys.executable, "-I", str(_HERE / "guard.py"), str(self._node.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _wait_until_ready(self, deadline: float) -> None:
        config = BusConfig(client={"bootstrap.servers": self.bootstrap_servers}, connection="local broker")
        # A plain TCP connection first: a Kafka client would log every refused one.
        while not _accepts(self.host, self.port):
            self._require_alive()
            if time.monotonic() > deadline:
                raise BrokerError(self._timeout_text())
            time.sleep(0.05)
        while True:
            self._require_alive()
            try:
                require_answer(config, timeout_s=2.0)
            except UnreachableError as e:
                if time.monotonic() > deadline:
                    raise BrokerError(self._timeout_text()) from e
            else:
                return

    def _require_alive(self) -> None:
        if self._node is not None and (code := self._node.poll()) is not None:
            cause = self._cause()
            if "UnsupportedVersionException" in cause:  # the directory's records have a later format
                cause += (
                    f" A Kafka later than {self.version} created {self.directory}: start that version "
                    "(`--kafka-version`), or give another directory."
                )
            raise BrokerError(f"The broker ended while it started (exit {code}): {cause} Log: {self.log}")

    def _timeout_text(self) -> str:
        return (
            f"The broker does not answer at {self.bootstrap_servers} after {START_TIMEOUT_S:.0f} s. "
            f"Log: {self.log}"
        )

    def _cause(self) -> str:
        """Returns the last error line of the log, or of what the JVM printed."""
        for file in (self.log, self._console):
            lines = _tail(file)
            causes = [x for x in lines if any(mark in x for mark in _CAUSE_MARKS)]
            if causes:
                return causes[-1].strip()[:400]
        return "the log gives no reason."

    # -- ending

    def _reap(self) -> None:
        if self._node is not None:
            self._node.wait()
            self._node = None
        if self._guard is not None:
            with contextlib.suppress(BrokenPipeError):
                self._pipe(self._guard).close()
            self._guard.wait()
            self._guard = None

    @staticmethod
    def _pipe(guard: subprocess.Popen[bytes]) -> IO[bytes]:
        if guard.stdin is None:
            raise RuntimeError("the guard was started without a pipe")
        return guard.stdin


def _tail(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()[-200:]
    except OSError:
        return []


def _escape(value: str) -> str:
    # java.util.Properties: a backslash escapes, and the file is Latin-1
    return "".join(
        "\\\\" if c == "\\" else c if " " <= c <= "~" else _utf16_escapes(c) for c in value.replace("\n", " ")
    )


def _utf16_escapes(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _accepts(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
        s.settimeout(1.0)
        return s.connect_ex((host, port)) == 0


def _require_free(host: str, port: int) -> None:
    try:
        try_bind(host, port)
    except (OSError, OverflowError) as e:
        raise BrokerError(
            f"The broker cannot listen on {host}:{port}: {e}. "
            "Stop the program that uses the port, or choose another port (0 chooses a free one)."
        ) from e
