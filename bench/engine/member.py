"""A member of a consumer group that reads a topic until it is killed, without commits.

python -m bench.engine.member SETTINGS TOPIC
"""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer

if __name__ == "__main__":
    consumer = Consumer(json.loads(sys.argv[1]))
    consumer.subscribe([sys.argv[2]])
    while True:
        consumer.poll(0.1)
