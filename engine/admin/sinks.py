"""Where the firings of a subscription are delivered, for administrators."""

from __future__ import annotations

import base64
import binascii
from codecs import getincrementaldecoder
from typing import Final

from ...conditions.explanation.wording import counted
from ..config import BusConfig
from ..delivery.shown_path import shown_path
from ..delivery.sinks import SinkRecord
from ..errors import RecordError
from ..records import decode_json, sink_key
from ..registry.facts import BusFacts
from ..waiting.acknowledge import remove_registration

_KIND: Final = "deliver"


def is_delivered(subscription: str) -> bool:
    """Whether deliverers take its firings; otherwise a dispatcher or an asset watcher does."""
    return subscription.split("/")[1:2] == [_KIND]


def sink_of(registry: BusFacts, subscription: str) -> SinkRecord | None:
    """The sink of a subscription; None if it has none, or one that this version cannot read."""
    value = registry.sinks.get(subscription)
    try:
        return None if value is None else decode_json(SinkRecord, value, f"The sink of {subscription!r}")
    except RecordError:
        return None


def destination(registry: BusFacts, subscription: str) -> str:
    """The sink of a subscription as a text, "connection crm, path /a"; "" if it has none.

    Of the path's query, what may be a secret is hidden.
    """
    sink = sink_of(registry, subscription)
    if sink is None:
        return "unreadable" if subscription in registry.sinks else ""
    path = shown_path(sink.path)
    return f"connection {sink.connection}" + (f", path {path}" if path else "")


def answered(raw: bytes | None) -> str:
    """What a sink answered, from a dead letter's header: its text, or "N bytes, not text".

    Text is UTF-8 without NUL. A character that the header's limit has cut is left out.
    """
    try:
        body = base64.b64decode(raw or b"", validate=True)
    except (binascii.Error, ValueError):  # anybody who may write to the topic chooses it
        return f"{counted(len(raw or b''), 'byte', 'bytes')}, not base64"
    try:
        text = getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        text = "\0"
    return f"{counted(len(body), 'byte', 'bytes')}, not text" if "\0" in text else text


def remove_sink(config: BusConfig, subscription: str) -> None:
    """Remove a sink: its open firings become dead letters after a day.

    Raises EngineError if the cluster does not accept the removal.
    """
    remove_registration(config, [sink_key(subscription).decode()])
