"""The broker's jars: fetched once into the user's cache, verified before every start.

kafka-<version>.sha512 lists every jar of a broker by Maven coordinates and checksum. Exactly these are
fetched, and the class path holds exactly these.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from .errors import BrokerError
from .maven import Jar, Report, fetch

# Not 4.3.0, 4.3.1 or 4.4.0: there a transaction that ends while a partition has no leader stays open for ever
# (KAFKA-20734). Pausing a single node for seconds is enough to cause it.
KAFKA_VERSION = "4.2.2"
_HERE = Path(__file__).parent
NEEDED_BYTES = 80 * 2**20  # the jars and a margin


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
    report: Report,
    directory: Path | None = None,
    checksums: Path | None = None,
    *,
    version: str = KAFKA_VERSION,
    repository: str | None = None,
) -> str:
    """Returns the broker's class path of verified jars; fetches them first if `directory` does not exist.

    report: gets progress lines while jars are fetched (about 45 MB, 10 s on a fast connection).
    repository: address of the Maven repository; default: Maven Central.
    Raises BrokerError when the version has no checksum file, or a jar is wrong or missing, or cannot be
    fetched.
    """
    jars = read_checksums(checksums_of(version) if checksums is None else checksums)
    directory = cache_directory(version) if directory is None else directory
    if not directory.is_dir():
        _fetch(jars, directory, report, version, repository)
    _verify(jars, directory)
    return os.pathsep.join(str(directory / jar.name) for jar in jars)


def _verify(jars: tuple[Jar, ...], directory: Path) -> None:
    if problems := _problems(jars, directory):
        raise BrokerError(
            f"The broker was not started because of its jars in {directory}: {problems}. "
            "Remove that folder, and the next start fetches them again."
        )


def _problems(jars: tuple[Jar, ...], directory: Path) -> str:
    """Returns which jars are wrong or missing; an empty text if none is."""
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
    return "; ".join(problems)


def _fetch(
    jars: tuple[Jar, ...], directory: Path, report: Report, version: str, repository: str | None
) -> None:
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
                report(
                    f"Fetching Apache Kafka {version} and its dependencies from Maven Central "
                    f"({len(jars)} jars, about 45 MB, once)."
                )
                fetched = Path(work) / "jars"
                fetched.mkdir()
                fetch(jars, fetched, report, repository)
                if problems := _problems(jars, fetched):
                    raise BrokerError(
                        f"The fetched jars are not those of Kafka {version}: {problems}. Try again. "
                        "If it happens again, something between here and Maven Central changes files."
                    )
                # A rename is atomic: other processes see all jars or none.
                fetched.rename(directory)
    except OSError as e:
        raise BrokerError(f"The broker's jars cannot be stored in {directory}: {e}.") from e
    report(f"Verified {len(jars)} jars and stored them in {directory}.")
