"""The event: an immutable view of one CloudEvent 1.0."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from . import attributes as _attributes
from . import content
from .errors import EventError

if TYPE_CHECKING:
    from cloudevents.core.v1.event import CloudEvent


class Event(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """One CloudEvent: its context attributes as canonical strings, and its data as on the wire.

    Events come from `Event.of`, `Event.from_json_dict`, `Event.from_cloudevent` and `kafka.decode`, which
    validate. The bare constructor and msgspec's decoders trust what they get: they serve the records that
    Interlock itself wrote. Equality is by attributes and data; the hash is that of the identity.
    """

    attributes: Mapping[str, str]
    data: bytes | None = None

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def id(self) -> str:
        return self.attributes["id"]

    @property
    def source(self) -> str:
        return self.attributes["source"]

    @property
    def type(self) -> str:
        return self.attributes["type"]

    @property
    def subject(self) -> str | None:
        return self.attributes.get("subject")

    @property
    def partitionkey(self) -> str | None:
        return self.attributes.get("partitionkey")

    @property
    def datacontenttype(self) -> str | None:
        return self.attributes.get("datacontenttype")

    @property
    def identity(self) -> tuple[str, str]:
        """(source, id): two events with the same identity are one event, sent twice."""
        return (self.attributes["source"], self.attributes["id"])

    @property
    def time(self) -> datetime | None:
        """The `time` attribute as aware UTC datetime; None where it is absent or beyond datetime's years."""
        text = self.attributes.get("time")
        if text is None:
            return None
        try:
            return _attributes.parse_timestamp(text)
        except ValueError:
            return None

    @cached_property
    def payload(self) -> object:
        """The value in the data, parsed once, when first asked for.

        Parsed JSON for JSON content types or none stated; str for text/*; the bytes for any other type; None
        without data. Raises EventError for data that is not what its content type says. Do not change it:
        it is shared by all who hold the event.
        """
        return content.parse(self.data, self.attributes.get("datacontenttype"))

    @classmethod
    def of(
        cls,
        type: str,  # noqa: A002  # CloudEvents' words
        source: str,
        *,
        id: str | None = None,  # noqa: A002
        subject: str | None = None,
        time: datetime | str | None = None,
        data: object = None,
        datacontenttype: str | None = None,
        dataschema: str | None = None,
        **extensions: object,
    ) -> Event:
        """A new event, validated; EventError names every attribute at fault.

        id: a random UUID unless given; give one wherever the sender may repeat itself.
        time: aware datetime or RFC 3339 text; left out unless given, and then the record's timestamp counts.
        data: bytes go out as they are; anything else is written as JSON (as text for a str under another
            content type), and datacontenttype is application/json unless given. None: no data, which in Kafka
            is a null value; JSON's null is data=b"null".
        extensions: str, bool, 32-bit int, aware datetime or bytes; None leaves the attribute out.
        """
        given: dict[str, object] = {
            "specversion": _attributes.SPECVERSION,
            "id": str(uuid.uuid4()) if id is None else id,
            "source": source,
            "type": type,
            "subject": subject,
            "time": time,
            "datacontenttype": datacontenttype,
            "dataschema": dataschema,
        }
        if data is not None and datacontenttype is None and not isinstance(data, bytes):
            given["datacontenttype"] = content.JSON
        for name, value in extensions.items():
            given.setdefault(name, value)
        texts, problems = _canonical_texts(given)
        # for a type that is itself at fault the data is not looked at
        stated = texts.get("datacontenttype")
        payload: bytes | None = None
        if data is not None and (stated or datacontenttype is None):
            try:
                payload = content.serialize(data, stated)
            except EventError as error:
                problems.extend(error.problems)
        return _validated(texts, payload, problems)

    def to_json_dict(self) -> dict[str, object]:
        """The event in CloudEvents' JSON format, ready for json.dumps.

        Attributes are strings. Data is the JSON value under `data` for JSON types (or none stated), a string
        for UTF-8 text; data of another type, or that is not what its type says, is base64 in `data_base64`.
        """
        result: dict[str, object] = dict(self.attributes)
        if self.data is None:
            return result
        stated = self.attributes.get("datacontenttype")
        if self.data and (content.is_json(stated) or content.is_text(stated)):
            try:
                value = self.payload
                # a charset other than UTF-8 would be lost in the string
                if content.is_json(stated) or (isinstance(value, str) and value.encode() == self.data):
                    result["data"] = value
                    return result
            except (EventError, UnicodeError):
                pass
        result["data_base64"] = base64.b64encode(self.data).decode("ascii")
        return result

    @classmethod
    def from_json_dict(cls, obj: object) -> Event:
        """The event in a parsed JSON object of CloudEvents' JSON format; EventError names all that is wrong.

        null attributes count as absent, JSON booleans and integers become their canonical strings. `data`
        without a datacontenttype is JSON, and the event says so from here on.
        """
        if not isinstance(obj, Mapping):
            raise EventError(f"a CloudEvent in JSON is an object, this is a {type(obj).__name__}")
        members = dict(obj)
        has_data, data = "data" in members, members.pop("data", None)
        encoded = members.pop("data_base64", None)
        texts, problems = _canonical_texts(members, json_types=True)
        if not has_data:
            return _with_base64(texts, encoded, problems)
        if encoded is not None:
            problems.append("both data and data_base64 are there: only one may be")
        stated = texts.setdefault("datacontenttype", content.JSON)
        payload: bytes | None = None
        try:
            if not content.is_json(stated) and not isinstance(data, str):
                problems.append(
                    f"data is no string, although datacontenttype {_attributes.shown(stated)} is no JSON type"
                )
            else:
                payload = content.serialize(data, stated)
        except EventError as error:
            problems.extend(error.problems)
        return _validated(texts, payload, problems)

    @classmethod
    def from_json_bytes(cls, text: bytes) -> Event:
        """As from_json_dict, from the JSON text; JSON data keeps its bytes as they are in the text."""
        try:
            members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            raw = members.pop("data", None)
            rest: dict[str, object] = {name: msgspec.json.decode(value) for name, value in members.items()}
            stated = rest.get("datacontenttype")
            if raw is not None and not (isinstance(stated, str) and not content.is_json(stated)):
                # read once, so that what is passed on is known to be JSON
                content.parse_json(bytes(raw))
            elif raw is not None:
                rest["data"] = msgspec.json.decode(raw)
                raw = None
        except RecursionError as error:
            raise EventError("the event's JSON is nested too deep to be read") from error
        except EventError:
            raise
        except (msgspec.MsgspecError, ValueError) as error:
            raise EventError(f"the event is not a valid JSON object: {error}") from error
        if raw is None:
            return cls.from_json_dict(rest)
        encoded = rest.pop("data_base64", None)
        texts, problems = _canonical_texts(rest, json_types=True)
        if encoded is not None:
            problems.append("both data and data_base64 are there: only one may be")
        texts.setdefault("datacontenttype", content.JSON)
        return _validated(texts, bytes(raw), problems)

    def to_cloudevent(self) -> CloudEvent:
        """The SDK's event with the same attributes; sdk.to_cloudevent says what its data is."""
        from . import sdk

        return sdk.to_cloudevent(self)

    @classmethod
    def from_cloudevent(cls, cloudevent: CloudEvent) -> Event:
        """The event in the SDK's one, validated."""
        from . import sdk

        return sdk.from_cloudevent(cloudevent)


