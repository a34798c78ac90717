"""The plain loop that a backtest is compared with: `step` over all events in their order, in one process.

`python -m bench.backtest.loop ARCHIVE CONDITION` prints one JSON object.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time

import pyarrow.dataset as ds
from interlock.conditions import EMPTY, Firing, Match, State, Tick, parse, step
from interlock.conditions.firing import decided_ms
from interlock.events.event import Event

COLUMNS = ["topic", "partition", "offset", "appended_ms", "attributes", "data"]
# Of an MD5 so many hexadecimal digits are added up: the sum of many millions is a decimal of Spark's.
DIGITS = 15


def main(archive: str, text: str) -> None:
    began = time.perf_counter()
    condition = parse(text)
    table = ds.dataset(archive, partitioning="hive", exclude_invalid_files=True).to_table(columns=COLUMNS)
    table = table.sort_by([(name, "ascending") for name in ("appended_ms", "topic", "partition", "offset")])
    states: dict[str, State] = {}
    firings = checksum = 0

    def fire(key: str, firing: Firing, fired_ms: int) -> None:
        nonlocal firings, checksum
        firings += 1
        checksum += int(hashlib.md5(shown(key, firing, fired_ms).encode()).hexdigest()[:DIGITS], 16)

    stamp = 0
    for batch in table.to_batches(10_000):
        for row in batch.to_pylist():
            event, stamp = Event(dict(row["attributes"]), row["data"]), row["appended_ms"]
            reached: dict[str, tuple[int, ...]] = {}
            for number, matcher in enumerate(condition.matchers):
                if matcher.accepts(event) and (key := matcher.key_of(event)) is not None:
                    reached[key] = (*reached.get(key, ()), number)
            for key, numbers in reached.items():
                state = states.get(key, EMPTY)
                if condition.needs_ticks and state is not EMPTY:
                    state, fired = step(condition, state, Tick(stamp))
                    for firing in fired:
                        fire(key, firing, decided_ms(firing, stamp))
                place = (row["topic"], row["partition"], row["offset"])
                states[key], fired = step(condition, state, Match(event, numbers, *place, stamp))
                for firing in fired:
                    fire(key, firing, stamp)
    for key, state in states.items():
        _, fired = step(condition, state, Tick(stamp + 1))
        for firing in fired:
            fire(key, firing, decided_ms(firing, stamp + 1))
    took = time.perf_counter() - began
    found = {"firings": firings, "checksum": checksum, "events": table.num_rows, "took_s": took}
    print(json.dumps(found), flush=True)


def shown(key: str, firing: Firing, fired_ms: int) -> str:
    """A firing as answer.py writes it in SQL."""
    parts = ",".join(
        f"{part.label} {' '.join(part.match.identity)} {part.match.topic} {part.match.partition}"
        f" {part.match.offset} {part.match.timestamp_ms}"
        for part in firing.taking_part
    )
    timer = "" if firing.timer_ms is None else str(firing.timer_ms)
    return f"{key}|{firing.outcome}|{fired_ms}|{timer}|{','.join(firing.missing)}|{parts}"


if __name__ == "__main__":
    main(*sys.argv[1:])
