"""Messages of the queues that Airflow's triggers read, and the events that a relay makes of them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from math import isfinite
from typing import Any, Final

import msgspec

from ..engine.errors import ConfigError
from ..events.content import parse_json
from ..events.errors import EventError
from ..events.event import Event
from ..events.listed import is_own
from ..events.plain import content_type
from ..events.template import Place, Template, in_uri, members_of, text_at

_NAMES: Final = "{data.NAME} or {message.NAME}"
_ID_CHARACTERS: Final = 32
_PATH_CHARS: Final = 200  # of a path in an error, after which it is not extended any more


@dataclass(frozen=True)
class Message:
    """One message of a queue.

    body: its bytes. fields: what the trigger says about it, such as `MessageId`, `channel` or `attributes`.
    id: the queue's own name for it; None if it has none.
    """

    body: bytes
    fields: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None

    @cached_property
    def data(self) -> Any:
        """The value of the body if it is JSON, else None."""
        try:
            return parse_json(self.body)
        except EventError:
            return None

    @property
    def text(self) -> str:
        """The body as text. Raises UnicodeDecodeError."""
        return self.body.decode()

    @cached_property
    def digest(self) -> str:
        """The same for a repeat of the message, and for another one with this body if neither has an id."""
        id_ = "" if self.id is None else self.id
        return hashlib.sha256(json.dumps(id_).encode() + self.body).hexdigest()[:_ID_CHARACTERS]


def messages_of(payload: Any, position: str | None = None) -> list[Message | EventError]:
    """Returns the messages of what a trigger fired; for one that cannot be read, the error.

    Knows the forms of Airflow's triggers for SQS, Kinesis, Pub/Sub, Redis and Azure Service Bus. Any other
    payload is one message: a text or bytes as they are, another value as JSON, which has no NaN or Infinity.

    position: where in the source it came from, if the trigger says so.
    """
    found = _of_dict(payload) if isinstance(payload, dict) else None
    return [_message(_bytes, payload, id_=position)] if found is None else found


def _of_dict(payload: dict[str, Any]) -> list[Message | EventError] | None:
    """Returns the messages of a payload in the form of one of these triggers; None for another form."""
    batch, message = payload.get("message_batch"), payload.get("message")
    if isinstance(batch, list) and all(isinstance(each, dict) for each in batch):
        if all("MessageId" in each and "Body" in each for each in batch):  # SQS
            return [_message(_bytes, each["Body"], each, each["MessageId"]) for each in batch]
        if all("SequenceNumber" in each and "Data" in each for each in batch):  # Kinesis
            return [_message(_decoded, each["Data"], each, _kinesis_id(each)) for each in batch]
    if isinstance(message, list) and all(
        isinstance(each, dict) and isinstance(each.get("message"), dict) for each in message
    ):  # Pub/Sub
        inner = [each["message"] for each in message]
        return [_message(_decoded, each.get("data", ""), each, each.get("message_id")) for each in inner]
    if isinstance(message, (str, bytes)) and payload.keys() & {"queue", "topic"}:  # Azure Service Bus
        return [_message(_bytes, message, payload)]
    if payload.get("type") == "message" and {"channel", "data"} <= payload.keys():  # Redis
        return [_message(_bytes, payload["data"], payload)]
    return None


def _message(
    read: Callable[[Any], bytes], raw: Any, fields: Mapping[str, Any] | None = None, id_: str | None = None
) -> Message | EventError:
    """Returns the message, or why it cannot be read. read: returns the body of `raw`."""
    try:
        return Message(read(raw), fields or {}, id_)
    except EventError as e:
        return e
    except (KeyError, TypeError, ValueError, binascii.Error, RecursionError) as e:
        whose = "" if id_ is None else f" {id_}"
        return EventError(f"what the trigger fired cannot be read as a message{whose}: {type(e).__name__}")


def _kinesis_id(record: Mapping[str, Any]) -> str:
    return f"{record.get('ShardId')}/{record['SequenceNumber']}"


def _decoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else base64.b64decode(text, validate=True)


def _bytes(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    text = msgspec.json.encode(value, order="sorted")
    if b"null" in text:  # msgspec writes NaN and Infinity as null, which is another value
        _refuse_not_finite(msgspec.to_builtins(value), "payload")
    return text


def _refuse_not_finite(value: Any, path: str) -> None:
    if isinstance(value, float) and not isfinite(value):
        raise EventError(
            f"what the trigger fired has {value} at {path}, which JSON does not have: let it fire null, a"
            " text, or the message as it came"
        )
    if isinstance(value, dict):
        for name, each in value.items():
            _refuse_not_finite(each, f"{path}.{name}" if len(path) < _PATH_CHARS else path)
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            _refuse_not_finite(each, f"{path}[{number}]" if len(path) < _PATH_CHARS else path)


class EventMaker:
    """Makes events of messages: by texts with placeholders, or by a function of the author.

    texts: type, source, subject and id, with `{data.NAME}` and `{message.NAME}`. function: the import path of
    a function of a message that returns an event, several, or None; it is imported at the first message.

    Raises ValueError that says what to write.
    """

    def __init__(
        self,
        *,
        type: str | None,  # noqa: A002  # CloudEvents' words
        source: str | None,
        subject: str | None,
        id: str | None,  # noqa: A002
        function: str | None,
    ) -> None:
        given = {"type": type, "source": source, "subject": subject, "id": id}
        self._templates = {name: _template(name, text) for name, text in given.items() if text is not None}
        self._function = function
        of_type = self._templates.get("type")
        if of_type is not None and (is_own(of_type.literals[0]) or is_own(of_type.text)):
            raise ValueError(f"type {of_type.text!r} is Interlock's own: choose one that begins otherwise")

    def problems(self) -> list[str]:
        """Returns what is wrong with the texts that have no placeholders."""
        fixed = {name: each.text for name, each in self._templates.items() if each.is_constant}
        try:
            Event.of(
                fixed.get("type", "x"),
                fixed.get("source", "x"),
                id=fixed.get("id", "x"),
                subject=fixed.get("subject"),
            )
        except EventError as e:
            return list(e.problems)
        if "id" in fixed:
            return [f"id {fixed['id']!r} is the same for each message: add a placeholder like {{data.NAME}}"]
        return []

    def events_of(self, message: Message) -> list[Event]:
        """Raises EventError if it cannot become an event, ConfigError if there is no such function."""
        events = [self._event(message)] if self._function is None else self._made(message)
        for event in events:
            if is_own(event.type):
                raise EventError(f"its type would be {event.type!r}, which is Interlock's own")
        return events

    def _event(self, message: Message) -> Event:
        filled = {
            name: template.fill(message, in_uri if name == "source" else str)
            for name, template in self._templates.items()
        }
        for name in ("type", "source", "id"):
            if name in filled and not filled[name]:
                raise EventError(f"it has no {name}, which comes from {self._templates[name].text}")
        return Event.of(
            filled["type"] or "",
            filled["source"] or "",
            id=filled.get("id") or message.digest,
            subject=filled.get("subject") or None,
            data=message.body,
            datacontenttype=content_type(message.body),
        )

    def _made(self, message: Message) -> list[Event]:
        function = imported(self._function or "")
        try:
            made = function(message)
        except Exception as e:  # the author's function may raise anything
            raise EventError(f"{self._function} raised {type(e).__name__}: {e}") from e
        events = [] if made is None else [made] if isinstance(made, Event) else made
        if not isinstance(events, Sequence) or not all(isinstance(each, Event) for each in events):
            raise EventError(
                f"{self._function} returned {type(made).__name__}: return an Event, a list or None"
            )
        return list(events)


def imported(path: str) -> Callable[..., Any]:
    """Returns the function or class of an import path. Raises ConfigError if there is none."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except Exception as e:  # the module's own code may raise anything
        raise ConfigError(
            f"{path} cannot be imported: {type(e).__name__}: {e}. Put its module where DAG"
            " processor, workers and triggerers can import it, such as Airflow's plugins folder."
        ) from e
    if not callable(found):
        raise ConfigError(f"{path} is not a function.")
    return found  # type: ignore[no-any-return]


def _template(name: str, text: str) -> Template[Message]:
    template = Template(text, _place, of="a message", names=_NAMES)
    if name == "source" and any(in_uri(literal) != literal for literal in template.literals):
        raise ValueError(f"source {text!r} has characters that a URI reference cannot have: encode them")
    return template


def _place(name: str) -> Place[Message] | None:
    of_data, of_message = members_of(name, "data"), members_of(name, "message")
    if of_data is not None:
        return lambda message: text_at(name, of_data, message.data)
    if of_message is not None:
        return lambda message: text_at(name, of_message, dict(message.fields))
    return None
