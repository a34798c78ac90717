"""Finds a short list of seeds that show all of MUST_BE_SEEN, and writes it: `make simulate CHOOSE=1`."""

from __future__ import annotations

import argparse
import json
import logging
import sys

from tests.simulation.hunt import play
from tests.simulation.seeds import CHOSEN_FILE
from tests.simulation.test_seeds import MUST_BE_SEEN


def choose(shown: dict[int, set[str]]) -> list[int]:
    """The greedy cover: the next seed is always the one that shows most of what is still missing."""
    missing = set.union(*shown.values())
    found = []
    while missing:
        best = max(shown, key=lambda seed: (len(shown[seed] & missing), -seed))
        found.append(best)
        missing -= shown[best]
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=20_000, help="how many seeds to try")
    most = parser.parse_args().most
    logging.disable(logging.CRITICAL)
    wanted, shown = set(MUST_BE_SEEN), dict[int, set[str]]()
    for seed in range(most):
        seen = set(+play(seed).seen) & set(MUST_BE_SEEN)
        shown[seed] = seen
        wanted -= seen
        # Continues after the last one was seen: with more seeds to choose from the list gets shorter.
        if not wanted and seed >= 2_000:
            break
    if wanted:
        print(f"no seed of {most} showed: {', '.join(sorted(wanted))}", file=sys.stderr)
        return 1
    seeds = choose(shown)
    CHOSEN_FILE.write_text(json.dumps(seeds) + "\n")
    print(f"{len(seeds)} of {len(shown)} seeds show all: {seeds}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
