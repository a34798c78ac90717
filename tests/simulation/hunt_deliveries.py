"""Playing worlds of deliveries: one seed with its trace, or many on all cores.

`make simulate-deliveries SEED=17` replays one; without SEED it hunts, from a seed of the commit.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from tests.simulation.deliveries import play
from tests.simulation.hunt import on_all_cores
from tests.simulation.seeds import first_of_commit

Failure: TypeAlias = tuple[int, list[str]]  # a seed, and its problems


def again(seed: int) -> str:
    """The command that plays a world again."""
    return f"make simulate-deliveries SEED={seed}"


def play_some(seeds: Sequence[int]) -> tuple[list[Failure], Counter[str]]:
    """Plays worlds. Returns the failed ones, and in how many each situation was seen."""
    logging.disable(logging.CRITICAL)
    failed: list[Failure] = []
    seen: Counter[str] = Counter()
    for seed in seeds:
        world = play(seed)
        seen.update(dict.fromkeys(+world.seen, 1))
        if world.problems:
            failed.append((seed, world.problems))
    return failed, seen


def main() -> int:
    parser = argparse.ArgumentParser(description="Hunt for interleavings that break deliveries.")
    parser.add_argument("--seed", type=int, help="play this one, and show what happened")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many to play")
    parser.add_argument("--first", type=int, help="the first of them; else it follows from the commit")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.seed is not None:
        world = play(given.seed, trace=True)
        print(*(world.trace or ()), *(world.problems or ["All held."]), sep="\n")
        return bool(world.problems)
    first = first_of_commit() if given.first is None else given.first
    failed, seen = on_all_cores(play_some, range(first, first + given.seeds))
    print(f"{given.seeds} seeds from {first}; number of seeds, and what was seen in them:")
    for what, count in sorted(seen.items()):
        print(f"  {count:7} {what}")
    print(f"{len(failed)} failed")
    for seed, problems in sorted(failed)[:20]:
        print(again(seed), *problems[:2], sep="\n  ")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
