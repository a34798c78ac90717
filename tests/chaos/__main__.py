"""Engines on a real broker under continuous load and faults, checked by an oracle: `make chaos SECONDS=
SEED=`.

Progress goes to stderr, one JSON object to stdout. The exit code is 0 only if nothing is missing, duplicated,
unexpected, leaked or late, and the run was large enough.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import bus_record, create, write_bus_record
from interlock.plugin.broker.jars import KAFKA_VERSION, versions

from . import deliverers
from .cluster import Cluster
from .deliverers import Delivery
from .faults import LONG_S, QUOTAS, Pool, rests, schedule
from .load import Load, Plan, orders_topic
from .processes import ROOT, STEPS

WRONG = ("missing", "duplicated", "unexpected", "leaked_keys", "late")
# In a long run, something of each of these must have fired.
LIVES = tuple(f"{kind}, {when}" for kind in ("one-shot", "durable") for when in ("live", "look-back"))
NODES = (
    *("Matcher", "AllOf", "AnyOf", "AtLeast", "Count", "Within"),
    *("Sequence", "Ordered", "Absent", "Quiet", "Expires"),
)
RATE = 110.0  # events per second
MORE_S = 180.0  # in addition to a quarter of the time, for faults that a busy machine has not reached yet
SETTLE_S, LEAKS_S = 600.0, 60.0  # time limits, for a busy machine
# Load without faults at the end, so long that a firing which waits for an idle partition counts as late
# (judge.LATE_MS).
QUIET_S = 60.0


def minimums(seconds: float) -> dict[str, int]:
    """How large a run must be to pass: in 600 s 50,000 events and so on; in proportion for other lengths."""
    share = seconds / 600
    return {
        "events": round(50_000 * share),
        "firings": round(5_000 * share),
        "kills_by_step": round(5 * share),
        "faults_by_kind": round(3 * share),
    }


def draw(seed: int) -> dict[str, Any]:
    """The parameters for a seed; conditions and subscriptions also vary within each run.

    replicas: number of engines in each third of the time. keys: number of keys in use at once.
    """
    r = random.Random(f"sweep {seed}")
    return {
        "replicas": r.choice(((2, 2, 2), (3, 3, 3), (4, 4, 4), (1, 3, 1))),
        "partitions": r.choice((4, 6, 8)),
        "durables": r.choice((6, 12, 16)),
        "keys": r.choice((4, 24, 300)),
    }


class OracleProcess:
    """Starts the oracle's process and sends it requests."""

    def __init__(self, servers: str, config: BusConfig, folder: Path) -> None:
        log = folder / "log.msgpack"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.oracle", servers, config.name, config.group, str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def ask(self, order: str, seconds: float, *more: object) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(" ".join([order, str(seconds), *map(json.dumps, more)]) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the oracle ended with {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(30)


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run; returns the result to print."""
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"chaos {time.monotonic() - started:6.1f} s: {line}", file=sys.stderr, flush=True)

    drawn = draw(args.seed)
    plan = Plan(
        rate=args.rate,
        durables=drawn["durables"],
        keys=drawn["keys"],
        waits_per_s=4.0,
        timed=not args.untimed,
        durable=not args.untimed,
        listed=not args.untimed,
    )
    name = f"chaos-{args.seed}"
    with Cluster(folder / "broker", args.broker) as cluster:
        config = BusConfig(name=name, client={"bootstrap.servers": cluster.direct})
        create(config, partitions=drawn["partitions"])
        _make_orders(config)
        bus = {"name": name, "client": {"bootstrap.servers": cluster.proxied}}
        oracle = OracleProcess(cluster.direct, config, folder)
        pool = Pool(cluster, bus, folder, drawn["replicas"][0], args.seed, say, args.plant)
        pool.repeats_rules = args.seconds >= LONG_S
        load = Load(cluster.direct, config, plan, args.seed, drawn["partitions"])
        delivery = Delivery(bus, folder, args.seed, say) if args.deliver else None
        if delivery is not None:
            pool.beside.append(delivery.tend)
        try:
            pool.start()
            load.start()
            if delivery is not None:
                delivery.start(load)
                if args.calm:
                    delivery.rest()
            if plan.listed:
                later = threading.Timer(args.seconds * 0.2, _list_orders, (config,))
                later.start()
            _disturb(args, pool, load, drawn["replicas"], say)
            pool.rest()
            if delivery is not None:
                delivery.rest()
            if not args.calm:
                say(f"no more faults; half of the partitions are idle for {args.quiet:.0f} s")
                load.leave_idle()
                _quiet(pool, args.quiet)
            say(f"the load ends after {load.counts.emitted} events; {pool.done.kills} kills")
            _meanwhile(load.stop, pool)
            settled = _meanwhile(lambda: oracle.ask("settle", 20 if args.plant else SETTLE_S), pool)
            if not settled["settled"]:
                say(f"not settled: {settled['why']}")
            load.close()
            delivered: dict[str, int] = {}
            if delivery is not None:
                delivered = _meanwhile(lambda: oracle.ask("deliveries", SETTLE_S, str(delivery.log)), pool)
                delivered |= delivery.result
            verdict = _meanwhile(
                lambda: oracle.ask("judge", 5 if args.plant else LEAKS_S, pool.done.fault_times), pool
            )
        finally:
            if delivery is not None:
                delivery.stop()
            pool.stop()
            oracle.close()
    for failure in load.failed:
        say(f"the load failed: {failure!r}")
    faults = pool.done.by_kind + load.counts.by_kind
    return {
        "seconds": args.seconds,
        "seed": args.seed,
        "broker": args.broker,
        **{key: verdict[key] for key in ("events", "firings")},
        "kills": pool.done.kills,
        "kills_by_step": dict(pool.done.kills_by_step),
        "faults_by_kind": dict(sorted(faults.items())),
        "fired_by_node": verdict["fired_by_node"],
        "fired_by_life": verdict["fired_by_life"],
        "timers_late_s": verdict["timers_late_s"],
        **{key: verdict[key] for key in WRONG},
        "deliveries": delivered,
        "undone": verdict["undone"] or ([] if settled["settled"] else settled["why"]),
        "acknowledged": load.counts.acked,
        "engines": pool.done.engines,
        "ended_by_themselves": pool.done.ended_by_themselves,
        "took_s": round(time.monotonic() - started, 1),
        "config": {**drawn, **asdict(plan), "registered": dict(sorted(load.counts.registered.items()))},
    }


def _make_orders(config: BusConfig) -> None:
    """Creates a topic of another owner, with broker timestamps too."""
    admin = AdminClient(dict(config.client))
    stamped = {"message.timestamp.type": "LogAppendTime"}
    for future in admin.create_topics([NewTopic(orders_topic(config), 3, config=stamped)]).values():
        future.result(15)


def _list_orders(config: BusConfig) -> None:
    """Lists the topic, like `airflow interlock topics add`."""
    record = bus_record(config)
    if record is None:
        raise RuntimeError(f"bus {config.name!r} has no bus record")
    listed = (orders_topic(config),)
    write_bus_record(config, msgspec.structs.replace(record, topics=listed, cloudevents=listed))


def _disturb(args: argparse.Namespace, pool: Pool, load: Load, replicas: tuple[int, ...], say: Any) -> None:
    """Carries out the schedule; after its end, for a while, also faults that have not happened often
    enough."""
    begun, reported, third = time.monotonic(), 0.0, 0
    left = [] if args.calm else schedule(args.seed, args.seconds)
    wanted = minimums(args.seconds)
    while True:
        elapsed = time.monotonic() - begun
        pool.resting = rests(elapsed) and elapsed < args.seconds
        while left and left[0].at_s <= elapsed:
            planned = left.pop(0)
            say(str(planned))
            pool.do(planned)
        while elapsed >= args.seconds * (third + 1) / len(replicas) and third + 1 < len(replicas):
            third += 1
            if replicas[third] != replicas[third - 1]:
                say(f"{replicas[third]} engines from now on instead of {replicas[third - 1]}")
            pool.scale(replicas[third] - replicas[third - 1])
        pool.tend()
        if load.failed:
            return
        if elapsed - reported > 15:
            reported = elapsed
            say(f"{load.counts.emitted} events, {load.counts.acked} acknowledged, {pool.done.kills} kills")
        if elapsed > args.seconds:
            enough = args.calm or not (pool.busy or pool.short_of(max(1, wanted["kills_by_step"])))
            if enough or elapsed > args.seconds * 1.25 + MORE_S:
                return
        time.sleep(0.05)


def _quiet(pool: Pool, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pool.tend()
        time.sleep(0.05)


def _meanwhile(work: Any, pool: Pool) -> Any:
    """Does something that takes a while, and tends the engines meanwhile."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(work)
        while not future.done():
            pool.tend()
            time.sleep(0.05)
        return future.result()


