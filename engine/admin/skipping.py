"""Finds an open firing of a durable subscription, which an administrator wants to skip."""

from __future__ import annotations

from ..bus import TopicPartition
from ..config import BusConfig
from ..errors import EngineError, NoSubscription
from ..following.subscriptions import Subscriptions
from ..reading.sources import read_to_end
from ..records import ActionRecord, decode_json
from .sinks import is_delivered


def open_firing(config: BusConfig, name: str, firing_id: str) -> ActionRecord:
    """An open firing of a durable subscription. To skip it, pass it to `acknowledge_all`.

    Reads the whole action topic, and keeps at most two records. name: of a subscription, registered or not.
    If no subscription with exactly this name has the firing, `Subscriptions.find` looks the name up. Raises
    EngineError if the firing is not open.
    """
    subscriptions = Subscriptions.read(config, about=name)
    names, not_found = [name], None
    try:
        registered = subscriptions.find(name)
    except NoSubscription:
        pass
    except EngineError as e:  # several subscriptions match
        not_found = e
    else:
        found = registered.registration.subscription
        if not registered.one_shot:
            names.append(found)
        else:
            not_found = EngineError(
                f"{found!r} is a wait, whose firing belongs to its task: end the task in Airflow instead."
            )
    every = [TopicPartition(config.topic("action"), number) for number in range(subscriptions.partitions)]
    action, is_known = _newest(config, names, firing_id, every)
    if action is None or action.state != "fired":
        if not_found is not None and not is_known:
            raise not_found
        raise EngineError(_not_open(names[-1], firing_id))
    return action


def open_firing_at(config: BusConfig, name: str, firing_id: str, partition: int) -> ActionRecord:
    """As `open_firing`, of the subscription with exactly this name, in one partition of the action topic."""
    action, _ = _newest(config, [name], firing_id, [TopicPartition(config.topic("action"), partition)])
    if action is None or action.state != "fired":
        raise EngineError(_not_open(name, firing_id))
    return action


def _newest(
    config: BusConfig, names: list[str], firing_id: str, partitions: list[TopicPartition]
) -> tuple[ActionRecord | None, bool]:
    """(The newest record of the firing, whether there is any), for the first of the names that has one."""
    keys = [f"{each}\0{firing_id}".encode() for each in names]
    values: dict[bytes, bytes | None] = {}
    for record in read_to_end(config, partitions):
        if record.key in keys and not record.fault:
            values[record.key] = record.value
    value = next((values[key] for key in keys if key in values), None)
    action = None if value is None else decode_json(ActionRecord, value, f"The firing {firing_id!r}")
    return action, bool(values)


def _not_open(name: str, firing_id: str) -> str:
    if is_delivered(name):
        over = "delivered, given up"
        where = "The log of the process that delivers says why firings wait or were given up"
    else:
        over, where = "dispatched", "The log of the dispatcher's task names those that it holds"
    return (
        f"{name!r} has no open firing {firing_id!r}: it was {over} or skipped, retention removed "
        f"it, or it never existed. {where}."
    )
