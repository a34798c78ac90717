"""The broker's jars: fetched once into the user's cache, verified before every start.

kafka-<version>.sha512 lists every jar of a broker by Maven coordinates and checksum. Ivy, which ships inside
PySpark, fetches exactly these, and the class path holds exactly these.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from .errors import BrokerError

# Not 4.3.0, 4.3.1 or 4.4.0: there a transaction that ends while a partition has no leader stays open for ever
# (KAFKA-20734). Pausing a single node for seconds is enough to cause it.
KAFKA_VERSION = "4.2.2"
_HERE = Path(__file__).parent
NEEDED_BYTES = 150 * 2**20  # twice the jars, since Ivy keeps a copy while it works, plus a margin
FETCH_TIMEOUT_S = 900.0
SILENCE_S = 120.0  # Ivy prints dots while it downloads a jar, and nothing while a connection hangs

# Ivy knows the address of Maven Central. Without POMs it requests only the listed jars: three times as fast.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Jar:
    """One jar: Maven coordinates and expected SHA-512 (hex)."""

    group: str
    artifact: str
    version: str
    sha512: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def read_checksums(path: Path) -> tuple[Jar, ...]:
    """Returns the jars of a checksum file, whose lines are `<sha512>  <group>:<artifact>:<version>`."""
    jars = []
    for line in path.read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            sha512, coordinates = line.split()
            group, artifact, version = coordinates.split(":")
            jars.append(Jar(group, artifact, version, sha512))
    return tuple(jars)


def versions() -> list[str]:
    """Returns the versions of Kafka that have a checksum file, the oldest first."""
    found = (path.stem.removeprefix("kafka-") for path in _HERE.glob("kafka-*.sha512"))
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def checksums_of(version: str) -> Path:
    """Returns the checksum file of a version. Raises BrokerError if there is none."""
    known = versions()
    if version not in known:
        raise BrokerError(f"Kafka {version} is not available. Choose one of {', '.join(known)}.")
    return _HERE / f"kafka-{version}.sha512"


def cache_directory(version: str = KAFKA_VERSION) -> Path:
    """Returns the jars' directory: `interlock/kafka-<version>` under XDG_CACHE_HOME, or under ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "interlock" / f"kafka-{version}"


def class_path(
    java: str,
    report: Report,
    directory: Path | None = None,
    checksums: Path | None = None,
    *,
    version: str = KAFKA_VERSION,
) -> str:
    """Returns the broker's class path of verified jars; fetches them first if `directory` does not exist.

    report: gets progress lines while jars are fetched (about 45 MB, 15 s on a fast connection).
    Raises BrokerError when the version has no checksum file, or a jar is wrong or missing, or cannot be
    fetched.
    """
    jars = read_checksums(checksums_of(version) if checksums is None else checksums)
    directory = cache_directory(version) if directory is None else directory
    if not directory.is_dir():
        _fetch(java, jars, directory, report, version)
    _verify(jars, directory)
    return os.pathsep.join(str(directory / jar.name) for jar in jars)


def _verify(jars: tuple[Jar, ...], directory: Path) -> None:
    wrong, missing = [], []
    for jar in jars:
        try:
            found = hashlib.sha512((directory / jar.name).read_bytes()).hexdigest()
        except FileNotFoundError:
            missing.append(jar.name)
        except OSError as e:
            raise BrokerError(f"The broker's jars cannot be read: {e}.") from e
        else:
            if found != jar.sha512:
                wrong.append(jar.name)
    problems = [f"wrong SHA-512: {', '.join(wrong)}"] if wrong else []
    problems += [f"missing: {', '.join(missing)}"] if missing else []
    if problems:
        raise BrokerError(
            f"The broker was not started because of its jars in {directory}: {'; '.join(problems)}. "
            "Remove that folder, and the next start fetches them again."
        )


