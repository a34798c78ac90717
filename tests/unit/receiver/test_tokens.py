"""JSON Web Tokens: which are granted, and how long they and the keys are remembered."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from interlock.receiver import jwks
from interlock.receiver.answers import Response, problem
from interlock.receiver.credentials_document import Issuer
from interlock.receiver.grant import Grant
from interlock.receiver.jwks import Key, Keys, keys_of
from interlock.receiver.tokens import TokenVerifier

from tests.kit.certificates import Authority

NOW = 1_800_000_000.0
UNKNOWN = problem(401, "no token that this receiver knows", www_authenticate="Bearer")
RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
SHOP, GROUP = Grant("shop", ["*"]), Grant("group", ["*"])
CLAIMS = {"iss": "https://a", "aud": "interlock", "sub": "shop", "exp": 4_000_000_000}


ALGORITHMS: list[tuple[Any, Any]] = [
    (rsa.RSAPrivateKey, jwt.algorithms.RSAAlgorithm),
    (ec.EllipticCurvePrivateKey, jwt.algorithms.ECAlgorithm),
    (ed25519.Ed25519PrivateKey, jwt.algorithms.OKPAlgorithm),
]


def jwk(key: Any, kid: str, **more: str) -> dict[str, Any]:
    """The public half of a private key as JWK. more: members such as `use` and `alg`."""
    algorithm = next(algorithm for kind, algorithm in ALGORITHMS if isinstance(key, kind))
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, **more}


def document(*keys: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


PUBLISHED = document(jwk(RSA, "r"), jwk(EC, "e"), jwk(ED, "d"))


class Source:
    """The JWKS URL: its document, or the error of a fetch, and how often it was fetched."""

    def __init__(self, found: bytes | Exception = PUBLISHED) -> None:
        self.found, self.fetched, self.now = found, 0, 0.0

    def fetch(self, url: str) -> Mapping[str | None, list[Key]]:
        assert url == "https://a/keys"
        self.fetched += 1
        if isinstance(self.found, Exception):
            raise self.found
        return keys_of(self.found)

    def tokens(self, now: Callable[[], float] = lambda: NOW) -> TokenVerifier:
        issuer = Issuer(issuer="https://a", audience="interlock", jwks_url="https://a/keys")
        claims = [("https://a", {"sub": "shop"}, SHOP), ("https://a", {"groups": "emitters"}, GROUP)]
        return TokenVerifier([issuer], claims, lambda url: Keys(url, self.fetch, lambda: self.now), now)


def signed(key: Any = RSA, kid: str | None = "r", alg: str = "RS256", **claims: Any) -> bytes:
    given = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return jwt.encode(given, key, alg, headers={"kid": kid} if kid else None).encode()


async def admitted(tokens: TokenVerifier, token: bytes) -> Grant | Response:
    return await tokens.admit(token, hashlib.sha256(token).hexdigest(), UNKNOWN)


def refused(tokens: TokenVerifier, token: bytes) -> Response:
    found = asyncio.run(admitted(tokens, token))
    assert isinstance(found, Response)
    return found


@pytest.mark.parametrize(
    ("key", "kid", "alg"),
    [(RSA, "r", "RS256"), (RSA, "r", "PS512"), (EC, "e", "ES256"), (ED, "d", "EdDSA")],
    ids=["RS256", "PS512", "ES256", "EdDSA"],
)
def test_a_token_of_the_issuer_is_granted(key: Any, kid: str, alg: str) -> None:
    assert asyncio.run(admitted(Source().tokens(), signed(key, kid, alg))) is SHOP


def test_each_key_without_an_id_verifies_tokens_that_name_none() -> None:
    """While an issuer changed its key, tokens of the old one got 401."""
    keys = [{**jwk(key, ""), "kid": None} for key in (RSA, EC, OTHER_RSA)]
    for key, alg in ((RSA, "RS256"), (EC, "ES256"), (OTHER_RSA, "RS256")):
        assert asyncio.run(admitted(Source(document(*keys)).tokens(), signed(key, None, alg))) is SHOP
    for token, says in (
        (signed(ED, None, "EdDSA"), "no key"),
        (signed(rsa.generate_private_key(65537, 2048), None), "no key"),
        (signed(kid=None, exp=1_000_000_000), "expired"),
        (signed(), "no key"),  # it names another key
    ):
        assert says in refused(Source(document(*keys)).tokens(), token).body.decode()


def test_a_claim_may_be_a_list_with_the_value() -> None:
    token = signed(sub="bank", groups=["readers", "emitters"])
    assert asyncio.run(admitted(Source().tokens(), token)) is GROUP


def unsigned() -> bytes:
    return jwt.encode(CLAIMS, None, "none", headers={"kid": "r"}).encode()


def confused() -> bytes:
    """A token whose HMAC has the public key as its secret."""
    import hmac

    secret = json.dumps(jwk(RSA, "r")).encode()
    parts = [{"alg": "HS256", "kid": "r", "typ": "JWT"}, CLAIMS]
    text = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    mac = hmac.new(secret, text, hashlib.sha256).digest()
    return text + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (signed(OTHER_RSA), "no key"),
        (signed(kid="x"), "no key"),
        (signed(kid=None), "no key"),
        (signed(EC, "r", "ES256"), "no key"),
        (unsigned(), "no key"),
        (confused(), "no key"),
        (signed()[:-4] + b"AAAA", "no key"),
        (signed(exp=1_000_000_000), "expired"),
        (signed(exp=None), "no claim exp"),
        (signed(exp="never"), "malformed"),
        (signed(aud="other"), "another audience"),
        (signed(aud=None), "no claim aud"),
        (signed(nbf=4_000_000_000), "begins later: compare the issuer's clock"),
        (signed(iat=4_000_000_000), "begins later: compare the issuer's clock"),
        (signed(sub="bank"), "no credential has its claims"),
        (signed(sub=None), "no credential has its claims"),
        (signed(iss="https://b"), "knows"),
        (signed(iss=None), "knows"),
        (b"..", "no key"),
        (b"a.b.c", "no key"),
        (b"\xff.\xff.\xff", "no key"),
        (base64.urlsafe_b64encode(b"[" * 5000) + b"." + b"e30.x", "no key"),
        (b"abc", "knows"),
        (b"x" * 9000 + b"..", "knows"),
    ],
    ids=range(24),
)
def test_a_token_that_is_not_valid_is_refused_without_saying_its_content(token: bytes, says: str) -> None:
    answer = refused(Source().tokens(), token)
    assert answer.status == 401
    assert says.encode() in answer.body
    assert token not in answer.body


def test_a_verified_token_is_remembered_until_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    source, now = Source(), NOW
    tokens = source.tokens(lambda: now)
    token = signed(exp=int(NOW) + 100)
    verified = 0
    decode = jwt.decode

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal verified
        verified += 1
        return decode(*args, **kwargs)

    monkeypatch.setattr(jwt, "decode", counted)

    async def check() -> None:
        nonlocal now
        assert [await admitted(tokens, token) for _ in range(3)] == [SHOP] * 3
        assert verified == 1
        now += 101
        await admitted(tokens, token)
        assert verified == 2

    asyncio.run(check())


def test_a_remembered_token_is_verified_again_when_the_keys_have_changed() -> None:
    source = Source()
    tokens, token = source.tokens(), signed()

    async def check() -> None:
        assert await admitted(tokens, token) is SHOP
        source.found, source.now = document(jwk(OTHER_RSA, "r")), jwks.FRESH_S + 1
        await admitted(tokens, token)  # starts the fetch
        await settled(tokens)
        assert isinstance(await admitted(tokens, token), Response)

    asyncio.run(check())


async def settled(tokens: TokenVerifier) -> None:
    for _, keys in tokens._issuers.values():
        if keys._task is not None:
            await keys._task


def test_unknown_key_ids_are_fetched_for_at_a_bounded_rate() -> None:
    source = Source()
    tokens = source.tokens()

    async def check() -> None:
        for number in range(50):
            await admitted(tokens, signed(kid=f"x{number}"))
        assert source.fetched == 1
        source.now += jwks.UNKNOWN_AGAIN_S
        await asyncio.gather(*(admitted(tokens, signed(kid=f"y{number}")) for number in range(20)))
        assert source.fetched == 2
        assert await admitted(tokens, signed()) is SHOP

    asyncio.run(check())


def test_a_new_key_is_found_and_old_ones_are_used_while_the_url_fails() -> None:
    source = Source()
    tokens = source.tokens()

    async def check() -> None:
        assert await admitted(tokens, signed()) is SHOP
        source.found, source.now = OSError("down"), jwks.FRESH_S + 1
        assert await admitted(tokens, signed(jti="2")) is SHOP
        await settled(tokens)
        assert await admitted(tokens, signed(jti="3")) is SHOP
        source.found, source.now = document(jwk(RSA, "r"), jwk(OTHER_RSA, "n")), source.now + 60
        assert await admitted(tokens, signed(OTHER_RSA, "n")) is SHOP

    asyncio.run(check())


def test_without_keys_the_sender_is_told_to_come_again_and_the_log_names_the_url(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tokens = Source(OSError("down")).tokens()
    for _ in range(3):
        answer = refused(tokens, signed())
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert [
        line for line in caplog.messages if "https://a/keys" in line and "down" in line
    ] == caplog.messages
    assert len(caplog.messages) == 1


class Slow(Source):
    """A fetch ends only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = threading.Event()

    def fetch(self, url: str) -> Mapping[str | None, list[Key]]:
        self.may_end.wait(60)
        return super().fetch(url)


