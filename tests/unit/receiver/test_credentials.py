"""The document of credentials, and which options of a receiver go together."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from interlock.engine.errors import ConfigError
from interlock.receiver.credentials_document import Credential, Document, Issuer, read_document, read_file
from interlock.receiver.server import ReceiverOptions

from tests.kit.certificates import Authority

DIGEST = hashlib.sha256(b"a token").hexdigest()
GOOD = f'[[credential]]\nname = "shop"\ntoken_sha256 = "{DIGEST}"\ntypes = ["com.shop.*"]\n'
CERT = '[[credential]]\nname = "shop"\nclient_cert = "CN=shop"\ntypes = ["*"]\n'
CLAIMS = '[[credential]]\nname = "shop"\ntypes = ["*"]\nclaims = {sub = "a"}\n'
ISSUER = '[[issuer]]\nissuer = "x"\naudience = "i"\njwks_url = "https://example.com/keys"\n'


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text(GOOD)
    [credential] = read_file(file).credentials
    assert (credential.name, credential.types, credential.buses) == ("shop", ("com.shop.*",), ("*",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs"),
        ("nonsense", "credentials.toml has no credentials"),
        ("[other]\nx = 1\n", "credentials.toml has no credentials"),
        (GOOD.replace(DIGEST, "a token"), "'shop': token_sha256"),
        (GOOD.replace("[\"com.shop.*\"]", "[]"), "'shop': types is empty"),
        (GOOD + "sources = []\n", "'shop': sources is empty"),
        (GOOD + "subjects = []\n", "'shop': subjects is empty"),
        (GOOD + "buses = []\n", "'shop': buses is empty"),
        (GOOD.replace(DIGEST, hashlib.sha256(b"").hexdigest()), "'shop': token_sha256 is that of an empty"),
        (GOOD.replace("types", "typse"), "'shop'.*typse"),
        (GOOD.replace('["com.shop.*"]', '"com.shop.*"'), "'shop'.*types"),
        (GOOD + '[[credential]]\nname = "bank"\n', "'bank'.*types"),
        (GOOD + '[[credential]]\nname = "bank"\ntypes = ["*"]\n', "'bank': give exactly one"),
        (GOOD + 'client_cert = "CN=shop"\n', "'shop': give exactly one"),
        (GOOD + GOOD.replace("shop", "bank"), "'shop' and 'bank' have the same token"),
        (GOOD + 'issuer = "x"\n', "'shop': issuer is given without claims"),
        (CERT.replace("CN=shop", "shop"), "'shop': client_cert is not of the form"),
        (CERT.replace("CN=shop", "CN="), "'shop': client_cert is not of the form"),
        (CERT.replace("CN=shop", "DNS:"), "'shop': client_cert is not of the form"),
        (CLAIMS, "'shop': issuer must be that"),
        (CLAIMS + 'issuer = "y"\n' + ISSUER, "'shop': issuer must be that"),
        (CLAIMS.replace('sub = "a"', "") + ISSUER, "'shop': claims is empty"),
        (CLAIMS.replace('"a"', "1") + ISSUER, "'shop'.*claims"),
        (CLAIMS + ISSUER + ISSUER, "same issuer"),
        (CLAIMS + ISSUER.replace("https", "http"), "'x': jwks_url must be an https URL"),
        (CLAIMS + ISSUER.replace("https://", "https://user:canary@"), "'x': jwks_url must be an https URL"),
        (CLAIMS + ISSUER.replace("https", "file"), "'x': jwks_url must be an https URL"),
        (CLAIMS + ISSUER.replace("example.com", "[::"), "'x': jwks_url must be an https URL"),
        (CLAIMS + ISSUER.replace('"i"', '""'), "'x': issuer and audience must not be empty"),
        (CLAIMS + ISSUER + "more = 1\n", "'x'.*more"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_by_name_without_its_digests(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says) as refused:
        read_file(file)
    assert DIGEST not in str(refused.value)
    assert "canary" not in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        read_file(tmp_path / "missing.toml")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
def test_an_open_receiver_listens_beyond_this_machine_only_when_told_so(host: str) -> None:
    with pytest.raises(ConfigError, match="--credentials"):
        ReceiverOptions(host=host).check(None)
    ReceiverOptions(host=host, allow_anonymous=True).check(None)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_an_open_receiver_may_listen_on_this_machine(host: str) -> None:
    ReceiverOptions(host=host).check(None)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    """The receiver listened on another port than it said: 65,536 less."""
    with pytest.raises(ConfigError, match=f"--port {port} is no port"):
        ReceiverOptions(port=port).check(None)
    ReceiverOptions(port=65_535).check(None)


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="together"):
        ReceiverOptions(tls_cert="x").check(None)
    with pytest.raises(ConfigError, match="no file"):
        ReceiverOptions(tls_cert=str(tmp_path / "c"), tls_key=str(tmp_path / "k")).check(None)


def test_a_certificate_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    """The process ended with a stack only; of several workers each was started again for ever."""
    authority = Authority(tmp_path)
    good, other = authority.issue("good", "localhost"), authority.issue("other", "localhost")
    locked = authority.issue("locked", "localhost", passphrase="secret")
    text = tmp_path / "text"
    text.write_text("nothing in PEM")

    def check(certificate: Path, key: Path, ca: Path | None = None) -> None:
        client_ca = None if ca is None else str(ca)
        options = ReceiverOptions(tls_cert=str(certificate), tls_key=str(key), tls_client_ca=client_ca)
        options.check(None if ca is None else document(client_cert="CN=shop"))

    check(good.certificate, good.key, authority.file)
    for certificate, key in (
        (good.certificate, other.key),
        (text, good.key),
        (locked.certificate, locked.key),
    ):
        with pytest.raises(ConfigError, match=f"--tls-cert {certificate} and --tls-key {key} cannot be used"):
            check(certificate, key)
    with pytest.raises(ConfigError, match=f"--tls-client-ca {text} cannot be used"):
        check(good.certificate, good.key, text)


def test_the_only_issuer_is_that_of_all_claims(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text(CLAIMS + ISSUER.replace("https://example.com", "http://127.0.0.1:8000"))
    document = read_file(file)
    assert document.credentials[0].issuer == "x"
    assert document.issuers == [Issuer(issuer="x", audience="i", jwks_url="http://127.0.0.1:8000/keys")]


def test_a_document_of_a_connection_names_the_connection_in_its_errors() -> None:
    with pytest.raises(ConfigError, match="The extra of c has no credentials"):
        read_document({"password": "canary"}, "The extra of c")


def document(**given: str) -> Document:
    return Document([Credential(name="shop", types=("*",), **given)])


@pytest.mark.parametrize(
    ("options", "given", "says"),
    [
        ({}, {"client_cert": "CN=shop"}, "'shop' has a client_cert: give --tls-client-ca"),
        ({"tls_client_ca": "ca"}, {"client_cert": "CN=shop"}, "needs --tls-cert and --tls-key"),
        ({"tls_client_ca": "ca", "tls_cert": "c", "tls_key": "k"}, {"token_sha256": DIGEST}, "no effect"),
        ({"allow_origin": ["a b"]}, {"token_sha256": DIGEST}, "--allow-origin 'a b'"),
        ({"allow_origin": ["https://a"]}, {"token_sha256": DIGEST}, "--allow-origin 'https://a'"),
    ],
)
def test_options_that_would_not_do_what_they_say_are_refused(
    options: dict[str, Any], given: dict[str, str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        ReceiverOptions(credentials="x", **options).check(document(**given))
