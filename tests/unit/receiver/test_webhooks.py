"""The endpoint of webhooks in the receiver: events, answers and what is refused."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import Event
from interlock.events.errors import EventError
from interlock.receiver.answers import Response
from interlock.receiver.app import Receiver
from interlock.receiver.endpoint import Request
from interlock.receiver.webhooks.body import data_of
from interlock.receiver.webhooks.declaration import Secret, read_webhooks
from interlock.receiver.webhooks.endpoint import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEY = SECRET.encode()
Headers = list[tuple[bytes, bytes]]
JSON: Headers = [(b"content-type", b"application/json")]
FORM: Headers = [(b"content-type", b"application/x-www-form-urlencoded")]


class Bus:
    def __init__(self) -> None:
        self.events: list[Event] = []

    async def write(self, events: list[Event]) -> None:
        self.events += events


def webhook(text: str) -> Webhook:
    secrets = {"c": Secret("me", SECRET), "old": Secret("me", "old")}
    [made] = read_webhooks(f'[[webhook]]\nname = "x"\n{text}', "a test", secrets.get)
    return made


def preset(name: str, more: str = "") -> Webhook:
    return webhook(f'preset = "{name}"\nsecret = "c"\n{more}')


def plain(more: str = "") -> Webhook:
    return webhook(f'type = "com.shop.{{data.kind}}"\nid = "{{data.id}}"\nverify = "none"\n{more}')


def signed(name: str, body: bytes) -> Headers:
    """The headers with which a sender proves itself, now."""
    at = str(int(time.time())).encode()
    if name == "github":
        return [(b"x-hub-signature-256", b"sha256=" + hmac.new(KEY, body, "sha256").hexdigest().encode())]
    if name == "gitlab":
        return [(b"x-gitlab-token", KEY)]
    if name == "slack":
        code = hmac.new(KEY, b"v0:" + at + b":" + body, "sha256").hexdigest()
        return [(b"x-slack-request-timestamp", at), (b"x-slack-signature", b"v0=" + code.encode())]
    if name == "stripe":
        code = hmac.new(KEY, at + b"." + body, "sha256").hexdigest()
        return [(b"stripe-signature", b"t=" + at + b",v1=" + code.encode())]
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    digest = hmac.new(key, b"msg_1." + at + b"." + body, "sha256").digest()
    start = b"svix-" if name == "svix" else b"webhook-"
    values = {b"id": b"msg_1", b"timestamp": at, b"signature": b"v1," + base64.b64encode(digest)}
    return [(start + each, value) for each, value in values.items()]


def ask(
    made: Webhook, headers: Headers, body: bytes, method: str = "POST", query: bytes = b""
) -> tuple[int, dict[str, str], bytes, list[Event]]:
    """Status, headers and body of the answer, and the events that were written."""
    bus, messages = Bus(), []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    receiver = Receiver({made.path: made})
    receiver.writer = bus
    scope = {"type": "http", "path": made.path, "method": method, "headers": headers, "query_string": query}
    asyncio.run(receiver(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return messages[0]["status"], found, messages[1]["body"], bus.events


def event_of(made: Webhook, headers: Headers, body: bytes) -> Event:
    status, _, answer, events = ask(made, headers, body)
    assert (status, answer) == (200, b"")
    [event] = events
    return event


def detail(made: Webhook, headers: Headers, body: bytes, status: int) -> str:
    found, _, answer, events = ask(made, headers, body)
    assert (found, events) == (status, [])
    text: str = json.loads(answer)["detail"]
    assert SECRET not in text
    return text


# Shortened from the payloads that the senders' documentation shows.
REPOSITORY = "https://api.github.com/repos/o/r"
PUSH = b'{"ref":"refs/heads/main","after":"6113728f","repository":{"url":"https://api.github.com/repos/o/r"}}'
OPENED = b'{"action":"opened","number":7,"repository":{"url":"https://api.github.com/repos/o/r"}}'
PIPELINE = b'{"object_kind":"pipeline","object_attributes":{"id":31,"status":"success"}}'
MENTION = (
    b'{"type":"event_callback","team_id":"T1","event_id":"Ev1","event_time":1531420618,'
    b'"event":{"type":"app_mention","channel":"C1"}}'
)
THIN = (  # stripe/stripe-ruby#1860
    b'{"id":"evt_2","object":"v2.core.event","created":"2026-04-29T16:27:50.520Z","context":"acct_1",'
    b'"type":"v1.invoice.paid","related_object":{"id":"in_1","type":"invoice"},"data":{}}'
)
PRESSED = '{"type":"block_actions","team":{"id":"T1"},"trigger_id":"1.2","user":{"id":"U1"}}'
GITHUB: Headers = [*JSON, (b"x-github-delivery", b"72d3162e-cc78")]


@pytest.mark.parametrize(
    ("name", "headers", "body", "wanted"),
    [
        (
            "github",
            [*GITHUB, (b"x-github-event", b"push")],
            PUSH,
            ("com.github.push", REPOSITORY, "72d3162e-cc78", "refs/heads/main", None),
        ),
        (
            "github",
            [*GITHUB, (b"x-github-event", b"pull_request")],
            OPENED,
            ("com.github.pull_request.opened", REPOSITORY, "72d3162e-cc78", "7", None),
        ),
        (
            "github",
            [*GITHUB, (b"x-github-event", b"meta")],
            b"{}",
            ("com.github.meta", "/webhooks/x", "72d3162e-cc78", None, None),
        ),
        (
            "gitlab",
            [*JSON, (b"idempotency-key", b"f5e5f430")],
            b'{"object_kind":"push","ref":"refs/heads/main","project":{"web_url":"https://gitlab.com/g/p"}}',
            ("com.gitlab.push", "https://gitlab.com/g/p", "f5e5f430", "refs/heads/main", None),
        ),
        (
            "gitlab",
            JSON,
            PIPELINE,
            ("com.gitlab.pipeline.success", "/webhooks/x", hashlib.sha256(PIPELINE).hexdigest(), "31", None),
        ),
        (
            "slack",
            JSON,
            MENTION,
            ("com.slack.app_mention", "/slack/T1", "Ev1", "C1", "2018-07-12T18:36:58Z"),
        ),
        (
            "slack",
            FORM,
            b"team_id=T1&channel_id=C1&command=%2Fdeploy&text=a+b&trigger_id=13345224609.738474920.8088",
            ("com.slack.slash_command", "/slack/T1", "13345224609.738474920.8088", "C1", None),
        ),
        (
            "slack",
            FORM,
            urlencode({"payload": PRESSED}).encode(),
            ("com.slack.block_actions", "/slack/T1", "1.2", "U1", None),
        ),
        (
            "stripe",
            JSON,
            b'{"id":"evt_1","created":1686089970,"type":"setup_intent.created","data":{"object":{"id":"seti_1"}}}',
            ("com.stripe.setup_intent.created", "/stripe", "evt_1", "seti_1", "2023-06-06T22:19:30Z"),
        ),
        (
            "stripe",
            JSON,
            b'{"id":"evt_1","account":"acct_1","created":1686089970,"type":"a","data":{}}',
            ("com.stripe.a", "/stripe/acct_1", "evt_1", None, "2023-06-06T22:19:30Z"),
        ),
        (
            "stripe",
            JSON,
            THIN,
            ("com.stripe.v1.invoice.paid", "/stripe/acct_1", "evt_2", "in_1", "2026-04-29T16:27:50.520Z"),
        ),
        (
            "svix",
            JSON,
            b'{"type":"user.created","timestamp":1749816650724,"data":{"id":"u"}}',
            ("user.created", "/webhooks/x", "msg_1", None, "2025-06-13T12:10:50.724000Z"),
        ),
        (
            "standard",
            JSON,
            b'{"type":"contact.created","timestamp":"2022-11-03T20:26:10.344522Z","data":{"id":"1f81"}}',
            ("contact.created", "/webhooks/x", "msg_1", None, "2022-11-03T20:26:10.344522Z"),
        ),
    ],
)  # fmt: skip
def test_a_request_becomes_the_event_of_its_preset(
    name: str, headers: Headers, body: bytes, wanted: tuple[str | None, ...]
) -> None:
    event = event_of(preset(name), [*headers, *signed(name, body)], body)
    time_ = event.attributes.get("time")
    assert (event.type, event.source, event.id, event.subject, time_) == wanted
    assert event.datacontenttype == "application/json"
    if headers[0] == JSON[0]:
        assert event.data == body


def test_all_events_of_a_repository_at_github_have_one_source() -> None:
    """gitbucket/gitbucket#2293: `repository.url` is the web address in a push, else the API's address."""
    web = "https://github.com/o/r"
    for kind, url in (("push", web), ("create", REPOSITORY)):
        body = json.dumps({"ref": "main", "repository": {"url": url, "html_url": web}}).encode()
        headers = [*GITHUB, (b"x-github-event", kind.encode()), *signed("github", body)]
        assert event_of(preset("github"), headers, body).source == web


