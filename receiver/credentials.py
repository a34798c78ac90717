"""Recognises a sender by its bearer token, JSON Web Token or client certificate."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from .answers import Response, problem
from .credentials_document import Document, certificate_name
from .endpoint import Request
from .grant import ANYBODY, Grant, pattern

if TYPE_CHECKING:
    from .tokens import TokenVerifier

_BEARER: Final = b"bearer "
# A request with one of these comes from a web page or through a proxy, so anybody may have sent it.
_ELSEWHERE: Final = frozenset({b"origin", b"forwarded", b"x-forwarded-for", b"via"})
_REALM: Final = 'Bearer realm="interlock"'
NOT_LOCAL: Final = problem(
    403,
    "Without --credentials this receiver takes events from programs on its machine, and this request comes"
    " from a web page or through a proxy. Start the receiver with --credentials, or with --allow-anonymous if"
    " only those who may write can reach it.",
)


class Credentials:
    """The credentials of a receiver for one bus.

    Without a document, each request is granted ANYBODY; from a web page or through a proxy only if `is_open`.
    A credential for other buses is as unknown as one that does not exist.
    """

    def __init__(self, document: Document | None = None, bus: str = "", is_open: bool = False) -> None:
        self._required, self._is_open = document is not None, is_open
        self._by_digest: dict[str, Grant] = {}
        self._by_certificate: dict[str, Grant] = {}
        self._tokens: TokenVerifier | None = None
        if document is None:
            return
        claims: list[tuple[str, dict[str, str], Grant]] = []
        for each in document.credentials:
            if pattern(each.buses).fullmatch(bus) is None:
                continue
            grant = Grant(each.name, each.types, each.sources, each.subjects)
            if each.token_sha256 is not None:
                self._by_digest[each.token_sha256] = grant
            elif each.client_cert is not None:
                self._by_certificate.setdefault(certificate_name(each.client_cert) or "", grant)
            elif each.claims is not None:
                claims.append((each.issuer or "", each.claims, grant))
        if claims:
            from .tokens import TokenVerifier

            self._tokens = TokenVerifier(document.issuers, claims)
        hint = _hint(bool(self._by_digest), bool(claims), bool(self._by_certificate))
        self._unknown = problem(401, hint, www_authenticate=_REALM)

    async def admit(self, request: Request) -> Grant | Response:
        """What the sender may write; 401 if it has no credential, an unknown one, or one for other buses.

        A token is used before a certificate. 503 if the keys of its issuer cannot be fetched.
        """
        if not self._required:
            is_local = self._is_open or _ELSEWHERE.isdisjoint(request.last)
            return ANYBODY if is_local else NOT_LOCAL
        token = bearer_token(request)
        if token is not None:
            # The time of this look-up can reveal digests, not tokens.
            digest = hashlib.sha256(token).hexdigest()
            grant = self._by_digest.get(digest)
            if grant is None and self._tokens is not None:
                return await self._tokens.admit(token, digest, self._unknown)
            return grant or self._unknown
        # The token is None also if the header is repeated.
        if self._by_certificate and b"authorization" not in request.last:
            for name, grant in self._by_certificate.items():  # in the document's order
                if name in request.certificate_names:
                    return grant
        return self._unknown


def _hint(tokens: bool, claims: bool, certificates: bool) -> str:
    """What a sender must send, for the kinds of credentials that this bus has."""
    kinds = ["a token that this receiver knows"] * tokens
    kinds += ["a JSON Web Token of an issuer that it knows"] * claims
    ways = [f"send the header `authorization: Bearer TOKEN` with {' or '.join(kinds)}"] if kinds else []
    if certificates:
        ways.append(
            "connect with a client certificate that this receiver knows, and send no header `authorization`"
        )
    if not ways:
        return "This receiver has no credential for its bus, so nobody may write; its administrator adds one."
    text = "; or ".join(ways)
    return f"{text[0].upper()}{text[1:]}."


def bearer_token(request: Request) -> bytes | None:
    """The token of the header `authorization`; None if it is missing, repeated or of another scheme."""
    value = request.header(b"authorization")
    if value is None or value[: len(_BEARER)].lower() != _BEARER:
        return None
    return value[len(_BEARER) :].strip()
