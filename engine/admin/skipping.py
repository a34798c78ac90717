"""One open firing of a durable subscription, for whoever takes it off the bus without handing it on.

Whoever skips it acknowledges it, as a dispatcher does that has created its run: `acknowledge_all`.
"""

from __future__ import annotations

from contextlib import closing

from ..bus import TopicPartition
from ..config import BusConfig
from ..errors import EngineError, NoSubscription
from ..kafka.admin import Admin
from ..kafka.clients import ClientErrors
from ..reading.sources import read_between
from ..records import ActionRecord, decode_json
from .subscriptions import Subscriptions


def open_firing(config: BusConfig, name: str, firing_id: str) -> ActionRecord:
    """The firing; reads the whole action topic, and holds two of its records at most.

    name: of the subscription, registered or not: first this very name, then that of the registered one as of
    `Subscriptions.find`. EngineError where it is not open.
    """
    subscriptions = Subscriptions.read(config)
    names, not_found = [name], None
    try:
        registered = subscriptions.find(name)
    except NoSubscription:
        pass
    except EngineError as e:  # several have it in their names
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
    with closing(Admin(config, ClientErrors())) as admin:
        lows, ends = admin.start_offsets(every), admin.end_offsets(every)
    keys = [f"{each}\0{firing_id}".encode() for each in names]
    values: dict[bytes, bytes | None] = {}
    for record in read_between(config, lows, ends):
        if record.key in keys:
            values[record.key] = record.value
    value = next((values[key] for key in keys if key in values), None)
    action = None if value is None else decode_json(ActionRecord, value, f"The firing {firing_id!r}")
    if action is None or action.state != "fired":
        if not_found is not None and not values:
            raise not_found
        raise EngineError(
            f"{names[-1]!r} has no open firing {firing_id!r}: it was taken or skipped, is older than the "
            "topic keeps, or never was. The log of the dispatcher's task names those that it holds."
        )
    return action
