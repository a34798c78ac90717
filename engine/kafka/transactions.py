"""The bus's transactional producer: one transaction per commit, and how its errors are handled."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tenacity import Retrying, retry_if_exception, wait_fixed

from ..bus import Committed, Headers, Output, TopicPartition
from ..config import BusConfig
from ..errors import EngineError, TransactionAborted, UnreachableError
from ..log import log
from ..records.sizes import MAX_INTERNAL_BYTES
from .call_thread import CallThread
from .clients import ClientErrors, client_log, connect, error_text
from .lost_connections import LostConnections
from .reader import not_readable_codes

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Message, Producer

# Longer than a broker's restart of a second or two, but short: an engine that is killed inside a transaction
# blocks readers of committed records for this long (KIP-447 recommends 10 s).
TRANSACTION_TIMEOUT_MS = 15_000
# For all steps of a commit, or of fencing, with retries. Below the transaction's own timeout: if the broker
# has ended the transaction itself, it answers with errors that look like fencing.
TIMEOUT_S = 10.0
LAST_STEP_S = 1.0  # the least time for the last step
# A call with TIMEOUT_S that takes so long hangs; the broker has ended the transaction by then.
HANGS_S = TRANSACTION_TIMEOUT_MS / 1000
CLOSE_TIMEOUT_S = 2.0  # for each of the two attempts to end an open transaction
T = TypeVar("T")


def producer_settings() -> dict[str, object]:
    """Settings of the transactional producers, without connection and names."""
    return {
        "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        "acks": "all",
        # The coordinator answers CONCURRENT_TRANSACTIONS while it writes the markers of the last
        # transaction. With the default backoff every transaction would take at least 100 ms.
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 10,
        "delivery_timeout_ms": int(TIMEOUT_S * 1000),
        # Longer than a whole commit: after this time the client repeats a request without an answer.
        "socket_timeout_ms": int((TIMEOUT_S + 2 * LAST_STEP_S) * 1000),
        "log_connection_close": True,  # see `LostConnections`
        "linger_ms": 0,
        "compression_type": "lz4",
        "message_max_bytes": MAX_INTERNAL_BYTES,
        "partitioner": "murmur2_random",
    }


class Transactions:
    """A producer with one transactional id. Not thread-safe.

    A producer that has lost a connection is replaced after its transaction. The client may have repeated a
    request whose first copy arrives during the next transaction: a late EndTxn would commit what that
    transaction has written so far, without its offsets. Brokers refuse the late copy because the new producer
    has another epoch. (KIP-890 describes the fault; librdkafka 2.16.0 lacks its cure, an epoch per
    transaction.)
    """

    def __init__(self, config: BusConfig, errors: ClientErrors, transactional_id: str) -> None:
        self._config, self._errors = config, errors
        self._id = transactional_id
        self._open = False
        self._appended: int | None = None
        self._calls = CallThread(f"{transactional_id} offsets")
        self._producer, self._losses = self._initialised(transactional_id, TIMEOUT_S)

    def _initialised(self, transactional_id: str, timeout_s: float) -> tuple[Producer, LostConnections]:
        from confluent_kafka import KafkaException, Producer

        losses = LostConnections(client_log)
        # A log level in the connection could hide the lines about lost connections.
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
            repeated(time.monotonic() + timeout_s, producer.init_transactions)
        except (KafkaException, SystemError) as e:
            raise self._errors.unreachable(self._config, _cause(e)) from e
        return producer, losses

    def _replace_if_lost_connection(self) -> None:
        """Between transactions. Raises UnreachableError if it fails or takes longer than TIMEOUT_S."""
        from confluent_kafka import KafkaException

        try:
            self._producer.poll(0)  # delivers the client's log lines
        except (KafkaException, SystemError) as e:  # the poll reports a fatal error
            raise self._errors.unreachable(self._config, _cause(e)) from e
        if not self._losses.seen:
            return
        log.info("The producer of %s lost a connection and is replaced.", self._id)
        self._producer, self._losses = self._initialised(self._id, TIMEOUT_S)

    def commit(
        self, outputs: Sequence[Output], offsets: Mapping[TopicPartition, Committed], membership: object
    ) -> int | None:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Sent

        # Without a real offset, or with the metadata of a consumer that never joined, the broker would
        # accept a transaction from a member that has lost its partitions (KIP-447).
        if not offsets or membership is None or any(c.offset < 0 for c in offsets.values()):
            raise TransactionAborted("Not sent: a transaction without offsets or membership is not fenced.")
        sent = [
            Sent(tp.topic, tp.partition, committed.offset, committed.metadata)
            for tp, committed in offsets.items()
        ]
        producer = self._producer
        self._appended = None
        timed = self._timed(outputs)
        deadline = time.monotonic() + TIMEOUT_S
        try:
            producer.begin_transaction()
            self._open = True
            self._produce_all(outputs, timed)
            self.send_offsets(sent, membership)
            # Waits for all records and fails if one cannot be delivered, so no delivery reports are needed.
            repeated(deadline, producer.commit_transaction)
            self._open = False
        except _Refused as e:
            self._abort(e.error, f"a record of {e.output.topic!r} was refused: {error_text(e.error)}", e)
        except KafkaException as e:
            error = e.args[0]
            # After a local error of the client (below zero: timeout, no connection, authentication) a request
            # has no answer, and the producer's next send_offsets may never return.
            if error.txn_requires_abort() and error.code() > 0:
                self._abort(error, error_text(error), e)
            # Fatal, fenced, timed out or unknown: only new clients can read the outcome, from the offsets.
            raise UnreachableError(
                f"A transaction on {self._config.describe()} failed ({error.name()}: {error_text(error)}). "
                f"{self._config.member} starts again from the committed offsets."
            ) from e
        except SystemError as e:  # see `_cause`
            raise UnreachableError(f"A transaction on {self._config.describe()} failed: {_cause(e)}.") from e
        self._replace_if_lost_connection()
        return self._appended

    def send(self, outputs: Sequence[Output]) -> None:
        """Write records in a transaction without offsets, which no group fences.

        Raises EngineError if that fails: then nothing was written, or the outcome is not known, and only
        `close` may follow.
        """
        from confluent_kafka import KafkaException

        self._replace_if_lost_connection()
        deadline = time.monotonic() + TIMEOUT_S
        try:
            self._producer.begin_transaction()
            self._open = True
            self._produce_all(outputs)
            repeated(deadline, self._producer.commit_transaction)
            self._open = False
        except (_Refused, KafkaException) as e:
            error = e.error if isinstance(e, _Refused) else e.args[0]
            raise EngineError(f"Sending to {self._config.describe()} failed: {error_text(error)}.") from e
        except SystemError as e:  # see `_cause`
            raise EngineError(f"Sending to {self._config.describe()} failed: {_cause(e)}.") from e

    def _produce_all(self, outputs: Sequence[Output], timed: int | None = None) -> None:
        """Add records to the transaction. timed: the index of the one whose append time is noted.

        Raises _Refused. After a record that could not be delivered, the next step of the transaction raises.
        """
        from confluent_kafka import KafkaException

        for i, output in enumerate(outputs):
            try:
                self.produce(output, self._delivered if i == timed else None)
            except KafkaException as e:
                if e.args[0].code() != e.args[0]._STATE:
                    raise _Refused(output, e) from e
                break  # an earlier record failed; the next call raises its error

    def send_offsets(self, offsets: list[Any], membership: object) -> None:
        """Add the next offsets to read to the transaction, fenced by the membership.

        Not repeated after a retriable error, unless nothing was sent: after a request without an answer the
        next call on this producer may never return (librdkafka 2.16.0, issue 5456). After a broker
        was lost, the first call may not return either: UnreachableError after HANGS_S.
        """
        from confluent_kafka import KafkaException

        send = partial(self._producer.send_offsets_to_transaction, offsets, membership, TIMEOUT_S)
        try:
            self._calls.call("send_offsets_to_transaction", send, HANGS_S)
        except KafkaException as e:
            if e.args[0].code() != e.args[0]._STATE:
                raise
            # A record failed just now: this call raises its error.
            self._calls.call("send_offsets_to_transaction", send, HANGS_S)

    def _timed(self, outputs: Sequence[Output]) -> int | None:
        """The index of the output whose append time `commit` returns; preferably to an internal topic."""
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

    def produce(self, output: Output, on_delivery: Callable[..., None] | None = None) -> None:
        """Add a record to the transaction; waits while the client's queue is full."""
        topic, key, value, headers = output.topic, output.key, output.value, output.headers
        at = -1 if output.partition is None else output.partition
        produce = self._producer.produce
        while True:
            try:
                if headers is None and on_delivery is None:
                    produce(topic, value, key, at)  # positional: keyword arguments double the cost (1.0 us)
                elif on_delivery is None:
                    produce(topic, value, key, at, headers=_as_list(headers))
                else:
                    produce(topic, value, key, at, on_delivery=on_delivery, headers=_as_list(headers))
                return
            except BufferError:
                self._producer.poll(0.1)

    def _abort(self, error: KafkaError, reason: str, cause: BaseException) -> NoReturn:
        """Abort, then raise TransactionAborted; or UnreachableError if the abort fails."""
        from confluent_kafka import KafkaException

        try:
            repeated(time.monotonic() + TIMEOUT_S, self._producer.abort_transaction)
        except (KafkaException, SystemError) as e:
            raise self._errors.unreachable(self._config, _cause(e)) from e
        self._open = False
        self._replace_if_lost_connection()
        unreadable = error.code() in not_readable_codes()
        raise TransactionAborted(
            f"Transaction aborted: {reason}.{_advice(error)}", unreadable=unreadable
        ) from cause

    def fence(self, transactional_id: str) -> None:
        """See `bus.Bus.fence`. Takes 0.5 to 1 s if a transaction is open, at most TIMEOUT_S."""
        if not transactional_id.startswith(f"{self._config.group}-"):
            # The id comes from offset metadata. Initialising an id of another application would end its
            # transaction.
            group = self._config.group
            log.warning(
                "%r is not a transactional id of a member of %r; not fenced.", transactional_id, group
            )
            return
        self._initialised(transactional_id, TIMEOUT_S)

    def close(self) -> None:
        """End the open transaction, so that nobody waits for its timeout. At most 2 * CLOSE_TIMEOUT_S."""
        self._calls.close()
        with suppress(Exception):  # an error while closing does not matter
            if self._calls.hangs:  # every call on this producer might hang too
                self._initialised(self._id, CLOSE_TIMEOUT_S)
            else:
                self._end_transaction()
        # Not Producer.close: it waits without limit for a broker that does not answer.
        with suppress(AttributeError):
            del self._producer

    def _end_transaction(self) -> None:
        from confluent_kafka import KafkaException

        self._producer.purge()
        if not self._open:
            return
        try:
            self._producer.abort_transaction(CLOSE_TIMEOUT_S)
        except KafkaException:  # a commit without an answer cannot be aborted by its own producer
            self._initialised(self._id, CLOSE_TIMEOUT_S)


