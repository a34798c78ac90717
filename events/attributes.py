"""Context attributes of CloudEvents 1.0: names, canonical strings, validation.

Rules: CloudEvents 1.0.2, sections "Naming Conventions", "Type System" and "Required Attributes".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

SPECVERSION = "1.0"
REQUIRED = ("specversion", "id", "source", "type")
CORE = frozenset({*REQUIRED, "subject", "time", "datacontenttype", "dataschema"})

PROOF = "interlockproof"  # extension that emitters add (events/proof.py)
# Names on nearly every record; they are valid, so the pattern need not run on them.
USUAL_NAMES = CORE | {"partitionkey", "sequence", "traceparent", "tracestate", "correlationid", "ds", PROOF}
_NAME = re.compile(r"[a-z0-9]+")
_NAME_HINT = "lower-case letters a-z and digits only, and not 'data'"

# "String" of the type system: no control characters, no surrogates, no Unicode noncharacters.
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(chr(plane * 0x10000 + low) for plane in range(1, 17) for low in (0xFFFE, 0xFFFF))
    + "]"
)
_RFC3339 = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9]|60)"
    r"(?:\.(?P<fraction>[0-9]+))?"
    r"(?P<zone>[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
# Matches most timestamps in half the time: no groups, and only days that every month has.
_USUAL_TIMESTAMP = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_DAY_IN_EVERY_MONTH = "28"
# RFC 3986, appendix A. `source` is a URI reference, `dataschema` a URI: no spaces, nothing but ASCII.
# A source may be a megabyte long: possessive quantifiers need no memory to backtrack.
_CHARS = r"A-Za-z0-9\-._~!$&'()*+,;="  # unreserved and sub-delims


def _run(more: str) -> str:
    return rf"(?:[{_CHARS}{more}]++|%[0-9A-Fa-f]{{2}})*+"


_AUTHORITY = rf"(?:{_run(':')}@)?(?:\[[0-9A-Za-z.:~!$&'()*+,;=_-]+\]|{_run('')})(?::[0-9]*)?"
_HIER = rf"(?://{_AUTHORITY}(?:/{_run(':@/')})?|/?(?!/){_run(':@/')})"
_TAIL = rf"(?:\?{_run(':@/?')})?(?:#{_run(':@/?')})?"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:{_HIER}{_TAIL}")
_RELATIVE = re.compile(rf"(?![^/?#]*:){_HIER}{_TAIL}")
# RFC 9110, section 8.3.1, and so RFC 2046: type/subtype, then parameters.
_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA_TYPE = re.compile(
    rf'{_WORD}/{_WORD}(?:[ \t]*+;[ \t]*+(?:{_WORD}=(?:{_WORD}|"(?:[^"\\]|\\.)*+"))?)*+[ \t]*+'
)
_INTEGER_MIN, _INTEGER_MAX = -(2**31), 2**31 - 1


def is_name(name: str) -> bool:
    """Returns whether `name` is a valid attribute name: lower-case letters a-z and digits, not "data"."""
    return _NAME.fullmatch(name) is not None and name != "data"


def shown(value: object, limit: int = 80) -> str:
    """Returns `value` for an error message: the repr of a text or number, cut to `limit`.

    Of anything else it returns only the type: its repr may be long or slow, or may raise.
    """
    if isinstance(value, (str, bytes)):
        text = repr(value[: limit + 1])
    elif isinstance(value, int) and value.bit_length() > 64:
        text = "a large int"  # repr() raises for very large ones
    elif value is None or isinstance(value, (int, float)):
        text = repr(value)
    else:
        text = kind(value)
    return text if len(text) <= limit else text[:limit] + "..."


def kind(value: object) -> str:
    """Returns the type of `value` with its article, for an error message: "an int", "a str", "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeio' else 'a'} {name}"


def is_allowed(value: str) -> bool:
    """Returns whether an attribute may have these characters: no controls, surrogates or noncharacters."""
    return value.isprintable() or _FORBIDDEN.search(value) is None


def is_uri_reference(text: str) -> bool:
    """Returns whether this is a URI or a relative reference of RFC 3986: `/orders`, `urn:orders`."""
    return _RELATIVE.fullmatch(text) is not None or is_uri(text)


def is_uri(text: str) -> bool:
    """Returns whether this is a URI of RFC 3986, which has a scheme."""
    return _URI.fullmatch(text) is not None


def is_media_type(text: str) -> bool:
    """Returns whether this is a media type, with or without parameters."""
    return _MEDIA_TYPE.fullmatch(text) is not None