def _fetch(java: str, jars: tuple[Jar, ...], directory: Path, report: Report, version: str) -> None:
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with Path(f"{directory}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report("Another process is fetching the broker's jars; waiting for it.")
                fcntl.flock(lock, fcntl.LOCK_EX)
            if directory.is_dir():
                return
            free = shutil.disk_usage(directory.parent).free
            if free < NEEDED_BYTES:
                raise BrokerError(
                    f"The disk is too full for the broker's jars: {directory.parent} has {free // 2**20} "
                    f"MiB free, and they need {NEEDED_BYTES // 2**20} MiB. Free space, or set XDG_CACHE_HOME."
                )
            with tempfile.TemporaryDirectory(prefix="fetch-", dir=directory.parent) as work:
                _run_ivy(java, jars, Path(work), report, version)
                _verify(jars, Path(work) / "jars")
                # A rename is atomic: other processes see all jars or none.
                (Path(work) / "jars").rename(directory)
    except OSError as e:
        raise BrokerError(f"The broker's jars cannot be stored in {directory}: {e}.") from e
    report(f"Verified {len(jars)} jars and stored them in {directory}.")


def _run_ivy(java: str, jars: tuple[Jar, ...], work: Path, report: Report, version: str) -> None:
    (work / "settings.xml").write_text(_SETTINGS, encoding="utf-8")
    (work / "ivy.xml").write_text(_ivy_module(jars), encoding="utf-8")
    report(
        f"Fetching Apache Kafka {version} and its dependencies from Maven Central "
        f"({len(jars)} jars, about 45 MB, once)."
    )
    command = [
        java, f"-Duser.home={work}", "-jar", str(_ivy_jar()),
        "-settings", str(work / "settings.xml"), "-cache", str(work / "cache"),
        "-ivy", str(work / "ivy.xml"), "-confs", "default",
        "-retrieve", f"{work}/jars/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    tail: list[str] = []
    done = 0
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as ivy:
        try:
            for line in _lines(ivy):
                tail = [*tail[-40:], line.strip()]
                if "SUCCESSFUL" in line:
                    done += 1
                    if done % 10 == 0 or done == len(jars):
                        report(f"  {done} of {len(jars)} jars")
            code = ivy.wait(SILENCE_S)
        except subprocess.TimeoutExpired:
            ivy.kill()
            raise _no_answer() from None
        except BaseException:
            ivy.kill()
            raise
    if code != 0:
        errors = [x for x in tail if "UNRESOLVED" in x or "FAILED" in x or "ERROR" in x or "Exception" in x]
        raise _cannot_fetch((errors or tail or ["no output"])[-1])


def _lines(ivy: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yields Ivy's output line by line. Raises BrokerError when it prints nothing or takes too long."""
    assert ivy.stdout is not None  # noqa: S101 - the caller passes stdout=PIPE
    deadline = time.monotonic() + FETCH_TIMEOUT_S
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(ivy.stdout, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(min(left, SILENCE_S)):
                raise (
                    _no_answer() if left > SILENCE_S else _cannot_fetch(f"not done in {FETCH_TIMEOUT_S:g} s")
                )
            if not (chunk := os.read(ivy.stdout.fileno(), 1 << 16)):
                break
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
    yield rest.decode(errors="replace")


def _no_answer() -> BrokerError:
    return _cannot_fetch(f"no answer for {SILENCE_S:g} s")


def _cannot_fetch(why: str) -> BrokerError:
    return BrokerError(
        f"The broker's jars cannot be fetched from Maven Central: {why}. "
        "Check the network and Java's proxy settings (JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=...)."
    )


def _ivy_module(jars: tuple[Jar, ...]) -> str:
    lines = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        'transitive="false" conf="default-&gt;*"/>\n'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="interlock" module="broker"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{lines}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    # Located, not imported: pyspark takes a second to import.
    spec = importlib.util.find_spec("pyspark")
    places = (spec.submodule_search_locations or []) if spec else []
    found = [jar for place in places for jar in sorted(Path(place).glob("jars/ivy-*.jar"))]
    if not found:
        raise BrokerError("PySpark is missing; its Ivy fetches the broker's jars. Run: pip install pyspark")
    return found[0]
