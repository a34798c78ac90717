"""The real brokers of the bench, each with its own files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.ports import free_ports

from .folders import folder
from .lines import progress

REPLICATED: Final = {
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "2",
}


@contextmanager
def started(properties: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a broker; it is stopped and its files are removed after the block."""
    with folder() as place, LocalBroker(place, properties=dict(properties or {}), report=progress) as broker:
        yield broker.bootstrap_servers


@contextmanager
def two_started() -> Iterator[str]:
    """The address of two brokers of one cluster; Kafka's internal topics have a replica on each."""
    with folder() as place, ExitStack() as stack:
        first, second = two_nodes(place, progress, REPLICATED)
        stack.callback(first.stop)
        second.start()
        stack.callback(second.stop)
        yield f"{first.bootstrap_servers},{second.bootstrap_servers}"


def two_nodes(
    place: Path, report: Callable[[str], None], properties: Mapping[str, str] | None = None
) -> tuple[LocalBroker, LocalBroker]:
    """Two nodes of a cluster. The first is started and is the controller too; the second joins when
    started."""
    host = "127.0.0.1"
    first_port, controller, second_port = free_ports(3, host)
    common = {**(properties or {}), "controller.quorum.voters": f"1@{host}:{controller}"}
    listeners = f"PLAINTEXT://{host}:{first_port},CONTROLLER://{host}:{controller}"
    first = LocalBroker(
        place / "1", port=first_port, properties={**common, "listeners": listeners}, report=report
    )
    first.start()
    formatted = (place / "1" / "data" / "meta.properties").read_text()
    joining = place / "2" / "data" / "meta.properties"
    joining.parent.mkdir(parents=True)
    joining.write_text(re.sub(r"directory\.id=.*", "", formatted.replace("node.id=1", "node.id=2")))
    own = {"process.roles": "broker", "node.id": "2", "listeners": f"PLAINTEXT://{host}:{second_port}"}
    return first, LocalBroker(place / "2", port=second_port, properties={**common, **own}, report=report)
