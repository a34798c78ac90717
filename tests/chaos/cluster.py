"""A real broker with two listeners: one for engines, through the proxy, and a direct one."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.jars import KAFKA_VERSION
from interlock.plugin.broker.ports import free_ports

from .proxy import Proxy

HOST = "127.0.0.1"


class Cluster:
    """One broker and its proxy, as a context manager.

    version: of Kafka. direct: bootstrap servers past the proxy; proxied: through it, whatever broker a client
    is sent to.
    """

    def __init__(self, folder: Path, version: str = KAFKA_VERSION) -> None:
        plain, behind, controller, before = free_ports(4)
        self.direct, self.proxied = f"{HOST}:{plain}", f"{HOST}:{before}"
        self.broker = LocalBroker(
            folder,
            port=plain,
            version=version,
            properties={
                "listeners": f"PLAINTEXT://{HOST}:{plain},PROXIED://{HOST}:{behind},"
                f"CONTROLLER://{HOST}:{controller}",
                # The broker's connections to itself bypass the proxy.
                "advertised.listeners": f"PLAINTEXT://{HOST}:{plain},PROXIED://{HOST}:{before}",
                "listener.security.protocol.map": ",".join(
                    f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "PROXIED", "CONTROLLER")
                ),
                "controller.quorum.voters": f"1@{HOST}:{controller}",
            },
        )
        self.proxy = Proxy(before, behind, HOST)

    def __enter__(self) -> Self:
        self.proxy.__enter__()
        self.broker.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.broker.stop()
        self.proxy.__exit__(*exc)

    def restart(self, *, kill: bool) -> None:
        """Restarts the broker, cleanly or after a kill."""
        if kill:
            self.broker.kill()
        else:
            self.broker.stop()
        self.broker.start()
