"""Encodes and decodes records as JSON and msgpack, with errors for unreadable bytes."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..errors import RecordError, UnknownVersion
from .versions import FIRST_VERSION, is_read, versions_read

T = TypeVar("T")
# What msgspec raises for unreadable bytes: its own errors, invalid UTF-8, and nesting beyond the
# interpreter's limit.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Version(msgspec.Struct):
    """The only member that JSON records of every version have."""

    v: object = None


_version = msgspec.json.Decoder(_Version)
_json = msgspec.json.Encoder(order="deterministic")
_msgpack = msgspec.msgpack.Encoder()


def encode_json(record: msgspec.Struct) -> bytes:
    """The JSON of offset metadata, and of records of each kind that is not msgpack."""
    return _json.encode(record)


def encode_msgpack(record: msgspec.Struct) -> bytes:
    """The msgpack of a match, state or meta record."""
    return _msgpack.encode(record)


def decode_json(form: type[T], value: bytes | str, where: str) -> T:
    """Decodes a JSON record. Raises RecordError naming `where` if it is damaged or has another version."""
    try:
        version = _version.decode(value).v
        if is_read(version):
            return msgspec.json.decode(value, type=form)
    except UNREADABLE as e:
        raise RecordError(f"{where} holds no valid {form.__name__}: {e}.") from e
    if type(version) is not int or version < FIRST_VERSION:
        raise _no_version(form, version, where)
    raise _unknown_version(form.__name__, version, where)


def require_known_version(form: str, value: bytes, where: str) -> None:
    """Raises UnknownVersion if the JSON record `value` has a version that this release does not read.

    form: the name of the record's kind, for the error. A damaged record, or one without a version, passes:
    decoding it raises RecordError.
    """
    try:
        version = _version.decode(value).v
    except UNREADABLE:
        return
    if type(version) is int and version >= FIRST_VERSION and not is_read(version):
        raise _unknown_version(form, version, where)


def decode_msgpack(form: type[T], value: bytes, where: str) -> T:
    """Decodes a msgpack record. Raises like `decode_json`."""
    try:
        record = msgspec.msgpack.decode(value, type=form)
        version = record.v  # type: ignore[attr-defined]
        if version < FIRST_VERSION:
            raise _no_version(form, version, where)
    except UNREADABLE as e:
        version = _version_of(value)
        if version is None or is_read(version):
            raise RecordError(f"{where} holds no valid {form.__name__}: {e}.") from e
    if not is_read(version):
        raise _unknown_version(form.__name__, version, where)
    return record


def _version_of(value: bytes) -> int | None:
    """The first member of a msgpack record, which is its version in every release; None if it has none."""
    try:
        items = msgspec.msgpack.decode(value, type=list[msgspec.Raw])
        version = msgspec.msgpack.decode(items[0], type=int)
    except (*UNREADABLE, IndexError):
        return None
    return version if version >= FIRST_VERSION else None


def _no_version(form: type, version: object, where: str) -> RecordError:
    return RecordError(f"{where} holds no valid {form.__name__}: no release has version {version!r}.")


def _unknown_version(form: str, version: int, where: str) -> UnknownVersion:
    reads = ", ".join(map(str, versions_read()))
    if version >= versions_read().stop:
        advice = "Upgrade this process to the release that wrote it, or a later one."
    else:
        advice = "Run a release that reads it."
    article = "an" if form[0] in "AEIOU" else "a"
    return UnknownVersion(
        f"{where} holds {article} {form} of version {version}; this Interlock reads {reads}. {advice}"
    )
