"""Data of an event: parses and serializes it according to its content type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

import msgspec

from .attributes import shown
from .errors import EventError
from .unwritable import repeats_a_name, unwritable

JSON = "application/json"
# JSON that is nested deeper is refused. The limit is far below Python's recursion limit, which also counts
# the caller's frames: so the same data is accepted or refused wherever it is parsed.
MOST_LEVELS: Final = 500
_SHORT: Final = 2 * MOST_LEVELS  # valid JSON up to this length has no more levels
_CONSTANT = re.compile(rb"[\[:,]\s*+(NaN|-?Infinity)\s*+[,\]}]")
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")  # 1 and -1 as signed bytes
_NEITHER: Final = bytes(set(range(256)) - set(b'[{]}"'))  # bytes that are no bracket and no quotation mark
_REMOVALS: Final = 4  # how often the innermost brackets are removed, before the levels are counted
# "*/json" or "*/*+json" once parameters are stripped (CloudEvents JSON format 1.0.2, section 3.1.1).
_JSON_TYPE = re.compile(r"\s*[^/;\s]+/(?:[^/;\s]+\+)?json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL)
_TEXT_TYPE = re.compile(r"\s*text/", re.IGNORECASE)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)

# {charset in lower case: Python's codec}. The sender writes the content type, so it must not choose among all
# of Python's codecs: punycode and idna take a second for 64 kB, others read escapes. These take linear time.
# Names: IANA's (https://www.iana.org/assignments/character-sets) and usual aliases.
_CODECS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("utf-8", "utf8"), "utf-8"),
    **dict.fromkeys(("us-ascii", "ascii"), "ascii"),
    **{name: name for name in ("utf-16", "utf-16le", "utf-16be", "utf-32", "utf-32le", "utf-32be")},
    **{f"iso-8859-{part}": f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))},
    **dict.fromkeys(("latin1", "latin-1", "iso8859-1", "iso_8859-1"), "iso8859-1"),
    **dict.fromkeys(("latin-9", "latin9", "iso8859-15"), "iso8859-15"),
    **{f"windows-{page}": f"cp{page}" for page in (874, *range(1250, 1259))},
    **{f"cp{page}": f"cp{page}" for page in range(1250, 1259)},
    **{name: name for name in ("koi8-r", "koi8-u", "shift_jis", "euc-jp", "euc-kr")},
    **{name: name for name in ("big5", "gb2312", "gbk", "gb18030")},
}


def is_json(content_type: str | None) -> bool:
    """Returns whether data of this type is JSON; no type means JSON."""
    return content_type is None or content_type == JSON or _JSON_TYPE.fullmatch(content_type) is not None


def is_text(content_type: str | None) -> bool:
    """Returns True for text/* other than JSON."""
    return (
        content_type is not None and not is_json(content_type) and _TEXT_TYPE.match(content_type) is not None
    )


def parse(data: bytes | None, content_type: str | None) -> object:
    """Returns the parsed `data`: a JSON value, str for text/*, the bytes themselves for any other type.

    No content type means JSON. Returns None if there is no data, or if data of a JSON type is empty: some
    producers write that for no data. Raises EventError for invalid JSON or text.
    """
    if data is None:
        return None
    if is_json(content_type):
        return parse_json(data) if data else None
    if is_text(content_type):
        try:
            return data.decode(_codec(content_type))
        except ValueError as error:
            raise EventError(f"data is not text of type {shown(content_type)}: {_cause(error)}") from error
    return data


def parse_json(text: bytes) -> object:
    """Returns the value of a JSON text. Raises EventError if it is invalid or has more than MOST_LEVELS."""
    try:
        if len(text) <= _SHORT or not is_deep(text):
            return msgspec.json.decode(text)
    except RecursionError:
        pass
    except (msgspec.MsgspecError, ValueError) as error:
        raise EventError(f"data is not valid JSON: {_cause(error)}{_constant(text)}") from error
    raise EventError(f"data is nested too deeply to be read as JSON: in more than {MOST_LEVELS} levels")


def _constant(text: bytes) -> str:
    """What to do about a constant that many writers of JSON use, such as Python's; "" without one."""
    # The plain searches come first, because records that are not JSON come here too.
    found = _CONSTANT.search(text) if b"NaN" in text or b"Infinity" in text else None
    if found is None:
        return ""
    return f". It seems to have {found[1].decode()}, which JSON does not have: send null or a text instead"


def is_deep(text: bytes) -> bool:
    """Returns whether a JSON text has more than MOST_LEVELS levels; either answer for invalid JSON."""
    if text.count(b"[") + text.count(b"{") <= MOST_LEVELS:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    steps = text.translate(_STEPS, _NEITHER).replace(b'""', b"")
    if b'"' in steps:
        steps = b"".join(steps.split(b'"')[::2])  # brackets in strings do not count
    # Counting the levels is slow, and few texts need it. Each removal of the innermost brackets removes at
    # most one level, and what is left has at most one level for each pair of brackets.
    left = steps
    for removed in range(1, _REMOVALS + 1):
        left = left.replace(b"\x01\xff", b"")
        if len(left) // 2 + removed <= MOST_LEVELS:
            return False
    return max(accumulate(memoryview(steps).cast("b")), default=0) > MOST_LEVELS


def serialize(data: object, content_type: str | None) -> bytes:
    """Returns the bytes of `data` for a content type; bytes are not changed. Raises EventError."""
    if isinstance(data, bytes):
        return data
    if is_json(content_type):
        try:
            # msgspec would write NaN as null.
            text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            written = text.encode("utf-8")
        except RecursionError as error:
            raise EventError("data is nested too deeply for JSON") from error
        except (TypeError, ValueError) as error:
            why = unwritable(data) or _cause(error)
            raise EventError(f"data cannot be written as JSON: {why}") from error
        if repeats_a_name(data):
            why = unwritable(data) or "a dict has two names that JSON writes as the same text"
            raise EventError(f"data cannot be written as JSON: {why}")
        return written
    if isinstance(data, str):
        try:
            return data.encode(_codec(content_type))
        except ValueError as error:
            raise EventError(f"data cannot be written as {shown(content_type)}: {_cause(error)}") from error
    raise EventError(
        f"data is a {type(data).__name__}, and datacontenttype {shown(content_type)} is not JSON: give bytes"
        " or a string, or a JSON datacontenttype"
    )


def _codec(content_type: str | None) -> str:
    """Returns the codec of the content type's charset, UTF-8 without one. Raises ValueError."""
    charset = _CHARSET.search(content_type or "")
    if charset is None:
        return "utf-8"
    codec = _CODECS.get(charset[1].lower())
    if codec is None:
        raise ValueError(f"the charset {shown(charset[1])} is not supported; send UTF-8")
    return codec


def _cause(error: Exception) -> str:
    # The last argument of a UnicodeError is its reason. No message may contain the data.
    return str(error) if not isinstance(error, UnicodeError) else f"{type(error).__name__}: {error.args[-1]}"
