"""Signatures as the senders' documentation computes them; the examples that it publishes are marked so."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from interlock.receiver.endpoint import Request
from interlock.receiver.webhooks.declaration import Secret, read_webhooks
from interlock.receiver.webhooks.verification import SIGNINGS, Signature, Unverified, Verification

BODY = b'{"a":1}'
NOW = 1_700_000_000

# Published: GitHub "Validating webhook deliveries", Testing the webhook payload validation.
GITHUB_SECRET, GITHUB_BODY = "It's a Secret to Everybody", b"Hello, World!"
GITHUB = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
# Published: Slack "Verifying requests from Slack", the walk-through.
SLACK_SECRET, SLACK_AT = "8f742231b10e8888abcd99yyyzzz85a5", 1531420618
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
    b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SLACK = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
# Published: the test vector of the Standard Webhooks libraries.
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_ID, STANDARD_AT, STANDARD_BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
STANDARD = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
# Stripe publishes no example whose secret is known; this follows its steps.
STRIPE_SECRET = "whsec_" + "s" * 32


def stripe(at: int = NOW, secret: str = STRIPE_SECRET, body: bytes = BODY) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, "sha256").hexdigest()


def request(**headers: str) -> Request:
    named = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request("POST", "/webhooks/x", named)


def form(name: str, *secrets: str, now: float = NOW, window: int = 300) -> Signature:
    keys = [
        base64.b64decode(each.removeprefix("whsec_")) if name in ("standard", "svix") else each.encode()
        for each in secrets
    ]
    return Signature(SIGNINGS[name], keys, window, lambda: now)


def check(verification: Verification, given: Request, body: bytes = BODY) -> None:
    verification.check_headers(given)
    verification.check_body(given, body)


def github(signature: str = GITHUB) -> Request:
    return request(x_hub_signature_256=signature)


def slack(signature: str = SLACK, at: object = SLACK_AT) -> Request:
    return request(x_slack_signature=signature, x_slack_request_timestamp=str(at))


def standard(signature: str = STANDARD, at: object = STANDARD_AT, id_: str = STANDARD_ID) -> Request:
    return request(webhook_id=id_, webhook_timestamp=str(at), webhook_signature=signature)


def test_the_published_examples_are_valid() -> None:
    check(form("github", GITHUB_SECRET), github(), GITHUB_BODY)
    check(form("slack", SLACK_SECRET, now=SLACK_AT), slack(), SLACK_BODY)
    check(form("standard", STANDARD_SECRET, now=STANDARD_AT), standard(), STANDARD_BODY)
    check(form("stripe", STRIPE_SECRET), request(stripe_signature=f"t={NOW},v1={stripe()}"))


@pytest.mark.parametrize(
    ("verification", "given", "body"),
    [
        pytest.param(form("github", GITHUB_SECRET), github(), b"Hello, World", id="github: other body"),
        pytest.param(form("github", "other"), github(), GITHUB_BODY, id="github: other secret"),
        pytest.param(form("github", GITHUB_SECRET), github(GITHUB[7:]), GITHUB_BODY, id="github: no prefix"),
        pytest.param(
            form("github", GITHUB_SECRET), github("sha1" + GITHUB[6:]), GITHUB_BODY, id="github: sha1"
        ),
        pytest.param(form("github", GITHUB_SECRET), github(GITHUB[:-1]), GITHUB_BODY, id="github: cut"),
        pytest.param(form("github", GITHUB_SECRET), github("sha256="), GITHUB_BODY, id="github: empty"),
        pytest.param(
            form("github", GITHUB_SECRET), github("sha256=\xff"), GITHUB_BODY, id="github: not ASCII"
        ),
        pytest.param(form("github", GITHUB_SECRET), request(), GITHUB_BODY, id="github: no header"),
        pytest.param(
            form("github", GITHUB_SECRET),
            request(x_hub_signature=GITHUB),
            GITHUB_BODY,
            id="github: old header",
        ),
        pytest.param(
            form("github", GITHUB_SECRET),
            Request("POST", "/", [(b"x-hub-signature-256", GITHUB.encode())] * 2),
            GITHUB_BODY,
            id="github: header twice",
        ),
        pytest.param(
            form("slack", SLACK_SECRET, now=SLACK_AT),
            slack(at=SLACK_AT + 1),
            SLACK_BODY,
            id="slack: other time",
        ),
        pytest.param(
            form("slack", SLACK_SECRET, now=SLACK_AT), slack(at="0x1"), SLACK_BODY, id="slack: no time"
        ),
        pytest.param(
            form("slack", SLACK_SECRET, now=SLACK_AT), slack(at="-1"), SLACK_BODY, id="slack: negative"
        ),
        pytest.param(
            form("slack", SLACK_SECRET, now=SLACK_AT), slack(at="9" * 400), SLACK_BODY, id="slack: huge"
        ),
        pytest.param(
            form("slack", SLACK_SECRET, now=SLACK_AT),
            request(x_slack_signature=SLACK),
            SLACK_BODY,
            id="slack: no time header",
        ),
        pytest.param(
            form("standard", STANDARD_SECRET, now=STANDARD_AT),
            standard(id_="other"),
            STANDARD_BODY,
            id="standard: other id",
        ),
        pytest.param(
            form("standard", STANDARD_SECRET, now=STANDARD_AT),
            standard(STANDARD[3:]),
            STANDARD_BODY,
            id="standard: no version",
        ),
        pytest.param(
            form("standard", STANDARD_SECRET, now=STANDARD_AT),
            standard("v1a" + STANDARD[2:]),
            STANDARD_BODY,
            id="standard: other version",
        ),
        pytest.param(
            form("standard", STANDARD_SECRET, now=STANDARD_AT),
            standard("v2" + STANDARD[2:]),
            STANDARD_BODY,
            id="standard: next version",
        ),
        pytest.param(
            form("standard", STANDARD_SECRET, now=STANDARD_AT),
            standard("v1," + base64.b64decode(STANDARD[3:]).hex()),
            STANDARD_BODY,
            id="standard: hex",
        ),
        pytest.param(
            form("standard", STANDARD_SECRET, now=STANDARD_AT),
            standard(" ".join([*["v1,x"] * 16, STANDARD])),
            STANDARD_BODY,
            id="standard: too many",
        ),
        pytest.param(
            form("stripe", STRIPE_SECRET), request(stripe_signature=f"v1={stripe()}"), BODY, id="stripe: no t"
        ),
        pytest.param(
            form("stripe", STRIPE_SECRET),
            request(stripe_signature=f"t={NOW},t={NOW},v1={stripe()}"),
            BODY,
            id="stripe: t twice",
        ),
        pytest.param(
            form("stripe", STRIPE_SECRET),
            request(stripe_signature=f"t={NOW},v0={stripe()}"),
            BODY,
            id="stripe: v0",
        ),
        pytest.param(
            form("stripe", STRIPE_SECRET),
            request(stripe_signature=f"t={NOW + 1},v1={stripe()}"),
            BODY,
            id="stripe: other time",
        ),
        pytest.param(
            form("stripe", STRIPE_SECRET), request(stripe_signature="t"), BODY, id="stripe: nonsense"
        ),
    ],
)
def test_what_is_not_signed_so_is_refused(verification: Verification, given: Request, body: bytes) -> None:
    with pytest.raises(Unverified):
        check(verification, given, body)


@pytest.mark.parametrize("apart", [-300, 0, 300])
def test_a_signed_time_may_differ_by_the_window_in_both_directions(apart: int) -> None:
    check(form("slack", SLACK_SECRET, now=SLACK_AT + apart), slack(), SLACK_BODY)
    check(form("standard", STANDARD_SECRET, now=STANDARD_AT + apart), standard(), STANDARD_BODY)
    check(form("stripe", STRIPE_SECRET, now=NOW + apart), request(stripe_signature=f"t={NOW},v1={stripe()}"))


@pytest.mark.parametrize(
    ("apart", "says"), [(-301, "301 s after"), (301, "301 s before"), (10**10, "s before")]
)
def test_a_signed_time_outside_the_window_is_refused_before_the_body_is_read(apart: int, says: str) -> None:
    for verification, given in (
        (form("slack", SLACK_SECRET, now=SLACK_AT + apart), slack()),
        (form("standard", STANDARD_SECRET, now=STANDARD_AT + apart), standard()),
        (form("stripe", STRIPE_SECRET, now=NOW + apart), request(stripe_signature=f"t={NOW},v1={stripe()}")),
    ):
        with pytest.raises(Unverified, match=says):
            verification.check_headers(given)


def test_one_valid_signature_of_several_is_enough() -> None:
    check(form("stripe", STRIPE_SECRET), request(stripe_signature=f"t={NOW},v1=0,v1={stripe()},v0=1"))
    several = standard(f"v1,AAAA v1a,BBBB {STANDARD}")
    check(form("standard", STANDARD_SECRET, now=STANDARD_AT), several, STANDARD_BODY)


@pytest.mark.parametrize("old_first", [False, True])
def test_each_of_two_secrets_is_valid(old_first: bool) -> None:
    secrets = ("new", "old") if old_first else ("old", "new")
    for secret in secrets:
        signature = f"t={NOW},v1={stripe(secret=secret)}"
        check(form("stripe", *secrets), request(stripe_signature=signature))


def declared(text: str, **secrets: Secret) -> Verification:
    whole = f'[[webhook]]\nname = "x"\ntype = "t"\nid = "sha256"\n{text}'
    [webhook] = read_webhooks(whole, "a test", secrets.get)
    return webhook._verification


def own(algorithm: str, encoding: str, signed: bytes, key: bytes = b"k") -> str:
    digest = hmac.new(key, signed, algorithm).digest()
    return digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()


@pytest.mark.parametrize("encoding", ["hex", "base64"])
@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha384", "sha512"])
def test_an_hmac_is_checked_as_it_is_declared(algorithm: str, encoding: str) -> None:
    verification = declared(
        'verify = "hmac"\nsecret = "c"\n'
        f'hmac = {{ header = "X-Sig", prefix = "p=", algorithm = "{algorithm}",'
        f' encoding = "{encoding}", signs = "{{header.X-Id}}/{{body}}" }}',
        c=Secret("", "k"),
    )
    check(verification, request(x_sig=f"p={own(algorithm, encoding, b'7/' + BODY)}", x_id="7"))
    for wrong in (
        request(x_sig=f"p={own(algorithm, encoding, b'8/' + BODY)}", x_id="7"),
        request(x_sig=own(algorithm, encoding, b"7/" + BODY), x_id="7"),
        request(x_sig=f"p={own(algorithm, encoding, b'7/' + BODY)}"),
        request(
            x_sig=f"p={own(algorithm, 'base64' if encoding == 'hex' else 'hex', b'7/' + BODY)}", x_id="7"
        ),
    ):
        with pytest.raises(Unverified):
            check(verification, wrong)


@pytest.mark.parametrize("separator", [",", ", ", " ", ";"])
@pytest.mark.parametrize(("prefix", "encoding"), [("v1=", "hex"), ("v1,", "base64"), ("", "base64")])
def test_one_of_several_signatures_in_a_declared_header_is_enough(
    separator: str, prefix: str, encoding: str
) -> None:
    """PagerDuty sends `v1=...,v1=...` while a secret is changed: superplanehq/superplane#6494."""
    verification = declared(
        'verify = "hmac"\nsecret = "c"\n'
        f'hmac = {{ header = "x", prefix = "{prefix}", encoding = "{encoding}" }}',
        c=Secret("", "k"),
    )
    good, bad = (own("sha256", encoding, BODY, key) for key in (b"k", b"other"))
    for several in ([good], [good, bad], [bad, good]):
        check(verification, request(x=separator.join(prefix + each for each in several)))
    for wrong in ([bad, bad], [bad] * 16 + [good]):
        with pytest.raises(Unverified):
            check(verification, request(x=separator.join(prefix + each for each in wrong)))
    with pytest.raises(Unverified):
        check(verification, request(x=f"{prefix}{bad}{separator}v2={good}"))


