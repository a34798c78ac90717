"""An engine that dies at any step of the commit: the next one loses nothing and repeats nothing.

The numbers are those of docs/understand/engine/commit.md. Engines die at all steps in parallel, each
on a bus of its own: most of the time passes until the broker ends the transactions of the dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from interlock import event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create

PAIR = event("orders", by="data.day") & event("rates", by="data.day")
DAYS = ("d1", "d2", "d3")
DIED = 42
# The process ends with that code, in the first transaction that writes to the given topic, at a given step.
# Its transaction timeout is shorter than the engine's, so that the broker ends the transaction soon.
VICTIM = """
import json, os, sys, threading, time
from interlock.engine.config import BusConfig
from interlock.engine.kafka import transactions
from interlock.engine.runtime.runtime import run_engine

kind, step = sys.argv[2:]
connect, commit = transactions.connect, transactions.Transactions.commit

def soon(kind_of_client, config, errors, **own):
    if "transactional_id" in own:
        own |= {"transaction_timeout_ms": 2000, "delivery_timeout_ms": 2000, "socket_timeout_ms": 2000}
    return connect(kind_of_client, config, errors, **own)

class Dying:
    # The producer, up to the step after which the process is no more.
    def __init__(self, producer):
        self.producer = producer
    def __getattr__(self, name):
        return getattr(self.producer, name)
    def die(self, here):
        if step == here:
            os._exit(42)
    def begin_transaction(self):
        self.producer.begin_transaction()
        self.die("begin")
    def produce(self, topic, *args, **kwargs):
        self.producer.produce(topic, *args, **kwargs)
        if topic.endswith(kind):
            self.die("produce one")
    def send_offsets_to_transaction(self, *args):
        self.die("produce")
        if step == "flush":
            self.producer.flush(5)
            self.die("flush")
        self.producer.send_offsets_to_transaction(*args)
        self.die("send offsets")
    def commit_transaction(self, *args):
        if step == "commit sent":
            threading.Thread(target=self.producer.commit_transaction, args=args, daemon=True).start()
            time.sleep(0.003)
            os._exit(42)
        self.producer.commit_transaction(*args)
        self.die("committed")

def dying(self, outputs, offsets, membership):
    if any(o.topic.endswith(kind) for o in outputs) and not isinstance(self._producer, Dying):
        if step == "polled":
            os._exit(42)
        self._producer = Dying(self._producer)
    return commit(self, outputs, offsets, membership)

transactions.connect, transactions.Transactions.commit = soon, dying
run_engine(BusConfig(**json.loads(sys.argv[1])), threading.Event())
"""
FIRING = ("polled", "begin", "produce one", "produce", "flush", "send offsets", "commit sent", "committed")
MATCH = ("flush", "send offsets", "committed")
DEATHS = [("-action", step) for step in FIRING] + [("-trigger", step) for step in MATCH]


@pytest.mark.long
def test_an_engine_that_dies_at_any_step_of_the_commit_loses_and_repeats_nothing(
    bench: Any, unique_name: Callable[[str], str], eventually: Any
) -> None:
    with ExitStack() as stack:
        stages = {}
        for death in DEATHS:
            config = BusConfig(name=unique_name("bus"), client=bench.config.client)
            create(config, partitions=1)
            stage = type(bench)(config, 1, eventually)
            stack.enter_context(stage.stack)
            waiting = stack.enter_context(stage.waiting())
            waits = [waiting(f"w-{day}", PAIR, day) for day in DAYS]
            victim = stage.process(VICTIM, *death)
            for kind in ("orders", "rates"):
                for day in DAYS:
                    stage.emit(kind, data={"day": day}, id=f"{kind}-{day}")
            stages[death] = (stage, waits, victim)
        for death, (stage, _, victim) in stages.items():
            assert victim.wait(40) == DIED, death
            stack.enter_context(stage.engine())  # the one that takes over
        found = {}
        for death, (stage, waits, _) in stages.items():
            delivered = {w.firing().action.firing.id for w in waits}
            firings = stage.firings()
            assert {f["firing"]["id"] for f in firings} == delivered, death
            found[death] = Counter(f["firing"]["key"] for f in firings)
            origins = [tuple(m[1:4]) for m in map(_match, stage.records("trigger"))]
            assert len(set(origins)) == len(origins) == 2 * len(DAYS), death
        assert found == {death: Counter(DAYS) for death in DEATHS}


def _match(record: Any) -> Any:
    return msgspec.msgpack.decode(record.value)


def test_an_engine_that_fails_inside_a_transaction_holds_nobody_back_until_a_timeout(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left open is aborted on the way out; only a killed process leaves it to the broker."""
    from interlock.engine.errors import EngineError
    from interlock.engine.kafka import transactions
    from interlock.engine.kafka.transactions import Transactions

    monkeypatch.setattr(transactions, "TRANSACTION_TIMEOUT_MS", 600_000)  # beyond every deadline here
    failed: list[bool] = []
    produce = Transactions.produce

    def fails_once(self: Transactions, output: Any, *report: Any) -> None:
        produce(self, output, *report)
        if output.topic.endswith("-action") and not failed:
            self._producer.flush(5)
            failed.append(True)
            raise EngineError("something else than Kafka's")

    monkeypatch.setattr(Transactions, "produce", fails_once)
    with bench.engine(allow_restarts=True), bench.waiting() as waiting:
        wait = waiting("w", event("solo"))
        bench.emit("solo")
        wait.firing()
    assert failed
    assert len(bench.firings()) == 1