@pytest.mark.parametrize(
    ("headers", "body"),
    [(FORM, b"ssl_check=1&token=t"), (JSON, b'{"ssl_check":"1","token":"t"}')],
    ids=["form", "json"],
)
def test_slacks_check_of_the_certificate_is_answered_without_an_event(headers: Headers, body: bytes) -> None:
    """howdyai/botkit#966: it became an event of a slash command that no user gave."""
    status, _, answer, events = ask(preset("slack"), [*headers, *signed("slack", body)], body)
    assert (status, answer, events) == (200, b"", [])
    assert ask(preset("slack"), headers, body)[0] == 401


@pytest.mark.parametrize("name", ["github", "gitlab", "slack", "stripe", "standard", "svix"])
def test_a_preset_refuses_a_request_without_proof(name: str) -> None:
    for headers in (JSON, [*JSON, *((key, b"x" + value) for key, value in signed(name, b"{}"))]):
        status, found, answer, events = ask(preset(name), headers, b"{}")
        assert (status, events) == (401, [])
        assert found["www-authenticate"]
        assert json.loads(answer)["detail"].startswith("Webhook 'x': ")
        assert SECRET.encode() not in answer
    if name != "gitlab":  # whose token is not of the body
        status, *_, events = ask(preset(name), [*JSON, *signed(name, b"{}")], b'{"a":1}')
        assert (status, events) == (401, [])