class _Refused(Exception):
    """The client refused a record."""

    def __init__(self, output: Output, cause: KafkaException) -> None:
        super().__init__(str(cause))
        self.output, self.error = output, cause.args[0]


def _cause(error: Exception) -> BaseException:
    """The client's own error. If a callback runs while a fatal error is raised, a SystemError hides that."""
    return error.__cause__ or error


def _as_list(headers: Headers | None) -> Any:
    return None if headers is None else list(headers)


def _advice(error: KafkaError) -> str:
    """What to do about errors that need an administrator."""
    code = error.code()
    if code == error.MSG_SIZE_TOO_LARGE:
        return (
            " Raise the topic's max.message.bytes (the engine's topics need "
            f"{MAX_INTERNAL_BYTES}; to compare, run: airflow interlock topics check)."
        )
    if code in (error.TOPIC_AUTHORIZATION_FAILED, error.GROUP_AUTHORIZATION_FAILED):
        return " Give the engine's user the rights that docs/operate/operating.md lists."
    return ""


def _is_retriable(error: BaseException) -> bool:
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException) and bool(error.args[0].retriable())


def repeated(deadline: float, call: Callable[..., T], *args: object) -> T:
    """Call with a timeout as the last argument; call again after retriable errors, until the deadline.

    Such a call continues the failed one, whose outcome is not known before.
    """
    retrying = Retrying(
        retry=retry_if_exception(_is_retriable),
        stop=lambda _: time.monotonic() > deadline,
        wait=wait_fixed(0.02),
        reraise=True,
    )
    return retrying(lambda: call(*args, max(LAST_STEP_S, deadline - time.monotonic())))
