"""Playing worlds: one seed, its trace, the smallest list of actions that still fails, and many seeds at once.

`python -m tests.simulation.hunt --seed 17` replays one; `--seeds 100000` hunts, from a seed of the commit.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.kit.made_of import REAL, MadeOf
from tests.simulation import later
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.seeds import first_of_commit
from tests.simulation.waits_oracle import judge_waits
from tests.simulation.world import Action, World

# A world continues after its drain if seed % LATER_EVERY is one of these remainders.
LATER_EVERY = 32
AGED, REMADE, DAYS, FORGOTTEN = (0, 16), 8, 12, 24
LATER = {DAYS: later.days, FORGOTTEN: later.forget}
LEFT_ALONE = 9  # the remainder of a world with waits
PART = 100  # seeds that a process plays at a time
PROGRESS_EVERY = 50  # progress is shown after so many parts
Failed = TypeVar("Failed")


@dataclass
class Outcome:
    """The result of a world. problems: empty if all checks hold."""

    seed: int
    problems: list[str]
    actions: list[Action]
    trace: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    made_of: MadeOf = REAL

    @property
    def kinds(self) -> set[str]:
        return {problem.partition(":")[0] for problem in self.problems}


def play(
    seed: int, *, actions: list[Action] | None = None, trace: bool = False, made_of: MadeOf = REAL
) -> Outcome:
    """Plays one world to its end."""
    world = World(seed, made_of)
    if trace:
        world.trace = []
    problems: list[str] = []
    try:
        if actions is None:
            world.play()
        else:
            world.replay(actions)
        turn = seed % LATER_EVERY
        if turn == REMADE:
            later.remake(world)
        world.drain()
        problems = _texts(Oracle(world).judge(), judge_waits(world))
        if not problems and turn in AGED:
            world.age()
            problems = _texts(Oracle(world).judge_aged())
        elif not problems and turn in LATER:
            LATER[turn](world)
            problems = _texts(Oracle(world).judge())
        elif not problems and turn == LEFT_ALONE:
            problems = _texts(later.leave_alone(world))
    except Exception as e:  # whatever an engine or the oracle raises is a finding
        text = traceback.format_exc(limit=-6) if trace else ""
        problems = [f"{type(e).__name__}: {e}\n{text}"]
    finally:
        world.finish()
    return Outcome(seed, problems, world.done, world.trace or [], world.seen, made_of)


def _texts(*violations: Iterable[Violation]) -> list[str]:
    return [str(violation) for some in violations for violation in some]


MOST_TRIES = 400  # of a shorter list of actions


def shrink(outcome: Outcome) -> Outcome:
    """Leaves out actions as long as a problem of the same kind remains."""
    kinds, actions, tries = outcome.kinds, outcome.actions, 0
    size = max(1, len(actions) // 2)
    while size and tries < MOST_TRIES:
        at = 0
        while at < len(actions) and tries < MOST_TRIES:
            tries += 1
            fewer = actions[:at] + actions[at + size :]
            if kinds & play(outcome.seed, actions=fewer, made_of=outcome.made_of).kinds:
                actions = fewer
            else:
                at += size
        size //= 2
    return play(outcome.seed, actions=actions, trace=True, made_of=outcome.made_of)


def explained(outcome: Outcome) -> str:
    """A failing world in words: what was done and seen, line by line, and what is wrong."""
    small = shrink(outcome)
    lines = [
        f"Seed {outcome.seed}: {len(outcome.actions)} actions, {len(small.actions)} of them are needed.",
        *small.trace,
        "",
        *small.problems,
        "",
        f"To see it again: make simulate SEED={outcome.seed}",
    ]
    return "\n".join(lines)


def play_some(seeds: Sequence[int]) -> tuple[list[Outcome], Counter[str]]:
    """Plays worlds. Returns the failed ones, and in how many each situation was seen."""
    logging.disable(logging.CRITICAL)
    failed, seen = [], Counter[str]()
    for seed in seeds:
        outcome = play(seed)
        # how many seeds had it, not how often
        seen.update(dict.fromkeys(+outcome.seen, 1))
        if outcome.problems:
            failed.append(outcome)
    return failed, seen


def hunt(seeds: Iterable[int]) -> tuple[list[Outcome], Counter[str]]:
    """Plays all seeds on all cores. Returns the failed ones, and in how many each situation was seen."""
    failed, seen = on_all_cores(play_some, seeds)
    return sorted(failed, key=lambda outcome: outcome.seed), seen


def on_all_cores(
    play_part: Callable[[Sequence[int]], tuple[list[Failed], Counter[str]]], seeds: Iterable[int]
) -> tuple[list[Failed], Counter[str]]:
    """Plays the seeds in parts, each with `play_part`, and adds up what it returns."""
    all_seeds = list(seeds)
    parts = [all_seeds[at : at + PART] for at in range(0, len(all_seeds), PART)]
    failed: list[Failed] = []
    seen: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for played, (some_failed, some_seen) in enumerate(pool.imap_unordered(play_part, parts), 1):
            failed += some_failed
            seen += some_seen
            if played % PROGRESS_EVERY == 0:
                print(f"{played * PART} seeds played, {len(failed)} failed", file=sys.stderr, flush=True)
    return failed, seen


def main() -> int:
    parser = argparse.ArgumentParser(description="Hunt for interleavings that break the engine's protocols.")
    parser.add_argument("--seed", type=int, help="play this one, and show what happened")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many to play")
    parser.add_argument("--first", type=int, help="the first of them; else it follows from the commit")
    given = parser.parse_args()
    first = first_of_commit() if given.first is None else given.first
    logging.disable(logging.CRITICAL)
    if given.seed is not None:
        outcome = play(given.seed, trace=True)
        print(*outcome.trace, sep="\n")
        print(*(outcome.problems or ["All held."]), sep="\n")
        if outcome.problems:
            print(explained(outcome))
        return bool(outcome.problems)
    began = time.monotonic()
    failed, seen = hunt(range(first, first + given.seeds))
    took = time.monotonic() - began
    print(f"{given.seeds} seeds from {first} in {took:.1f} s, {1000 * took / given.seeds:.1f} ms each;")
    print("number of seeds, and what was seen in them:")
    for what, count in sorted(seen.items()):
        print(f"  {count:7} {what}")
    kinds = Counter(kind for outcome in failed for kind in outcome.kinds)
    print(f"{len(failed)} failed: {dict(kinds)}", *(outcome.seed for outcome in failed[:20]))
    for kind in sorted(kinds):
        of_kind = [outcome for outcome in failed if kind in outcome.kinds]
        print(kind, *(outcome.seed for outcome in of_kind[:20]))
        print(explained(min(of_kind, key=lambda outcome: len(outcome.actions))))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
