"""What a resumed task tells the bus: that it has its firing, or that it waits no more."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .config import BusConfig
from .errors import TopicsError
from .kafka.clients import ClientErrors, connect
from .records import ActionRecord, encode_json, partition_of

TIMEOUT_S = 10.0


def acknowledge(
    config: BusConfig, action: ActionRecord, registration_keys: Sequence[str], timeout_s: float = TIMEOUT_S
) -> None:
    """Mark the firing `acked`, and remove the registration. Safe to repeat.

    Raises an EngineError when the broker has not acknowledged within the timeout; the firing then stays as
    it is, and a later wait of the same incarnation finds it.
    """
    _write(config, (action,), registration_keys, timeout_s)


def acknowledge_all(config: BusConfig, actions: Sequence[ActionRecord], timeout_s: float = TIMEOUT_S) -> None:
    """Mark firings of durable subscriptions `acked`, whose registrations stay. As `acknowledge` otherwise."""
    if actions:
        _write(config, actions, (), timeout_s)


def remove_registration(
    config: BusConfig, registration_keys: Sequence[str], timeout_s: float = TIMEOUT_S
) -> None:
    """Nobody waits for this registration any more. Safe to repeat; errors as `acknowledge`."""
    if registration_keys:
        _write(config, (), registration_keys, timeout_s)


def _write(
    config: BusConfig, actions: Sequence[ActionRecord], registration_keys: Sequence[str], timeout_s: float
) -> None:
    from confluent_kafka import KafkaException, Producer

    errors = ClientErrors()
    failed: list[str] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    producer = connect(
        Producer,
        config,
        errors,
        enable_idempotence=True,
        acks="all",
        delivery_timeout_ms=int(timeout_s * 1000),
    )
    try:
        if actions:
            topic = config.topic("action")
            partitions = len(producer.list_topics(topic, timeout=timeout_s).topics[topic].partitions)
            if not partitions:
                raise TopicsError((f"Topic {topic!r} is missing.",))
        for action in actions:
            producer.produce(
                topic,
                encode_json(msgspec.structs.replace(action, state="acked")),
                action.key,
                partition=partition_of(action.kind, action.subscription, action.firing.key or "", partitions),
                on_delivery=told,
            )
        left = producer.flush(timeout_s + 1)
        # Only then: a firing whose registration is gone must not stay unacknowledged.
        if not left and not failed:
            for key in registration_keys:
                producer.produce(
                    config.topic("subscription"), None, key.encode(), partition=0, on_delivery=told
                )
            left = producer.flush(timeout_s + 1)
    except KafkaException as e:
        raise errors.unreachable(config, e.args[0].str()) from e
    if left or failed:
        raise errors.unreachable(config, failed[0] if failed else f"{left} records not acknowledged")
