"""What a resumed task tells the bus: that it has its firing, or that it waits no more."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..bus import TOO_LARGE, Clients, Output
from ..config import BusConfig
from ..errors import NotSent, TopicsError
from ..kafka.wait_clients import KafkaClients
from ..records import ActionRecord, encode_json, partition_of
from ..records.firing import fitted
from ..records.sizes import MAX_INTERNAL_BYTES

TIMEOUT_S = 10.0


def acknowledge(
    config: BusConfig, action: ActionRecord, registration_keys: Sequence[str], timeout_s: float = TIMEOUT_S
) -> None:
    """Mark the firing `acked`, and remove the registration. Safe to repeat.

    Raises an EngineError when the broker has not acknowledged within the timeout; the firing then stays as
    it is, and a later wait of the same incarnation finds it.
    """
    write(config, KafkaClients(config), (action,), registration_keys, timeout_s)


def acknowledge_all(config: BusConfig, actions: Sequence[ActionRecord]) -> None:
    """Mark firings of durable subscriptions `acked`, whose registrations stay. As `acknowledge` otherwise."""
    if actions:
        write(config, KafkaClients(config), actions, ())


def remove_registration(config: BusConfig, registration_keys: Sequence[str]) -> None:
    """Nobody waits for this registration any more. Safe to repeat; errors as `acknowledge`."""
    if registration_keys:
        write(config, KafkaClients(config), (), registration_keys)


def write(
    config: BusConfig,
    clients: Clients,
    actions: Sequence[ActionRecord],
    registration_keys: Sequence[str],
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Mark the firings `acked`, then remove the registrations. As `acknowledge` otherwise.

    They stay as tasks are handed them (see `fitted`), which is all that a wait of the same incarnation needs.
    TopicsError where the topic takes no records of that size.
    """
    failed: list[str] = []

    def told(reason: str | None) -> None:
        if reason is not None:
            failed.append(reason)

    writer = clients.writer(timeout_s)
    try:
        if actions:
            topic = config.topic("action")
            partitions = writer.partitions(topic, timeout_s)
            if not partitions:
                raise TopicsError((f"Topic {topic!r} is missing.",))
        for action in actions:
            partition = partition_of(action.kind, action.subscription, action.firing.key or "", partitions)
            value = encode_json(msgspec.structs.replace(fitted(action), state="acked"))
            writer.write(Output(topic, partition, action.key, value), told)
        left = writer.flush(timeout_s + 1)
        # Only then: a firing whose registration is gone must not stay unacknowledged.
        if not left and not failed:
            for key in registration_keys:
                writer.write(Output(config.topic("subscription"), 0, key.encode(), None), told)
            left = writer.flush(timeout_s + 1)
    except NotSent as e:
        raise clients.unreachable(str(e)) from e
    if TOO_LARGE in failed:
        raise TopicsError(
            (
                f"Topic {config.topic('action')!r} refuses acknowledged firings as too large.",
                f"Raise its max.message.bytes to {MAX_INTERNAL_BYTES}; to compare all: "
                + config.command("topics check"),
            )
        )
    if left or failed:
        raise clients.unreachable(failed[0] if failed else f"not acknowledged: {left}")
