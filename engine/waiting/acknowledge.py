"""A resumed task's writes to the bus: it acknowledges its firing, or removes its registration."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

import msgspec

from ..bus import TOO_LARGE, Clients, Output
from ..config import BusConfig
from ..errors import NotSent, TopicsError
from ..kafka.wait_clients import KafkaClients
from ..records import ActionRecord, encode_json, partition_of
from ..records.firing_fit import fit_action
from ..records.sizes import MAX_INTERNAL_BYTES

TIMEOUT_S = 10.0


def acknowledge(
    config: BusConfig, action: ActionRecord, registration_keys: Sequence[str], timeout_s: float = TIMEOUT_S
) -> None:
    """Mark the firing `acked` and remove the registration. Safe to repeat.

    Raises EngineError if the brokers do not acknowledge within the timeout. The firing then stays open, and a
    later wait of the same incarnation finds it.
    """
    write(config, KafkaClients(config), (action,), registration_keys, timeout_s)


def acknowledge_all(config: BusConfig, actions: Sequence[ActionRecord]) -> None:
    """Mark firings of durable subscriptions `acked`; registrations stay. Otherwise like `acknowledge`."""
    if actions:
        write(config, KafkaClients(config), actions, ())


def remove_registration(config: BusConfig, registration_keys: Sequence[str]) -> None:
    """Remove a registration that nobody waits for. Safe to repeat; raises like `acknowledge`."""
    if registration_keys:
        write(config, KafkaClients(config), (), registration_keys)


def write(
    config: BusConfig,
    clients: Clients,
    actions: Sequence[ActionRecord],
    registration_keys: Sequence[str],
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Mark the firings `acked`, then remove the registrations. Otherwise like `acknowledge`.

    Acknowledged firings are cut to what tasks get (see `fit_action`), which is all that a later wait needs.
    Raises TopicsError if the topic refuses records of that size.
    """
    failed: list[str] = []

    def on_delivery(reason: str | None) -> None:
        if reason is not None:
            failed.append(reason)

    deadline = monotonic() + timeout_s

    def left_s() -> float:
        return max(0.0, deadline - monotonic())

    writer = clients.writer(timeout_s)
    try:
        if actions:
            topic = config.topic("action")
            partitions = writer.partitions(topic, left_s())
            if not partitions:
                raise TopicsError(f"Topic {topic!r} is missing.")
        for action in actions:
            partition = partition_of(action.kind, action.subscription, action.firing.key or "", partitions)
            value = encode_json(msgspec.structs.replace(fit_action(action), state="acked"))
            writer.write(Output(topic, partition, action.key, value), on_delivery)
        left = writer.flush(left_s())
        # Registrations last: without its registration nothing would acknowledge an open firing again.
        if not left and not failed:
            for key in registration_keys:
                writer.write(Output(config.topic("subscription"), 0, key.encode(), None), on_delivery)
            left = writer.flush(left_s())
    except NotSent as e:
        raise clients.unreachable(str(e)) from e
    if TOO_LARGE in failed:
        raise TopicsError(
            f"Topic {config.topic('action')!r} refuses an acknowledged firing as too large.",
            f"Raise its max.message.bytes to {MAX_INTERNAL_BYTES}. To compare all topics: "
            + config.command("topics check"),
        )
    if left or failed:
        raise clients.unreachable(failed[0] if failed else f"{left} records were not acknowledged")