def test_each_of_two_secrets_is_valid_and_a_third_is_not() -> None:
    made = webhook('preset = "gitlab"\nsecret = ["c", "old"]')
    body = b'{"object_kind":"push"}'
    for token, status in ((KEY, 200), (b"old", 200), (b"older", 401)):
        assert ask(made, [*JSON, (b"x-gitlab-token", token)], body)[0] == status


def test_githubs_form_has_its_json_as_data() -> None:
    body = urlencode({"payload": PUSH.decode()}).encode()
    headers = [*FORM, *GITHUB[1:], (b"x-github-event", b"push"), *signed("github", body)]
    event = event_of(preset("github"), headers, body)
    assert (event.data, event.subject) == (PUSH, "refs/heads/main")


def test_a_form_becomes_an_object_of_its_fields() -> None:
    made = plain('json_field = "payload"\n')
    event = event_of(made, FORM, b"kind=a&id=7&text=%C3%A9+%2B%26&empty=&payload=%7B%7D")
    assert event.payload == {"kind": "a", "id": "7", "text": "é +&", "empty": "", "payload": "{}"}


def test_githubs_ping_is_answered_without_an_event_unless_it_is_declared() -> None:
    headers = [*GITHUB, (b"x-github-event", b"ping"), *signed("github", b'{"zen":"z"}')]
    status, _, answer, events = ask(preset("github"), headers, b'{"zen":"z"}')
    assert (status, answer, events) == (200, b"", [])
    assert event_of(preset("github", "ignore = []"), headers, b'{"zen":"z"}').type == "com.github.ping"


