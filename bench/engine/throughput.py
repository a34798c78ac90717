"""Events a second: a raw client loop, and the engine with its whole work, its firings checked complete."""

from __future__ import annotations

from ..lines import tell
from .points import RAW, TWO_HOPS, Found, Point, measure

TURNS = 3
WARM = Point(others=0)


def run(bootstrap_servers: str, events: int, subscriptions: int) -> None:
    """Loops of clients alone; nothing matching, also with many subscriptions; one matcher; keyed pairs."""

    def rates(name: str, point: Point) -> Found:
        # Where each event fires, a turn takes so long that half of the events do.
        return measure(bootstrap_servers, name, point, events // (2 if point.match_percent else 1), TURNS)

    measure(bootstrap_servers, "warm", WARM, events)  # a broker that has just begun is slower
    raw = rates("raw", Point(match_percent=0, others=0, loop=RAW))
    _tell("raw client loop", raw)
    hops = rates("two-hops", Point(match_percent=100, parts=1, others=0, loop=TWO_HOPS))
    _tell("client loop of two hops, every event fires", hops, raw)
    alone = rates("alone", Point(match_percent=0, others=0))
    _tell("engine, nothing matches", alone, raw, 1.3)
    crowded = rates("crowded", Point(match_percent=0, others=subscriptions))
    _tell(f"engine, nothing matches, {subscriptions} other subscriptions", crowded, alone, 0.9)
    solo = rates("solo", Point(match_percent=100, parts=1, others=0))
    _tell("engine, every event fires a one-matcher subscription", solo, raw)
    _tell("engine, every event fires a one-matcher subscription, beside the loop of two hops", solo, hops)
    pairs = rates("pairs", Point(match_percent=100, parts=2, others=0))
    _tell("engine, keyed pairs, every event matches", pairs, raw, 0.5)


def _tell(question: str, found: Found, to: Found | None = None, least_ratio: float | None = None) -> None:
    ratio = None if to is None else found.rate / to.rate
    tell(question, found.rate, "events/s", ratio, least_ratio=least_ratio, turns=found.rates)
