"""The body of a webhook as JSON data: JSON as it came, or the fields of a form."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from ...events import content
from ...events.attributes import shown
from ...events.errors import EventError
from ...events.http import MediaTypeError
from ...events.strict_json import parse_strictly
from ..endpoint import Request

MOST_FIELDS: Final = 1000
_FORM: Final = "application/x-www-form-urlencoded"
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]*)", re.IGNORECASE)
_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def data_of(request: Request, body: bytes, json_field: str | None) -> tuple[bytes, object]:
    """Returns the event's data as JSON text, and its value.

    json_field: the field of a form whose JSON is the data, if the form has no other field.
    Raises MediaTypeError for what is neither JSON nor a form, and EventError for what is malformed.
    """
    encoding = [value for name, value in request.headers if name == b"content-encoding"]
    if encoding and encoding != [b"identity"]:
        raise MediaTypeError("the body is compressed: send it without content-encoding")
    stated = (request.header(b"content-type") or b"").decode("latin-1")
    charset = _CHARSET.search(stated)
    if charset is not None and charset[1].lower() not in ("utf-8", "utf8"):
        raise MediaTypeError(f"the charset {shown(charset[1])} is not supported: send UTF-8")
    if stated and content.is_json(stated):
        return body, parse_strictly(body)
    if stated.partition(";")[0].strip().lower() != _FORM:
        raise MediaTypeError(
            f"content-type {shown(stated)} is not supported: send application/json or {_FORM}"
        )
    fields = _fields(body)
    if json_field is not None and list(fields) == [json_field]:
        text = fields[json_field].encode()
        return text, parse_strictly(text)
    return msgspec.json.encode(fields), fields


def _fields(body: bytes) -> dict[str, str]:
    """The fields of a form (URL Standard, "application/x-www-form-urlencoded parsing"), but strictly."""
    if body.count(b"&") >= MOST_FIELDS:
        raise EventError(f"the form has more than {MOST_FIELDS} fields")
    if _ESCAPE.search(body):
        raise EventError("the form has a percent sign that begins no escape")
    fields: dict[str, str] = {}
    for part in body.split(b"&"):
        name, equals, value = part.partition(b"=")
        if not name or not equals:
            raise EventError("the form has a field without a name or without =")
        try:
            text = unquote_to_bytes(name.replace(b"+", b" ")).decode()
            if text in fields:
                raise EventError(f"the form has a field twice: {shown(text)}")
            fields[text] = unquote_to_bytes(value.replace(b"+", b" ")).decode()
        except UnicodeDecodeError:
            raise EventError("the form is not UTF-8") from None
    return fields
