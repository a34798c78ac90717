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
    acked = msgspec.structs.replace(action, state="acked")
    _write(config, acked, registration_keys, timeout_s)


def remove_registration(
    config: BusConfig, registration_keys: Sequence[str], timeout_s: float = TIMEOUT_S
) -> None:
    """Nobody waits for this registration any more. Safe to repeat; errors as `acknowledge`."""
    if registration_keys:
        _write(config, None, registration_keys, timeout_s)


def _write(
    config: BusConfig, action: ActionRecord | None, registration_keys: Sequence[str], timeout_s: float
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
        if action is not None:
            topic = config.topic("action")
            partitions = len(producer.list_topics(topic, timeout=timeout_s).topics[topic].partitions)
            if not partitions:
                raise TopicsError((f"Topic {topic!r} is missing.",))
            producer.produce(
                topic,
                encode_json(action),
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