def failures(result: dict[str, Any]) -> list[str]:
    """Sentences why a run fails; empty if it passes."""
    wrong = [f"{result[name]} {name}" for name in WRONG if result[name]]
    wrong += [f"not done: {each}" for each in result["undone"]]
    if result["ended_by_themselves"]:
        wrong.append(f"{result['ended_by_themselves']} engines ended by themselves")
    if result["deliveries"]:
        faults = result["kills"] + sum(result["faults_by_kind"].get(kind, 0) for kind in QUOTAS)
        wrong += deliverers.failures(result["deliveries"], result["seconds"], faults)
    if result["calm"] or result["plant"]:
        return wrong
    least = minimums(result["seconds"])
    wrong += [
        f"{result[name]} {name}, and {least[name]} are needed"
        for name in ("events", "firings")
        if result[name] < least[name]
    ]
    for step in STEPS:
        if result["kills_by_step"][step] < max(1, least["kills_by_step"]):
            wrong.append(f"too few kills at {step!r}: {result['kills_by_step'][step]}")
    if result["seconds"] >= LONG_S:
        kinds = (*QUOTAS, "duplicate", "poison", "out of order")
        wrong += [
            f"too few of {kind!r}"
            for kind in kinds
            if result["faults_by_kind"].get(kind, 0) < least["faults_by_kind"]
        ]
        wrong += [f"no firing of {life!r}" for life in LIVES if not result["fired_by_life"].get(life)]
        wrong += [
            f"no firing of a condition with {node}" for node in NODES if not result["fired_by_node"].get(node)
        ]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--rate", type=float, default=RATE, help="events per second")
    parser.add_argument(
        "--quiet",
        type=float,
        default=QUIET_S,
        help="seconds of load without faults at the end",
    )
    parser.add_argument("--broker", metavar="VERSION", choices=versions(), default=KAFKA_VERSION)
    parser.add_argument("--calm", action="store_true", help="load without faults")
    parser.add_argument(
        "--deliver",
        action=argparse.BooleanOptionalAction,
        help="deliverers and a sink, too; default: in a run of at least a minute",
    )
    parser.add_argument("--untimed", action="store_true", help="one-shot waits without timers only")
    parser.add_argument("--plant", help="a fault in the engine itself, see plants.py: the run must fail")
    parser.add_argument("--keep", type=Path, help="an empty folder for logs and data, which is kept")
    args = parser.parse_args()
    if args.deliver is None:
        args.deliver = args.seconds >= 60 and not args.plant
    folder = args.keep or Path(tempfile.mkdtemp(prefix="interlock-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    result = run(args, folder)
    result |= {"calm": args.calm, "plant": args.plant}
    wrong = failures(result)
    print(json.dumps(result), flush=True)
    for line in wrong:
        print(f"chaos: FAILED: {line}", file=sys.stderr)
    if wrong:
        again = f"make chaos SECONDS={args.seconds:g} SEED={args.seed} BROKER={args.broker}"
        print(f"chaos: engines' logs are in {folder}; again: {again}", file=sys.stderr)
    elif args.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
