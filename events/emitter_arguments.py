"""Checks the arguments of an `Emitter`. The EmitError names the argument, but no value of `client`, which may
be a secret."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from .attributes import kind, shown
from .errors import EmitError
from .event import Event
from .kafka import TOPIC_RULE, is_topic

BOOTSTRAP: Final = "bootstrap.servers"
_MOST_S: Final = 2_000_000  # librdkafka's limit is 2**31 ms


def check_emitter(client: object, topic: object, logger: object) -> None:
    """Raises EmitError for arguments of the constructor with which nothing can be emitted."""
    if not isinstance(topic, str):
        _fail("topic", topic, TOPIC_RULE)
    if not topic:
        raise EmitError("no topic to emit to: name one")
    if not is_topic(topic):
        _fail("topic", topic, TOPIC_RULE)
    if not isinstance(client, Mapping):
        _fail("client", client, f"a dict of the Kafka client's properties, with {BOOTSTRAP}", secret=True)
    for name, value in client.items():
        if not isinstance(name, str):
            raise EmitError(f"Emitter: client has the name {shown(name)}; give names of properties as text")
        if not _is_property(value):
            _fail(f"client[{shown(name)}]", value, "a text, a number, True or False", secret=True)
    servers = client.get(BOOTSTRAP)
    if not servers:
        raise EmitError(f"cannot emit to topic {topic}: the client has no {BOOTSTRAP}")
    if not isinstance(servers, str):
        _fail(f"client[{BOOTSTRAP!r}]", servers, "a text, host:port")
    if not isinstance(logger, (logging.Logger, logging.LoggerAdapter)):
        _fail("logger", logger, "a logger, such as logging.getLogger(__name__)")


def check_timeout(call: str, value: object) -> None:
    """Raises EmitError unless the value is a positive number of seconds, at most 2,000,000."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not 0 < value <= _MOST_S:  # type: ignore[operator]
        _fail("timeout_s", value, f"seconds as a number, above 0 and at most {_MOST_S:,}", call)


def checked_events(call: str, events: object) -> list[Event]:
    """Returns the events as a list. Raises EmitError for anything else than events."""
    if isinstance(events, (str, bytes, Mapping)) or not isinstance(events, Iterable):
        _fail("events", events, "a list of events", call)
    batch = list(events)
    for number, each in enumerate(batch, 1):
        if not isinstance(each, Event):
            name = f"item {number} of events" if call.endswith("_all()") else "event"
            _fail(name, each, "an Event, made by Event.of(...)", call)
    return batch


def _is_property(value: object) -> bool:
    """Whether a Kafka client accepts such a value: a text, a number, or a callback in Python."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, (str, int)) or callable(value)


def _fail(name: str, value: object, give: str, call: str = "Emitter", *, secret: bool = False) -> NoReturn:
    raise EmitError(f"{call}: {name} is {kind(value) if secret else shown(value)}; give {give}.")