def test_a_bounded_number_of_requests_waits_for_a_fetch_and_others_are_told_to_come_again() -> None:
    """Tokens that nobody had signed could make any number wait, outside the receiver's limit of memory."""
    source = Slow()
    tokens, token = source.tokens(), signed()

    async def check() -> None:
        asked = [asyncio.create_task(admitted(tokens, token)) for _ in range(jwks.MOST_WAITING + 5)]
        for _ in range(10):  # turns of the loop
            await asyncio.sleep(0)
        answered = [task.result() for task in asked if task.done()]
        source.may_end.set()
        found = await asyncio.gather(*asked)
        assert [answer.status for answer in answered if isinstance(answer, Response)] == [503] * 5
        assert found.count(SHOP) == jwks.MOST_WAITING
        assert source.fetched == 1

    asyncio.run(check())


@pytest.mark.parametrize(
    ("entries", "usable"),
    [
        ([jwk(RSA, "r", use="sig")], ["r"]),
        ([jwk(RSA, "r", use="enc"), jwk(EC, "e")], ["e"]),
        ([jwk(RSA, "r", alg="RS512")], ["r"]),
        ([jwk(RSA, "r", alg="HS256"), jwk(EC, "e", alg="ES384")], []),
        ([{"kty": "oct", "k": "c2VjcmV0", "kid": "o"}], []),
        ([jwk(rsa.generate_private_key(65537, 1024), "short")], []),
        ([jwk(ec.generate_private_key(ec.SECP256K1()), "k")], []),
        ([{**jwk(RSA, "r"), "n": "!"}, 1, None, jwk(EC, "e")], ["e"]),
        ([{**jwk(EC, "e"), "kid": 1}], [None]),
        ([{**jwk(EC, "e"), "use": None}], ["e"]),
        ([{**jwk(RSA, "r"), **jwt.algorithms.RSAAlgorithm.to_jwk(RSA, as_dict=True)}, jwk(EC, "e")], ["e"]),
        ([], []),
    ],
    ids=range(12),
)
def test_only_public_keys_for_signatures_are_used(entries: list[Any], usable: list[str | None]) -> None:
    if usable:
        assert list(keys_of(document(*entries))) == usable
    else:
        with pytest.raises(ValueError, match="no usable public key"):
            keys_of(document(*entries))


