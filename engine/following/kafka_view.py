"""A view of a bus that reads its topics for each question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from ..bus import Record, TopicPartition
from ..config import BusConfig
from ..errors import EngineError
from ..protocol.tasks.trigger_task import single_key
from ..reading.sources import read_to_end
from ..records import ActionRecord, decode_json, partition_of
from ..registry.registry import Registered
from .fired import Fired, fired_in
from .firings import DurableFirings, LastFirings
from .states import Pending, States
from .subscriptions import MOST_NAMED, Subscriptions

MOST_STATE_BYTES: Final = 128 * 1024 * 1024
MOST_ACTIONS: Final = 200_000  # so many of the action topic's latest records are read


class KafkaView:
    """See `BusView`. `subscriptions` are those of one read."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.config, self.subscriptions = subscriptions.config, subscriptions

    @classmethod
    def read(cls, config: BusConfig, about: str | None = None) -> KafkaView:
        """Reads the subscriptions, as `Subscriptions.read`."""
        return cls(Subscriptions.read(config, about))

    def pending_of(self, wanted: Collection[Registered], key: str | None = None) -> Mapping[str, Pending]:
        """See `BusView`. Raises EngineError beyond MOST_STATE_BYTES."""
        return pending_of(self.config, wanted, self.subscriptions.partitions, key)

    def fired_wait(self, name: str) -> Fired | None:
        return fired_wait(self.config, name, self.subscriptions.partitions)

    def durable_firings(self, registered: Registered) -> DurableFirings:
        """See `BusView`: from the latest MOST_ACTIONS records of the action topic."""
        name = registered.registration.subscription
        prefix = f"{name}\0".encode()
        found = LastFirings(MOST_ACTIONS)
        partitions = self.subscriptions.partitions
        for record in read_to_end(self.config, _all(self.config, partitions), MOST_ACTIONS // partitions):
            if (record.key or b"").startswith(prefix):
                found.apply(record)
        return found.durable(name)


def pending_of(
    config: BusConfig, wanted: Collection[Registered], partitions: int, key: str | None = None
) -> Mapping[str, Pending]:
    """See `KafkaView.pending_of`. partitions: the trigger topic's count."""
    topic = config.topic("state")
    found = {registered.incarnation: Pending() for registered in wanted}

    def is_wanted(incarnation: str, of: str | None) -> bool:
        return incarnation in found and (key is None or of in (None, key))

    places = {TopicPartition(topic, n) for each in wanted for n in state_partitions(each, partitions, key)}
    states = {tp: States(is_wanted) for tp in places}
    size = 0
    for record in read_to_end(config, places):
        kept = states[record.source]
        size -= kept.size
        kept.apply(record)
        size += kept.size
        if size > MOST_STATE_BYTES:
            raise EngineError(
                f"The pending state has more than {MOST_STATE_BYTES >> 20} MiB: name one subscription and "
                "one key."
            )
    for registered in wanted:
        for kept in states.values():
            kept.add_to(found[registered.incarnation], registered, key)
    return found


def state_partitions(registered: Registered, partitions: int, key: str | None) -> Collection[int]:
    """The partitions with the states of a subscription. key: with those of this key."""
    registration = registered.registration
    own = key if key is not None else single_key(registered)
    if own is None and not registered.one_shot:
        return range(partitions)
    return (partition_of(registration.kind, registration.subscription, own or "", partitions),)


def fired_wait(config: BusConfig, name: str, partitions: int) -> Fired | None:
    """See `BusView`. A part of a name is searched in the latest MOST_ACTIONS records.

    Raises RecordError if the firing cannot be read.
    """
    for whole in wait_names(config, name):
        tp = TopicPartition(config.topic("action"), partition_of("one-shot", whole, "", partitions))
        if found := _last(config, [tp], None, frozenset({whole}).__contains__):
            return _readable(found[whole], whole)
    every = _all(config, partitions)
    found = _last(config, every, MOST_ACTIONS // partitions, lambda key: name in key)
    require_one(name, found)
    return next((_readable(record, each) for each, record in found.items()), None)


def wait_names(config: BusConfig, name: str) -> tuple[str, str]:
    """The whole names that a name may mean: itself, and the one with the deployment in front."""
    return name, f"{config.deployment}/{name}"


def require_one(name: str, found: Collection[str]) -> None:
    """Raises EngineError if the name is a part of several names."""
    if len(found) > 1:
        names = ", ".join(map(repr, sorted(found)[:MOST_NAMED]))
        raise EngineError(f"{name!r} matches {len(found)} fired subscriptions: {names}. Give one name.")


def _all(config: BusConfig, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(config.topic("action"), number) for number in range(partitions)]


def _last(
    config: BusConfig,
    partitions: Collection[TopicPartition],
    most: int | None,
    wanted: Callable[[str], bool],
) -> dict[str, Record]:
    """{one-shot subscription: its last firing}, in the last `most` records of each partition."""
    found: dict[str, Record] = {}
    for record in read_to_end(config, partitions, most):
        key = (record.key or b"").decode("utf-8", "replace")
        # The key of a durable subscription's firing contains "\0" and the firing's id.
        if record.value is not None and not record.fault and "\0" not in key and wanted(key):
            found[key] = record
    return found


def _readable(record: Record, name: str) -> Fired | None:
    fired = fired_in(record)
    if fired is None:
        decode_json(ActionRecord, record.value or b"", f"The firing of {name!r}")  # raises, and says why
    return fired
