"""Proof that an event of Interlock's own types was made by an emitter of its bus (docs/operate/proof.md).

Emitters add the extension `interlockproof`: an HMAC-SHA256 over the event topic, all attributes and the data.
Whoever reads the event topic asks `Proof.check` whether a record may be taken for an event.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .attributes import PROOF, parse_timestamp, shown
from .errors import EventError, InterlockError
from .event import Event
from .listed import is_own

# Properties of a connection beside those of the Kafka client, which gets none of them. Airflow masks the
# values of names with `secret` in its logs.
SECRET: Final = "interlock.proof.secret"  # noqa: S105  # the name of a property
ACCEPTED: Final = "interlock.proof.secret.accepted"
FROM: Final = "interlock.proof.from"
NAMES: Final = frozenset({SECRET, ACCEPTED, FROM})
_SECRET: Final = re.compile(r"[!-~]{32,512}")
_RULE: Final = "32 to 512 printable ASCII characters without blanks, as `openssl rand -hex 32` prints"
_DIGEST: Final = "sha256"
_KEY_ID: Final = b"interlock proof 1: key id"
_VERSION: Final = "1"


class ProofError(InterlockError, ValueError):
    """A property of the proof is not usable. The message has the property's name, and no secret."""


@dataclass(frozen=True, eq=False)
class Proof:
    """The secrets of a bus, and the time from which its events need a proof.

    topic: the event topic of the bus. key_id: of the secret that signs. secrets: {key id: secret} of all that
    are accepted. from_ms: records with earlier timestamps need no proof; None: no record needs one.
    """

    topic: str
    key_id: str
    secrets: Mapping[str, bytes] = field(repr=False)
    from_ms: int | None = None

    @classmethod
    def of(cls, client: Mapping[str, object], topic: str) -> Proof | None:
        """The proof that these properties of a connection ask for; None if they name none.

        Raises ProofError.
        """
        names = NAMES & client.keys()
        if not names:
            return None
        if SECRET not in names:
            raise ProofError(f"{min(names)} is set without {SECRET}: set that too, to {_RULE}")
        secrets: dict[str, bytes] = {}
        for name in (SECRET, ACCEPTED):  # in this order: the first one signs
            if name in names:
                secret = _secret(name, client[name])
                secrets.setdefault(_key_id(secret), secret)
        from_ms = _moment(client[FROM]) if FROM in names else None
        return cls(topic, next(iter(secrets)), secrets, from_ms)

    def signed(self, event: Event) -> Event:
        """The event, with a proof if its type is reserved for Interlock."""
        if not is_own(event.type):
            return event
        mac = _mac(self.secrets[self.key_id], self.topic, event)
        return Event({**event.attributes, PROOF: f"{_VERSION}.{self.key_id}.{mac}"}, event.data)

    def check(self, event: Event, timestamp_ms: int) -> None:
        """Raises EventError if an event of the event topic needs a proof, and has no valid one.

        timestamp_ms: of its record, which the broker sets.
        """
        if self.from_ms is None or timestamp_ms < self.from_ms or not is_own(event.type):
            return
        given = event.attributes.get(PROOF)
        head = f"the type {shown(event.type)} is Interlock's own"
        if given is None:
            raise EventError(
                f"{head}, and this bus takes such events only with a proof of its emitters ({PROOF}), which"
                f" this one lacks: give its sender a connection with {SECRET}, and let it send the event"
                " again (redriving adds no proof)"
            )
        version, _, rest = given.partition(".")
        key_id, _, mac = rest.partition(".")
        secret = self.secrets.get(key_id) if version == _VERSION else None
        if secret is None:
            raise EventError(
                f"{head}, and its proof {shown(f'{version}.{key_id}', 40)} is of a secret that this"
                f" connection does not accept: if its sender is one of this bus, set {ACCEPTED} to its secret"
                " and redrive the event"
            )
        if not hmac.compare_digest(_mac(secret, self.topic, event).encode(), mac.encode()):
            raise EventError(
                f"{head}, and its proof is not valid: the event was changed, or made for another topic than"
                f" {self.topic}; let its emitter send it again"
            )


def without_proof(client: Mapping[str, object]) -> dict[str, object]:
    """The properties of the Kafka client itself, which refuses names that it does not know."""
    return {name: value for name, value in client.items() if name not in NAMES}


def _mac(secret: bytes, topic: str, event: Event) -> str:
    # No two events have the same text: a name has no "=", a value no control character. A null value and an
    # empty one are the same, as for a condition.
    attributes = event.attributes
    lines = [f"{name}={attributes[name]}" for name in sorted(attributes) if name != PROOF]
    text = "\n".join((topic, *lines)).encode() + b"\0" + (event.data or b"")
    return hmac.digest(secret, text, _DIGEST).hex()


def _key_id(secret: bytes) -> str:
    return hmac.digest(secret, _KEY_ID, _DIGEST).hex()[:8]


def _secret(name: str, value: object) -> bytes:
    if not isinstance(value, str) or not _SECRET.fullmatch(value):
        raise ProofError(f"{name} is not usable: set it to {_RULE}")
    return value.encode()


def _moment(value: object) -> int:
    try:
        found = parse_timestamp(value if isinstance(value, str) else "")
    except ValueError:
        raise ProofError(
            f"{FROM} is {shown(value)}: give RFC 3339 with zone, such as 2026-11-20T06:00:00Z"
        ) from None
    return round(found.timestamp() * 1000)
