"""A deliverer as in `airflow interlock deliver`, until it is killed.

    python -m bench.delivery.delivering SETTINGS

It prints how many firings it has acknowledged, whenever it has acknowledged some.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from ipaddress import ip_network

from interlock.engine.config import BusConfig
from interlock.engine.delivery.acknowledgements import Acknowledgements
from interlock.engine.delivery.firings import OpenFiring
from interlock.engine.delivery.parts import DelivererParts
from interlock.engine.runtime.delivering import DelivererProcess, collect_seldom, run_deliverer
from interlock.engine.sending.posts import HttpPosts, PostOptions
from interlock.engine.sending.target import SinkTarget

from .processes import HOST, settings_given


class _Counted(Acknowledgements):
    total = 0

    def commit(self, membership: object) -> list[OpenFiring]:
        found = super().commit(membership)
        if found:
            _Counted.total += len(found)
            print(_Counted.total, flush=True)
        return found


def posts(config: BusConfig, on_ended: Callable[[], None]) -> HttpPosts:
    """Deliveries to sinks on loopback. The connection of a sink's record is its address."""
    allowed = [ip_network(f"{HOST}/32")]
    return HttpPosts(config, lambda url: SinkTarget(url=url), on_ended, PostOptions(allowed))


def main() -> None:
    collect_seldom()
    run_deliverer(
        BusConfig(**settings_given()),
        threading.Event(),
        posts,
        process=DelivererProcess(parts=DelivererParts(acknowledgements=_Counted)),
    )


if __name__ == "__main__":
    main()
