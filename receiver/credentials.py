"""Who may write which events: tokens by their digests, and the patterns that they grant."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import translate
from pathlib import Path

import msgspec

from ..engine.errors import ConfigError
from ..events.event import Event
from ..events.listed import is_own
from .answers import Answer, problem

_DIGEST = re.compile(r"[0-9a-f]{64}")
_BEARER = b"bearer "


class Credential(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the file says about one credential. The lists hold patterns; `*` is any text."""

    name: str
    token_sha256: str
    types: tuple[str, ...]
    sources: tuple[str, ...] = ("*",)
    subjects: tuple[str, ...] = ("*",)
    buses: tuple[str, ...] = ("*",)


def _pattern(patterns: Iterable[str]) -> re.Pattern[str]:
    # Only `*` is special; a [ in a source stands for itself.
    parts = [translate(each.replace("[", "[[]").replace("?", "[?]")) for each in patterns]
    return re.compile("|".join(parts) or r"(?!)")


class Grant:
    """What a request may write."""

    def __init__(
        self,
        name: str,
        types: Sequence[str],
        sources: Sequence[str] = ("*",),
        subjects: Sequence[str] = ("*",),
    ) -> None:
        self.name = name
        self._types = _pattern(types)
        self._own_types = _pattern(filter(is_own, types))
        self._sources, self._subjects = _pattern(sources), _pattern(subjects)

    def refusal(self, event: Event) -> str | None:
        """Why this event may not be written; None if it may."""
        types = self._own_types if is_own(event.type) else self._types
        for what, pattern, text in (
            ("type", types, event.type),
            ("source", self._sources, event.source),
            ("subject", self._subjects, event.subject or ""),
        ):
            if pattern.fullmatch(text) is None:
                return f"{self.name} may not write events of {what} {text[:200]!r}"
        return None


ANYBODY = Grant("a request without a credential", ["*"])
UNKNOWN = problem(
    401,
    "Send the header `authorization: Bearer TOKEN` with a token that this receiver knows.",
    www_authenticate='Bearer realm="interlock"',
)


class Credentials:
    """The credentials of a receiver for one bus. Without any, each request is ANYBODY's."""

    def __init__(self, credentials: Iterable[Credential] = (), bus: str = "") -> None:
        self._required = False
        self._grants: dict[str, Grant | None] = {}
        for each in credentials:
            self._required = True
            grant = Grant(each.name, each.types, each.sources, each.subjects)
            self._grants[each.token_sha256] = grant if _pattern(each.buses).fullmatch(bus) else None

    def admit(self, authorization: bytes | None) -> Grant | Answer:
        """The grant for this header; 401 if its token is missing, unknown or for other buses."""
        if not self._required:
            return ANYBODY
        if authorization is not None and authorization[: len(_BEARER)].lower() == _BEARER:
            # The time of this look-up can reveal digests, not tokens.
            digest = hashlib.sha256(authorization[len(_BEARER) :].strip()).hexdigest()
            return self._grants.get(digest) or UNKNOWN
        return UNKNOWN


def read_credentials(file: Path) -> list[Credential]:
    """The credentials of a TOML file. Raises ConfigError naming the file, the credential and the fault."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
        credentials = msgspec.convert(found, dict[str, list[dict[str, object]]]).get("credential", [])
        if set(found) - {"credential"} or not credentials:
            raise ValueError("it needs [[credential]] tables and nothing else")
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{file} has no credentials: {error}") from None
    return [_checked(file, number, each) for number, each in enumerate(credentials, 1)]


def _checked(file: Path, number: int, given: dict[str, object]) -> Credential:
    name = given.get("name", f"number {number}")
    try:
        credential = msgspec.convert(given, Credential)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file}, credential {name!r}: {error}.") from None
    if _DIGEST.fullmatch(credential.token_sha256) is None:
        raise ConfigError(
            f"{file}, credential {name!r}: token_sha256 is not the SHA-256 of a token, 64 lower-case"
            " hexadecimal digits. Make it with: printf %s TOKEN | sha256sum"
        )
    if not credential.types:
        raise ConfigError(f"{file}, credential {name!r}: types is empty, so it could write nothing.")
    return credential