def _canonical_texts(
    given: Mapping[Any, object], json_types: bool = False
) -> tuple[dict[str, str], list[str]]:
    texts: dict[str, str] = {}
    problems: list[str] = []
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(name, str):
            problems.append(f"attribute name {_attributes.shown(name)} is no string")
            continue
        try:
            if json_types and not isinstance(value, (str, bool, int)):
                raise ValueError(
                    f"attribute {name[:40]} is a {type(value).__name__}: a string, boolean or integer belongs"
                    " here"
                )
            is_time = name == "time" and isinstance(value, datetime)
            if name in _attributes.CORE and not isinstance(value, str) and not is_time:
                raise ValueError(f"attribute {name} is a {type(value).__name__}: a string belongs here")
            texts[name] = _attributes.canonical(f"attribute {name[:40]}", value)
        except ValueError as error:
            problems.append(str(error))
            texts.setdefault(name, "-")  # so that it is not reported as missing too
    return texts, problems


def _with_base64(texts: dict[str, str], encoded: object, problems: list[str]) -> Event:
    data: bytes | None = None
    if encoded is not None:
        try:
            if not isinstance(encoded, str):
                raise ValueError("it is no string")
            data = base64.b64decode(encoded.encode("ascii"), validate=True)
        except (binascii.Error, ValueError):
            problems.append("data_base64 is no base64 text")
    return _validated(texts, data, problems)


def _validated(texts: dict[str, str], data: bytes | None, problems: list[str]) -> Event:
    # A name whose value was refused stands in `texts` with a dummy; only its own problem is told.
    told = {problem.split(" ")[1] for problem in problems if problem.startswith("attribute ")}
    found = _attributes.find_problems(texts)
    problems = problems + [problem for problem in found if problem.split(" ")[1] not in told]
    if problems:
        raise EventError(problems)
    return Event(texts, data)
