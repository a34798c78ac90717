"""Events a second: a raw client loop, and the engine with its whole work, its firings checked complete."""

from __future__ import annotations

from ..lines import tell
from .points import Point, measure

TURNS = 3
WARM = Point(others=0)


def run(bootstrap_servers: str, events: int, subscriptions: int) -> None:
    """Raw loop, nothing matching, the same with many subscriptions, one matcher, keyed pairs."""

    def rate(name: str, point: Point) -> float:
        return measure(bootstrap_servers, name, point, events, TURNS).rate

    measure(bootstrap_servers, "warm", WARM, events)  # a broker that has just begun is slower
    raw = rate("raw", Point(match_percent=0, raw=True))
    tell("raw client loop", raw, "events/s")
    alone = rate("alone", Point(match_percent=0, others=0))
    tell("engine, nothing matches", alone, "events/s", alone / raw, least_ratio=1.3)
    crowded = rate("crowded", Point(match_percent=0, others=subscriptions))
    about = f"engine, nothing matches, {subscriptions} other subscriptions"
    tell(about, crowded, "events/s", crowded / alone, least_ratio=0.9)
    solo = rate("solo", Point(match_percent=100, parts=1, others=0))
    tell("engine, every event fires a one-matcher subscription", solo, "events/s", solo / raw)
    pairs = rate("pairs", Point(match_percent=100, parts=2, others=0))
    tell("engine, keyed pairs, every event matches", pairs, "events/s", pairs / raw, least_ratio=0.5)
