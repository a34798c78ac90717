"""A sink's reply: the event of its answer, as a record for the event topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...events.attributes import PROOF, shown
from ...events.errors import EventError
from ...events.http import decode
from ...events.kafka import encode
from ...events.listed import is_own
from ...events.sizes import MAX_EVENT_BYTES, is_small, record_bytes
from ..bus import Output
from ..delivery.answers import Verdict
from .content import FIRING, HOPS, SEQUENCE, Sendable

Headers = Iterable[tuple[bytes, bytes]]

MOST_BYTES: Final = MAX_EVENT_BYTES
_EVENT_TYPE: Final = b"application/cloudevents"
_OURS: Final = frozenset({PROOF, SEQUENCE, FIRING})  # attributes that we sent: a sink may have copied them


class ReplyError(Exception):
    """The reply cannot be written to the bus. verdict: what follows for the delivery."""

    def __init__(self, reason: str, verdict: Verdict = Verdict.RETRY) -> None:
        super().__init__(reason)
        self.verdict = verdict


def is_reply(headers: Headers) -> bool:
    """Whether an answer with these headers says that it holds an event."""
    for name, value in headers:
        lower = name.lower()
        if lower[:3] == b"ce-" or (lower == b"content-type" and value[:23].lower() == _EVENT_TYPE):
            return True
    return False


def is_compressed(headers: Headers) -> bool:
    """Whether an answer is compressed, although the request accepts no encoding."""
    return any(
        name.lower() == b"content-encoding" and value.lower() not in (b"", b"identity")
        for name, value in headers
    )


def read_reply(headers: Headers, body: bytes, sent: Sendable, topic: str) -> Output:
    """The reply as a record for `topic`. Raises ReplyError.

    Its `interlockhops` is one less than that of what was sent, whatever the reply says. Unless it names a
    trace, it continues that of what was sent.
    """
    if is_compressed(headers):
        raise ReplyError("its reply is compressed, although the request accepts no encoding")
    lower = [(name.lower(), value) for name, value in headers]
    stated = [each for each in lower if each[0][:3] == b"ce-" or each[0] == b"content-type"]
    try:
        events = decode(stated, body, 1)
    except EventError as e:
        raise ReplyError(f"its reply is not a valid event: {e}") from None
    if len(events) != 1:
        raise ReplyError("its reply is an empty batch: give one event, or none")
    event = events[0]
    if is_own(event.type):
        reason = f"its reply has the type {shown(event.type)}, which only Interlock gives"
        raise ReplyError(reason, Verdict.REFUSED)
    if sent.hops <= 0:
        reason = "its reply is refused: too many replies have followed one another, which looks like a loop"
        raise ReplyError(reason, Verdict.REFUSED)
    attributes = {name: text for name, text in event.attributes.items() if name not in _OURS}
    attributes[HOPS] = str(sent.hops - 1)
    for name, text in sent.trace.items() if "traceparent" not in attributes else ():
        attributes[name] = text
    key, value, record_headers = encode(type(event)(attributes, event.data))
    if not is_small(key, value, record_headers) and (
        record_bytes(key, value, record_headers) > MAX_EVENT_BYTES
    ):
        raise ReplyError(f"its reply is larger than {MAX_EVENT_BYTES} bytes as a record")
    return Output(topic, None, key, value, record_headers)
