"""What a file of webhooks may say, and how a wrong one is refused."""

from __future__ import annotations

import re

import pytest
from interlock.engine.errors import ConfigError
from interlock.receiver.webhooks.declaration import Secret, read_webhooks
from interlock.receiver.webhooks.presets import PRESETS

GOOD = """
[[webhook]]
name = "shop"
type = "com.shop.{data.kind}"
id = "{header.x-id}"
verify = "hmac"
hmac = { header = "x-signature" }
secret = "shop"
"""
SECRETS = {"shop": Secret("me", "a canary"), "empty": Secret("me", "")}


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        read_webhooks(text, "hooks.toml", SECRETS.get)
    assert "canary" not in str(refused.value)
    return str(refused.value)


def test_a_declaration_is_read() -> None:
    [webhook] = read_webhooks(GOOD, "hooks.toml", SECRETS.get)
    assert webhook.path == "/webhooks/shop"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_needs_a_name_and_a_secret_alone(preset: str) -> None:
    text = f'[[webhook]]\nname = "x"\npreset = "{preset}"\nsecret = "x"\n'
    secret = Secret("", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    [webhook] = read_webhooks(text, "hooks.toml", {"x": secret}.get)
    assert webhook.path == "/webhooks/x"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "hooks.toml has no webhooks: it needs"),
        ("nonsense", "hooks.toml has no webhooks"),
        ("a = " + "[" * 5000, "hooks.toml has no webhooks"),
        ("[webhook]\nname = 'x'\n", "hooks.toml has no webhooks"),
        (GOOD + "[other]\na = 1\n", "hooks.toml has no webhooks"),
        (GOOD + GOOD, "webhook 'shop': the name is taken"),
        (GOOD.replace('name = "shop"\n', ""), "webhook 'number 1': .*name"),
        (GOOD.replace('"shop"\ntype', '"a/b"\ntype'), "webhook 'a/b': name is not 1 to 64"),
        (GOOD.replace('"shop"\ntype', '""\ntype'), "webhook '': name is not 1 to 64"),
        (GOOD.replace("type =", "typse ="), "'shop': typse is not a field: write one of name, preset"),
        (GOOD.replace("header =", "headre ="), "hmac.headre is not a field: write one of header"),
        (GOOD + 'preset = "gihub"\n', "preset is 'gihub': write one of github, gitlab"),
        (GOOD.replace('type = "com.shop.{data.kind}"\n', ""), "'shop': type is missing: write type ="),
        (GOOD.replace('id = "{header.x-id}"\n', ""), "'shop': id is missing: write id = .*sha256"),
        (GOOD.replace('"{header.x-id}"', '"7"'), "id '7' is the same for each request.*sha256"),
        (GOOD.replace('"{header.x-id}"', '["{header.x-id}", "7"]'), "id '7' is the same for each request"),
        (GOOD.replace("{data.kind}", "{kind}"), "{kind} names nothing of a request: write {data.NAME}"),
        (GOOD.replace("{data.kind}", "{data.}"), "{data.} names nothing"),
        (GOOD.replace("{data.kind}", "{header.a b}"), "{header.a b} names nothing"),
        (GOOD.replace("{data.kind}", "{data.kind"), "lone brace"),
        (GOOD.replace("com.shop.", "interlock."), "'interlock.{data.kind}' is Interlock's own"),
        (GOOD.replace('"com.shop.{data.kind}"', '["t", "interlock.spark.x"]'), "is Interlock's own"),
        (GOOD.replace("com.shop.{data.kind}", "org.apache.kafka.record"), "is Interlock's own"),
        (GOOD + 'source = "/a b"\n', "source '/a b' is not a URI reference"),
        (GOOD + 'source = "http://[{data.a}"\n', "source"),
        (GOOD + 'extensions = { Tenant = "{data.a}" }\n', "extensions.Tenant is not an extension"),
        (GOOD + 'extensions = { subject = "{data.a}" }\n', "extensions.subject is not an extension"),
        (GOOD.replace('verify = "hmac"\n', ""), "verify is missing.*verify = \"none\""),
        (GOOD.replace('verify = "hmac"', 'verify = "md5"'), "verify is 'md5': write one of github, slack"),
        (GOOD.replace('verify = "hmac"', "verify = [1]"), "'shop': verify is a list: write one of"),
        (GOOD.replace('{ header = "x-signature" }', "7"), "'shop': .*hmac"),
        (GOOD + "window = true\n", "'shop': .*window"),
        (GOOD + 'ignore = "t"\n', "'shop': .*ignore"),
        (GOOD.replace('verify = "hmac"', 'verify = "github"'), "belong together"),
        (GOOD.replace('hmac = { header = "x-signature" }\n', ""), "belong together"),
        (GOOD + 'token_header = "x"\n', "token_header"),
        (GOOD.replace("x-signature", "x signature"), "'x signature' is not the name of a header"),
        (GOOD.replace(" }", ', algorithm = "md5" }'), "algorithm is 'md5': write one of sha1, sha256"),
        (GOOD.replace(" }", ', encoding = "binary" }'), "encoding is 'binary': write one of hex, base64"),
        (GOOD.replace(" }", ', signs = "{header.x}" }'), "hmac.signs"),
        (GOOD.replace(" }", ', signs = "{data.x}{body}" }'), "hmac.signs"),
        (GOOD.replace(" }", ', signs = "{timestamp}{body}" }'), "hmac.timestamp"),
        (GOOD.replace(" }", ', timestamp = "x-at" }'), "a time that is not signed"),
        (GOOD.replace(" }", ', timestamp_prefix = "t=" }'), "hmac.timestamp_prefix, such as"),
        (
            GOOD.replace(" }", ', signs = "{timestamp}{body}", timestamp = "X-Signature" }'),
            "hmac.timestamp_prefix, such as",
        ),
        (GOOD.replace('secret = "shop"\n', ""), "secret is missing: write the id of an Airflow connection"),
        (GOOD.replace('secret = "shop"', "secret = []"), "secret is missing"),
        (GOOD.replace('secret = "shop"', 'secret = ["shop", "shop", "shop"]'), "two of them"),
        (GOOD.replace('secret = "shop"', 'secret = "other"'), "no Airflow connection 'other': airflow"),
        (GOOD.replace('secret = "shop"', 'secret = ["shop", "empty"]'), "'empty' has no password"),
        (GOOD + "window = 60\n", "window has no effect"),
        (GOOD.replace('hmac"\nhmac = { header = "x-signature" }', 'slack"\nwindow = 0'), "window is 0"),
        (GOOD.replace('hmac"\nhmac = { header = "x-signature" }', 'slack"\nwindow = 3601'), "window is 3601"),
        (GOOD.replace('hmac"\nhmac = { header = "x-signature" }', 'standard"'), "the secret is not whsec_"),
        (GOOD.replace('hmac"\nhmac = { header = "x-signature" }', 'none"'), "verify = \"none\" uses neither"),
        (GOOD + 'verify_token = "other"\n', "no Airflow connection 'other'"),
        ('[[webhook]]\nname = "x"\npreset = "github"\n', "'x': secret is missing"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_refused_by_name_with_what_to_write(text: str, says: str) -> None:
    assert re.search(says.replace("{", r"\{").replace("}", r"\}"), refusal(text), re.DOTALL)


@pytest.mark.parametrize(
    "password", ["whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + "A" * 88]
)
def test_a_secret_that_no_sender_of_standard_webhooks_makes_is_refused_unseen(password: str) -> None:
    text = '[[webhook]]\nname = "x"\npreset = "standard"\nsecret = "x"\n'
    with pytest.raises(ConfigError, match="copy it as the sender shows it") as refused:
        read_webhooks(text, "hooks.toml", {"x": Secret("", password)}.get)
    assert password.removeprefix("whsec_") not in str(refused.value) or password == "whsec_"


@pytest.mark.parametrize("preset", ["standard", "svix"])
def test_a_secret_of_standard_webhooks_may_have_the_prefix_that_some_senders_show(preset: str) -> None:
    """standard-webhooks/standard-webhooks#235: `v1,whsec_...`, with the version of the signature."""
    text = f'[[webhook]]\nname = "x"\npreset = "{preset}"\nsecret = "x"\n'
    key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    keys = [
        webhook._verification._keys  # type: ignore[attr-defined]
        for password in (key, f"v1,{key}")
        for webhook in read_webhooks(text, "hooks.toml", {"x": Secret("", password)}.get)
    ]
    assert keys[0] == keys[1]