@pytest.mark.parametrize(("key", "alg"), [(RSA, "RS256"), (OTHER_RSA, "RS256"), (EC, "ES256")])
def test_each_of_several_keys_with_one_id_verifies_its_tokens(key: Any, alg: str) -> None:
    """RFC 7517, section 4.5: keys of different types may have one id."""
    source = Source(document(*(jwk(each, "same") for each in (RSA, EC, OTHER_RSA))))
    assert asyncio.run(admitted(source.tokens(), signed(key, "same", alg))) is SHOP


@pytest.mark.parametrize("found", [b"", b"[]", b"{}", b'{"keys": 1}', b"\xff", b'{"keys": ' + b"[" * 20_000])
def test_a_document_that_is_no_key_set_is_refused(found: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        keys_of(found)


def test_a_stated_algorithm_is_the_only_one_of_its_key() -> None:
    source = Source(document(jwk(RSA, "r", alg="RS512")))
    assert asyncio.run(admitted(source.tokens(), signed(alg="RS512"))) is SHOP
    assert refused(source.tokens(), signed(alg="RS256")).status == 401


@pytest.mark.parametrize(
    ("status", "headers", "body", "says"),
    [
        (200, {}, PUBLISHED, None),
        (404, {}, PUBLISHED, "404"),
        (302, {"location": "http://169.254.169.254/"}, b"", "302"),
        (200, {}, b"[" * (jwks.MOST_BYTES + 1), "larger than"),
        (200, {}, b"nonsense", "malformed"),
    ],
    ids=["keys", "missing", "redirect", "large", "nonsense"],
)
def test_keys_are_fetched_from_their_url_and_nowhere_else(
    status: int, headers: dict[str, str], body: bytes, says: str | None
) -> None:
    class Response(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Response) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/keys"
        if says is None:
            assert set(jwks.fetch_keys(url)) == {"r", "e", "d"}
        else:
            with pytest.raises(ValueError, match=says):
                jwks.fetch_keys(url)
        thread.join()


def test_the_authority_of_a_url_may_be_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a Kubernetes cluster, whose issuer no public authority has signed."""
    authority = Authority(tmp_path)
    mine = authority.issue("issuer", "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(mine.certificate, mine.key)

    class Response(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the library's name
            self.send_response(200)
            self.end_headers()
            self.wfile.write(document(jwk(RSA, "r")))

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Response) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        url = f"https://127.0.0.1:{server.server_port}/keys"
        thread = threading.Thread(target=lambda: [server.handle_request() for _ in range(2)])
        thread.start()
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            jwks.fetch_keys(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert set(jwks.fetch_keys(url)) == {"r"}
        thread.join()


def test_an_answer_that_trickles_in_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte of the headers began the limit anew: requests waited, and the process could not end."""
    monkeypatch.setattr(jwks, "TOTAL_S", 0.2)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                while not ended.wait(0.02):
                    connection.sendall(b"y" * 1000)

        thread = threading.Thread(target=trickle)
        thread.start()
        with pytest.raises(ValueError, match="takes over"):
            jwks.fetch_keys(f"http://127.0.0.1:{server.getsockname()[1]}/keys")
        ended.set()
        thread.join()