_FORMS = {
    "source": (
        is_uri_reference,
        "not a URI reference (RFC 3986): write, for example, /orders/ingest or urn:orders",
    ),
    "dataschema": (is_uri, "not a URI (RFC 3986): begin with a scheme, such as urn:orders:v1"),
    "datacontenttype": (is_media_type, "not a media type (RFC 2046): write, for example, application/json"),
}


def is_timestamp(text: str) -> bool:
    """Returns whether `text` is an RFC 3339 timestamp with a valid date; a leap second is allowed."""
    if _USUAL_TIMESTAMP.fullmatch(text) is not None:
        return True
    match = _RFC3339.fullmatch(text)
    if match is None:
        return False
    return text[8:10] <= _DAY_IN_EVERY_MONTH or _is_day(match)


def _is_day(match: re.Match[str]) -> bool:
    try:
        date(int(match["year"]) or 4, int(match["month"]), int(match["day"]))  # year 0 is a leap year
    except ValueError:
        return False
    return True


def parse_timestamp(text: str) -> datetime:
    """Returns the aware UTC datetime of an RFC 3339 text, to the microsecond (further digits are cut).

    A leap second becomes the last microsecond before it. Raises ValueError if the text is not a timestamp,
    and for times before the year 1 or after 9999 in UTC, which datetime cannot hold.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{shown(text)} is not an RFC 3339 timestamp with a zone")
    second, fraction = int(match["second"]), (match["fraction"] or "")[:6].ljust(6, "0")
    micro = int(fraction)
    if second == 60:
        second, micro = 59, 999_999
    zone = match["zone"]
    offset = timedelta(0)
    if zone not in "Zz":
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        offset = -offset if zone[0] == "-" else offset
    local = datetime(
        int(match["year"]), int(match["month"]), int(match["day"]),
        int(match["hour"]), int(match["minute"]), second, micro, UTC,
    )  # fmt: skip
    try:
        return local - offset
    except OverflowError as error:
        raise ValueError(f"{shown(text)} is outside the years 1 to 9999 in UTC") from error


def format_timestamp(value: datetime) -> str:
    """Returns RFC 3339 text in UTC with "Z"; whole seconds have no fraction. Raises ValueError."""
    if value.utcoffset() is None:
        raise ValueError("it has no time zone; give an aware datetime, e.g. datetime.now(timezone.utc)")
    try:
        utc = value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("it is outside the years 1 to 9999 in UTC") from error
    return utc.replace(tzinfo=None).isoformat() + "Z"


def canonical(name: str, value: object) -> str:
    """Returns the canonical string of an attribute value. Raises ValueError.

    str unchanged; bool "true"/"false"; 32-bit int; aware datetime as RFC 3339 in UTC; bytes as base64.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not _INTEGER_MIN <= value <= _INTEGER_MAX:
            raise ValueError(f"{name} does not fit CloudEvents' 32-bit Integer: give it as a string")
        return str(int(value))
    if isinstance(value, datetime):
        try:
            return format_timestamp(value)
        except ValueError as error:
            raise ValueError(f"{name} is not a Timestamp: {error}") from error
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise ValueError(
        f"{name} is a {type(value).__name__}: give a string, bool, 32-bit int, aware datetime or bytes, and"
        " put other values in the data"
    )


def find_problems(attributes: Mapping[str, str]) -> list[str]:
    """Returns what is invalid about `attributes`, one sentence each; empty for a valid CloudEvent 1.0."""
    problems: list[str] = []
    for name in REQUIRED:
        if name not in attributes:
            problems.append(f"attribute {name} is missing")
    version = attributes.get("specversion", SPECVERSION)
    if version != SPECVERSION:
        problems.append(f"attribute specversion is {shown(version)}: only '{SPECVERSION}' is supported")
    for name, value in attributes.items():
        if name not in USUAL_NAMES and not is_name(name):
            problems.append(f"attribute name {shown(name)} is not allowed: {_NAME_HINT}")
        if not value:
            if name in CORE:
                instead = "give it a value" if name in REQUIRED else "leave it out or give it a value"
                problems.append(f"attribute {name} is empty: {instead}")
        elif not is_allowed(value):
            problems.append(
                f"attribute {name[:40]} contains a control or non-Unicode character: {shown(value)}"
            )
    for name, (is_valid, hint) in _FORMS.items():
        value = attributes.get(name, "")
        if value and is_allowed(value) and not is_valid(value):
            problems.append(f"attribute {name} is {shown(value)}: {hint}")
    time = attributes.get("time")
    if time and not is_timestamp(time):
        problems.append(
            f"attribute time is {shown(time)}: give RFC 3339 with zone, such as 2026-11-20T06:00:00Z"
        )
    return problems
