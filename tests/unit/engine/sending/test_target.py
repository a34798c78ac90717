from __future__ import annotations

import os
from pathlib import Path

import pytest
from interlock.engine.sending.target import Basic, Bearer, ClientCredentials, SinkTarget, TargetError, Tls

CANARY = "canary-3f9d"


@pytest.mark.parametrize(
    ("url", "path", "address"),
    [
        ("https://h.example", "", "https://h.example/"),
        ("https://h.example/a/", "b/c", "https://h.example/a/b/c"),
        ("https://h.example:8443/a", "/b?x=1", "https://h.example:8443/a/b?x=1"),
        ("https://h.example/a?k=1", "b?x=2", "https://h.example/a/b?k=1&x=2"),
        ("https://h.example/a?k=1", "?x=2", "https://h.example/a?k=1&x=2"),
        ("http://[::1]:81/a", "é %20", "http://[::1]:81/a/%C3%A9%20%20"),
        ("https://h.example", "@evil.example", "https://h.example/@evil.example"),
        ("https://h.example", ".evil.example", "https://h.example/.evil.example"),
        ("https://h.example", "//evil.example/", "https://h.example/evil.example/"),
        ("https://h.example", "https://evil.example/", "https://h.example/https://evil.example/"),
        ("https://h.example", ":81/x", "https://h.example/:81/x"),
    ],
)
def test_a_sinks_path_is_below_the_connections_address(url: str, path: str, address: str) -> None:
    assert str(SinkTarget(url=url).address(path)) == address


@pytest.mark.parametrize("path", ["..", "/../x", "a/../../x", "%2e%2e/x", "a\\..\\x", "..%2fx", "x#y"])
def test_a_path_cannot_lead_out_of_the_address(path: str) -> None:
    with pytest.raises(TargetError, match="leave it out"):
        SinkTarget(url="https://h.example/tenant").address(path)


@pytest.mark.parametrize(
    "url",
    [
        "", "h.example", "ftp://h.example", "http://", "http:///x", "http://h:0", "http://h:99999", "http://h:x",
        "https://u:p@h.example", "https://u@h.example", "https://h.example/#x", f"https://{CANARY}:{CANARY}@h",
        f"file:///{CANARY}",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(TargetError) as caught:
        SinkTarget(url=url)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "Host", "content-type", "Content-Length", "CE-id", "connection", "Transfer-Encoding", "TE", "Expect",
        "Prefer", "proxy-authorization", "Accept-Encoding", "x y", "x:", "", "x\r\ny",
    ],
)  # fmt: skip
def test_headers_that_deliveries_set_themselves_are_refused(name: str) -> None:
    with pytest.raises(TargetError, match="cannot be set"):
        SinkTarget(url="https://h", headers={name: "x"})


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0b", "\x7f"])
def test_values_that_would_be_another_header_are_refused(value: str) -> None:
    for make in (
        lambda: SinkTarget(url="https://h", headers={"x-key": CANARY + value}),
        lambda: Bearer(CANARY + value),
    ):
        with pytest.raises(TargetError, match="line break") as caught:
            make()
        assert CANARY not in str(caught.value)


def test_a_login_with_a_colon_is_refused() -> None:
    with pytest.raises(TargetError, match="colon"):
        Basic("a:b", "c")


def test_credentials_are_given_once() -> None:
    with pytest.raises(TargetError, match="either"):
        SinkTarget(url="https://h", auth=Bearer("x"), headers={"authorization": "y"})


@pytest.mark.parametrize("url", ["http://id.example/token", "http://10.0.0.1/token", "id.example/token"])
def test_a_token_endpoint_needs_tls(url: str) -> None:
    with pytest.raises(TargetError):
        ClientCredentials(token_url=url, client_id="a", client_secret=CANARY)


@pytest.mark.parametrize(
    "auth",
    [
        Bearer(CANARY),
        Basic("login", CANARY),
        ClientCredentials(token_url="https://id.example", client_id="a", client_secret=CANARY),
    ],
)
def test_no_text_of_a_target_has_a_secret(auth: Bearer | Basic | ClientCredentials) -> None:
    target = SinkTarget(url=f"https://h/{CANARY}?key={CANARY}", auth=auth)
    other = SinkTarget(url="https://h", headers={"x-api-key": CANARY})
    assert CANARY not in f"{target!r} {target} {other!r} {auth!r}"
    assert CANARY in target.secrets
    assert CANARY in other.secrets


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    no_file, no_certificate = tmp_path / "none.pem", tmp_path / "text.pem"
    no_certificate.write_text("text")
    for tls in (
        Tls(ca_file=str(no_file)),
        Tls(ca_file=str(no_certificate)),
        Tls(certificate_file=str(no_file)),
        Tls(certificate_file=str(no_certificate)),
    ):
        with pytest.raises(TargetError, match=r"none\.pem|text\.pem"):
            tls.context()


def test_a_fifo_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for tls in (Tls(ca_file=str(tmp_path / "fifo")), Tls(certificate_file=str(tmp_path / "fifo"))):
        with pytest.raises(TargetError, match="fifo: it is not a file"):
            tls.context()


@pytest.mark.parametrize("path", ["/a#b?token=canary", "/..?token=canary"])
def test_an_error_about_a_path_has_no_secret(path: str) -> None:
    with pytest.raises(TargetError) as raised:
        SinkTarget(url="https://h.example").address(path)
    assert "canary" not in str(raised.value)
