"""Events a second: raw client loops, and the engine with all of its work; checks that all firings came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from interlock.engine.protocol.loop import MOST_RECORDS

from ..lines import Aim, report
from ..sizes import number
from .points import RAW, TWO_HOPS, Point, Side, Throughput, in_turns

TURNS = 3
RAW_BATCHES = (2_000, MOST_RECORDS)
WARM = Point(others=0)
ALONE = Point(match_percent=0, others=0)
FIRES = Point(match_percent=100, parts=1, others=0)


def run(bootstrap_servers: str) -> None:
    """Measures client loops; no matches, also with many subscriptions; one matcher; keyed pairs."""
    events, subscriptions = number("EVENTS", 120_000), number("SUBSCRIPTIONS", 100_000)

    def measured(points: Mapping[str, Point]) -> Mapping[str, Throughput]:
        # If each event fires, a turn takes long enough with half of the events.
        sides = {name: (each, events // (2 if each.match_percent else 1)) for name, each in points.items()}
        return in_turns(bootstrap_servers, sides, TURNS)

    with Side(bootstrap_servers, "warm", WARM, events) as warm:  # a freshly started broker is slower
        warm.turn()
    loops = {f"raw-{batch}": replace(ALONE, program=RAW, batch=batch) for batch in RAW_BATCHES}
    found = measured({**loops, "alone": ALONE, "crowded": replace(ALONE, others=subscriptions)})
    quicker = max(loops, key=lambda name: found[name].rate)
    for name, loop in loops.items():
        _report(f"raw client loop, {loop.batch} records a transaction", found[name])
    _report("engine, nothing matches", found["alone"], found[quicker], 1.3)
    about = f"engine, nothing matches, {subscriptions} waits for other types"
    _report(about, found["crowded"], found["alone"], 0.9)
    found = measured(
        {
            "raw-fires": loops[quicker],
            "two-hops": replace(FIRES, program=TWO_HOPS),
            "solo": FIRES,
            "pairs": replace(FIRES, parts=2),
        }
    )
    _report("raw client loop, in turns with what fires", found["raw-fires"])
    _report("client loop of two hops, every event fires", found["two-hops"], found["raw-fires"])
    about = "engine, every event fires a one-matcher subscription"
    _report(about, found["solo"], found["raw-fires"])
    _report(f"{about}: its ratio to the loop of two hops", found["solo"], found["two-hops"])
    _report("engine, keyed pairs, every event matches", found["pairs"], found["raw-fires"], 0.5)


def _report(
    question: str, found: Throughput, to: Throughput | None = None, least_ratio: float | None = None
) -> None:
    ratio = None if to is None else found.ratio_to(to)
    aim = None if least_ratio is None else Aim("ratio at least", least_ratio)
    report(question, found.rate, "events/s", ratio, aim=aim, turns=found.rates)
