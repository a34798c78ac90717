"""What all Kafka clients of a bus share: their settings, and keeping what they say of the connection."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...events.client_log import client_logger
from ...events.tokens import OAUTH_CB, token_callback
from ..config import BusConfig
from ..errors import ConfigError, UnreachableError
from ..log import log
from .certificate import certificate_fault

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient


ANSWER_TIMEOUT_S = 10.0


client_log = client_logger("interlock.engine.librdkafka")
_silent = logging.Logger("interlock.engine.silent", logging.CRITICAL + 1)


def log_of_a_question(config: BusConfig) -> logging.Logger:
    """For a client that is asked once: why there is no answer the error says, and its lines would repeat it.

    They are logged all the same where the connection asks for more of them.
    """
    return client_log if "debug" in config.client else _silent


# How long an attempt took, and how many there were: with it one reason would look like many.
_ATTEMPTS: Final = re.compile(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)")


def told(error: KafkaError) -> str:
    """An error in its own words, less what differs from one attempt to the next."""
    return _ATTEMPTS.sub("", error.str()).rstrip(".")


class ClientErrors:
    """Collects what one or more clients report through `error_cb`; the last word explains a silence."""

    def __init__(self) -> None:
        self.last: str | None = None

    def __call__(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            # It only repeats that the attempts before it failed, and hides why; of them all, only a
            # connection that the other side closed without a word is no error to the client.
            self.last = self.last or f"{error.str()}, they close the connection; do they want TLS or SASL?"
        else:
            self.last = told(error)
        log.debug("client reports %s: %s", error.name(), error.str())

    def clear(self) -> None:
        self.last = None

    def unreachable(self, config: BusConfig, error: object = None) -> UnreachableError:
        """The error to raise for a cluster that does not answer, with the client's own reason."""
        reason = self.last or (str(error) if error else "no answer")
        if fault := certificate_fault(config.client, reason):
            return UnreachableError(
                f"Cannot reach {config.describe()}: the broker's certificate is refused, {fault} ({reason}). "
                "Mend the broker's certificate, or ssl.ca.location or the broker's name in the connection."
            )
        return UnreachableError(
            f"Cannot reach {config.describe()}: {reason}. Check that the broker is up, and the "
            "connection's bootstrap.servers and security settings."
        )

    def require_answer(
        self, admin: AdminClient, config: BusConfig, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        """Return when the cluster answers; raise UnreachableError after the timeout."""
        from confluent_kafka import KafkaException

        try:
            admin.list_topics(timeout=timeout_s)
        except KafkaException as e:
            admin.poll(0)  # what the client has to say of its attempts is said in here only
            raise self.unreachable(config, e.args[0].str()) from e
        self.clear()


def settings(config: BusConfig, errors: ClientErrors, **own: object) -> dict[str, Any]:
    """Client properties: the connection's, then `own` with dots for underscores, which win.

    ValueError where nothing can give the tokens that the connection needs.
    """
    tokens = token_callback(config.client)
    return {
        # A broker that comes back is found within a second.
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30000,
        **config.client,
        "logger": client_log,
        **{key.replace("_", "."): value for key, value in own.items()},
        "error_cb": errors,
        **({} if tokens is None else {OAUTH_CB: tokens}),
    }


Client = TypeVar("Client")


def connect(
    kind: Callable[[dict[str, Any]], Client], config: BusConfig, errors: ClientErrors, **own: object
) -> Client:
    """A client; ConfigError names a property of the connection that it does not take, never its value."""
    from confluent_kafka import KafkaException

    try:
        return kind(settings(config, errors, **own))
    except (KafkaException, TypeError, ValueError) as e:  # the latter two: a callback given as text
        text = e.args[0].str() if isinstance(e, KafkaException) else str(e)
        # librdkafka's sentence quotes the value, which may be a password.
        reason = re.sub(r'Invalid value ".*" for', "Invalid value for", text, flags=re.DOTALL)
        raise ConfigError(
            f"Connection {config.connection!r}: {reason}. Mend the connection's extra; librdkafka's "
            "CONFIGURATION.md has the names and values of client properties."
        ) from None
