"""Sends dead letters again, several in each transaction, with a redrive record for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..bus import Record
from ..config import BusConfig
from ..errors import EngineError
from ..kafka.clients import ClientErrors, connect
from ..kafka.transactions import TIMEOUT_S, TRANSACTION_TIMEOUT_MS
from ..protocol.outputs import ATTEMPTS
from ..records.sizes import MAX_INTERNAL_BYTES
from .dead_letters import REDRIVEN, DeadLetter, own_headers

if TYPE_CHECKING:
    from confluent_kafka import Producer

MOST_DEAD_LETTERS: Final = 100  # in one transaction
MOST_BYTES: Final = 4 * 1024 * 1024


def redrive(
    config: BusConfig, dead_letters: Iterable[tuple[DeadLetter, Record]]
) -> Iterator[list[DeadLetter]]:
    """Send records again, each to `DeadLetter.target`. Yields what each transaction has sent.

    Key, value and headers are the original ones, with the number of attempts, so that counting continues.
    Raises EngineError if a transaction fails. What was yielded has been sent; the redrive records show
    whether the failed transaction was committed too.
    """
    from confluent_kafka import KafkaException

    errors = ClientErrors()
    producer = _producer(config, errors)
    try:
        producer.init_transactions(TIMEOUT_S)
        for batch in _batches(dead_letters):
            producer.begin_transaction()
            for dead_letter, record in batch:
                topic, partition = dead_letter.target(config)
                headers: Any = [*own_headers(record.headers), (ATTEMPTS, str(dead_letter.attempts).encode())]
                produce(producer, topic, record.value, record.key, partition, headers)
                redriven: Any = [(REDRIVEN, dead_letter.place.encode())]
                tp = dead_letter.partition
                produce(producer, tp.topic, None, None, tp.partition, redriven)
            producer.commit_transaction(TIMEOUT_S)
            yield [dead_letter for dead_letter, _ in batch]
    except KafkaException as e:
        raise EngineError(f"Sending to {config.describe()} failed: {e.args[0].str()}.") from e
    finally:
        # Abort an open transaction, also after an interrupt.
        with suppress(KafkaException):
            producer.purge()
            producer.abort_transaction(TIMEOUT_S)


def _producer(config: BusConfig, errors: ClientErrors) -> Producer:
    from confluent_kafka import Producer

    return connect(
        Producer,
        config,
        errors,
        # With the group's prefix, so that the engines' ACL covers it.
        transactional_id=f"{config.group}-redrive-{uuid.uuid4().hex[:12]}",
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        acks="all",
        delivery_timeout_ms=int(TIMEOUT_S * 1000),
        message_max_bytes=MAX_INTERNAL_BYTES,
        compression_type="lz4",
        partitioner="murmur2_random",
    )


def produce(
    producer: Producer, topic: str, value: bytes | None, key: bytes | None, partition: int, headers: Any
) -> None:
    """Add a record to the transaction; waits while the client's queue is full."""
    while True:
        try:
            producer.produce(topic, value, key, partition=partition, headers=headers)
            return
        except BufferError:
            producer.poll(0.1)


def _batches(dead_letters: Iterable[tuple[DeadLetter, Record]]) -> Iterator[list[tuple[DeadLetter, Record]]]:
    batch: list[tuple[DeadLetter, Record]] = []
    size = 0
    for dead_letter, record in dead_letters:
        batch.append((dead_letter, record))
        size += len(record.value or b"")
        if len(batch) >= MOST_DEAD_LETTERS or size >= MOST_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
