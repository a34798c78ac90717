"""A load for the archive, and the record of what was sent, to compare with."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Message

from .conftest import Site, headers

UNREADABLE, ABORTED = 0.02, 0.15
_TYPES = [f"com.example.t{number}" for number in range(8)]


@dataclass
class Load:
    """Sends `total` committed records from a thread, in transactions; aborts some further ones.

    `committed`: {(partition, offset): id of the event, None if the record is none}. It sends only as many as
    `allow` says.
    """

    site: Site
    total: int
    seed: int
    committed: dict[tuple[int, int], str | None] = field(default_factory=dict)
    aborted: int = 0
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        self._allowed = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def allow(self, records: int) -> None:
        self.check()
        with self._changed:
            self._allowed = records
            self._changed.notify()

    def check(self) -> None:
        """Raise what ended the thread."""
        if self.failure is not None:
            raise self.failure

    def end(self) -> None:
        """Wait until all is sent."""
        self.allow(self.total)
        self._thread.join(600)
        self.check()
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._send()
        except BaseException as error:
            self.failure = error

    def _send(self) -> None:
        chance = random.Random(self.seed)
        producer = self.site.producer(**{"transactional.id": f"{self.site.name}-load"})
        producer.init_transactions(30)
        number = 0
        while len(self.committed) < self.total:
            with self._changed:
                self._changed.wait_for(lambda: len(self.committed) < self._allowed)
            sent: dict[tuple[int, int], str | None] = {}
            producer.begin_transaction()
            for _ in range(min(chance.randint(1, 400), self.total - len(self.committed))):
                number += 1
                id_ = None if chance.random() < UNREADABLE else str(number)
                producer.produce(
                    self.site.topic(),
                    chance.randbytes(chance.randint(0, 200)),
                    b"k%d" % chance.randint(0, 1000),
                    headers=None if id_ is None else headers(id_, chance.choice(_TYPES)),
                    on_delivery=partial(_note, sent, id_),
                )
            producer.flush(30)
            if chance.random() < ABORTED:
                producer.abort_transaction(30)
                self.aborted += len(sent)
            else:
                producer.commit_transaction(30)
                self.committed.update(sent)


def _note(sent: dict[tuple[int, int], str | None], id_: str | None, error: object, message: Message) -> None:
    assert error is None, error
    place = message.partition(), message.offset()
    assert None not in place
    sent[place] = id_  # type: ignore[index]