@pytest.mark.parametrize(
    ("fields", "written", "signs"),
    [
        ('prefix = "v1=", timestamp_prefix = "t="', "t={at},v1={good}", "{timestamp}.{body}"),
        ('prefix = "h1=", timestamp_prefix = "ts="', "ts={at};h1={bad};h1={good}", "{timestamp}:{body}"),
        ('prefix = "v1=", timestamp_prefix = "t="', "v1={good}, t={at}", "{body}{timestamp}"),
    ],
    ids=["Calendly", "Paddle", "time behind"],
)
def test_a_signed_time_may_be_in_the_header_of_the_signature(fields: str, written: str, signs: str) -> None:
    """araluce/calendlyr#21, glific/glific#5439, kossnocorp/paddle-billing#7."""
    verification = declared(
        'verify = "hmac"\nsecret = "c"\n'
        f'hmac = {{ header = "X", timestamp = "x", signs = "{signs}", {fields} }}',
        c=Secret("", "k"),
    )
    assert isinstance(verification, Signature)
    verification._clock = lambda: NOW
    signed = signs.replace("{timestamp}", str(NOW)).replace("{body}", BODY.decode()).encode()
    good, bad = (own("sha256", "hex", signed, key) for key in (b"k", b"other"))
    check(verification, request(x=written.format(at=NOW, good=good, bad=bad)))
    for header in (
        written.format(at=NOW + 1, good=good, bad=bad),
        written.format(at=NOW, good=bad, bad=bad),
        written.format(at="", good=good, bad=bad),
        written.format(at=f"{NOW},t={NOW};ts={NOW}", good=good, bad=bad),
    ):
        with pytest.raises(Unverified):
            check(verification, request(x=header))
    verification._clock = lambda: NOW + 301
    with pytest.raises(Unverified, match="301 s before"):
        check(verification, request(x=written.format(at=NOW, good=good, bad=bad)))


