"""Sends dead letters again, several in each transaction, with a redrive record for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Final

from ..bus import Output, Record
from ..config import BusConfig
from ..kafka.clients import ClientErrors
from ..kafka.transactions import Transactions
from ..protocol.outputs import ATTEMPTS
from .dead_letters import REDRIVEN, DeadLetter, own_headers

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
    transactional_id = (
        f"{config.group}-redrive-{uuid.uuid4().hex[:12]}"  # with the prefix of the engines' ACL
    )
    transactions = Transactions(config, ClientErrors(), transactional_id)
    try:
        for batch in _batches(dead_letters):
            outputs = []
            for dead_letter, record in batch:
                topic, partition = dead_letter.target(config)
                headers = [*own_headers(record.headers), (ATTEMPTS, str(dead_letter.attempts).encode())]
                outputs.append(Output(topic, partition, record.key, record.value, headers))
                tp, redriven = dead_letter.partition, [(REDRIVEN, dead_letter.place.encode())]
                outputs.append(Output(tp.topic, tp.partition, None, None, redriven))
            transactions.send(outputs)
            yield [dead_letter for dead_letter, _ in batch]
    finally:
        transactions.close()  # aborts an open transaction, also after an interrupt


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