def test_a_type_is_compared_with_what_is_ignored_in_a_bounded_time() -> None:
    """With several `*` one request kept the process from all others, for hours."""
    hook = plain('ignore = ["*a*a*a*a*a*a*a*b"]')
    assert event_of(hook, JSON, json.dumps({"id": "1", "kind": "a" * 2000}).encode()).id == "1"


def test_slacks_challenge_is_answered_if_its_signature_is_valid() -> None:
    body = b'{"token":"t","challenge":"3eZbrw1aBm2r","type":"url_verification"}'
    status, headers, answer, events = ask(preset("slack"), [*JSON, *signed("slack", body)], body)
    assert (status, answer, events) == (200, b"3eZbrw1aBm2r", [])
    assert headers["content-type"] == "text/plain"
    assert ask(preset("slack"), [*JSON, *signed("slack", body + b" ")], body)[0] == 401
    for wrong in (b'{"type":"url_verification"}', b'{"type":"url_verification","challenge":"<a\\u0000>"}'):
        assert ask(preset("slack"), [*JSON, *signed("slack", wrong)], wrong)[0] == 400
    # Of another sender it is an event as any other.
    body = b'{"kind":"a","id":"1","type":"url_verification","challenge":"c"}'
    assert event_of(plain(), JSON, body).type == "com.shop.a"


@pytest.mark.parametrize(
    ("query", "status", "answer"),
    [
        (f"hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token={SECRET}", 200, b"1158201444"),
        (f"hub.mode=unsubscribe&hub.challenge=1&hub.verify_token={SECRET}", 403, None),
        ("hub.mode=subscribe&hub.challenge=1&hub.verify_token=x", 403, None),
        (f"hub.mode=subscribe&hub.challenge=%3Ca%0A%3E&hub.verify_token={SECRET}", 400, None),
        (f"hub.mode=subscribe&hub.verify_token={SECRET}", 400, None),
        ("&" * 5000, 403, None),
        ("\xff%ff", 403, None),
        ("", 403, None),
    ],
)
def test_metas_handshake_is_answered_if_its_token_is_right(
    query: str, status: int, answer: bytes | None
) -> None:
    made = webhook('type = "t"\nid = "sha256"\nverify = "github"\nsecret = "c"\nverify_token = "c"\n')
    found, _, body, _ = ask(made, [], b"", "GET", query.encode("latin-1"))
    assert found == status
    assert answer is None or body == answer
    assert SECRET.encode() not in body


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
def test_other_methods_are_refused(method: str) -> None:
    status, headers, _, _ = ask(plain(), [], b"", method)
    assert (status, headers["allow"]) == (405, "POST")


