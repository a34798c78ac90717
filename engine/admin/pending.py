"""The pending state of subscriptions (open keys and their pending matches), read from the state topic."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...conditions import EMPTY, ConditionError, State, opened
from ..bus import TopicPartition
from ..config import BusConfig
from ..errors import EngineError, RecordError
from ..protocol.tasks.store import Store
from ..protocol.tasks.trigger_task import runs_from_registration, single_key
from ..reading.sources import read_to_end
from ..records import parse_state_key, partition_of
from ..registry.registry import Registered

MAX_BYTES: Final = 128 * 1024 * 1024


@dataclass
class Pending:
    """The pending state of one subscription. closed: it is one-shot, has fired and is not acknowledged.

    keys: {key: encoded state} of the open keys. idle: the same for keys without pending matches, which are
    kept to recognise repeated events. unreadable: how many of its state records cannot be read.
    """

    closed: bool = False
    keys: dict[str, bytes] = field(default_factory=dict)
    idle: dict[str, bytes] = field(default_factory=dict)
    unreadable: int = 0

    def state(self, registered: Registered, key: str) -> State:
        """The state of a key; its initial state if none is stored. Raises ConditionError if unreadable."""
        data = self.keys.get(key) or self.idle.get(key)
        if data is not None:
            return State.decode(data)
        if single_key(registered) == key and runs_from_registration(registered.condition):
            return opened(registered.condition, registered.timestamp_ms)
        return EMPTY


def pending_of(
    config: BusConfig,
    wanted: Collection[Registered],
    partitions: int,
    key: str | None = None,
) -> Mapping[str, Pending]:
    """{incarnation: pending state} of these subscriptions, as the state topic has it now.

    partitions: the trigger topic's count. key: read this key only. Raises EngineError beyond MAX_BYTES.
    """
    topic = config.topic("state")
    found = {registered.incarnation: Pending() for registered in wanted}
    places = {TopicPartition(topic, n) for each in wanted for n in _partitions(each, partitions, key)}
    stores: dict[TopicPartition, Store] = {tp: Store() for tp in places}
    sizes: dict[tuple[TopicPartition, bytes], int] = {}
    size = 0
    for record in read_to_end(config, places):
        try:
            incarnation, state_key = parse_state_key(record.key or b"")
        except RecordError:
            continue  # not a state record
        if incarnation not in found or (key is not None and state_key not in (None, key)):
            continue
        place = (record.source, record.key or b"")
        size += len(record.value or b"") - sizes.get(place, 0)
        sizes[place] = len(record.value or b"")
        if size > MAX_BYTES:
            raise EngineError(
                f"The pending state has more than {MAX_BYTES >> 20} MiB: name one subscription and one key."
            )
        try:
            stores[record.source].load(record)
        except RecordError:
            found[incarnation].unreadable += 1
    for registered in wanted:
        pending = found[registered.incarnation]
        for store in stores.values():
            kept = store.get(registered.incarnation)
            if kept is None:
                continue
            pending.closed = pending.closed or kept.closed
            if kept.only is not None:
                pending.keys[single_key(registered) or ""] = kept.only[1]
            for state_key, entry in kept.keys.items():
                target = pending.idle if _is_idle(entry[1]) else pending.keys
                target[state_key] = entry[1]
    return found


def missing(registered: Registered, state: State) -> tuple[str, ...]:
    """The labels that an expiry would report as missing."""
    from ...conditions import explain

    try:
        return explain(registered.condition, state, state.last_ms or 0).missing
    except ConditionError:
        return ()


def _is_idle(data: bytes) -> bool:
    try:
        return State.decode(data).is_idle
    except ConditionError:
        return False


def _partitions(registered: Registered, partitions: int, key: str | None) -> Collection[int]:
    """The partitions with the states of a subscription."""
    registration = registered.registration
    own = key if key is not None else single_key(registered)
    if own is None and not registered.one_shot:
        return range(partitions)
    return (partition_of(registration.kind, registration.subscription, own or "", partitions),)
