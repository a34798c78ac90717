"""What all Kafka clients of a bus share: settings, creation, and the errors that they report."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...events.client_log import client_logger
from ...events.proof import without_proof
from ...events.tokens import OAUTH_CB, TokenCallback, token_callback
from ..config import BusConfig
from ..errors import ConfigError, UnreachableError
from ..log import log
from .certificate import certificate_fault

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient


ANSWER_TIMEOUT_S = 10.0
FORBIDDEN: Final = frozenset({29, 31})  # TOPIC_ and CLUSTER_AUTHORIZATION_FAILED


client_log = client_logger("interlock.engine.librdkafka")
_silent = logging.Logger("interlock.engine.silent", logging.CRITICAL + 1)


def one_request_logger(config: BusConfig) -> logging.Logger:
    """The logger for a client that sends one request: silent, because the raised error has the reason.

    Not silent if the connection sets librdkafka's `debug`.
    """
    return client_log if "debug" in config.client else _silent


# The duration and number of attempts: with them each repetition of an error would look like a new error.
_ATTEMPTS: Final = re.compile(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)")


def error_text(error: KafkaError) -> str:
    """An error's text without the parts that differ between attempts."""
    return _ATTEMPTS.sub("", error.str()).rstrip(".")


class ClientErrors:
    """Keeps the last error that one or more clients reported through `error_cb`: it explains a timeout."""

    def __init__(self) -> None:
        self.last: str | None = None

    def __call__(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            # This error only repeats that earlier attempts failed, and hides why. An earlier error is missing
            # only if the brokers closed the connection without one.
            self.last = self.last or f"{error.str()}: they close connections, so they may require TLS or SASL"
        else:
            self.last = error_text(error)
        log.debug("client reports %s: %s", error.name(), error.str())

    def clear(self) -> None:
        self.last = None

    def unreachable(self, config: BusConfig, error: object = None) -> UnreachableError:
        """The error for a cluster that does not answer or refuses, with the reason.

        The reason is what the brokers answered, if `error` is a KafkaException with their answer. Otherwise
        it is the last error that the clients reported, because a timeout does not say why; or `error`.
        """
        reason = _answer_in(error) or self.last or str(error or "") or "no answer"
        if fault := certificate_fault(config.client, reason):
            return UnreachableError(
                f"Cannot reach {config.describe()}: the broker's certificate is refused, {fault} ({reason}). "
                "Correct the broker's certificate, or ssl.ca.location or the broker's name in the connection."
            )
        return UnreachableError(
            f"Cannot reach {config.describe()}: {reason}. Check that the broker is up, and the "
            "connection's bootstrap.servers and security settings."
        )

    def require_answer(self, admin: AdminClient, config: BusConfig, timeout_s: float | None = None) -> None:
        """Returns when the cluster answers. Raises UnreachableError after the timeout (ANSWER_TIMEOUT_S)."""
        error = ask(admin, config, ANSWER_TIMEOUT_S if timeout_s is None else timeout_s)
        if error is not None:
            admin.poll(0)  # the client reports the errors of its attempts only here
            raise self.unreachable(config, error)
        self.clear()


def ask(admin: AdminClient, config: BusConfig, timeout_s: float) -> str | None:
    """Ask the cluster for a small answer. Returns None if it came, else the client's reason."""
    from confluent_kafka import KafkaException, TopicCollection

    # Not `list_topics`, whose answer names each partition of the cluster. Not `describe_cluster`, which ends
    # the process if all brokers are fenced (no. 22 in docs/understand/engine/pitfalls.md).
    asked = TopicCollection([config.topic("subscription")])
    [future] = admin.describe_topics(asked, request_timeout=timeout_s).values()
    try:
        future.result()
    except KafkaException as e:
        error = e.args[0]
        return error.str() if error.code() < 0 else None  # what brokers say about the topic is an answer
    except RuntimeError:  # of confluent_kafka, for an answer without the topic
        return None
    return None


def _answer_in(error: object) -> str:
    """The text of the brokers' answer; "" for errors of the client itself, whose codes are below 0."""
    from confluent_kafka import KafkaException

    if isinstance(error, KafkaException) and error.args[0].code() > 0:
        return error_text(error.args[0])
    return ""


def settings(config: BusConfig, errors: ClientErrors, **own: object) -> dict[str, Any]:
    """Client properties: the connection's, overridden by `own` (written with underscores for dots).

    Raises ValueError if no source provides the OAuth tokens that the connection needs.
    """
    tokens = token_callback(config.client)
    return {
        # Reconnect within a second to a broker that has come back.
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30000,
        # Producers and admin clients would let brokers create each topic that they name, with other settings
        # than the bus needs. librdkafka lists it as a consumer's property, but all its clients follow it.
        "allow.auto.create.topics": "false",
        **without_proof(config.client),
        "logger": client_log,
        **{key.replace("_", "."): value for key, value in own.items()},
        "error_cb": errors,
        **({} if tokens is None else {OAUTH_CB: tokens}),
    }


Client = TypeVar("Client")


def connect(
    kind: Callable[[dict[str, Any]], Client], config: BusConfig, errors: ClientErrors, **own: object
) -> Client:
    """A client. Raises ConfigError naming the property that the client refuses, never its value.

    Blocks until the client has the OAuth token that it needs; raises UnreachableError if none came in 10 s.
    """
    from confluent_kafka import KafkaError, KafkaException

    failed: list[Exception] = []
    try:
        properties = settings(config, errors, **own)
        if OAUTH_CB in properties:
            properties[OAUTH_CB] = partial(_token, properties[OAUTH_CB], failed)
        return kind(properties)
    except (KafkaException, TypeError, ValueError) as e:  # not from Kafka: a callback given as text
        if isinstance(e, KafkaException) and e.args[0].code() == KafkaError.SASL_AUTHENTICATION_FAILED:
            reason = failed[0] if failed else error_text(e.args[0])
            raise UnreachableError(
                f"Cannot reach {config.describe()}: there is no token for it ({reason}). Check what oauth_cb"
                " of the connection, or for Amazon MSK the signer of IAM tokens, needs."
            ) from None
        text = e.args[0].str() if isinstance(e, KafkaException) else str(e)
        # librdkafka's sentence quotes the value, which may be a password.
        reason = re.sub(r'Invalid value ".*" for', "Invalid value for", text, flags=re.DOTALL)
        raise ConfigError(
            f"Connection {config.connection!r}: {reason}. Correct the connection's extra; librdkafka's "
            "CONFIGURATION.md lists the client properties and their values."
        ) from None


def _token(get: TokenCallback, failed: list[Exception], config: str) -> tuple[Any, ...]:
    """Keeps the function's latest error in `failed`: the client's own error says only that no token came."""
    try:
        return get(config)
    except Exception as e:
        failed[:] = [e]
        raise
