"""aiohttp alone, on the deliverer's event loop: it posts what a deliverer would post.

    python -m bench.delivery.plain SETTINGS

SETTINGS: `config` of the bus, `sinks`: {name: [url, what is sent]}, `in_flight`. For each line
`{"sink": ..., "count": ...}` it makes that many requests, and prints the seconds that they took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice

import aiohttp
import uvloop
from interlock.engine.config import BusConfig
from interlock.engine.delivery.firings import subscription_of
from interlock.engine.delivery.sinks import SinkRecord
from interlock.engine.sending.content import Content, Sendable

from .load import KEYS, opened
from .processes import settings_given


def requests(config: BusConfig, name: str, send: str) -> list[Sendable]:
    subscription = subscription_of(config.deployment, name)
    sink = SinkRecord(subscription=subscription, connection="", send="event" if send == "event" else "firing")
    return [Content(sink, opened(config, subscription, n)).encoded() for n in range(KEYS)]


async def _post(session: aiohttp.ClientSession, url: str, left: Iterator[Sendable]) -> None:
    for sent in left:
        async with session.post(url, data=sent.body, headers=sent.headers) as response:
            await response.read()
            if response.status != 202:
                raise SystemExit(f"bench: the sink answered {response.status}")


async def _repeat(session: aiohttp.ClientSession, url: str, all_of: Sequence[Sendable], count: int) -> None:
    in_flight = settings_given()["in_flight"]
    rounds = -(-count // len(all_of))
    left = islice((sent for _ in range(rounds) for sent in all_of), count)
    await asyncio.gather(*(_post(session, url, left) for _ in range(in_flight)))


async def main() -> None:
    settings = settings_given()
    config = BusConfig(**settings["config"])
    sinks = {name: (url, requests(config, name, send)) for name, (url, send) in settings["sinks"].items()}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for line in sys.stdin:  # nothing else runs while it waits
            asked = json.loads(line)
            url, all_of = sinks[asked["sink"]]
            started = time.perf_counter()
            await _repeat(session, url, all_of, asked["count"])
            print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    uvloop.run(main())
