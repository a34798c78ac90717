"""The deliverers of a triggerer: one for each bus and connection, in threads of their own."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

from .settings import DeliverySettings, delivery_settings
from .stats import airflow_stats

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ..engine.config import BusConfig
    from ..engine.runtime.delivering import Delivering
    from ..engine.sending.posts import HttpPosts
    from ..engine.sending.target import SinkTarget

DRAIN_S: Final = 2.0  # Airflow kills a triggerer that ends too slowly
_lock: Final = threading.Lock()
_Key: TypeAlias = tuple[int, str, str, str]
# By process id, bus, deployment and connection. Airflow forks, and a Kafka client does not survive a fork.
running: Final[dict[_Key, Delivering]] = {}
# The loop that runs the triggers: one in a triggerer, another one for each `dag.test()`.
loops: Final[dict[_Key, asyncio.AbstractEventLoop]] = {}


def deliver_here(config: BusConfig, loop: asyncio.AbstractEventLoop) -> Delivering | None:
    """Starts this process's deliverer, unless it runs, and returns it.

    Returns None if `deliveries_in_triggerer` is 0. The deliverer runs until the process ends, also for sinks
    whose triggers run elsewhere. If the connection's content has changed, it makes new clients. loop: the one
    that runs the triggers. May take a second: call it in another thread. Raises ConfigError for an invalid
    setting.
    """
    chosen = delivery_settings()
    if not chosen.in_triggerer:
        return None
    key = (os.getpid(), config.name, config.deployment, config.connection)
    with _lock:
        loops[key] = loop
        delivering = running.get(key)
        if delivering is None:
            delivering = _made(config, chosen, key)
            try:
                delivering.start()
            except RuntimeError:  # no thread can be started: the next call tries again
                delivering.ask_to_stop()
                raise
            running[key] = delivering
            atexit.register(delivering.stop)
    delivering.use(config)
    return delivering


def _made(config: BusConfig, chosen: DeliverySettings, key: _Key) -> Delivering:
    from ..engine.delivery.context import DeliveryLimits
    from ..engine.delivery.parts import DelivererParts
    from ..engine.runtime.delivering import DelivererProcess, Delivering
    from ..engine.sending.posts import HttpPosts, PostOptions
    from .sink_connections import target_in_triggerer

    def lookup(conn_id: str) -> SinkTarget:
        return target_in_triggerer(conn_id, loops[key])

    def make_posts(config: BusConfig, on_ended: Callable[[], None]) -> HttpPosts:
        return HttpPosts(config, lookup, on_ended, PostOptions(chosen.networks))

    parts = DelivererParts(limits=DeliveryLimits(slots=chosen.in_triggerer))
    return Delivering(config, make_posts, DelivererProcess(parts=parts, drain_s=DRAIN_S), airflow_stats())
