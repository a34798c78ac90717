"""A Kafka broker for development: one real node, fetched, verified, started and stopped."""

from __future__ import annotations

from .errors import BrokerError
from .node import LocalBroker

__all__ = ["BrokerError", "LocalBroker"]
