"""The engine and the backtest read the same topics and make the same firings."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from interlock import Condition, Event, absent, event, sequence
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import write_registry
from interlock.engine.records import Registration, RegistrationKey, encode_json
from interlock.engine.runtime.runtime import run_engine
from interlock.events import Emitter
from interlock.spark.pipeline.backtest.backtest import Backtest
from interlock.spark.pipeline.backtest.question import Question
from interlock.spark.pipeline.jobs import backtest as job

from local.topics import read_all

from .conftest import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = (event(name, by="subject", label=name) for name in "abc")
S, U = (event(name, by="data.k", label=name) for name in "su")
CONDITIONS: dict[str, Condition] = {
    # the events of a key are in one partition
    "pairs": A & B,
    "expiring": (A & C).expires(after="1s"),
    "refuted": (A & ~B).within("300ms"),
    "silent": absent(B | C, "700ms"),
    # the events of a key are in several, and their order does not matter
    "chain": sequence(S, U),
    "either": event("s", label="s") | event("u", label="u"),
}


@contextmanager
def engine(config: BusConfig) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=run_engine, args=(config, stop), name="engine")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


def subscribe(config: BusConfig, name: str, condition: Condition) -> None:
    registration = Registration.of(name, condition, None, 0, kind="durable")
    write_registry(
        config, {RegistrationKey(registration.incarnation, "test").encode(): encode_json(registration)}
    )


def emit(config: BusConfig, seed: int) -> None:
    draw = random.Random(seed)
    with Emitter(config.client, config.topic("event")) as emitter:
        for number in range(150):
            key, type_ = f"k{draw.randrange(5)}", draw.choice("aabbcsu")
            if type_ in "su":
                where = f"p{draw.randrange(9)}"
                emitter.emit(Event.of(type_, "/t", id=str(number), data={"k": key}, partitionkey=where))
            else:  # or repeat an event of its key
                id_ = number if draw.random() < 0.9 else draw.randrange(number + 1)
                emitter.emit(Event.of(type_, f"/{key}", id=str(id_), subject=key))


Fired = tuple[Any, ...]


def engines(site: Site, name: str) -> list[Fired]:
    """The engine's firings: (key, outcome, due time, missing, events by label)."""
    found = []
    for record in read_all(site.servers, site.topic("action")):
        form = record.json()
        if form and form["state"] == "fired" and form["subscription"] == name:
            firing = form["firing"]
            parts = [(k, e["source"], e["id"]) for k, events in firing["events"].items() for e in events]
            assert not firing.get("incomplete")
            missing = tuple(firing.get("missing") or ())
            found.append(
                (firing.get("key"), firing["outcome"], firing.get("timer_ms"), missing, *sorted(parts))
            )
    return sorted(found, key=repr)


def backtests(spark: SparkSession, condition: Condition, until: str) -> list[Fired]:
    what = job.parse(["--kafka", "--condition", str(condition), "--until", until])
    with job.log_of(spark, what) as log:
        asked = Backtest(spark, Question.of(condition), log)
        rows = asked.firings.collect()
        asked.close()
    return sorted(
        (
            (
                row.key,
                row.outcome,
                row.timer_ms,
                tuple(row.missing),
                *sorted((part.label, part.source, part.id) for part in row.events),
            )
            for row in rows
        ),
        key=repr,
    )


@pytest.mark.long
def test_the_engine_and_the_backtest_fire_the_same_from_the_same_topics(
    spark: SparkSession, site: Site, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    for name, condition in CONDITIONS.items():
        subscribe(site.config, name, condition)
    spark.conf.set("spark.interlock.bootstrap.servers", site.servers)
    spark.conf.set("spark.interlock.bus", site.name)
    try:
        with engine(site.config):
            emit(site.config, seed=5)
            # all timers are due in later days, without any event
            wanted = {n: backtests(spark, c, "2030-01-01T00:00Z") for n, c in CONDITIONS.items()}
            for name in CONDITIONS:
                eventually(
                    f"{name} fires {len(wanted[name])} times",
                    lambda name=name: len(engines(site, name)) >= len(wanted[name]),
                )
    finally:
        spark.conf.unset("spark.interlock.bootstrap.servers")
        spark.conf.unset("spark.interlock.bus")
    assert {name: engines(site, name) for name in CONDITIONS} == wanted
    outcomes = {name: {firing[1] for firing in found} for name, found in wanted.items()}
    assert outcomes == {name: {"met"} for name in CONDITIONS} | {"expiring": {"met", "expired"}}
    # How often conditions with timers fire depends on how fast the events were sent.
    assert all(len(wanted[name]) > 3 for name in ("pairs", "chain", "either"))
