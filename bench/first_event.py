"""A process's first event: prints the seconds until its acknowledgement, with an emitter or the client alone.

python -m bench.first_event SETTINGS TOPIC emit|client
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Producer
from interlock.events import Emitter, Event
from interlock.events.kafka import encode


def emitted(client: dict[str, Any], topic: str, event: Event) -> float:
    started = time.perf_counter()
    with Emitter(client, topic) as emitter:
        emitter.emit(event)
        return time.perf_counter() - started


def produced(client: dict[str, Any], topic: str, event: Event) -> float:
    started = time.perf_counter()
    producer = Producer({**client, "acks": "all", "enable.idempotence": True})
    key, value, headers = encode(event)
    producer.produce(topic, value, key, headers=headers)  # type: ignore[arg-type]  # its stub is invariant
    if producer.flush(30):
        raise SystemExit("bench: not acknowledged")
    return time.perf_counter() - started


if __name__ == "__main__":
    first = {"emit": emitted, "client": produced}[sys.argv[3]]
    print(first(json.loads(sys.argv[1]), sys.argv[2], Event.of("emitted", "/bench", subject="s")))
