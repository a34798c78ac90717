"""The plain loop to compare a backtest with: `step` over all events in their order, in one process.

`python -m bench.backtest.loop ARCHIVE CONDITION` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time

import pyarrow.dataset as ds
from interlock.conditions import EMPTY, Firing, Match, State, Tick, parse, step
from interlock.conditions.evaluate.firing import decided_ms
from interlock.conditions.nodes.paths import counting_matchers
from interlock.events.event import Event

from .checksum import Checksum

COLUMNS = ["topic", "partition", "offset", "appended_ms", "attributes", "data"]


def main(archive: str, text: str) -> None:
    began = time.perf_counter()
    condition = parse(text)
    table = ds.dataset(archive, partitioning="hive", exclude_invalid_files=True).to_table(columns=COLUMNS)
    table = table.sort_by([(name, "ascending") for name in ("appended_ms", "topic", "partition", "offset")])
    states: dict[str, State] = {}
    gathered: list[tuple[str, Firing, int]] = []

    def fire(key: str, firing: Firing, fired_ms: int) -> None:
        gathered.append((key, firing, fired_ms))

    def add(checksum: Checksum, key: str, firing: Firing, fired_ms: int) -> None:
        matches = [(part.label, part.match) for part in firing.taking_part]
        parts = [
            (label, *m.identity, m.event.type, m.topic, m.partition, m.offset, m.timestamp_ms)
            for label, m in matches
        ]
        checksum.add(key, firing.outcome, fired_ms, firing.timer_ms, firing.missing, parts)

    stamp = 0
    for batch in table.to_batches(10_000):
        for row in batch.to_pylist():
            event, stamp = Event(dict(row["attributes"]), row["data"]), row["appended_ms"]
            reached: dict[str, tuple[int, ...]] = {}
            for number, matcher in enumerate(condition.matchers):
                if matcher.accepts(event) and (key := matcher.key_of(event)) is not None:
                    reached[key] = (*reached.get(key, ()), number)
            for key, accepted in reached.items():
                numbers, values = counting_matchers(condition.distinct_paths, accepted, event)
                if not numbers:
                    continue
                state = states.get(key, EMPTY)
                if condition.needs_ticks and state is not EMPTY:
                    state, fired = step(condition, state, Tick(stamp))
                    for firing in fired:
                        fire(key, firing, decided_ms(firing, stamp))
                place = (row["topic"], row["partition"], row["offset"])
                states[key], fired = step(condition, state, Match(event, numbers, *place, stamp, values))
                for firing in fired:
                    fire(key, firing, stamp)
    for key, state in states.items():
        _, fired = step(condition, state, Tick(stamp + 1))
        for firing in fired:
            fire(key, firing, decided_ms(firing, stamp + 1))
    took = time.perf_counter() - began
    checksum = Checksum()
    for each in gathered:
        add(checksum, *each)
    found = {
        "firings": checksum.firings,
        "checksum": checksum.value,
        "events": table.num_rows,
        "took_s": took,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
