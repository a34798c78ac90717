"""The bus's transactional producer: one transaction for each commit, and what its errors mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import Retrying, retry_if_exception, wait_fixed

from ..bus import Committed, Headers, Output, TopicPartition
from ..config import BusConfig
from ..errors import TransactionAborted, UnreachableError
from ..log import log
from ..records.sizes import MAX_INTERNAL_BYTES
from .clients import ClientErrors, client_log, connect, told
from .lost_connections import Losses
from .reader import not_readable

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer

# Shorter than a wait for a person, longer than a broker's restart of a second or two. An engine that is
# killed inside a transaction holds readers of committed records back for this long (KIP-447 has 10 s).
TRANSACTION_TIMEOUT_MS = 15_000
# Of all steps of a commit, and of a burial, repetitions included. Below the transaction's own timeout: the
# broker answers one that it has ended itself with errors that look like fencing.
TIMEOUT_S = 10.0
LAST_STEP_S = 1.0  # what the last step has at least
CLOSE_TIMEOUT_S = 2.0  # of each of the two attempts to end what is open
T = TypeVar("T")


def producer_settings() -> dict[str, object]:
    """Of the transactional producers, beside connection and names."""
    return {
        "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        "acks": "all",
        # The coordinator answers CONCURRENT_TRANSACTIONS while the last transaction's markers are
        # written; the default of 100 ms makes that the cost of every transaction.
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 10,
        "delivery_timeout_ms": int(TIMEOUT_S * 1000),
        # Longer than all of a commit: the client sends what had no answer in this time again, by itself.
        "socket_timeout_ms": int((TIMEOUT_S + 2 * LAST_STEP_S) * 1000),
        "log_connection_close": True,  # see `Losses`
        "linger_ms": 0,
        "compression_type": "lz4",
        "message_max_bytes": MAX_INTERNAL_BYTES,
        "partitioner": "murmur2_random",
    }


class Transactions:
    """A producer with one transactional id. One thread.

    One that has lost a connection is replaced when its transaction is over. The client may have repeated a
    request, and the first one may arrive in the next transaction: an end of before would commit what that
    one has written so far, without its offsets. Brokers refuse it for the new producer's epoch (KIP-890 has
    the fault; its own cure, an epoch for each transaction, librdkafka 2.16.0 does not have).
    """

    def __init__(self, config: BusConfig, errors: ClientErrors, transactional_id: str) -> None:
        self._config, self._errors = config, errors
        self._id = transactional_id
        self._open = False
        self._appended: int | None = None
        self._producer, self._losses = self._initialised(transactional_id, TIMEOUT_S)

    def _initialised(self, transactional_id: str, timeout_s: float) -> tuple[Producer, Losses]:
        from confluent_kafka import KafkaException, Producer

        losses = Losses(client_log)
        # A level of the connection's could keep from us what is lost.
        client = {key: value for key, value in self._config.client.items() if key != "log_level"}
        producer = connect(
            Producer,
            replace(self._config, client=client),
            self._errors,
            transactional_id=transactional_id,
            logger=losses,
            **producer_settings(),
        )
        try:
            _repeated(time.monotonic() + timeout_s, producer.init_transactions)
        except KafkaException as e:
            raise self._errors.unreachable(self._config, e) from e
        return producer, losses

    def _replace_after_a_loss(self) -> None:
        """Between two transactions; UnreachableError where there is no new producer within TIMEOUT_S."""
        self._producer.poll(0)  # brings what the client has logged
        if not self._losses.seen:
            return
        log.info("The producer of %s has lost a connection, and is replaced.", self._id)
        self._producer, self._losses = self._initialised(self._id, TIMEOUT_S)

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Sent

        # Without a real offset, or with the metadata of a consumer that never joined, the broker would
        # accept the transaction of a member that has lost its partitions (KIP-447).
        if not offsets or membership is None or any(c.offset < 0 for c in offsets.values()):
            raise TransactionAborted("A transaction without offsets or membership is not fenced; not sent.")
        sent = [
            Sent(tp.topic, tp.partition, committed.offset, committed.metadata)
            for tp, committed in offsets.items()
        ]
        producer = self._producer
        self._appended = None
        clocked = self._clocked(outputs)
        deadline = time.monotonic() + TIMEOUT_S
        try:
            producer.begin_transaction()
            self._open = True
            for i, output in enumerate(outputs):
                try:
                    self._produce(output, self._delivered if i == clocked else None)
                except KafkaException as e:
                    if e.args[0].code() != e.args[0]._STATE:
                        raise _Refused(output, e) from e
                    break  # a record before this one failed; the next call tells which, and why
            self._send_offsets(sent, membership)
            # Waits for all records. One that cannot be delivered makes it fail: no reports are needed.
            _repeated(deadline, producer.commit_transaction)
            self._open = False
        except _Refused as e:
            self._abort(e.error, f"a record of {e.output.topic!r} was refused: {told(e.error)}", e)
        except KafkaException as e:
            error = e.args[0]
            # An error of the client's own (below zero: timed out, no connection, not let in) leaves a request
            # without an answer, and the next send_offsets of such a producer may never return.
            if error.txn_requires_abort() and error.code() > 0:
                self._abort(error, told(error), e)
            # Fatal, fenced, timed out or unknown: only new clients and the committed offset tell.
            raise UnreachableError(
                f"A transaction on {self._config.describe()} failed ({error.name()}: {told(error)}). "
                "The engine starts again from the committed offsets."
            ) from e
        except SystemError as e:  # a report that was served while the client raised a fatal error
            raise UnreachableError(
                f"A transaction on {self._config.describe()} failed: {e.__cause__ or e}."
            ) from e
        self._replace_after_a_loss()
        return self._appended

    def _send_offsets(self, offsets: list[Any], membership: object) -> None:
        """Once, whatever an error says of repeating it, but where nothing was sent.

        After a call that had no answer the next one on this producer may never return (librdkafka 2.16.0,
        issue 5456).
        """
        from confluent_kafka import KafkaException

        try:
            self._producer.send_offsets_to_transaction(offsets, membership, TIMEOUT_S)
        except KafkaException as e:
            if e.args[0].code() != e.args[0]._STATE:
                raise
            # A record failed just now: this call tells which, and why.
            self._producer.send_offsets_to_transaction(offsets, membership, TIMEOUT_S)

    def _clocked(self, outputs: Sequence[Output]) -> int | None:
        """The index of the output whose append time is asked for: one of a topic with LogAppendTime."""
        likely = {self._config.topic("state"), self._config.topic("action")}
        for i in range(len(outputs) - 1, -1, -1):
            if outputs[i].topic in likely:
                return i
        return len(outputs) - 1 if outputs else None

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

        if error is None:
            kind, timestamp_ms = message.timestamp()
            if kind == TIMESTAMP_LOG_APPEND_TIME:
                self._appended = timestamp_ms

    def _produce(self, output: Output, on_delivery: Callable[..., None] | None = None) -> None:
        topic, partition, key, value, headers = output
        at = -1 if partition is None else partition
        produce = self._producer.produce
        while True:
            try:
                if headers is None and on_delivery is None:
                    produce(topic, value, key, at)  # by position: keywords make it twice as dear (1.0 us)
                elif on_delivery is None:
                    produce(topic, value, key, at, headers=_listed(headers))
                else:
                    produce(topic, value, key, at, on_delivery=on_delivery, headers=_listed(headers))
                return
            except BufferError:
                self._producer.poll(0.1)

    def _abort(self, error: KafkaError, reason: str, cause: BaseException) -> None:
        """Raises TransactionAborted; UnreachableError when the abort does not come through."""
        from confluent_kafka import KafkaException

        try:
            _repeated(time.monotonic() + TIMEOUT_S, self._producer.abort_transaction)
        except KafkaException as e:
            raise self._errors.unreachable(self._config, e) from e
        self._open = False
        self._replace_after_a_loss()
        unreadable = error.code() in not_readable()
        raise TransactionAborted(
            f"Transaction aborted: {reason}.{_advice(error)}", unreadable=unreadable
        ) from cause

    def fence(self, transactional_id: str) -> None:
        """See `bus.Bus.fence`. Takes 0.5 to 1 s where a transaction is open, at most TIMEOUT_S."""
        if not transactional_id.startswith(f"{self._config.group}-"):
            # The id comes from offset metadata; to initialise any other would end a stranger's transaction.
            log.warning("%r is no transactional id of this bus's engines; left alone.", transactional_id)
            return
        self._initialised(transactional_id, TIMEOUT_S)

    def close(self) -> None:
        """End what is open, so that nobody waits for its timeout. At most twice CLOSE_TIMEOUT_S."""
        from confluent_kafka import KafkaException

        with suppress(Exception):  # what is closed is given up; its last words help nobody
            self._producer.purge()
            if self._open:
                try:
                    self._producer.abort_transaction(CLOSE_TIMEOUT_S)
                except KafkaException:  # a commit without an answer cannot be aborted by its own producer
                    self._initialised(self._id, CLOSE_TIMEOUT_S)
        # Not Producer.close: it waits for a broker that does not answer, without end.
        with suppress(AttributeError):
            del self._producer


class _Refused(Exception):
    """The client did not take a record."""

    def __init__(self, output: Output, cause: KafkaException) -> None:
        super().__init__(str(cause))
        self.output, self.error = output, cause.args[0]


def _listed(headers: Headers | None) -> Any:
    return None if headers is None else list(headers)


def _advice(error: KafkaError) -> str:
    """What to do about the reasons that do not pass by themselves."""
    code = error.code()
    if code == error.MSG_SIZE_TOO_LARGE:
        return (
            " Raise the topic's max.message.bytes (the engine's topics need "
            f"{MAX_INTERNAL_BYTES}; airflow interlock topics check compares)."
        )
    if code in (error.TOPIC_AUTHORIZATION_FAILED, error.GROUP_AUTHORIZATION_FAILED):
        return " Give the engine's user the rights that docs/operate/operating.md lists."
    return ""


def _is_retriable(error: BaseException) -> bool:
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException) and bool(error.args[0].retriable())


def _repeated(deadline: float, call: Callable[..., T], *args: object) -> T:
    """The call with a timeout as its last argument, repeated while it says so, until the deadline.

    A call that failed with a retriable error goes on when it is repeated, and has no outcome before.
    """
    retrying = Retrying(
        retry=retry_if_exception(_is_retriable),
        stop=lambda _: time.monotonic() > deadline,
        wait=wait_fixed(0.02),
        reraise=True,
    )
    return retrying(lambda: call(*args, max(LAST_STEP_S, deadline - time.monotonic())))
