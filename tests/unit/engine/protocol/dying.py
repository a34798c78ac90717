"""Engines that die one after another on a record."""

from __future__ import annotations

from interlock import event
from interlock.engine.bus import TopicPartition
from interlock.engine.protocol.poison.suspects import WIDTHS
from interlock.engine.records import Registration

from tests.kit.pool import DEAD, Pool

EACH = Registration.of("w", event(type="x"), None, 0, kind="durable")


class Died(BaseException):
    """The process ends."""


def run(pool: Pool, most: int = 400, *, ends: int = 1000) -> int:
    """Engines one after the other, each until it dies or nothing is left to do; how many died."""
    died = 0
    for n in range(most):
        if not pool.engines:
            name = f"b-engine-d-{len(pool.buses)}.1"
            pool.boot(name)
        for name in list(pool.engines):
            try:
                for _ in range(60):
                    pool.run(1, name)
            except Died:
                pool.kill(name)
                died += 1
        if died >= ends or (n and pool.engines):
            return died
    return died


def dead_letters(pool: Pool) -> list[dict[str, str]]:
    return [
        {name: (value or b"").decode() for name, value in entry.headers or ()}
        for _, entry in pool.log(DEAD).history()
    ]


def alone(pool: Pool, lethal: set[tuple[TopicPartition, int]], tp: TopicPartition) -> str:
    """An engine that is about to try the first record of this partition alone, which is harmless by now."""
    lethal.add((tp, 0))
    run(pool, ends=1 + len(WIDTHS))
    lethal.clear()
    pool.boot("b-engine-d-last.1")
    return "b-engine-d-last.1"
