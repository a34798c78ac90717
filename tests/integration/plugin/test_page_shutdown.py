"""An API server that ends while the page follows a bus: it ends soon, and says nothing of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.ports import free_ports

HOST = "127.0.0.1"
DEADLINE_S = 60.0
# Airflow's own lifespan around the page, in the server with which Airflow runs it.
SERVER = """
import json, sys, threading
from contextlib import asynccontextmanager

import uvicorn
from airflow.api_fastapi.app import lifespan
from fastapi import FastAPI
from interlock.engine.config import BusConfig
from interlock.plugin.page.app import page_app
from interlock.plugin.page.rights import rights_of


class Everything:
    dags = None
    name = "admin"

    def reads(self, *_):
        return True


@asynccontextmanager
async def shown(app):
    async with lifespan(app):
        yield
    left = [each.name for each in threading.enumerate() if "following" in each.name]
    print(json.dumps({"left": left}), flush=True)


config = BusConfig(**json.loads(sys.argv[1]))
page = page_app(["kafka_default"], lambda _: config)
page.dependency_overrides[rights_of] = Everything
app = FastAPI(lifespan=shown)
app.mount("/interlock-ui", page)
uvicorn.run(app, host=sys.argv[2], port=int(sys.argv[3]), log_level="warning")
"""


@pytest.mark.parametrize("brokers", ["up", "away"])
def test_an_api_server_ends_while_the_page_follows_a_bus(
    brokers: str, broker: LocalBroker, unique_name: Callable[[str], str], eventually: Callable[..., Any]
) -> None:
    servers = broker.bootstrap_servers if brokers == "up" else f"{HOST}:1"
    config = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": servers})
    if brokers == "up":
        create(config, partitions=1)
    settings = json.dumps({"name": config.name, "client": dict(config.client)})
    [port] = free_ports(1, HOST)
    command = [sys.executable, "-c", SERVER, settings, HOST, str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:

            def answers() -> bool:
                assert server.poll() is None
                try:
                    found = httpx.get(f"http://{HOST}:{port}/interlock-ui/waits", timeout=DEADLINE_S)
                except httpx.TransportError:
                    return False
                return found.status_code == (200 if brokers == "up" else 503)

            eventually("the page answers", answers, DEADLINE_S)
            server.send_signal(signal.SIGTERM)
            out, errors = server.communicate(timeout=DEADLINE_S)
        finally:
            server.kill()
    assert server.returncode in (0, -signal.SIGTERM)  # uvicorn raises the signal again when it is done
    assert "Traceback" not in errors
    assert json.loads(out.splitlines()[-1])["left"] == [] or brokers == "away"
