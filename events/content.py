"""Data of an event: what its content type says about the bytes, and the value in them."""

from __future__ import annotations

import json
import re

import msgspec

from .attributes import shown
from .errors import EventError

JSON = "application/json"
# "*/json" or "*/*+json" once parameters are stripped (CloudEvents JSON format 1.0.2, section 3.1.1).
_JSON_TYPE = re.compile(r"\s*[^/;\s]+/(?:[^/;\s]+\+)?json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL)
_TEXT_TYPE = re.compile(r"\s*text/", re.IGNORECASE)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)


def is_json(content_type: str | None) -> bool:
    """True if data of this type is JSON; no type stated means JSON."""
    return content_type is None or content_type == JSON or _JSON_TYPE.fullmatch(content_type) is not None


def is_text(content_type: str | None) -> bool:
    """True for text/* other than JSON."""
    return (
        content_type is not None and not is_json(content_type) and _TEXT_TYPE.match(content_type) is not None
    )


def parse(data: bytes | None, content_type: str | None) -> object:
    """The value in `data`: parsed JSON, str for text/*, the bytes themselves for any other type.

    None without data; empty data of a JSON type counts as none, because some producers write that for it.
    Raises EventError for bad JSON or text.
    """
    if data is None:
        return None
    if is_json(content_type):
        return parse_json(data) if data else None
    if is_text(content_type):
        charset = _CHARSET.search(content_type or "")
        try:
            return data.decode(charset[1] if charset else "utf-8")
        except (LookupError, ValueError) as error:
            raise EventError(
                f"data is not the text that {shown(content_type)} says: {_cause(error)}"
            ) from error
    return data


def parse_json(text: bytes) -> object:
    """The value of a JSON text; EventError where it is none, or nested too deep to read."""
    try:
        return msgspec.json.decode(text)
    except RecursionError as error:
        raise EventError("data is nested too deep to be read as JSON") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise EventError(f"data is not valid JSON: {_cause(error)}") from error


def serialize(data: object, content_type: str | None) -> bytes:
    """The bytes of `data` for a content type; bytes stay as they are. EventError if it cannot be written."""
    if isinstance(data, bytes):
        return data
    if is_json(content_type):
        try:
            # not msgspec: it writes NaN as null, silently
            text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode("utf-8")
        except RecursionError as error:
            raise EventError("data is nested too deep for JSON") from error
        except (TypeError, ValueError) as error:
            raise EventError(f"data cannot be written as JSON: {_cause(error)}") from error
    if isinstance(data, str):
        charset = _CHARSET.search(content_type or "")
        try:
            return data.encode(charset[1] if charset else "utf-8")
        except (LookupError, ValueError) as error:
            raise EventError(f"data cannot be written as {shown(content_type)}: {_cause(error)}") from error
    raise EventError(
        f"data is a {type(data).__name__}, and {shown(content_type)} is no JSON type: give bytes or a string,"
        " or a JSON datacontenttype"
    )


def _cause(error: Exception) -> str:
    # A UnicodeError's own text is enough; it and the JSON reader name a position, never the data.
    return str(error) if not isinstance(error, UnicodeError) else f"{type(error).__name__}: {error.args[-1]}"
