"""A subscription of a resource as its records on the bus, without a DAG."""

from __future__ import annotations

import msgspec

from ..engine.delivery.firings import subscription_of
from ..engine.delivery.retry import Retry
from ..engine.delivery.sinks import SinkRecord
from ..engine.records import DEFAULT_MAX_KEYS
from ..engine.waiting.dispatching import Durable
from .subscription import Subscription


def durable(made: Subscription, deployment: str, since_ms: int) -> Durable:
    """Returns what the `deliver_dag` of this subscription, which has a condition, would register.

    since_ms: events count from this record timestamp on, unless it is registered already.
    """
    if made.condition is None or made.conn_id is None:
        raise ValueError(f"{made.resource} has no sink")
    arguments = dict(made.arguments)
    retry = msgspec.convert(arguments.pop("retry", {}), Retry)
    record = SinkRecord(
        subscription=subscription_of(deployment, made.name),
        connection=made.conn_id,
        send="event",
        retry=retry,
        **arguments,
    )
    return Durable(
        subscription=record.subscription,
        condition=made.condition.to_json(),
        since_ms=since_ms,
        since_given=False,
        max_keys=DEFAULT_MAX_KEYS,
        at_limit="dead-letter",
        sink=msgspec.to_builtins(record),
    )
