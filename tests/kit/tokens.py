"""An identity provider as small as OAUTHBEARER needs it: a token endpoint over HTTPS, and its public key."""

from __future__ import annotations

import base64
import json
import ssl
import time
from email.message import Message
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.kit.answering import Answer, Answering
from tests.kit.certificates import Certificate

ISSUER, AUDIENCE = "https://identity.example", "kafka"
LIFETIME_S = 600


class TokenEndpoint(Answering):
    """Gives a signed token to a client with one of `secrets` (by client id); serves as a context manager.

    keys: a JSON Web Key Set to check the tokens with. given: all tokens so far.
    """

    def __init__(self, folder: Path, certificate: Certificate, secrets: dict[str, str]) -> None:
        self.secrets = secrets
        self.given: list[str] = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.keys = folder / "keys.json"
        public = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.keys.write_text(json.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "ES256"}]}))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate.certificate, certificate.key)
        super().__init__("token-endpoint", tls)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/token"

    def token(self, client_id: str) -> str:
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": client_id, "iat": now, "exp": now + LIFETIME_S}
        self.given.append(jwt.encode(claims, self._key, "ES256", {"kid": "one"}))
        return self.given[-1]

    def answer(self, headers: Message, body: bytes) -> Answer:
        shown = headers.get("Authorization", "").removeprefix("Basic ")
        client_id, _, secret = base64.b64decode(shown).decode().partition(":")
        if secret and self.secrets.get(client_id) == secret:
            return self._json(200, {"access_token": self.token(client_id), "token_type": "Bearer"})
        return self._json(401, {"error": "invalid_client"})

    @staticmethod
    def _json(status: int, form: dict[str, str]) -> Answer:
        return Answer(status, "application/json", json.dumps(form).encode())
