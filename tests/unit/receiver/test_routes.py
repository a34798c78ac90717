"""Every endpoint of the receiver, as the command makes them, asked without a right to write."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator

import pytest
from interlock.receiver.app import Receiver
from interlock.receiver.certificate import names_of
from interlock.receiver.credentials import Credentials
from interlock.receiver.credentials_document import Credential, Document, Issuer
from interlock.receiver.server import ReceiverOptions, endpoints
from interlock.receiver.webhooks.declaration import Secret, read_webhooks
from interlock.receiver.webhooks.presets import PRESETS

from tests.unit.receiver.asking import BINARY, Answered, Bus, ask

CANARY = "canary-7f3a"
OTHER = "canary-of-the-other-bus"
KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NAMES = frozenset({"CN=shop", "URI:spiffe://a/shop"})


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


DOCUMENT = Document(
    [
        Credential(name="token", types=("*",), token_sha256=digest(CANARY), buses=("prod",)),
        Credential(name="other", types=("*",), token_sha256=digest(OTHER), buses=("test",)),
        Credential(name="cert", types=("*",), client_cert="spiffe://a/shop", buses=("prod",)),
        Credential(name="other cert", types=("*",), client_cert="CN=bank", buses=("test",)),
        Credential(name="claims", types=("*",), claims={"sub": "x"}, issuer="https://a", buses=("test",)),
    ],
    [Issuer(issuer="https://a", audience="interlock", jwks_url="https://a/keys")],
)


def made(options: ReceiverOptions | None = None) -> dict[str, object]:
    options = options or ReceiverOptions(credentials="x", allow_origin=["*"])
    webhooks = "".join(f'[[webhook]]\nname = "{name}"\npreset = "{name}"\nsecret = "c"\n' for name in PRESETS)
    secrets = {"c": Secret(CANARY, KEY)}
    found = read_webhooks(webhooks, "a test", secrets.get)
    return dict(endpoints(options, Credentials(DOCUMENT, "prod"), found))


def requests() -> Iterator[tuple[str, list[tuple[bytes, bytes]], frozenset[str]]]:
    nobody: frozenset[str] = frozenset()
    yield "without a credential", [], nobody
    for number, value in enumerate(
        [
            f"Bearer {CANARY}x", f"Bearer {OTHER}", f"Basic {CANARY}", CANARY, "Bearer", "Bearer ",
            f"Bearer {digest(CANARY)}",
            f"Bearer {CANARY} {CANARY}", "Bearer a.b.c", f"Bearer {CANARY}.{CANARY}.{CANARY}",
        ]
    ):  # fmt: skip
        yield f"header {number}", [(b"authorization", value.encode())], nobody
    twice = (b"authorization", f"Bearer {CANARY}".encode())
    yield "the token twice", [twice, twice], nobody
    yield "a certificate for another bus", [], frozenset({"CN=bank"})
    yield "a certificate with other names", [], frozenset({"CN=spiffe://a/shop", "DNS:spiffe://a/shop"})
    yield "a wrong token with a certificate", [(b"authorization", b"Bearer x")], NAMES
    wrong = (b"authorization", b"Bearer x")
    yield "two wrong tokens with a certificate", [wrong, wrong], NAMES
    yield "no scheme with a certificate", [(b"authorization", b"")], NAMES


@pytest.mark.parametrize("path", sorted(made()))
@pytest.mark.parametrize(
    ("headers", "names"), [each[1:] for each in requests()], ids=[each[0] for each in requests()]
)
def test_no_endpoint_writes_for_a_sender_without_a_right(
    path: str,
    headers: list[tuple[bytes, bytes]],
    names: frozenset[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = Bus()
    counted: list[tuple[str, int, int]] = []

    async def check() -> list[Answered]:
        receiver = Receiver(made(), observe=lambda *each: counted.append(each))  # type: ignore[arg-type]
        receiver.writer = bus
        return [
            await ask(receiver, [*BINARY, *headers], b"{}", path, method, names)
            for method in ("POST", "GET", "PUT", "OPTIONS", "DELETE", "HEAD")
        ]

    with caplog.at_level(logging.DEBUG):
        first, *others = asyncio.run(check())
    assert first.status in (401, 403)
    assert all(400 <= answer.status < 500 for answer in others)
    assert not bus.events
    answers = [first, *others]
    shown = "".join([*caplog.messages, *(f"{each.headers}{each.body!r}" for each in answers), str(counted)])
    for secret in (CANARY, OTHER, KEY, digest(CANARY), digest(OTHER)):
        assert secret not in shown


BY = {
    "token": Credential(name="t", types=("*",), token_sha256=digest(CANARY)),
    "claims": Credential(name="c", types=("*",), claims={"sub": "x"}, issuer="https://a"),
    "certificate": Credential(name="z", types=("*",), client_cert="CN=shop"),
}
WORDS = {"token": "a token that", "claims": "JSON Web Token", "certificate": "client certificate"}


@pytest.mark.parametrize(
    "taken",
    [("token",), ("claims",), ("certificate",), ("token", "certificate"), ("token", "claims", "certificate")],
    ids=" ".join,
)
@pytest.mark.parametrize("header", [None, b"Bearer a.b", b"Basic x"])
def test_the_answer_401_names_only_what_the_receiver_takes(
    taken: tuple[str, ...], header: bytes | None
) -> None:
    document = Document([BY[each] for each in taken], DOCUMENT.issuers)
    receiver = Receiver(endpoints(ReceiverOptions(credentials="x"), Credentials(document, "prod")))
    receiver.writer = Bus()
    headers = [*BINARY, *([] if header is None else [(b"authorization", header)])]
    answer = asyncio.run(ask(receiver, headers))
    assert answer.status == 401
    assert {each for each, words in WORDS.items() if words in answer.detail} == set(taken)
    assert ("Bearer TOKEN" in answer.detail) == (taken != ("certificate",))


def test_the_answer_401_says_that_no_credential_is_for_this_bus() -> None:
    receiver = Receiver(endpoints(ReceiverOptions(credentials="x"), Credentials(DOCUMENT, "dev")))
    receiver.writer = Bus()
    answer = asyncio.run(ask(receiver, BINARY))
    assert (answer.status, answer.detail[:42]) == (401, "This receiver has no credential for its bu")


def test_the_token_and_the_certificate_of_this_bus_may_write() -> None:
    async def check() -> None:
        receiver = Receiver(made())  # type: ignore[arg-type]
        receiver.writer = Bus()
        token = (b"authorization", f"Bearer {CANARY}".encode())
        assert (await ask(receiver, [*BINARY, token])).status == 202
        assert (await ask(receiver, names=NAMES)).status == 202

    asyncio.run(check())


@pytest.mark.parametrize("name", [b"origin", b"forwarded", b"x-forwarded-for", b"via"])
@pytest.mark.parametrize("path", ["/events", "/api/v1/lineage", "/api/v1/lineage/batch"])
def test_web_pages_and_proxies_write_without_credentials_only_when_all_may(path: str, name: bytes) -> None:
    async def status(is_open: bool, headers: list[tuple[bytes, bytes]]) -> int:
        receiver = Receiver(endpoints(ReceiverOptions(), Credentials(is_open=is_open)))
        receiver.writer = Bus()
        return (await ask(receiver, [*BINARY, *headers], b"[]", path)).status

    header = (name, b"null")
    assert asyncio.run(status(False, [header])) == 403
    assert asyncio.run(status(True, [header])) == asyncio.run(status(False, [])) != 403


@pytest.mark.parametrize(
    ("certificate", "names"),
    [
        (None, set()),
        ({}, set()),
        ({"subject": ((("commonName", "a"),), (("organizationName", "o"),))}, {"CN=a"}),
        ({"subject": ((("commonName", "a"), ("commonName", "b")),)}, set()),
        ({"subject": ((("commonName", "a"),), (("commonName", "b"),))}, set()),
        (
            {"subject": (), "subjectAltName": (("DNS", "a"), ("URI", "CN=b"), ("IP Address", "127.0.0.1"))},
            {"DNS:a", "URI:CN=b"},
        ),
    ],
    ids=range(6),
)
def test_the_names_of_a_certificate_keep_their_kinds(
    certificate: dict[str, object] | None, names: set[str]
) -> None:
    assert names_of(certificate) == names
