"""`engine.bus.Clients` over the simulated brokers; the process may crash at each record that it writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from interlock.engine.bus import End, Output, Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, UnreachableError
from interlock.engine.registry.leases import is_lease

from tests.kit.bus import Fetching, Host
from tests.kit.kafka import Cluster

KINDS: Final = (
    "a registration",
    "a lease",
    "the end of a lease",
    "a renewal",
    "an acknowledgement",
    "a removal",
)


def kind_of(output: Output) -> str:
    """The kind of a record of a waiting process, for traces."""
    if output.topic.endswith("-action"):
        return "an acknowledgement"
    if (output.key or b"").startswith(b"renewal/") and output.value is not None:
        return "a renewal"
    if is_lease(output.key):
        return "a lease" if output.value is not None else "the end of a lease"
    return "a registration" if output.value is not None else "a removal"


class SimulatedClients:
    """The clients of one process. following: its first reader, of the registry and the action topic."""

    def __init__(self, config: BusConfig, cluster: Cluster, host: Host) -> None:
        self.config, self.cluster, self.host = config, cluster, host
        self.has_error = False
        self.following: ClientReader | None = None

    def check(self) -> Mapping[str, int]:
        self.host.pause("looks at the topics")
        names = [self.config.topic(kind) for kind in ("action", "subscription")]
        return {name: len(self.cluster.topics[name].logs) for name in names}

    def reader(self) -> ClientReader:
        reader = self.make_reader()
        self.following = self.following or reader  # the first of a connection
        return reader

    def make_reader(self) -> ClientReader:
        return ClientReader(self)

    def writer(self, delivery_s: float | None = None) -> SimulatedWriter:
        return SimulatedWriter(self)

    def unreachable(self, reason: str) -> EngineError:
        return UnreachableError(reason)


class ClientReader:
    """A reader of committed records. before: its positions when the last take began."""

    def __init__(self, clients: SimulatedClients) -> None:
        self._host = clients.host
        self._fetching = Fetching(clients.cluster, clients.host)
        self.before: dict[TopicPartition, int] = {}

    def read(self, positions: Mapping[TopicPartition, int]) -> None:
        self._fetching.assign(positions)
        self.before = dict(positions)

    def take(self, most: int, timeout_s: float) -> list[Record | End]:
        self._host.pause("takes from a reader")
        self.before = dict(self._fetching.positions)
        taken = self._fetching.take(most, strict=False)
        if not taken and timeout_s:
            self._host.wait("finds nothing to read")
            taken = self._fetching.take(most, strict=False)
        return taken

    def close(self) -> None:
        self._fetching.assign({})


class SimulatedWriter:
    """Records arrive in their order, now or in a later call; between any two the process may be killed."""

    def __init__(self, clients: SimulatedClients) -> None:
        self._clients, self._host, self._cluster = clients, clients.host, clients.cluster
        self._sent: deque[tuple[Output, Callable[[str | None], None] | None]] = deque()

    def write(self, output: Output, on_delivery: Callable[[str | None], None] | None = None) -> None:
        self._sent.append((output, on_delivery))
        if self._host.choose(2):
            self.serve()

    def serve(self, timeout_s: float = 0) -> None:
        while self._sent:
            output, on_delivery = self._sent[0]
            failed = self._arrive(output)
            self._sent.popleft()
            self._clients.has_error = self._clients.has_error or failed is not None
            if on_delivery is not None:
                on_delivery(failed)

    def _arrive(self, output: Output) -> str | None:
        """Writes a record. Returns the client's error or None; after an error it may be written anyway."""
        kind = kind_of(output)
        try:
            self._host.pause(f"writes {kind}")
        except UnreachableError as e:
            if self._host.choose(2):
                self._append(output)
            return str(e)
        self._append(output)
        try:
            self._host.pause(f"awaits the answer to {kind}")
        except UnreachableError as e:
            return str(e)
        return None

    def _append(self, output: Output) -> None:
        assert output.partition is not None
        assert output.headers is None
        tp = TopicPartition(output.topic, output.partition)
        offset, _ = self._cluster.append(tp, output.key, output.value)
        self._host.say(f"{kind_of(output)} {(output.key or b'').decode()} is at {tp}@{offset}")

    def flush(self, timeout_s: float) -> int:
        self.serve()
        return 0

    def partitions(self, topic: str, timeout_s: float) -> int:
        self._host.pause("asks for the partitions")
        found = self._cluster.topics.get(topic)
        return 0 if found is None else len(found.logs)

    def outage(self) -> str | None:
        try:
            self._host.pause("asks for anything")
        except UnreachableError as e:
            return str(e)
        self._clients.has_error = False
        return None
