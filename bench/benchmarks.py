"""The benchmarks: the name, description and limits of each. Its code is in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    code: its module and the function that runs it, `run` if none is named. The function gets the address of
    the broker that was started for it, or "", and prints lines (lines.py).
    seconds: time limit. sizes: names of the sizes it takes. start_broker: whether a broker is started for it.
    uses_broker: whether it uses any, also one that it starts itself. ratio: what its ratios compare with.
    axis: the horizontal axis of its pictures.
    """

    name: str
    group: str
    about: str
    code: str
    seconds: int = 180
    sizes: tuple[str, ...] = ()
    start_broker: bool = True
    uses_broker: bool = True
    by_name: bool = False  # run only when named
    ratio: str = ""
    axis: str = "size"

    def function(self) -> Callable[[str], None]:
        module, _, name = self.code.partition(":")
        found: Callable[[str], None] = getattr(import_module(f"bench.{module}"), name or "run")
        return found


BENCHMARKS: Final = {
    each.name: each
    for each in (
        Benchmark(
            "conditions",
            "conditions",
            "index, step, filters",
            "conditions",
            sizes=("SUBSCRIPTIONS", "HISTORY"),
            start_broker=False,
            uses_broker=False,
            ratio="to the smallest size of the same kind; 1 is a cost that does not grow."
            " In rows with `events of 16 of them` the events match only 16 of the subscriptions, in rows with"
            " `events of any of them` all of them, in random order",
            axis="subscriptions; for the step, events of the key so far",
        ),
        Benchmark(
            "throughput",
            "engine",
            "events a second, compared with client loops",
            "engine.throughput",
            240,
            sizes=("EVENTS", "SUBSCRIPTIONS"),
            ratio="to the faster raw client loop of the same turns, or to what the row names; with waits for"
            " other types, to the engine without them; more is better",
        ),
        Benchmark(
            "hops",
            "engine",
            "the engine's two hops on records in memory",
            "engine.hops",
            start_broker=False,
            uses_broker=False,
            ratio="to an event that matches nothing",
        ),
        Benchmark(
            "factors",
            "engine",
            "events a second by what a user chooses, one factor at a time",
            "engine.factors",
            300,
            sizes=("EVENTS",),
            ratio="to the centre, which is the load of the first row and takes turns with each other row;"
            " more is better. Compare ratios, not figures: the machine's speed changes between rows. The rows"
            " of each factor contain the centre",
            axis="waits",
        ),
        Benchmark(
            "replicas",
            "replicas",
            "events a second by replicas of each partition, on two brokers",
            "engine.replicas",
            240,
            sizes=("EVENTS",),
            start_broker=False,
            ratio="to one replica, in turns with it; more is better",
            axis="replicas",
        ),
        Benchmark(
            "profile",
            "profile",
            "where the engine's thread spends its time: a function's share includes what it calls",
            "profile",
        ),
        Benchmark(
            "combinations",
            "full",
            "events a second for all combinations of the factors",
            "engine.factors:full",
            12 * 3600,
            sizes=("EVENTS",),
            by_name=True,
        ),
        Benchmark(
            "latency",
            "waits",
            "event stored -> firing readable, each event fires",
            "engine.latency",
            240,
            sizes=("RATE", "PARTITIONS"),
            ratio="to a client loop of two hops at the same rate; less is better",
            axis="events/s",
        ),
        Benchmark(
            "emit",
            "emit",
            "emitting an event",
            "emit",
            sizes=("PARTITIONS",),
            ratio="to the Kafka client alone with as many events; less is better",
            axis="events in a batch",
        ),
        Benchmark(
            "receiver",
            "receiver",
            "events over HTTP",
            "receiver.requests",
            sizes=("EVENTS", "PARTITIONS"),
            ratio="to the bare app for processor time and to the plain producer for the rest, in turns; of"
            " two workers to Knative's receiver; for events and requests per second more is better, else"
            " less",
        ),
        Benchmark(
            "delivery",
            "delivery",
            "deliveries to HTTP sinks",
            "delivery.deliveries",
            300,
            sizes=("EVENTS", "KEYS", "PARTITIONS"),
            ratio="to aiohttp alone in turns, with as many requests in flight; with a failing key to the same"
            " sink without one. For deliveries per second more is better, for processor time less",
        ),
        Benchmark(
            "eventloop",
            "waits",
            "delay of the event loop in a process with a busy engine",
            "engine.eventloop",
            sizes=("PARTITIONS",),
            ratio="to the event loop of a process with the same load and no engine; less is better",
        ),
        Benchmark(
            "registration",
            "waits",
            "registering waits, and looking back",
            "engine.registration",
            300,
            sizes=("EVENTS", "PARTITIONS"),
            ratio="to a plain client with the same records; for waits per second more is better, for"
            " look-backs less",
            axis="waits registered together",
        ),
        Benchmark(
            "peers",
            "peers",
            "other ways to wait for an event",
            "peers.waits",
            1800,
            ratio="to Interlock's figure for the same number of waits; less is better",
            axis="waits",
        ),
        Benchmark("timers", "waits", "how late timers fire", "engine.timers", sizes=("RATE", "PARTITIONS")),
        Benchmark(
            "recovery",
            "takeover",
            "taking over open keys",
            "engine.recovery",
            240,
            sizes=("KEYS", "PARTITIONS"),
            ratio="to a plain client that reads the same records; less is better",
            axis="open keys",
        ),
        Benchmark(
            "failover",
            "takeover",
            "an engine killed inside a transaction",
            "engine.failover",
            sizes=("PARTITIONS",),
            ratio="to a plain consumer group with the same session timeout; less is better",
        ),
        Benchmark(
            "protocols",
            "takeover",
            "failover of a bare consumer group, by group protocol",
            "engine.protocols",
            300,
            start_broker=False,
            ratio="to the classic protocol with the range assignor, in turns with it; less is better",
        ),
        Benchmark(
            "start",
            "takeover",
            "an engine's start with a long registry",
            "engine.start",
            240,
            sizes=("ENDED", "PARTITIONS"),
            ratio="to a start with an empty registry; less is better",
        ),
        Benchmark(
            "questions",
            "questions",
            "explain, lists, pages and views of many waits, and a process that follows them",
            "following.questions",
            900,
            sizes=("SUBSCRIPTIONS", "KEYS", "PARTITIONS"),
            by_name=True,
            ratio="of the whole command to Airflow's own start; of an event loop or a route beside a"
            " follower that reads to one without; less is better",
        ),
        Benchmark(
            "hooks",
            "spark",
            "the cost of completion events for a job",
            "spark.hooks",
            240,
            ratio="of runs with them to runs without them, alternating; less is better",
        ),
        Benchmark(
            "archive",
            "spark",
            "events archived a second",
            "spark.archive",
            240,
            sizes=("EVENTS",),
            ratio="to Spark's Kafka connector alone, which reads the same and writes nothing; more is better",
        ),
        Benchmark(
            "backtest",
            "spark",
            "a backtest compared with a plain loop of step",
            "backtest.scale",
            1800,
            sizes=("EVENTS", "KEYS", "CORES", "CONDITION"),
            start_broker=False,
            uses_broker=False,
            ratio="to the plain loop; more is better",
        ),
    )
}
