"""The brokers of the bench: real ones, each with files of its own."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import psutil
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.ports import free_ports

from .lines import progress

# In memory where the system has such a folder: how busy a disk is would be most of the difference between two
# runs, and is no part of any question.
FOLDER: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FILES: Final = "in memory" if FOLDER else "on disk"
REPLICATED: Final = {
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "2",
}
_PREFIX: Final = "interlock-bench-"  # with the id of the process whose they are


@contextmanager
def started(properties: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a broker, which ends with its files when this is left."""
    with (
        _folder() as folder,
        LocalBroker(folder, properties=dict(properties or {}), report=progress) as broker,
    ):
        yield broker.bootstrap_servers


@contextmanager
def two_started() -> Iterator[str]:
    """The address of two brokers of one cluster, whose own topics have a replica on each."""
    with _folder() as folder, ExitStack() as stack:
        first, second = two_nodes(folder, progress, REPLICATED)
        stack.callback(first.stop)
        second.start()
        stack.callback(second.stop)
        yield f"{first.bootstrap_servers},{second.bootstrap_servers}"


def two_nodes(
    folder: Path, report: Callable[[str], None], properties: Mapping[str, str] | None = None
) -> tuple[LocalBroker, LocalBroker]:
    """Two nodes of a cluster. The first, started, is its controller too; the second joins when started."""
    host = "127.0.0.1"
    first_port, controller, second_port = free_ports(3, host)
    common = {**(properties or {}), "controller.quorum.voters": f"1@{host}:{controller}"}
    listeners = f"PLAINTEXT://{host}:{first_port},CONTROLLER://{host}:{controller}"
    first = LocalBroker(
        folder / "1", port=first_port, properties={**common, "listeners": listeners}, report=report
    )
    first.start()
    formatted = (folder / "1" / "data" / "meta.properties").read_text()
    joining = folder / "2" / "data" / "meta.properties"
    joining.parent.mkdir(parents=True)
    joining.write_text(re.sub(r"directory\.id=.*", "", formatted.replace("node.id=1", "node.id=2")))
    own = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://{host}:{second_port}"}
    return first, LocalBroker(folder / "2", port=second_port, properties={**common, **own}, report=report)


@contextmanager
def _folder() -> Iterator[Path]:
    _remove_left_behind()
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=FOLDER) as folder:
        yield Path(folder)


def _remove_left_behind() -> None:
    """The files of benches that were killed: they take memory."""
    for folder in Path(FOLDER or tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
