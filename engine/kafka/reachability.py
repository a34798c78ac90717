"""Whether a cluster answers, for callers that must not hold a Kafka client themselves."""

from __future__ import annotations

from ..config import BusConfig
from .clients import ANSWER_TIMEOUT_S, ClientErrors, connect, one_request_logger


def require_answer(config: BusConfig, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
    """Returns when the cluster has answered a metadata request.

    Raises UnreachableError with the client's own reason if no answer comes within `timeout_s`.
    """
    from confluent_kafka.admin import AdminClient

    errors = ClientErrors()
    client = connect(AdminClient, config, errors, logger=one_request_logger(config))
    errors.require_answer(client, config, timeout_s)


def require_usable(config: BusConfig) -> None:
    """Checks that a client accepts the connection's properties; sends no request.

    Raises ConfigError naming the property that the client refuses.
    """
    from confluent_kafka.admin import AdminClient

    connect(AdminClient, config, ClientErrors())
