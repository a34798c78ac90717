"""What all Kafka clients of a bus share: their settings, and keeping what they say of the connection."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .config import BusConfig
from .errors import ConfigError, UnreachableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

log = logging.getLogger("interlock.engine")
ANSWER_TIMEOUT_S = 15.0


class ClientErrors:
    """Collects what one or more clients report through `error_cb`; the last word explains a silence."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.logger = logging.getLogger("interlock.engine.librdkafka")

    def __call__(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        # "all brokers down" only repeats that the attempts before it failed, and hides why
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self.last is None:
            self.last = error.str()
        log.debug("client reports %s: %s", error.name(), error.str())

    def clear(self) -> None:
        self.last = None

    def unreachable(self, config: BusConfig, error: object = None) -> UnreachableError:
        """The error to raise for a cluster that does not answer, with the client's own reason."""
        reason = self.last or (str(error) if error else "no answer")
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
            raise self.unreachable(config, e.args[0].str()) from e
        self.clear()


def settings(config: BusConfig, errors: ClientErrors, **own: object) -> dict[str, Any]:
    """Client properties: the connection's, then `own` with dots for underscores, which win."""
    return {
        # A broker that comes back is found within a second.
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 30000,
        **config.client,
        **{key.replace("_", "."): value for key, value in own.items()},
        "error_cb": errors,
        "logger": errors.logger,
    }


Client = TypeVar("Client")


def connect(
    kind: Callable[[dict[str, Any]], Client], config: BusConfig, errors: ClientErrors, **own: object
) -> Client:
    """A client; ConfigError names a property of the connection that it does not take, never its value."""
    from confluent_kafka import KafkaException

    try:
        return kind(settings(config, errors, **own))
    except KafkaException as e:
        # librdkafka's sentence quotes the value, which may be a password.
        reason = re.sub(r'Invalid value ".*" for', "Invalid value for", e.args[0].str(), flags=re.DOTALL)
        raise ConfigError(
            f"Connection {config.connection!r}: {reason}. Mend the connection's extra; librdkafka's "
            "CONFIGURATION.md has the names and values of client properties."
        ) from None
