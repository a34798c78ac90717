"""The public keys of an issuer of JSON Web Tokens, fetched from its JWKS URL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from .faults import Faults

FRESH_S: Final = 300.0  # then they are fetched again, while the old ones are used
UNKNOWN_AGAIN_S: Final = 30.0  # at most so often for a key id that is not among them
FAILED_AGAIN_S: Final = 5.0
TOTAL_S: Final = 5.0
MOST_BYTES: Final = 256 * 1024  # of the JWKS document
# Requests that wait for one fetch. No other limit counts their headers, and the bodies that arrive meanwhile,
# and anybody can name an issuer and a key that it does not have.
MOST_WAITING: Final = 100
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_RSA_BITS: Final = 2048
_CURVES: Final = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",), "Ed25519": ("EdDSA",)}


class Key(NamedTuple):
    """A public key and the algorithms that it may verify, all asymmetric; a token cannot add one."""

    public: Any
    algorithms: tuple[str, ...]


class NoKeysError(Exception):
    """The keys were never fetched, or too many requests wait for them: no token can be verified now."""


class Keys:
    """The keys of one issuer by their ids. For the tasks of one event loop.

    version: changes with the keys.
    """

    def __init__(
        self,
        url: str,
        fetch: Callable[[str], Mapping[str | None, Sequence[Key]]] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._fetch, self._now = url, fetch or fetch_keys, now
        self._keys: Mapping[str | None, Sequence[Key]] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._failed = False
        self._task: asyncio.Task[None] | None = None
        self._waiting = 0
        self._faults = Faults()
        self.version = 0

    async def find(self, key_id: str | None) -> Sequence[Key]:
        """The keys with this id; if the token names none, the only key or all without an id.

        Empty if there is no such key. Raises NoKeysError.
        """
        keys = self._find(key_id)
        if not keys:
            self.refresh(FAILED_AGAIN_S if self._failed else UNKNOWN_AGAIN_S)
        if not keys and self._task is not None:
            if self._waiting >= MOST_WAITING:
                raise NoKeysError
            self._waiting += 1
            try:
                await asyncio.shield(self._task)  # other requests wait for the same fetch
            finally:
                self._waiting -= 1
            keys = self._find(key_id)
        if not self.version:
            raise NoKeysError
        return keys

    def refresh(self, after_s: float = FRESH_S) -> None:
        """Starts to fetch the keys, unless a fetch is under way or began less than `after_s` ago."""
        if self._task is None and self._now() - self._tried_at >= after_s:
            self._tried_at = self._now()
            self._task = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            keys = await asyncio.to_thread(self._fetch, self._url)
        except Exception as error:  # noqa: BLE001  # of any kind: the old keys are used
            self._failed = True
            self._faults.report(f"the keys at {self._url} could not be fetched: {error}"[:500])
        else:
            self._failed = False
            if keys != self._keys or not self.version:
                self.version += 1
            self._keys = keys
        finally:
            self._task = None

    def _find(self, key_id: str | None) -> Sequence[Key]:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id, ())


def fetch_keys(url: str) -> dict[str | None, list[Key]]:
    """The usable keys at a URL. Blocks up to TOTAL_S. Raises an error of httpx, or ValueError.

    Call it where no event loop runs.
    """
    return keys_of(asyncio.run(_document(url)))


async def _document(url: str) -> bytes:
    """What the URL answers. In a loop of its own: only a task ends wherever it waits.

    httpx's own limits count from each byte that arrives, so an answer that trickles in would never end.
    """
    import httpx

    found = bytearray()
    try:
        async with (
            asyncio.timeout(TOTAL_S),
            httpx.AsyncClient(timeout=TOTAL_S, follow_redirects=False) as client,
            client.stream("GET", url) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise ValueError(f"the answer is {answer.status_code}, not 200")
            async for part in answer.aiter_bytes():
                found += part
                if len(found) > MOST_BYTES:
                    raise ValueError(f"the answer is larger than {MOST_BYTES} bytes")
    except TimeoutError:
        raise ValueError(f"the answer takes over {TOTAL_S:g} s") from None
    return bytes(found)


def keys_of(document: bytes) -> dict[str | None, list[Key]]:
    """The keys of a JWKS document that verify signatures, by their ids; others are left out.

    Several keys may have one id (RFC 7517, section 4.5), or none. Raises ValueError.
    """
    import jwt

    try:
        form = msgspec.json.decode(document, type=dict[str, Any])
    except RecursionError:
        raise ValueError("the document is nested too deeply") from None
    entries = form.get("keys")
    if not isinstance(entries, list):
        raise ValueError("the document has no list `keys`")
    keys: dict[str | None, list[Key]] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use") not in (None, "sig"):
            continue
        if "d" in entry:
            continue  # a private key: who reads the document could sign
        possible = _RSA if entry.get("kty") == "RSA" else _CURVES.get(str(entry.get("crv")), ())
        stated = entry.get("alg")
        algorithms = tuple(each for each in possible if stated in (None, each))
        if not algorithms:
            continue  # among them symmetric keys
        try:
            public = jwt.PyJWK(entry, algorithms[0]).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        if entry.get("kty") == "RSA" and public.key_size < _RSA_BITS:
            continue
        key_id = entry.get("kid")
        known_as = key_id if isinstance(key_id, str) else None
        keys.setdefault(known_as, []).append(Key(public, algorithms))
    if not keys:
        raise ValueError("the document has no usable public key")
    return keys
