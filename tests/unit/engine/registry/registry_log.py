"""Records of a registry topic, for the tests of the registry and of its first read."""

from __future__ import annotations

from interlock import event
from interlock.engine.bus import End, Record, TopicPartition
from interlock.engine.records import LeaseRecord, Registration, RegistrationKey, encode_json
from interlock.engine.registry.registry import Registry

TOPIC = TopicPartition("bus-subscription", 0)
SOLO = event("solo")
A, A2, B = (Registration.of(s, SOLO, None, since) for s, since in (("a", 1), ("a", 2), ("b", 1)))
D, D2 = (Registration.of("d", SOLO, None, since, kind="durable") for since in (1, 2))


def at(offset: int, key: bytes | None, value: bytes | None) -> Record:
    return Record(TOPIC, offset, 1000 + offset, key, value, None)


def key_of(registration: Registration, nonce: str = "n") -> bytes:
    return RegistrationKey(registration.incarnation, nonce).encode()


def registered(offset: int, registration: Registration, nonce: str = "n") -> Record:
    return at(offset, key_of(registration, nonce), encode_json(registration))


def removed(offset: int, registration: Registration, nonce: str = "n") -> Record:
    return at(offset, key_of(registration, nonce), None)


def leased(offset: int, *registrations: Registration, process: str = "p") -> Record:
    record = LeaseRecord(deployment="d", incarnations=[r.incarnation for r in registrations], host="h")
    return at(offset, f"lease/{process}".encode(), encode_json(record))


def read(*items: Record | End) -> Registry:
    """A registry to which these were applied one by one."""
    registry = Registry()
    for item in items:
        registry.apply(item)
    return registry
