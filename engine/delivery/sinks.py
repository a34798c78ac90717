"""The sinks of a bus: where the firings of a subscription go, and how. Records of the subscription topic."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from ...conditions import Condition, Matcher
from ..bus import End, Record
from ..errors import RecordError, UnknownVersion
from ..log import at, log
from ..records import decode_json, sink_key
from ..records.versions import VERSION
from .firings import Order
from .retry import Retry

Send: TypeAlias = Literal["event", "firing"]
_PREFIX: Final = sink_key("")
MOST_CONNECTION: Final = 250  # characters, as Airflow's
MOST_PATH: Final = 2000
_CONNECTION: Final = re.compile(r"[\w#!()\-.:/\\]+")  # as Airflow's
# What RFC 3986 allows in a path and query, percent-encoded or not.
_PATH: Final = re.compile(r"([/?]([A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*)?")


def is_connection(text: str) -> bool:
    """Whether an Airflow connection can have this id."""
    return len(text) <= MOST_CONNECTION and _CONNECTION.fullmatch(text) is not None


def is_path(text: str) -> bool:
    """Whether this may be added to a connection's address: "", or a path or query that stays below it."""
    steps = re.split(r"[/\\]", unquote(text.partition("?")[0]))
    is_below = not text.startswith("//") and {".", ".."}.isdisjoint(steps)
    return len(text) <= MOST_PATH and _PATH.fullmatch(text) is not None and is_below


def default_send(condition: Condition) -> Send:
    """What is sent of the firings of a condition whose author does not say it."""
    return "event" if isinstance(condition, Matcher) else "firing"


class SinkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A sink (JSON, key `sink/{subscription}`). A null removes it.

    connection: the Airflow http connection with its address and credentials; the record has no secrets. path:
    added to that address. order: which firings wait for each other. max_in_flight: the most deliveries at a
    time, in each process. send: what is sent, as a CloudEvent: the firing; or `event`, the event of a firing
    that has exactly one, else the firing. format: the mode of CloudEvents' HTTP binding; json: structured.
    replies: whether an event that the sink answers is written to the bus.
    """

    v: int = VERSION
    subscription: str
    connection: str
    path: str = ""
    order: Order = "key"
    max_in_flight: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 32
    send: Send = "firing"
    format: Literal["binary", "json"] = "binary"
    replies: bool = False
    retry: Retry = Retry()

    @property
    def key(self) -> bytes:
        return sink_key(self.subscription)


class Sinks:
    """The sinks, as far as the subscription topic was read: up to `position`.

    unreadable: subscriptions whose newest sink record is damaged: the last one that could be read counts.
    unknown: those whose newest one has a version that is not read: they have no sink until this process is
    upgraded.
    """

    def __init__(self) -> None:
        self.position = 0
        self.records: dict[str, SinkRecord] = {}
        self.unreadable: set[str] = set()
        self.unknown: set[str] = set()

    def is_one_lane(self, subscription: str) -> bool:
        """Whether all firings of a sink in one partition are one lane (True), or each key has its lane."""
        record = self.records.get(subscription)
        return record is None or record.order == "partition"

    def follow(self, item: Record | End) -> str | None:
        """Process the next item of the topic. Returns the subscription whose sink it changed."""
        if isinstance(item, End):
            self.position = max(self.position, item.offset)
            return None
        self.position = item.offset + 1
        if item.fault or not (item.key or b"").startswith(_PREFIX):
            return None
        subscription = (item.key or b"")[len(_PREFIX) :].decode("utf-8", "replace")
        self.unreadable.discard(subscription)
        self.unknown.discard(subscription)
        if item.value is None:
            self.records.pop(subscription, None)
            return subscription
        try:
            self.records[subscription] = decode_json(SinkRecord, item.value, str(item))
        except UnknownVersion as e:
            with at(*item.source, item.offset):
                log.error("%s Until then the firings of %s wait.", e, subscription)
            self.unknown.add(subscription)
            self.records.pop(subscription, None)
        except RecordError as e:  # its last readable record stays in use; without one its firings wait
            with at(*item.source, item.offset):
                log.error("The new record of sink %s is ignored: %s", subscription, e)
            self.unreadable.add(subscription)
            return None
        return subscription
