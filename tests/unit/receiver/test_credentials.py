from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from interlock.engine.errors import ConfigError
from interlock.receiver.credentials import read_credentials
from interlock.receiver.server import Options

DIGEST = hashlib.sha256(b"a token").hexdigest()
GOOD = f'[[credential]]\nname = "shop"\ntoken_sha256 = "{DIGEST}"\ntypes = ["com.shop.*"]\n'


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text(GOOD)
    [credential] = read_credentials(file)
    assert (credential.name, credential.types, credential.buses) == ("shop", ("com.shop.*",), ("*",))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs"),
        ("nonsense", "credentials.toml has no credentials"),
        ("[other]\nx = 1\n", "credentials.toml has no credentials"),
        (GOOD.replace(DIGEST, "a token"), "'shop': token_sha256"),
        (GOOD.replace("[\"com.shop.*\"]", "[]"), "'shop': types is empty"),
        (GOOD.replace("types", "typse"), "'shop'.*typse"),
        (GOOD.replace('["com.shop.*"]', '"com.shop.*"'), "'shop'.*types"),
        (GOOD + "[[credential]]\nname = \"bank\"\n", "'bank'.*token_sha256"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_by_name_without_its_digests(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says) as refused:
        Options(credentials=str(file)).check()
    assert DIGEST not in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        Options(credentials=str(tmp_path / "missing.toml")).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
def test_an_open_receiver_listens_beyond_this_machine_only_when_told_so(host: str) -> None:
    with pytest.raises(ConfigError, match="--credentials"):
        Options(host=host).check()
    Options(host=host, allow_anonymous=True).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_an_open_receiver_may_listen_on_this_machine(host: str) -> None:
    Options(host=host).check()


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="together"):
        Options(tls_cert="x").check()
    with pytest.raises(ConfigError, match="no file"):
        Options(tls_cert=str(tmp_path / "c"), tls_key=str(tmp_path / "k")).check()
