"""Verifies JSON Web Tokens, and remembers those that were verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from .answers import Response, problem, try_again
from .credentials_document import Issuer
from .grant import Grant
from .jwks import Key, Keys, NoKeysError

MOST_TOKEN_BYTES: Final = 8 * 1024
MOST_REMEMBERED: Final = 10_000
LEEWAY_S: Final = 10  # between the issuer's clock and ours
_WRONG: Final = "The token is not valid: "


class _Verified(NamedTuple):
    grant: Grant
    expires: float  # seconds since 1970
    keys: Keys
    version: int  # of the keys that verified it


class TokenVerifier:
    """Verifies tokens of some issuers, and returns what their senders may write.

    claims: (issuer, the claims that a token must have, the grant), in order; the first that fits counts. A
    claim fits if it is the text, or a list that contains the text.
    """

    def __init__(
        self,
        issuers: Sequence[Issuer],
        claims: Iterable[tuple[str, Mapping[str, str], Grant]],
        keys: Callable[[str], Keys] = Keys,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = {each.issuer: (each, keys(each.jwks_url)) for each in issuers}
        self._claims = list(claims)
        self._now = now
        self._verified: dict[str, _Verified] = {}

    async def admit(self, token: bytes, digest: str, unknown: Response) -> Grant | Response:
        """The grant of a valid token; else 401, or 503 if its issuer's keys cannot be fetched.

        digest: of the token. A valid token is remembered by it until it expires or the keys change.
        """
        verified = self._verified.get(digest)
        if verified is not None:
            verified.keys.refresh()
            if verified.version == verified.keys.version and verified.expires > self._now():
                return verified.grant
            del self._verified[digest]
        if len(token) > MOST_TOKEN_BYTES or token.count(b".") != 2:
            return unknown
        return await self._verify(token, digest, unknown)

    async def _verify(self, token: bytes, digest: str, unknown: Response) -> Grant | Response:
        import jwt

        try:
            read = jwt.decode_complete(token, options={"verify_signature": False})
            found = self._issuers.get(str(read["payload"].get("iss")))
            if found is None:
                return unknown
            issuer, keys = found
            keys.refresh()
            key_id = read["header"].get("kid")
            claims = _claims(token, await keys.find(key_id if isinstance(key_id, str) else None), issuer)
            if claims is None:
                return _invalid("no key of its issuer has verified it.")
            expires = float(claims["exp"])
        except NoKeysError:
            return try_again(
                503, "The keys of the token's issuer cannot be fetched now; send the same again."
            )
        except jwt.ExpiredSignatureError:
            return _invalid("it has expired.")
        except jwt.ImmatureSignatureError:
            return _invalid(
                "by its claim nbf or iat it begins later: compare the issuer's clock with this one."
            )
        except jwt.InvalidAudienceError:
            return _invalid("it is for another audience.")
        except jwt.MissingRequiredClaimError as error:
            return _invalid(f"it has no claim {error.claim}.")
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            return _invalid("no key of its issuer has verified it, or a claim is malformed.")
        for name, wanted, grant in self._claims:
            if name == issuer.issuer and all(_fits(claims.get(each), text) for each, text in wanted.items()):
                if len(self._verified) >= MOST_REMEMBERED:
                    self._verified.clear()
                self._verified[digest] = _Verified(grant, expires, keys, keys.version)
                return grant
        return _invalid("no credential has its claims.")


def _claims(token: bytes, keys: Iterable[Key], issuer: Issuer) -> dict[str, Any] | None:
    """The claims of a token that one of the keys verifies; None if none does. Raises an error of jwt."""
    import jwt

    for key in keys:
        with suppress(jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
            claims: dict[str, Any] = jwt.decode(
                token,
                key.public,
                algorithms=key.algorithms,
                issuer=issuer.issuer,
                audience=issuer.audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
            return claims
    return None


def _fits(claim: object, text: str) -> bool:
    return claim == text or (isinstance(claim, list) and text in claim)


def _invalid(why: str) -> Response:
    challenge = 'Bearer realm="interlock", error="invalid_token"'
    return problem(401, f"{_WRONG}{why}", www_authenticate=challenge)
