"""Follows a bus in this process, and prints what that and questions to it take.

python -m bench.following.follower SETTINGS WAITS
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import confluent_kafka  # noqa: F401  # the follower imports it when it starts, which should not be measured
import psutil
from interlock.engine.admin.explaining import explain_subscription
from interlock.engine.config import BusConfig
from interlock.engine.errors import StillReading
from interlock.engine.following.follower import Follower
from interlock.engine.following.read_model import Rows

from ..lines import percentile
from .crowd import name_of

TICK_S: Final = 0.01
ALONE_S: Final = 5.0
QUESTIONS: Final = 200
EXPLAINED: Final = 20


def main() -> None:
    config, waits = BusConfig(**json.loads(sys.argv[1])), int(sys.argv[2])
    chance = random.Random(1)
    process = psutil.Process()
    until = time.monotonic() + ALONE_S
    alone = asyncio.run(_delays(lambda: time.monotonic() > until))
    gc.collect()
    before, began_cpu = process.memory_full_info().uss, time.process_time()
    with closing(Follower(config)) as follower:
        began = time.monotonic()
        delays = asyncio.run(_delays(lambda: _is_ready(follower)))
        ready_s, cpu_s = time.monotonic() - began, time.process_time() - began_cpu
        gc.collect()
        size = process.memory_full_info().uss - before

        def some_name() -> str:
            return name_of(chance.randrange(waits))

        def page(**wanted: Any) -> Callable[[], object]:
            return lambda: follower.model().page(Rows(**wanted), 100, chance.randrange(1, waits))

        def pending() -> object:
            model = follower.model()
            return model.pending_of(model.page(Rows(), 100, chance.randrange(1, waits)).rows)

        questions = {
            "a page of 100 waits anywhere": _took(page(), QUESTIONS),
            "a page of the waits of a DAG": _took(page(dag_id="dag_17"), QUESTIONS),
            "a page of 100 waits whose names contain a text": _took(page(search="wait/7"), QUESTIONS),
            "what 100 waits have pending": _took(pending, QUESTIONS),
            "a wait by its name": _took(lambda: follower.model().by_name(some_name()), QUESTIONS),
            "explain a wait": _took(lambda: explain_subscription(follower.model(), some_name()), EXPLAINED),
        }
    found = {
        "cpu_s": cpu_s,
        "ready_s": ready_s,
        "bytes": size / waits,
        "delays_alone_ms": _shares(alone),
        "delays_ms": _shares(delays),
        "questions_ms": {
            question: {f"p{share:.0%}"[:-1]: percentile(took, share) for share in (0.5, 0.95)}
            for question, took in questions.items()
        },
    }
    print(json.dumps(found))


def _is_ready(follower: Follower) -> bool:
    try:
        follower.model()
    except StillReading:
        return False
    return True


async def _delays(is_over: Callable[[], bool]) -> list[float]:
    """By how many ms an event loop is late, tick by tick."""
    delays = []
    while not is_over():
        before = time.monotonic()
        await asyncio.sleep(TICK_S)
        delays.append((time.monotonic() - before - TICK_S) * 1000)
    return delays


def _shares(values: list[float]) -> dict[str, float]:
    return {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99)}


def _took(question: Callable[[], object], times: int) -> list[float]:
    """How many ms each question took."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        question()
        found.append((time.perf_counter() - began) * 1000)
    return found


if __name__ == "__main__":
    main()
