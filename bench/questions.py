"""The benchmarks: the name, description and limits of each. Its code is in a file of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .sizes import number


@dataclass(frozen=True)
class Question:
    """A benchmark.

    ask: runs it, with the address of its own broker, or "" if it needs none; prints lines (lines.py).
    seconds: time limit. sizes: names of the sizes it takes. needs_broker: whether to start one for it;
    has_broker: whether it uses one. ratio: what its ratios compare with. axis: the horizontal axis of its
    pictures.
    """

    name: str
    group: str
    about: str
    ask: Callable[[str], None]
    seconds: int = 180
    sizes: tuple[str, ...] = ()
    needs_broker: bool = True
    has_broker: bool = True
    by_name: bool = False  # run only when named
    ratio: str = ""
    axis: str = "size"


def _conditions(_: str) -> None:
    from . import conditions

    conditions.main()


def _throughput(at: str) -> None:
    from .engine import throughput

    throughput.run(at, number("EVENTS", 120_000), number("SUBSCRIPTIONS", 100_000))


def _factors(at: str) -> None:
    from .engine import factors

    factors.run(at, number("EVENTS", 45_000))


def _hops(_: str) -> None:
    from .engine import hops

    hops.run()


def _profile(at: str) -> None:
    from . import profile

    profile.ask(at)


def _replicas(_: str) -> None:
    from .engine import replicas

    replicas.run(number("EVENTS", 45_000))


def _combinations(at: str) -> None:
    from .engine import factors

    factors.full(at, number("EVENTS", 120_000))


def _latency(at: str) -> None:
    from .engine import latency

    latency.run(at, [number("RATE", 1)] if os.environ.get("RATE") else [100, 2_000, 20_000])


def _emit(at: str) -> None:
    from . import emit

    emit.run(at)


def _eventloop(at: str) -> None:
    from .engine import eventloop

    eventloop.run(at, 20_000, 10)


def _timers(at: str) -> None:
    from .engine import timers

    timers.run(at, number("RATE", 2_000))


def _recovery(at: str) -> None:
    from .engine import recovery

    recovery.run(at, [number("KEYS", 1)] if os.environ.get("KEYS") else [1_000, 10_000, 100_000, 1_000_000])


def _failover(at: str) -> None:
    from .engine import failover

    failover.run(at)


def _protocols(_: str) -> None:
    from .engine import protocols

    protocols.run()


def _start(at: str) -> None:
    from .engine import start

    start.run(at, number("ENDED", 1_000_000))


def _registration(at: str) -> None:
    from .engine import registration

    registration.run(at, number("EVENTS", 1_000_000))


def _peers(at: str) -> None:
    from .peers import waits

    waits.run(at)


def _hooks(at: str) -> None:
    from .spark import hooks

    hooks.run(at)


def _archive(at: str) -> None:
    from .spark import archive

    archive.run(at, number("EVENTS", 500_000))


def _backtest(_: str) -> None:
    from .backtest import scale

    scale.run(number("EVENTS", 200_000), number("KEYS", 100_000))


QUESTIONS: Final = {
    each.name: each
    for each in (
        Question(
            "conditions",
            "conditions",
            "index, step, filters",
            _conditions,
            sizes=("SUBSCRIPTIONS", "HISTORY"),
            needs_broker=False,
            has_broker=False,
            ratio="to the smallest size of the same kind; 1 is a cost that does not grow."
            " Events of 16 of them match 16 of the subscriptions in turn; events of any of them match another"
            " subscription each time",
            axis="subscriptions; for the step, events of the key so far",
        ),
        Question(
            "throughput",
            "engine",
            "events a second, compared with client loops",
            _throughput,
            240,
            sizes=("EVENTS", "SUBSCRIPTIONS"),
            ratio="to the faster raw client loop of the same turns, or to what the row names; with waits for"
            " other types, to the engine without them; more is better",
        ),
        Question(
            "hops",
            "engine",
            "the engine's two hops on records in memory",
            _hops,
            needs_broker=False,
            has_broker=False,
            ratio="to an event that matches nothing",
        ),
        Question(
            "factors",
            "engine",
            "events a second by what a user chooses, one factor at a time",
            _factors,
            300,
            sizes=("EVENTS",),
            ratio="to the centre's turns, measured in turn with the row's. Compare ratios, not figures:"
            " the machine's speed changes between rows; more is better. The rows of each factor contain"
            " the centre with its turns",
            axis="waits",
        ),
        Question(
            "replicas",
            "replicas",
            "events a second by replicas of each partition, on two brokers",
            _replicas,
            240,
            sizes=("EVENTS",),
            needs_broker=False,
            ratio="to one replica, in turns with it; more is better",
            axis="replicas",
        ),
        Question(
            "profile",
            "profile",
            "where the engine's thread spends its time: a function's share includes what it calls",
            _profile,
        ),
        Question(
            "combinations",
            "full",
            "all combinations of those factors",
            _combinations,
            12 * 3600,
            sizes=("EVENTS",),
            by_name=True,
        ),
        Question(
            "latency",
            "waits",
            "event stored -> firing readable, each event fires",
            _latency,
            240,
            sizes=("RATE", "PARTITIONS"),
            ratio="to a client loop of two hops at the same rate; less is better",
            axis="events/s",
        ),
        Question(
            "emit",
            "emit",
            "emitting an event",
            _emit,
            sizes=("PARTITIONS",),
            ratio="to the Kafka client alone with as many events; less is better",
            axis="events in a batch",
        ),
        Question(
            "eventloop",
            "waits",
            "delay of the event loop in a process with a busy engine",
            _eventloop,
            sizes=("PARTITIONS",),
            ratio="to the event loop of a process with the same load and no engine; less is better",
        ),
        Question(
            "registration",
            "waits",
            "registering waits, and looking back",
            _registration,
            300,
            sizes=("EVENTS", "PARTITIONS"),
            ratio="to a plain client with the same records; for waits per second more is better, for"
            " look-backs less",
            axis="waits registered together",
        ),
        Question(
            "peers",
            "peers",
            "other ways to wait for an event",
            _peers,
            1800,
            ratio="to Interlock's figure for the same number of waits; less is better",
            axis="waits",
        ),
        Question("timers", "waits", "how late timers fire", _timers, sizes=("RATE", "PARTITIONS")),
        Question(
            "recovery",
            "takeover",
            "taking over open keys",
            _recovery,
            240,
            sizes=("KEYS", "PARTITIONS"),
            ratio="to a plain client that reads the same records; less is better",
            axis="open keys",
        ),
        Question(
            "failover",
            "takeover",
            "an engine killed inside a transaction",
            _failover,
            sizes=("PARTITIONS",),
            ratio="to a plain consumer group with the same session timeout; less is better",
        ),
        Question(
            "protocols",
            "takeover",
            "failover of a bare consumer group, by group protocol",
            _protocols,
            300,
            needs_broker=False,
            ratio="to the classic protocol with the range assignor, in turns with it; less is better",
        ),
        Question(
            "start",
            "takeover",
            "an engine's start with a long registry",
            _start,
            240,
            sizes=("ENDED", "PARTITIONS"),
            ratio="to a start with an empty registry; less is better",
        ),
        Question(
            "hooks",
            "spark",
            "completion events on a job",
            _hooks,
            240,
            ratio="of runs with them to runs without them, alternating; less is better",
        ),
        Question(
            "archive",
            "spark",
            "events archived a second",
            _archive,
            240,
            sizes=("EVENTS",),
            ratio="to Spark's Kafka connector alone, which reads the same and writes nothing; more is better",
        ),
        Question(
            "backtest",
            "spark",
            "a backtest compared with a plain loop of step",
            _backtest,
            600,
            sizes=("EVENTS", "KEYS", "CORES", "CONDITION"),
            needs_broker=False,
            has_broker=False,
            ratio="to the plain loop; more is better",
        ),
    )
}
