"""Notices a Kafka client that has lost all its brokers and does not look for them any more."""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

from ..config import BusConfig
from ..errors import UnreachableError
from .reachability import require_answer

# How long a client is silent before it is asked, and between two questions.
SILENT_S: Final = 30.0
# The question blocks the client's thread; while the cluster is away, for both of these.
OWN_ANSWER_S: Final = 1.0
OTHER_ANSWER_S: Final = 2.0


class Asked(Protocol):
    """A consumer or producer."""

    def list_topics(self, topic: str, timeout: float) -> Any: ...


class LostBrokers:
    """Compares a client that is silent with a new one.

    librdkafka since 2.10 drops brokers that an answer for metadata does not name. When all brokers were
    fenced, e.g. after a restart, an answer may name none; sometimes the client then never connects again, and
    says nothing (librdkafka issue 5301). Only a new client helps.
    """

    def __init__(self, config: BusConfig, client: Asked) -> None:
        self._config, self._client = config, client
        self._due = time.monotonic() + SILENT_S

    def check(self, *, silent: bool) -> None:
        """Call this after each poll. silent: whether the poll gave nothing; without a poll it is True.

        Raises UnreachableError if the brokers answer another client and not this one. If they answer neither,
        the cluster is away, and this client may still find it again.
        """
        from confluent_kafka import KafkaException

        now = time.monotonic()
        if not silent:
            self._due = now + SILENT_S
        if now < self._due:
            return
        try:
            self._client.list_topics(self._config.topic("subscription"), timeout=OWN_ANSWER_S)
        except KafkaException:
            if self._others_are_answered():
                raise UnreachableError(
                    f"{self._config.describe()} answers, but not this Kafka client, which has lost its"
                    " brokers. Interlock makes a new one."
                ) from None
        self._due = time.monotonic() + SILENT_S

    def _others_are_answered(self) -> bool:
        try:
            require_answer(self._config, OTHER_ANSWER_S)
        except UnreachableError:
            return False
        return True
