"""Sends dead letters again, several in each transaction, with a redrive record for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ..bus import Output, Record
from ..config import BusConfig
from ..kafka.clients import ClientErrors
from ..kafka.transactions import Transactions
from ..protocol.outputs import ATTEMPTS
from .dead_letters import REDRIVEN, DeadLetter, Readers, own_headers

MOST_DEAD_LETTERS: Final = 100  # in one transaction
MOST_BYTES: Final = 4 * 1024 * 1024


class Planned(NamedTuple):
    """A dead letter that is to be sent again. to: where it would go. refused: why it stays; "" if it goes."""

    dead_letter: DeadLetter
    to: str
    refused: str


def planned(config: BusConfig, dead_letters: Iterable[DeadLetter], readers: Readers) -> list[Planned]:
    """What `redrive` would do with each of these, the oldest first."""
    found = []
    for each in sorted(dead_letters, key=lambda each: (each.time_ms, each.partition, each.offset)):
        refused = each.refusal(config, readers)
        topic, partition = each.target(config)
        found.append(Planned(each, topic if partition < 0 else f"{topic}[{partition}]", refused))
    return found


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
