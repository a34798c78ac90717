"""Whether a cluster answers, for those who must not hold a Kafka client themselves."""

from __future__ import annotations

from ..config import BusConfig
from .clients import ANSWER_TIMEOUT_S, ClientErrors, connect, log_of_a_question


def require_answer(config: BusConfig, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
    """Return when the cluster has answered a metadata request.

    Raises UnreachableError, with the client's own reason, when it has not within `timeout_s`.
    """
    from confluent_kafka.admin import AdminClient

    errors = ClientErrors()
    client = connect(AdminClient, config, errors, logger=log_of_a_question(config))
    errors.require_answer(client, config, timeout_s)


def require_usable(config: BusConfig) -> None:
    """Return when a client can be made with the connection's properties; asks the cluster nothing.

    Raises ConfigError naming the property that it does not take.
    """
    from confluent_kafka.admin import AdminClient

    connect(AdminClient, config, ClientErrors())
