"""`Event`: an immutable CloudEvent 1.0."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from . import attributes as _attributes
from . import content
from .errors import EventError
from .usual import of_json, remember

if TYPE_CHECKING:
    from cloudevents.core.v1.event import CloudEvent


_MOST_NAMED = 5  # how many members an error names
# Gives an object as its pairs, so that repeated names are seen. Numbers stay texts: int() refuses more than
# 4,300 digits.
_PAIRS = json.JSONDecoder(object_pairs_hook=list, parse_int=str)
_TYPES = "_types"  # in the instance's dictionary: {extension: the boolean or integer that was given}


class Event(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """One CloudEvent: its context attributes as canonical strings, and its data as on the wire.

    `Event.of`, `Event.from_json_dict`, `Event.from_cloudevent` and `kafka.decode` validate. The constructor
    and msgspec's decoders do not: they are for records that Interlock wrote. Events are equal if attributes
    and data are equal; the hash is that of the identity.
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
        """(source, id): two events with the same identity are one event that was sent twice."""
        return (self.attributes["source"], self.attributes["id"])

    @property
    def time(self) -> datetime | None:
        """The `time` attribute as aware UTC datetime; None if it is absent or datetime cannot hold it."""
        text = self.attributes.get("time")
        if text is None:
            return None
        try:
            return _attributes.parse_timestamp(text)
        except ValueError:
            return None

    @cached_property
    def payload(self) -> object:
        """The parsed data; parsed at the first access.

        The JSON value for JSON content types; str for text/*; the bytes for any other type; without a content
        type the JSON value if the data is JSON, else the bytes; None without data. Raises EventError if the
        data does not match its content type. Do not modify the value: all users of the event share it.
        """
        # A cached_property keeps no exception: data that cannot be parsed would be parsed for each reader.
        if problems := self.__dict__.get("data_problems"):
            raise EventError(problems)
        content_type = self.attributes.get("datacontenttype")
        try:
            return content.parse(self.data, content_type)
        except EventError as error:
            self.__dict__["data_problems"] = error.problems
            if content_type is None:
                return self.data
            raise

    @cached_property
    def data_problems(self) -> tuple[str, ...]:
        """Why the data does not match its content type, or is not JSON if it has none; empty if valid."""
        with suppress(EventError):
            _ = self.payload  # if it cannot be parsed, it leaves the reason here
        found: tuple[str, ...] = self.__dict__.get("data_problems", ())
        return found

    @classmethod
    def of(
        cls,
        /,  # "cls" may be the name of an extension
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
        """Returns a new, validated event. Raises EventError, which names every invalid attribute.

        id: default: a random UUID; give one if the sender may send the event again.
        time: aware datetime or RFC 3339 text; without it the record's timestamp counts.
        data: bytes are sent unchanged. Other values are written as JSON, or a str as text for a content type
            other than JSON; datacontenttype defaults to application/json. None: no data, a null value in
            Kafka; for JSON's null give data=b"null".
        extensions: str, bool, 32-bit int, aware datetime or bytes; None omits the attribute.
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
            if name == "specversion" and value is not None:
                given[name] = value  # "1.0", or it is refused
            given.setdefault(name, value)
        texts, problems = _canonical_texts(given)
        # If the content type is invalid, the data is not checked.
        stated = texts.get("datacontenttype")
        payload: bytes | None = None
        if data is not None and (stated or datacontenttype is None):
            try:
                payload = content.serialize(data, stated)
            except EventError as error:
                problems.extend(error.problems)
        return _with_types(_validated(texts, payload, problems), given)

    def to_json_dict(self, *, assume_json: bool = False) -> dict[str, object]:
        """Returns the event in CloudEvents' JSON format, ready for json.dumps.

        Attributes are strings, except extensions that `Event.of` or JSON gave as a boolean or an integer;
        records in Kafka do not keep these types. `data` is the JSON value for JSON content types, and a
        string for UTF-8 text. Other data, data without a content type, and data that does not match its
        type are base64 in `data_base64`.

        assume_json: write JSON data without a content type as `data` too. Read back, the event has the type
            application/json, because the JSON format takes `data` without a type for JSON.
        """
        result: dict[str, object] = {**self.attributes, **self.__dict__.get(_TYPES, {})}
        if self.data is None:
            return result
        stated = self.attributes.get("datacontenttype")
        is_json = assume_json if stated is None else content.is_json(stated)
        if self.data and (is_json or content.is_text(stated)):
            try:
                value = self.payload
                # A string would lose a charset other than UTF-8.
                as_text = isinstance(value, str) and value.encode() == self.data
                if not isinstance(value, bytes) and (is_json or as_text):
                    result["data"] = value
                    return result
            except (EventError, UnicodeError):
                pass
        result["data_base64"] = base64.b64encode(self.data).decode("ascii")
        return result

    @classmethod
    def from_json_dict(cls, obj: object) -> Event:
        """Returns the event in a parsed object of CloudEvents' JSON format. Raises EventError.

        null attributes count as absent; JSON booleans and integers become their canonical strings. `data`
        without a datacontenttype is JSON: the event gets the datacontenttype application/json. `data_base64`
        without one stays bytes of no type.
        """
        if not isinstance(obj, Mapping):
            raise EventError(f"a CloudEvent in JSON must be an object, not a {type(obj).__name__}")
        members = dict(obj)
        has_data, data = "data" in members, members.pop("data", None)
        encoded = members.pop("data_base64", None)
        texts, problems = _canonical_texts(members, json_types=True)
        if not has_data:
            return _with_types(_with_base64(texts, encoded, problems), members)
        if encoded is not None:
            problems.append("data and data_base64 are both present: give one of them")
        stated = texts.setdefault("datacontenttype", content.JSON)
        payload: bytes | None = None
        try:
            if not content.is_json(stated) and not isinstance(data, str):
                problems.append(
                    f"data is not a string, and datacontenttype {_attributes.shown(stated)} is not JSON"
                )
            else:
                payload = content.serialize(data, stated)
        except EventError as error:
            problems.extend(error.problems)
        return _with_types(_validated(texts, payload, problems), members)

    @classmethod
    def from_json_bytes(cls, text: bytes) -> Event:
        """As from_json_dict, but from JSON text; the bytes of JSON data are kept unchanged.

        A member that appears twice is an error, because readers disagree on which of them counts (RFC 8259,
        section 4).
        """
        if (usual := of_json(text)) is not None:
            return cls(*usual)
        try:
            members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            _refuse_repeated(members, text)
            raw = members.pop("data", None)
            rest: dict[str, object] = {name: msgspec.json.decode(value) for name, value in members.items()}
            stated = rest.get("datacontenttype")
            if raw is not None and (not isinstance(stated, str) or content.is_json(stated)):
                # Only to check that it can be read.
                content.parse_json(bytes(raw))
            elif raw is not None:
                rest["data"] = msgspec.json.decode(raw)
                raw = None
        except RecursionError as error:
            raise EventError("the event's JSON is nested too deeply") from error
        except EventError:
            raise
        except (msgspec.MsgspecError, ValueError) as error:
            raise EventError(f"the event is not a valid JSON object: {error}") from error
        if raw is None:
            return cls.from_json_dict(rest)
        encoded = rest.pop("data_base64", None)
        texts, problems = _canonical_texts(rest, json_types=True)
        if encoded is not None:
            problems.append("data and data_base64 are both present: give one of them")
        texts.setdefault("datacontenttype", content.JSON)
        return _with_types(_validated(texts, bytes(raw), problems), rest)

    def to_json_bytes(self) -> bytes:
        """As to_json_dict, but JSON text; the bytes of JSON data are kept unchanged."""
        form = self.to_json_dict()
        if "data" in form and content.is_json(self.datacontenttype):
            form["data"] = msgspec.Raw(self.data or b"")
        return msgspec.json.encode(form)

    def to_cloudevent(self) -> CloudEvent:
        """Returns the SDK's event with the same attributes; see sdk.to_cloudevent for its data."""
        from . import sdk

        return sdk.to_cloudevent(self)

    @classmethod
    def from_cloudevent(cls, cloudevent: CloudEvent) -> Event:
        """Returns the validated event of an SDK event."""
        from . import sdk

        return sdk.from_cloudevent(cloudevent)


def _canonical_texts(
    given: Mapping[Any, object], json_types: bool = False
) -> tuple[dict[str, str], list[str]]:
    if all(type(name) is type(value) is str for name, value in given.items()):
        return dict(given), []  # the usual event has nothing to convert
    texts: dict[str, str] = {}
    problems: list[str] = []
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(name, str):
            problems.append(f"attribute name {_attributes.shown(name)} is not a string")
            continue
        try:
            if json_types and not isinstance(value, (str, bool, int)):
                raise ValueError(
                    f"attribute {name[:40]} is a {type(value).__name__}: give a string, boolean or integer"
                )
            is_time = name == "time" and isinstance(value, datetime)
            if name in _attributes.CORE and not isinstance(value, str) and not is_time:
                raise ValueError(f"attribute {name} is a {type(value).__name__}: give a string")
            texts[name] = _attributes.canonical(f"attribute {name[:40]}", value)
        except ValueError as error:
            problems.append(str(error))
            texts.setdefault(name, "-")  # so that it is not reported as missing too
    return texts, problems


def _with_types(event: Event, given: Mapping[Any, object]) -> Event:
    """Keeps the booleans and integers among the extensions, for `to_json_dict` alone."""
    types = {
        name: value
        for name, value in given.items()
        if isinstance(value, int) and name in event.attributes  # a bool is an int
    }
    if types:
        event.__dict__[_TYPES] = types
    return event


def _refuse_repeated(members: Mapping[str, object], text: bytes) -> None:
    # msgspec keeps the last of equal names. Repeated names in an object inside the data are not refused: that
    # is up to the sender.
    found = _PAIRS.decode(text.decode())
    if len(found) > len(members):
        repeated = [name for name, times in Counter(name for name, _ in found).items() if times > 1]
        shown = ", ".join(_attributes.shown(name) for name in repeated[:_MOST_NAMED])
        raise EventError(f"the event's JSON has members that appear twice: {shown}")


def _with_base64(texts: dict[str, str], encoded: object, problems: list[str]) -> Event:
    data: bytes | None = None
    if encoded is not None:
        try:
            if not isinstance(encoded, str):
                raise ValueError("not a string")
            data = base64.b64decode(encoded.encode("ascii"), validate=True)
        except (binascii.Error, ValueError):
            problems.append("data_base64 is not base64 text")
    return _validated(texts, data, problems)


def _validated(texts: dict[str, str], data: bytes | None, problems: list[str]) -> Event:
    found = _attributes.find_problems(texts)
    if not found and not problems:
        remember(texts)
        return Event(texts, data)
    # An attribute with an invalid value has a dummy in `texts`; do not report problems of the dummy.
    reported = {problem.split(" ")[1] for problem in problems if problem.startswith("attribute ")}
    raise EventError(problems + [problem for problem in found if problem.split(" ")[1] not in reported])
