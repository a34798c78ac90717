"""Reads and checks the document that says who may write which events."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from ..engine.errors import ConfigError

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_OF_NO_TOKEN: Final = hashlib.sha256(b"").hexdigest()  # what sha256sum gives for a variable that is not set


class Credential(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One sender: how it is recognised, in exactly one way, and what it may write.

    token_sha256: of a bearer token. client_cert: a name in a verified client certificate. claims: of a JSON
    Web Token of `issuer`, which may be left out if the document has one. The lists hold patterns; `*` is any
    text.
    """

    name: str
    types: tuple[str, ...]
    token_sha256: str | None = None
    client_cert: str | None = None
    claims: dict[str, str] | None = None
    issuer: str | None = None
    sources: tuple[str, ...] = ("*",)
    subjects: tuple[str, ...] = ("*",)
    buses: tuple[str, ...] = ("*",)


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who signs JSON Web Tokens, for whom, and where its public keys are."""

    issuer: str
    audience: str
    jwks_url: str


@dataclass(frozen=True)
class Document:
    """The checked document."""

    credentials: Sequence[Credential]
    issuers: Sequence[Issuer] = ()

    @property
    def by_certificate(self) -> list[str]:
        """Names of the credentials that need client certificates."""
        return [each.name for each in self.credentials if each.client_cert is not None]


def read_file(file: Path) -> Document:
    """The document of a TOML file. Raises ConfigError naming the file, the credential and the fault."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} has no credentials: {error}") from None
    return read_document(document, str(file))


def read_document(document: Mapping[str, object], origin: str) -> Document:
    """Checks a document. Raises ConfigError naming origin, credential and fault, but no digest."""
    try:
        found = msgspec.convert(document, dict[str, list[dict[str, object]]])
        if set(found) - {"credential", "issuer"} or not found.get("credential"):
            raise ValueError("it needs [[credential]] tables, may have [[issuer]] tables, and nothing else")
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{origin} has no credentials: {error}.") from None
    issuers = [
        _issuer(f"{origin}, issuer {each.get('issuer', f'number {number}')!r}", each)
        for number, each in enumerate(found.get("issuer", ()), 1)
    ]
    if len({each.issuer for each in issuers}) < len(issuers):
        raise ConfigError(f"{origin}: two [[issuer]] tables have the same issuer.")
    credentials = [
        _credential(f"{origin}, credential {each.get('name', f'number {number}')!r}", each, issuers)
        for number, each in enumerate(found["credential"], 1)
    ]
    owners: dict[str, str] = {}
    for each in credentials:
        if each.token_sha256 is not None:
            owner = owners.setdefault(each.token_sha256, each.name)
            if owner is not each.name:
                raise ConfigError(f"{origin}: credentials {owner!r} and {each.name!r} have the same token.")
    return Document(credentials, issuers)


def certificate_name(text: str) -> str | None:
    """A `client_cert` in the form of `certificate.names_of`; None if it has no known form."""
    if "://" in text:
        return f"URI:{text}"
    is_known = text.startswith(("CN=", "DNS:")) and text not in ("CN=", "DNS:")
    return text if is_known else None


def _credential(what: str, given: dict[str, object], issuers: Sequence[Issuer]) -> Credential:
    try:
        credential = msgspec.convert(given, Credential)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}.") from None
    ways = [credential.token_sha256, credential.client_cert, credential.claims]
    if len([way for way in ways if way is not None]) != 1:
        raise ConfigError(f"{what}: give exactly one of token_sha256, client_cert and claims.")
    if credential.token_sha256 is not None and _DIGEST.fullmatch(credential.token_sha256) is None:
        raise ConfigError(
            f"{what}: token_sha256 is not the SHA-256 of a token, 64 lower-case hexadecimal digits. Make it"
            " with: printf %s TOKEN | sha256sum"
        )
    if credential.client_cert is not None and certificate_name(credential.client_cert) is None:
        raise ConfigError(f'{what}: client_cert is not of the form "CN=NAME", "DNS:NAME" or "SCHEME://URI".')
    if credential.claims is not None:
        if not credential.claims:
            raise ConfigError(f"{what}: claims is empty, so any token of the issuer could write.")
        if credential.issuer is None and len(issuers) == 1:
            credential = msgspec.structs.replace(credential, issuer=issuers[0].issuer)
        if credential.issuer not in {each.issuer for each in issuers}:
            raise ConfigError(f"{what}: issuer must be that of one of the [[issuer]] tables.")
    elif credential.issuer is not None:
        raise ConfigError(f"{what}: issuer is given without claims.")
    if credential.token_sha256 == _OF_NO_TOKEN:
        raise ConfigError(
            f"{what}: token_sha256 is that of an empty token, so anybody could write. Make one with: openssl"
            " rand -hex 32"
        )
    for name in ("types", "sources", "subjects", "buses"):
        if not getattr(credential, name):
            raise ConfigError(f"{what}: {name} is empty, so it could write nothing.")
    return credential


def _issuer(what: str, given: dict[str, object]) -> Issuer:
    try:
        issuer = msgspec.convert(given, Issuer)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}.") from None
    if not issuer.issuer or not issuer.audience:
        raise ConfigError(f"{what}: issuer and audience must not be empty.")
    try:
        url = urlsplit(issuer.jwks_url)
        is_safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname or ""))
        usable = is_safe and url.hostname and url.username is None and url.password is None
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{what}: jwks_url must be an https URL without a user; http only on this machine.")
    return issuer


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