def test_svix_signs_as_standard_webhooks_with_headers_of_its_own() -> None:
    """svix/svix-docs#330: senders such as Clerk and Resend send only these. Others prove nothing."""
    made = form("svix", STANDARD_SECRET, now=STANDARD_AT)
    named = {"svix_id": STANDARD_ID, "svix_timestamp": str(STANDARD_AT), "svix_signature": STANDARD}
    check(made, request(**named, webhook_id="other"), STANDARD_BODY)
    for wrong in (standard(), request(**{**named, "svix_id": "other"})):
        with pytest.raises(Unverified):
            check(made, wrong, STANDARD_BODY)


def test_upper_case_hexadecimal_digits_are_the_same_signature_and_other_base64_is_not() -> None:
    check(form("github", GITHUB_SECRET), github("sha256=" + GITHUB[7:].upper()), GITHUB_BODY)
    with pytest.raises(Unverified):
        check(form("standard", STANDARD_SECRET, now=STANDARD_AT), standard(STANDARD.upper()), STANDARD_BODY)


@pytest.mark.parametrize("unit", [1, 1000])
def test_a_declared_time_is_in_seconds_or_milliseconds(unit: int) -> None:
    verification = declared(
        'verify = "hmac"\nsecret = "c"\nwindow = 10\n'
        'hmac = { header = "x-sig", timestamp = "X-At", signs = "{timestamp}.{body}" }',
        c=Secret("", "k"),
    )
    assert isinstance(verification, Signature)
    verification._clock = lambda: NOW
    for apart, valid in ((0, True), (10, True), (-10, True), (11, False), (-11, False)):
        at = str((NOW + apart) * unit)
        given = request(x_sig=own("sha256", "hex", at.encode() + b"." + BODY), x_at=at)
        if valid:
            check(verification, given)
        else:
            with pytest.raises(Unverified, match="11 s"):
                check(verification, given)


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ('verify = "gitlab"', {"x_gitlab_token": "pass"}, {"authorization": "Bearer pass"}),
        ('verify = "token"\ntoken_header = "X-Key"', {"x_key": "pass"}, {"x_gitlab_token": "pass"}),
        ('verify = "bearer"', {"authorization": "bEARER  pass"}, {"authorization": "Basic pass"}),
        (
            'verify = "basic"',
            {"authorization": "Basic " + base64.b64encode(b"me:pass").decode()},
            {"authorization": "Basic " + base64.b64encode(b"you:pass").decode()},
        ),
    ],
)  # fmt: skip
def test_a_token_in_a_header_is_checked_before_the_body_is_read(
    text: str, good: dict[str, str], bad: dict[str, str]
) -> None:
    secrets = {"new": Secret("me", "pass"), "old": Secret("me", "past")}
    verification = declared(f'{text}\nsecret = ["old", "new"]', **secrets)
    verification.check_headers(request(**good))
    [(name, value)] = good.items()
    wrong = [bad, {}, {name: value + "x"}, {name: value[:-1]}, {name: ""}]
    digest = {name: value.replace("pass", hashlib.sha256(b"pass").hexdigest())}
    for each in [*wrong, *([digest] if digest != good else [])]:
        with pytest.raises(Unverified):
            verification.check_headers(request(**each))
