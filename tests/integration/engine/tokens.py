"""An identity provider as small as OAUTHBEARER needs it: a token endpoint over HTTPS, and its public key."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from .certificates import Certificate

ISSUER, AUDIENCE = "https://identity.example", "kafka"
LIFETIME_S = 600


class TokenEndpoint:
    """Gives a signed token to whoever shows one of `secrets` (by client id); as a context manager it serves.

    keys: a JSON Web Key Set, for those who check the tokens. given: all tokens that were given.
    """

    def __init__(self, folder: Path, certificate: Certificate, secrets: dict[str, str]) -> None:
        self.secrets = secrets
        self.given: list[str] = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.keys = folder / "keys.json"
        public = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.keys.write_text(json.dumps({"keys": [{**public, "kid": "one", "use": "sig", "alg": "ES256"}]}))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="token-endpoint")

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_port}/token"

    def token(self, client_id: str) -> str:
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": client_id, "iat": now, "exp": now + LIFETIME_S}
        self.given.append(jwt.encode(claims, self._key, "ES256", {"kid": "one"}))
        return self.given[-1]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                shown = self.headers.get("Authorization", "").removeprefix("Basic ")
                client_id, _, secret = base64.b64decode(shown).decode().partition(":")
                if secret and endpoint.secrets.get(client_id) == secret:
                    self._answer(200, {"access_token": endpoint.token(client_id), "token_type": "Bearer"})
                else:
                    self._answer(401, {"error": "invalid_client"})

            def _answer(self, status: int, form: dict[str, str]) -> None:
                body = json.dumps(form).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: the tests read what the client says."""

        return Handler

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
