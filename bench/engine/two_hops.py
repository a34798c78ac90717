"""Two hops without an engine: a client loop with the engine's topics, settings and transactions.

    python -m bench.engine.two_hops SETTINGS

It copies each event to the trigger topic under its key, with headers and data as one value. Of each record of
the trigger topic it writes a few bytes to the same partition of the state topic, and the value twice over to
the action topic: records as large as the engine's for a firing of one matcher. It looks up, keeps and checks
nothing, and a rebalance would lose records. It prints how many partitions it has, and how many records it has
consumed.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

from confluent_kafka import TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.kafka.reader import consume
from interlock.engine.protocol.loop import MOST_RECORDS

from .clients import Joined, clients
from .process import config_given

STATE_BYTES = 60


def two_hops(config: BusConfig, stop: threading.Event) -> None:
    """Runs until `stop` is set."""
    consumer, producer = clients(config, f"{config.name}-two-hops")
    events, matches = config.topic("event"), config.topic("trigger")
    state, action = config.topic("state"), config.topic("action")
    joined = Joined(consumer, [events, matches])
    while not stop.is_set():
        messages: list[Any] = [m for m in consume(consumer, MOST_RECORDS, 0.1) if m.error() is None]
        if not messages:
            continue
        offsets: dict[tuple[str, int], int] = {}
        producer.begin_transaction()
        for message in messages:
            topic, partition, value = message.topic(), message.partition(), message.value()
            if topic == events:
                headers = dict(message.headers())
                match = b'{"id":"%b","attributes":"%b","data":%b}' % (
                    headers["ce_id"],
                    b" ".join(headers.values()),
                    value,
                )
                producer.produce(matches, match, message.key())
            else:
                producer.produce(state, value[:STATE_BYTES], message.key(), partition)
                producer.produce(action, value + value, message.key(), partition)
            offsets[topic, partition] = message.offset() + 1
        producer.send_offsets_to_transaction(
            [TopicPartition(t, p, o) for (t, p), o in offsets.items()], consumer.consumer_group_metadata()
        )
        producer.commit_transaction()
        joined.consumed(len(messages))
    consumer.close()


if __name__ == "__main__":
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    two_hops(config_given(), over)
