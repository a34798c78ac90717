"""How a sender proves itself: a signature over the body, a token in a header, or nothing.

Facts from the senders' documentation, by page and section:

- GitHub: "Validating webhook deliveries".
- Slack: "Verifying requests from Slack", Signing secrets.
- Stripe: "Receive Stripe events in your webhook endpoint", Verify webhook signatures manually: several `v1`
  while a secret is rolled, and other schemes, which are to be ignored.
- Standard Webhooks 1.0.0: Signature scheme; Webhook headers: several signatures, separated by spaces.
- Svix: "Verifying webhooks manually": the same with headers of its own.
- PagerDuty: "Verifying signatures": several `v1=`, separated by commas, while a secret is changed.
- Paddle: "Verify webhook signatures": `ts=` and `h1=`, separated by semicolons.
- GitLab: "Webhooks", Secret token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ..endpoint import Request

WINDOW_S: Final = 300
_MOST_SIGNATURES: Final = 16  # of one request
# Larger numbers are milliseconds: 10^11 s would be the year 5138, 10^11 ms is 1973.
MILLISECONDS_FROM: Final = 10**11
_UNIX_TIME: Final = re.compile(rb"[0-9]{1,15}")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")


class Unverified(Exception):
    """The sender did not prove itself; the text says why, without anything secret."""


class Verification(Protocol):
    """Checks who sent a request. challenge: for the header www-authenticate of a refusal."""

    challenge: str

    def check_headers(self, request: Request) -> None:
        """Raises Unverified for what is wrong before the body is known."""
        ...

    def check_body(self, request: Request, body: bytes) -> None:
        """Raises Unverified for what is wrong with the body; called if `check_headers` did not raise."""
        ...


@dataclass(frozen=True)
class Signing:
    """How a sender signs.

    signatures: the header's name. split: returns the signatures in the header, and the time if it has one;
    raises Unverified. signs: what is signed, with `{body}`, `{timestamp}` and `{header.NAME}`. timestamp: the
    header with the time, if that is another one.
    """

    signatures: str
    split: Callable[[bytes], tuple[Sequence[bytes], bytes | None]]
    signs: str = "{body}"
    timestamp: str | None = None
    encoding: str = "hex"
    algorithm: str = "sha256"

    @property
    def has_time(self) -> bool:
        return "{timestamp}" in self.signs


def after(prefix: str, before_time: str = "") -> Callable[[bytes], tuple[Sequence[bytes], bytes | None]]:
    """A `Signing.split` for a header with one or more signatures, each after this prefix.

    Commas, semicolons or spaces separate them. A sender signs with two secrets while one replaces the other;
    what has another prefix, such as a later version, is ignored. before_time: what stands before the time, if
    the same header has it.
    """
    signature = _part(prefix, rb"[A-Za-z0-9+/=_-]+")
    time_ = _part(before_time, rb"[0-9]+") if before_time else None

    def split(value: bytes) -> tuple[Sequence[bytes], bytes | None]:
        found = signature.findall(value)
        if not found:
            raise Unverified(
                f"the signature does not begin with {prefix!r}, or has characters of no signature"
            )
        if time_ is None:
            return found, None
        times = time_.findall(value)
        if len(times) != 1:
            raise Unverified(f"the signature needs one time after {before_time!r}")
        return found, times[0]

    return split


def _part(prefix: str, wanted: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"(?:^|[,; ])" + re.escape(prefix.encode()) + rb"(" + wanted + rb")(?=[,; ]|$)")


def _stripe(value: bytes) -> tuple[Sequence[bytes], bytes | None]:
    pairs = [part.strip().partition(b"=") for part in value.split(b",")]
    times = [text for name, _, text in pairs if name == b"t"]
    if len(times) != 1:
        raise Unverified("the signature needs one t=")
    return [text for name, _, text in pairs if name == b"v1"], times[0]


def _standard(value: bytes) -> tuple[Sequence[bytes], bytes | None]:
    return [part[3:] for part in value.split(b" ") if part.startswith(b"v1,")], None


SIGNINGS: Final = {
    "github": Signing("x-hub-signature-256", after("sha256=")),
    "slack": Signing("x-slack-signature", after("v0="), "v0:{timestamp}:{body}", "x-slack-request-timestamp"),
    "stripe": Signing("stripe-signature", _stripe, "{timestamp}.{body}"),
    "standard": Signing(
        "webhook-signature",
        _standard,
        "{header.webhook-id}.{timestamp}.{body}",
        "webhook-timestamp",
        encoding="base64",
    ),
    "svix": Signing(
        "svix-signature",
        _standard,
        "{header.svix-id}.{timestamp}.{body}",
        "svix-timestamp",
        encoding="base64",
    ),
}


class Signature:
    """Checks an HMAC, and the time that is signed with it."""

    challenge = "Signature"

    def __init__(
        self, signing: Signing, keys: Sequence[bytes], window_s: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._signing, self._keys, self._window_s, self._clock = signing, keys, window_s, clock
        self._signs = _PLACEHOLDER.split(signing.signs)  # literals and placeholders in turn

    def check_headers(self, request: Request) -> None:
        self._given(request)

    def check_body(self, request: Request, body: bytes) -> None:
        signatures, stamp = self._given(request)
        wanted = [self._signature(key, request, body, stamp) for key in self._keys]
        if not any(hmac.compare_digest(each, given) for each in wanted for given in signatures):
            raise Unverified(
                f"the signature in header {self._signing.signatures} is not that of this body with the"
                " webhook's secret"
            )

    def _given(self, request: Request) -> tuple[Sequence[bytes], bytes]:
        """The signatures, written as `_signature` writes them, and the time; empty if none is signed."""
        value = _once(request, self._signing.signatures)
        signatures, stamp = self._signing.split(value)
        if not signatures:
            raise Unverified(f"header {self._signing.signatures} has no signature of a known version")
        if len(signatures) > _MOST_SIGNATURES:
            raise Unverified(f"header {self._signing.signatures} has more than {_MOST_SIGNATURES} signatures")
        if self._signing.encoding == "hex":
            signatures = [each.lower() for each in signatures]
        for name in self._signs[1::2]:
            if name.startswith("header."):
                _once(request, name.removeprefix("header."))
        if not self._signing.has_time:
            return signatures, b""
        if stamp is None:
            stamp = _once(request, self._signing.timestamp or "")
        if _UNIX_TIME.fullmatch(stamp) is None:
            raise Unverified("the time of the signature is not a Unix time")
        at = int(stamp) / (1000 if int(stamp) >= MILLISECONDS_FROM else 1)
        apart = self._clock() - at
        if abs(apart) > self._window_s:
            raise Unverified(
                f"the time of the signature is {abs(apart):.0f} s {'before' if apart > 0 else 'after'} the"
                f" receiver's, and at most {self._window_s} s are allowed: send the request again with a new"
                " signature, or correct the clock"
            )
        return signatures, stamp

    def _signature(self, key: bytes, request: Request, body: bytes, stamp: bytes) -> bytes:
        code = hmac.new(key, digestmod=self._signing.algorithm)
        for number, part in enumerate(self._signs):
            if number % 2 == 0:
                code.update(part.encode())
            elif part == "body":
                code.update(body)
            elif part == "timestamp":
                code.update(stamp)
            else:
                code.update(_once(request, part.removeprefix("header.")))
        digest = code.digest()
        return digest.hex().encode() if self._signing.encoding == "hex" else base64.b64encode(digest)


class Token:
    """Checks a secret in a header, which stands behind a scheme (`Bearer`) or alone."""

    def __init__(self, header: str, scheme: str, tokens: Sequence[bytes]) -> None:
        self.challenge = scheme or "Token"
        self._header, self._scheme = header, scheme
        self._digests = [hashlib.sha256(token).digest() for token in tokens]

    def check_headers(self, request: Request) -> None:
        value = _once(request, self._header)
        if self._scheme:
            scheme, _, value = value.partition(b" ")
            if scheme.lower() != self._scheme.lower().encode():
                raise Unverified(f"header {self._header} is not of the scheme {self._scheme}")
        # Digests have one length, so the comparison does not reveal that of a token.
        given = hashlib.sha256(value.strip(b" ")).digest()
        if not any(hmac.compare_digest(given, each) for each in self._digests):
            raise Unverified(f"header {self._header} does not have the webhook's secret")

    def check_body(self, request: Request, body: bytes) -> None:
        """The headers were enough."""


class Nothing:
    """Takes each request."""

    challenge = ""

    def check_headers(self, request: Request) -> None:
        pass

    def check_body(self, request: Request, body: bytes) -> None:
        pass


def _once(request: Request, name: str) -> bytes:
    value = request.header(name.encode())
    if not value:
        raise Unverified(f"header {name} is missing, empty or repeated")
    return value