def test_the_attributes_come_from_data_and_headers_and_the_first_that_is_there_counts() -> None:
    made = plain(
        'source = "/shop/{data.site}"\n'
        'subject = ["{data.none}", "{data.order.none}", "{data.list}", "{data.order}", "{data.number}"]\n'
        'time = "{data.at}"\n'
        'extensions = { tenant = "{header.X-Tenant}", partitionkey = "{data.order.id}-{data.ok}",'
        ' no = "{data.no}" }\n'
    )
    body = json.dumps(
        {
            "kind": "order", "id": "7", "site": "Köln 1", "none": None, "list": [1], "order": {"id": "o"},
            "number": 12345678901234567890, "ok": True, "at": 1700000000123,
        }
    ).encode()  # fmt: skip
    event = event_of(made, [*JSON, (b"x-tenant", b"eu")], body)
    assert dict(event.attributes) == {
        "specversion": "1.0", "type": "com.shop.order", "source": "/shop/K%C3%B6ln%201", "id": "7",
        "subject": "12345678901234567890", "time": "2023-11-14T22:13:20.123000Z", "tenant": "eu",
        "partitionkey": "o-true", "datacontenttype": "application/json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('"2026-11-20T06:00:00+01:00"', "2026-11-20T06:00:00+01:00"),
        ("1531420618", "2018-07-12T18:36:58Z"),
        ('"1531420618.000200"', "2018-07-12T18:36:58.000200Z"),
        ("1531420618123", "2018-07-12T18:36:58.123000Z"),
        ("0", "1970-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_rfc_3339_or_unix_time(text: str, wanted: str) -> None:
    body = b'{"kind":"a","id":"1","at":%s}' % text.encode()
    assert event_of(plain('time = "{data.at}"'), JSON, body).attributes["time"] == wanted


@pytest.mark.parametrize(
    ("headers", "body", "status", "says"),
    [
        (JSON, b'{"kind":"a"}', 400, "no id, which the webhook takes from {data.id}"),
        (JSON, b'{"id":"1"}', 400, "no type"),
        (JSON, b'[{"id":"1"}]', 400, "no type"),
        (JSON, b"null", 400, "no type"),
        (JSON, b"", 400, "not valid JSON"),
        (JSON, b"{", 400, "not valid JSON"),
        (JSON, b'\xef\xbb\xbf{"kind":"a","id":"1"}', 400, "not valid JSON"),
        (JSON, b'{"kind":"a","id":"\xff"}', 400, "not valid JSON"),
        (JSON, b'{"kind":"a","id":"\\ud800"}', 400, "not valid JSON"),
        (JSON, b'{"kind":"a","id":NaN}', 400, "not valid JSON"),
        (JSON, b'{"kind":"a","id":' + b"1" * 5000 + b"}", 400, "not valid JSON"),
        (JSON, b"[" * 100_000 + b"]" * 100_000, 400, "nested too deeply"),
        (JSON, b'{"kind":"a","id":"1","id":"2"}', 400, "a member twice: 'id'"),
        (JSON, b'{"kind":"a","id":"1","x":[{"a":1,"\\u0061":2}]}', 400, "a member twice: 'a'"),
        (JSON, b'{"kind":' + b"1" * 2049 + b',"id":"1"}', 400, "more than 2048 characters"),
        (JSON, b'{"kind":"' + b"a" * 2049 + b'","id":"1"}', 400, "more than 2048 characters"),
        (JSON, b'{"kind":"a\\nb","id":"1"}', 400, "control"),
        (JSON, b'{"kind":1.5,"id":"1"}', 400, "no type"),
        (JSON, b'{"kind":"","id":"1"}', 400, "no type"),
        (JSON, b'{"kind":"a","id":"1","at":"yesterday"}', 400, "RFC 3339"),
        (JSON, b'{"kind":"a","id":"1","at":999999999999999}', 400, "9999"),
        ([], b'{"kind":"a","id":"1"}', 415, "application/json"),
        ([(b"content-type", b"text/plain")], b'{"kind":"a","id":"1"}', 415, "application/json"),
        ([*JSON, *JSON], b'{"kind":"a","id":"1"}', 415, "application/json"),
        ([(b"content-type", b"application/json; charset=utf-16")], b"{}", 415, "UTF-8"),
        ([*JSON, (b"content-encoding", b"gzip")], b"{}", 415, "compressed"),
        ([*JSON, (b"x-id", b"\xff")], b'{"kind":"a","id":"1"}', 400, "header x-id has bytes"),
        (FORM, b"kind=a&id=1&id=2", 400, "a field twice: 'id'"),
        (FORM, b"kind=a&id=1&i%64=2", 400, "a field twice: 'id'"),
        (FORM, b"kind=a&id=%zz", 400, "percent"),
        (FORM, b"kind=a&id=%ff", 400, "not UTF-8"),
        (FORM, b"kind=a&id=\xff", 400, "not UTF-8"),
        (FORM, b"kind=a&id", 400, "without ="),
        (FORM, b"kind=a&=1", 400, "without a name"),
        (FORM, b"", 400, "without a name"),
        (FORM, b"&".join(b"a%d=" % n for n in range(1001)), 400, "more than 1000 fields"),
        (FORM, b"payload=%7B", 400, "not valid JSON"),
        (FORM, b"payload=%7B%22kind%22%3A1%2C%22kind%22%3A1%7D", 400, "a member twice"),
    ],
)  # fmt: skip
def test_what_makes_no_event_is_refused_with_the_reason(
    headers: Headers, body: bytes, status: int, says: str
) -> None:
    made = plain('time = "{data.at}"\nsubject = "{header.x-id}"\njson_field = "payload"\n')
    assert says in detail(made, headers, body, status)


@pytest.mark.parametrize("kind", ["interlock.airflow.dag_run.succeeded", "interlock.x", "interlock."])
def test_no_value_of_a_request_makes_a_type_of_interlocks_own(kind: str) -> None:
    body = json.dumps({"kind": kind, "head": kind[:5], "tail": kind[5:], "id": "1"}).encode()
    for type_ in ("{data.kind}", "{data.head}{data.tail}", "inter{data.tail}"):
        made = webhook(f'type = "{type_}"\nid = "{{data.id}}"\nverify = "none"\n')
        assert "may not write" in detail(made, JSON, body, 403)


def test_a_digest_as_id_is_that_of_the_body_and_no_value_of_a_request_asks_for_it() -> None:
    made = webhook('type = "t"\nid = ["{data.id}", "sha256"]\nverify = "none"\n')
    assert event_of(made, JSON, b'{"a":1}').id == hashlib.sha256(b'{"a":1}').hexdigest()
    assert event_of(made, JSON, b'{"id":"sha256"}').id == "sha256"


HEADER = st.sampled_from(
    [
        b"content-type", b"content-encoding", b"authorization", b"x-id", b"x-hub-signature-256",
        b"x-slack-signature", b"x-slack-request-timestamp", b"stripe-signature", b"webhook-id",
        b"webhook-timestamp", b"webhook-signature", b"x-gitlab-token", b"x-github-event",
        b"x-github-delivery",
    ]
)  # fmt: skip
VALUE = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [JSON[0][1], FORM[0][1], KEY, b"v1,AAAA v1,", b"t=1,v1=,v1=0", b"t=,v1", b"9" * 20, b"sha256="]
    ),
)
TEXT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["id", "kind", "type", "data"]) | st.text(), inner)
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())
BODY = st.one_of(st.binary(max_size=200), TEXT, TEXT.map(lambda text: urlencode({"payload": text}).encode()))
MADE = {
    **{name: preset(name) for name in ("github", "gitlab", "slack", "stripe", "standard", "svix")},
    "plain": plain('subject = "{header.x-id}"\ntime = "{data.at}"\njson_field = "payload"\n'),
}


