"""Names the likely mistake in a record that is meant as a CloudEvent but does not hold one.

Other bindings of CloudEvents name the attributes in other ways: HTTP `ce-id`, AMQP `cloudEvents:id` or
`cloudEvents_id`. On Kafka such headers mean nothing: the error would only say that attributes are missing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from .attributes import REQUIRED, shown

Headers = Sequence[tuple[str, bytes | None]]

# Also CE_id, since on Kafka the prefix is in lower case, and what gateways and scripts make of the prefix.
_OTHER_BINDING: Final = re.compile(
    r"\s*(?:(?:x|http)[-_])?(?:ce|cloud[-_]?events?)[-:._/ ]([a-z0-9]+)\s*", re.IGNORECASE
)
_NO_SEPARATOR: Final = re.compile(rf"\s*ce({'|'.join(REQUIRED)})\s*", re.IGNORECASE)
_CONTENT_TYPE: Final = re.compile(r"(?:ce[-:._])?(?:data)?content[-_]?type", re.IGNORECASE)
_CLOUDEVENTS: Final = b"application/cloudevents"
_OF_LINEAGE: Final = ("eventTime", "producer", "schemaURL", "job")
_SHOWN: Final = 4  # headers in a sentence


def is_misspelled(headers: Headers | None) -> bool:
    """Whether a header of a plain record names an attribute as another binding does, or without a prefix.

    Without a prefix only `specversion` counts: other names, such as `type`, are usual in other records.
    """
    for name, raw in headers or ():
        if name.strip().lower() in ("specversion", "cespecversion") or _OTHER_BINDING.fullmatch(name):
            return True
        if _CONTENT_TYPE.fullmatch(name) and _names_cloudevents(raw):
            return True
    return False


def _names_cloudevents(raw: bytes | None) -> bool:
    return (raw or b"").lstrip(b'"')[:23].lower() == _CLOUDEVENTS


def quoted_values(headers: Headers | None) -> list[str]:
    """Returns a sentence if attributes are in quotation marks, as some clients write every header as JSON."""
    names = [
        name
        for name, raw in headers or ()
        if (name.startswith("ce_") or _CONTENT_TYPE.fullmatch(name))
        and len(raw or b"") > 1
        and (raw or b"")[:1] == (raw or b"")[-1:] == b'"'
    ]
    if not names:
        return []
    are = "is" if len(names) == 1 else "are"
    return [f"{_list(names)} {are} in quotation marks, as JSON has a text: write the text alone"]


def likely_mistakes(headers: Headers | None, value: bytes | None, missing: Collection[str]) -> list[str]:
    """Returns a sentence for each likely mistake. missing: the required attributes that are absent."""
    wrong: dict[str, str] = {}
    null: list[str] = []
    structured = False
    for name, raw in headers or ():
        other = _OTHER_BINDING.fullmatch(name) or _NO_SEPARATOR.fullmatch(name)
        if name.startswith("ce_"):
            meant = re.sub(r"[^a-z0-9]", "", name[3:].lower())
            if name == f"ce_{meant}":
                if meant in missing:  # then it has no value
                    null.append(name)
            elif meant in missing:  # such as ce_ID, ce__id
                wrong[name] = f"ce_{meant}"
            continue
        if _CONTENT_TYPE.fullmatch(name) and name != "content-type":
            wrong[name] = "content-type"
            structured = structured or _names_cloudevents(raw)
        elif other is not None:
            wrong[name] = f"ce_{other[1].lower()}"
        elif name.strip().lower() in missing:
            wrong[name] = f"ce_{name.strip().lower()}"
    found = []
    if null:
        found.append(f"{_list(null)} has a null value, which means no attribute")
    if wrong:
        names, right = list(wrong), list(dict.fromkeys(wrong.values()))
        are_not = "is not an attribute" if len(names) == 1 else "are not attributes"
        found.append(f"on Kafka {_list(names)} {are_not} of a CloudEvent: write {_list(right)}")
    if not structured and set(missing) == set(REQUIRED):
        if holds_event(value):
            found.append(
                "its value is a CloudEvent in JSON: give the record the header content-type with the value "
                "application/cloudevents+json"
            )
        elif holds_lineage(value):
            found.append(
                "its value is an OpenLineage event: let the client send it to the receiver over HTTP, which"
                " makes a CloudEvent of it"
            )
    return found


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shown(name, 40) for name in names[:_SHOWN]) + more


def holds_event(value: bytes | None) -> bool:
    """Returns whether the value is a CloudEvent in JSON, by its members."""
    return _has_members(value, REQUIRED)


def holds_lineage(value: bytes | None) -> bool:
    """Returns whether the value is an OpenLineage event, as its clients write it to Kafka; by its members."""
    return _has_members(value, _OF_LINEAGE)


def _has_members(value: bytes | None, names: Collection[str]) -> bool:
    try:
        members = msgspec.json.decode(value or b"", type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return all(name in members for name in names)
