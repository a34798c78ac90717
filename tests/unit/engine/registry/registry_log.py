"""Records of a registry topic, for the tests of the registry and of its first read."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.records import (
    BUS_KEY,
    LEFTOVER,
    BusRecord,
    LeaseRecord,
    Registration,
    RegistrationKey,
    RenewalRecord,
    encode_json,
)
from interlock.engine.registry.registry import Registry
from msgspec.structs import replace

TOPIC = TopicPartition("bus-subscription", 0)
SOLO = event("solo")
A, A2, B = (Registration.of(s, SOLO, None, since) for s, since in (("a", 1), ("a", 2), ("b", 1)))
UNREADABLE = msgspec.structs.replace(A, condition=msgspec.Raw(b'{"v":1,"rubbish":true}'))
D, D2 = (Registration.of("d", SOLO, None, since, kind="durable") for since in (1, 2))


def at(offset: int, key: bytes | None, value: bytes | None) -> Record:
    return Record(TOPIC, offset, 1000 + offset, key, value, None)


def key_of(registration: Registration, nonce: str = "n") -> bytes:
    return RegistrationKey(registration.incarnation, nonce).encode()


def registered(offset: int, registration: Registration, nonce: str = "n") -> Record:
    return at(offset, key_of(registration, nonce), encode_json(registration))


def removed(offset: int, registration: Registration, nonce: str = "n") -> Record:
    return at(offset, key_of(registration, nonce), None)


def leased(offset: int, *registrations: Registration, process: str = "p", released: bool = False) -> Record:
    """process: may have a number behind it, as in the keys."""
    named = [r.incarnation for r in registrations]
    record = LeaseRecord(deployment="d", incarnations=named, host="h", released=released)
    return at(offset, f"lease/{process}".encode(), encode_json(record))


def renewed(offset: int, process: str = "p", *, ended: bool = False) -> Record:
    return at(offset, f"renewal/{process}".encode(), encode_json(RenewalRecord(ended=ended)))


def read(*items: Record | End) -> Registry:
    """A registry to which these were applied one by one."""
    registry = Registry()
    for item in items:
        registry.apply(item)
    return registry


KINDS = [
    *("register", "register", "remove", "remove", "clear", "rubbish", "misnamed", "bus", "end"),
    *("lease", "release", "end of a lease", "renewal", "end of a process", "end of a renewal"),
]
OWN = [A, A2, B, UNREADABLE]
CONTRADICTING = msgspec.structs.replace(B, subscription="c")  # an incarnation is a hash of its subscription


def steps_of(registrations: list[Registration]) -> st.SearchStrategy[list[tuple[str, Registration, str]]]:
    return st.lists(
        st.tuples(st.sampled_from(KINDS), st.sampled_from(registrations), st.sampled_from(["n1", "n2"])),
        max_size=30,
    )


STEPS = steps_of([*OWN, CONTRADICTING])
OWN_STEPS = steps_of(OWN)


def items(steps: Iterable[tuple[str, Registration, str]]) -> Iterable[Record | End]:
    for offset, (what, which, nonce) in enumerate(steps):
        match what:
            case "register":
                yield registered(offset, which, nonce)
            case "remove":
                yield removed(offset, which, nonce)
            case "clear":
                yield replace(removed(offset, which, nonce), headers=LEFTOVER)
            case "rubbish":
                yield at(offset, key_of(which, nonce), b"no JSON")
            case "misnamed":
                yield at(offset, key_of(which, nonce), encode_json(B if which is A else A))
            case "lease":
                yield leased(offset, which, process=f"p/{nonce}")
            case "release":
                yield leased(offset, which, process=f"p/{nonce}", released=True)
            case "end of a lease":
                yield at(offset, f"lease/p/{nonce}".encode(), None)
            case "renewal" | "end of a process":
                yield renewed(offset, ended=what != "renewal")
            case "end of a renewal":
                yield at(offset, b"renewal/p", b"rubbish" if nonce == "n2" else None)
            case "bus":
                yield at(offset, BUS_KEY, encode_json(BusRecord(partitions=offset + 1)))
            case _:
                yield End(TOPIC, offset + 1)
