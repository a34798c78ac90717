"""Asks the page's views about a bus in this process, and prints what they and a neighbour of theirs take.

python -m bench.following.views SETTINGS WAITS, with AIRFLOW_HOME of an Airflow that has a database.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
from fastapi import FastAPI
from interlock.engine.config import BusConfig
from interlock.plugin.page.app import page_app
from interlock.plugin.page.buses import Buses
from interlock.plugin.page.rights import Rights, rights_of

from ..lines import percentile
from .crowd import name_of

TICK_S: Final = 0.02
ALONE_S: Final = 15.0  # p99 of about 700 requests
TIMES: Final = 20
PREFIX: Final = "/interlock-ui"


class _Everything:
    """An auth manager that allows everything: what Airflow's own takes is not measured."""

    def get_authorized_dag_ids(self, **_: object) -> set[str]:
        return set()

    def is_authorized_dag(self, **_: object) -> bool:
        return True

    def is_authorized_connection(self, **_: object) -> bool:
        return True


class _Admin:
    def get_name(self) -> str:
        return "admin"


class _Server:
    """The page beside a route of another app, in one event loop, as in Airflow's API server."""

    def __init__(self, config: BusConfig) -> None:
        page = page_app(("kafka_default",), lambda _: config)
        page.dependency_overrides[rights_of] = lambda: Rights(_Everything(), _Admin())
        self.buses: Buses = page.state.buses
        app = FastAPI()

        @app.get("/neighbour")
        async def neighbour() -> dict[str, str]:
            return {"status": "healthy"}

        app.mount(PREFIX, page)
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://airflow")

    async def get(self, path: str, sent: dict[str, Any]) -> float:
        """The seconds that a request takes which finds nothing kept. Raises SystemExit for an error."""
        self.buses.questions.forget()
        began = time.perf_counter()
        answer = await self._client.get(PREFIX + path, params=sent)
        took = time.perf_counter() - began
        if answer.status_code != 200:
            raise SystemExit(f"bench: GET {path} {sent} answers {answer.status_code}: {answer.text[:500]}")
        return took

    async def delays(self, is_over: Callable[[], bool]) -> list[float]:
        """How many ms the neighbour takes, again and again."""
        found = []
        while not is_over():
            began = time.perf_counter()
            await self._client.get("/neighbour")
            found.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(TICK_S)
        return found

    async def read(self) -> list[float]:
        """Start the follower. Returns what the neighbour takes until the model is read."""
        asked_at = 0.0
        is_read = False

        def is_over() -> bool:
            return is_read

        async def ask() -> None:
            nonlocal asked_at, is_read
            while not is_read:
                answer = await self._client.get(f"{PREFIX}/waits", params={"limit": 1})
                is_read = answer.status_code == 200
                await asyncio.sleep(0.5)

        delays, _ = await asyncio.gather(self.delays(is_over), ask())
        return delays


def _requests(waits: int) -> Iterator[tuple[str, Callable[[], tuple[str, dict[str, Any]]]]]:
    """(what is asked, one request for it, another one each time)."""
    chance = random.Random(1)

    def a_wait() -> tuple[str, dict[str, Any]]:
        _, dag_id, run_id, task_id, map_index = name_of(chance.randrange(waits)).split("/")
        return "/wait", {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}

    yield "/buses", lambda: ("/buses", {})
    yield "/wait", a_wait
    yield "/subscription", lambda: ("/subscription", {"name": name_of(chance.randrange(waits))})
    yield "/waits", lambda: ("/waits", {"after": chance.randrange(1, waits), "limit": 50})
    yield "/waits of a DAG", lambda: ("/waits", {"dag_id": f"dag_{chance.randrange(500)}"})
    yield "/waits by a text", lambda: ("/waits", {"search": f"wait/{chance.randrange(waits)}"})
    yield "/firings", lambda: ("/firings", {})
    yield "/events", lambda: ("/events", {})
    yield (
        "/event",
        lambda: ("/event", {"topic": "event", "partition": 0, "offset": chance.randrange(100)}),
    )
    yield "/dead-letters", lambda: ("/dead-letters", {})
    yield "/graph", lambda: ("/graph", {})
    yield "/health", lambda: ("/health", {})


async def _measure(config: BusConfig, waits: int) -> dict[str, Any]:
    server = _Server(config)
    until = time.monotonic() + 1.0
    await server.delays(lambda: time.monotonic() > until)  # warms up
    until = time.monotonic() + ALONE_S
    alone = await server.delays(lambda: time.monotonic() > until)
    reading = await server.read()
    until = time.monotonic() + ALONE_S
    afterwards = await server.delays(lambda: time.monotonic() > until)
    views: dict[str, Any] = {}
    for view, request in _requests(waits):
        took: list[float] = []
        cpu = 0.0
        for number in range(TIMES + 1):
            path, sent = request()
            if path == "/event":
                sent["topic"] = config.topic("event")
            began = time.process_time()
            took_s = await server.get(path, sent)
            if number:  # the first one imports modules and connects
                took.append(took_s)
                cpu += time.process_time() - began
        views[view] = {
            "p50_s": percentile(took, 0.5),
            "p95_s": percentile(took, 0.95),
            "cpu_s": cpu / TIMES,
        }
    server.buses.close()
    return {
        "views": views,
        "neighbour_ms": {
            "alone": percentile(alone, 0.99),
            "while it reads": percentile(reading, 0.99),
            "afterwards": percentile(afterwards, 0.99),
        },
    }


def main() -> None:
    config, waits = BusConfig(**json.loads(sys.argv[1])), int(sys.argv[2])
    print(json.dumps(asyncio.run(_measure(config, waits))))


if __name__ == "__main__":
    main()