@settings(max_examples=100)
@given(
    name=st.sampled_from(sorted(MADE)),
    headers=st.lists(st.tuples(HEADER, VALUE), max_size=6),
    body=BODY,
    proves=st.booleans(),
    kind=st.sampled_from([JSON, FORM, []]),
)
def test_any_request_gets_an_event_or_a_declared_error(
    name: str, headers: Headers, body: bytes, proves: bool, kind: Headers
) -> None:
    made = MADE[name]
    proof = signed(name, body) if proves and name != "plain" else []
    request = Request("POST", made.path, [*kind, *headers, *proof])
    grant = asyncio.run(made.admit(request))
    if isinstance(grant, Response):
        assert grant.status == 401
        return
    try:
        found = made.read(request, body)
    except EventError:
        return
    if isinstance(found, Response):
        assert found.status in (200, 400, 401)
    else:
        [event] = found
        assert Event.from_json_bytes(event.to_json_bytes()) == event
        assert event.payload == data_of(request, body, "payload")[1]


@given(query=st.binary(max_size=60), method=st.sampled_from(["GET", "HEAD", "OPTIONS", "PATCH"]))
def test_any_query_gets_an_answer(query: bytes, method: str) -> None:
    made = webhook('type = "t"\nid = "sha256"\nverify = "github"\nsecret = "c"\nverify_token = "c"\n')
    assert made.answer(Request(method, made.path, [], b"hub.mode=" + query)).status in (403, 405)
