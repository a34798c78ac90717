"""Registers subscriptions with their sinks from a command, as the tasks of `deliver_dag` do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..errors import EngineError
from ..following.subscriptions import Subscriptions
from ..kafka.wait_clients import KafkaClients
from ..waiting.dispatching import Durable
from ..waiting.lease_writer import ProcessLeases
from ..waiting.registration_writer import RegistrationWriter

TIMEOUT_S: Final = 10.0


def register(subscriptions: Subscriptions, wanted: Sequence[Durable]) -> list[bool]:
    """Write the sink record and the registration of each, unless the registry has both.

    Returns for each whether it was written. subscriptions: as read just now. Raises EngineError, before it
    writes anything, if a subscription has another condition; or another sink, while a process keeps it
    registered, because that process's DAG would write its own sink again. Raises UnreachableError if the
    cluster does not acknowledge the records: it is safe to repeat.
    """
    missing = [_is_missing(subscriptions, each) for each in wanted]
    clients, failed = KafkaClients(subscriptions.config), list[str]()
    writer, version = clients.writer(TIMEOUT_S), subscriptions.version
    leases = ProcessLeases("command")  # a command writes none
    registrations = RegistrationWriter(subscriptions.config, writer, leases)
    for each, write in zip(wanted, missing, strict=True):
        if not write:
            continue
        # The sink first: a deliverer that finds a firing without one has to wait for it.
        registrations.write_sink(each.subscription, each.sink_value(version), failed.append)
        if subscriptions.by_name(each.subscription) is None:
            registrations.register(each.registration(), version, failed.append)
        left = writer.flush(TIMEOUT_S)
        if failed or left:
            raise clients.unreachable(failed[0] if failed else f"{left} records were not acknowledged")
    return missing


def _is_missing(subscriptions: Subscriptions, wanted: Durable) -> bool:
    name = wanted.subscription
    found = subscriptions.by_name(name)
    if found is None:
        return True
    if not wanted.has_same_meaning(found.registration):
        raise EngineError(
            f"{name!r} is registered with another condition. Cancel it first:"
            f" {subscriptions.config.command(f'subscriptions cancel {name}')}"
        )
    if wanted.has_sink(subscriptions.sinks.get(name)):
        return False
    if subscriptions.held_by(found):
        raise EngineError(f"{name!r} has another sink, which a deliver_dag keeps registered: edit that DAG.")
    return True
