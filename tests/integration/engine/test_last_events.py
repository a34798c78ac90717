"""What looking back at events costs whoever does it, on a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from confluent_kafka import Producer

EVENTS, ATTRIBUTE = 400, 900_000
LOOK = """
import json, resource, sys
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import read_registry
from interlock.engine.reading.sources import last_events
config = BusConfig(**json.loads(sys.argv[1]))
registry = read_registry(config)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
events, unreadable, _ = last_events(config, registry, 5000)
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"events": len(events), "unreadable": unreadable, "kib": most - before}))
"""


def test_events_with_large_attributes_take_little_of_the_memory_of_whoever_looks_back(bench: Any) -> None:
    """Compressed, as many producers send them: one fetch brings hundreds."""
    producer = Producer({**bench.config.client, "compression.type": "lz4", "message.max.bytes": 2**20})
    for number in range(EVENTS):
        attributes = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t"}
        attributes["note"] = "x" * ATTRIBUTE
        headers = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
        producer.produce(bench.config.topic("event"), b"", headers=headers, partition=0)
        producer.flush()
    command = [sys.executable, "-c", LOOK, bench.json()]
    ended = subprocess.run(command, check=True, capture_output=True, timeout=120)
    found = json.loads(ended.stdout)
    assert found["unreadable"] == 0
    assert 20 <= found["events"] <= 64 * 1024 * 1024 // ATTRIBUTE
    assert found["kib"] < 256 * 1024  # 64 MiB of records, the events made of them, and what is fetched ahead
