"""Events a second: a raw client loop, and the engine with its whole work, its firings checked complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from interlock.engine.protocol.loop import MOST_RECORDS

from ..lines import tell
from .points import RAW, TWO_HOPS, Point, Side, Throughput, in_turns

TURNS = 3
RAW_BATCHES = (2_000, MOST_RECORDS)
WARM = Point(others=0)
ALONE = Point(match_percent=0, others=0)
FIRES = Point(match_percent=100, parts=1, others=0)


def run(bootstrap_servers: str, events: int, subscriptions: int) -> None:
    """Loops of clients alone; nothing matching, also with many subscriptions; one matcher; keyed pairs."""

    def asked(points: Mapping[str, Point]) -> Mapping[str, Throughput]:
        # Where each event fires, a turn takes so long that half of the events do.
        sides = {name: (each, events // (2 if each.match_percent else 1)) for name, each in points.items()}
        return in_turns(bootstrap_servers, sides, TURNS)

    with Side(bootstrap_servers, "warm", WARM, events) as warm:  # a broker that has just begun is slower
        warm.turn()
    loops = {f"raw-{batch}": replace(ALONE, program=RAW, batch=batch) for batch in RAW_BATCHES}
    found = asked(
        {
            **loops,
            "alone": ALONE,
            "crowded": replace(ALONE, others=subscriptions),
        }
    )
    quicker = max(loops, key=lambda name: found[name].rate)
    for name, loop in loops.items():
        _tell(f"raw client loop, {loop.batch} records a transaction", found[name])
    _tell("engine, nothing matches", found["alone"], found[quicker], 1.3)
    about = f"engine, nothing matches, {subscriptions} waits for other types"
    _tell(about, found["crowded"], found["alone"], 0.9)
    found = asked(
        {
            "raw-fires": loops[quicker],
            "two-hops": replace(FIRES, program=TWO_HOPS),
            "solo": FIRES,
            "pairs": replace(FIRES, parts=2),
        }
    )
    _tell("raw client loop, in turns with what fires", found["raw-fires"])
    _tell("client loop of two hops, every event fires", found["two-hops"], found["raw-fires"])
    about = "engine, every event fires a one-matcher subscription"
    _tell(about, found["solo"], found["raw-fires"])
    _tell(f"{about}: its ratio to the loop of two hops", found["solo"], found["two-hops"])
    _tell("engine, keyed pairs, every event matches", found["pairs"], found["raw-fires"], 0.5)


def _tell(
    question: str, found: Throughput, to: Throughput | None = None, least_ratio: float | None = None
) -> None:
    ratio = None if to is None else found.ratio_to(to)
    tell(question, found.rate, "events/s", ratio, least_ratio=least_ratio, turns=found.rates)
