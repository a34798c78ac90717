"""Random requests to a receiver: valid ones, almost valid ones, and bytes that are none."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from typing import Any

from interlock.receiver import openlineage

from tests.kit import lineage

METHODS = ["POST"] * 12 + ["GET", "OPTIONS", "HEAD", "PUT", "CONNECT", "PRI", "post", "", "\x00"]
REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
NAMES = ["subject", "time", "datacontenttype", "dataschema", "key", "A", "a-b", *REQUIRED]
VALUES = [
    "1.0", "1", "/s", "t", "com.shop.orders", "interlock.x", "2026-11-20T10:00:00Z", "application/json",
    "", " ", "%41", "%C0%A0", "%", "\"a\\\"b\"", "\u00e9", "\x00", "x" * 300, "*", "[", "a, b", "9" * 40,
]  # fmt: skip
STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
TYPES = [
    STRUCTURED, BATCH, "application/json", "application/cloudevents+avro", "text/plain", "/",
    "application/x-www-form-urlencoded", "application/cloudevents+json; charset=latin-1",
    "multipart/form-data; boundary=x", "application/CloudEvents+JSON;charset=\"utf-8\"",
]  # fmt: skip
MORE = [
    tuple(line.split(": "))
    for line in """
expect: 100-continue
connection: close
connection: upgrade
upgrade: h2c
upgrade: websocket
content-encoding: gzip
content-encoding: br
authorization: Bearer x
authorization: Bearer e30.e30.e30
authorization: Basic x
webhook-request-origin: a.example.com
webhook-request-rate: 0
traceparent: 00-\xff
x-hub-signature-256: sha256=00
x-github-event: push
stripe-signature: t=1,v1=00
x-slack-request-timestamp: 999999999999999999999999
x-slack-signature: v0=00
webhook-id: 1
webhook-timestamp: -1
webhook-signature: v1,!
x-gitlab-token: \xff
te: trailers
""".strip().splitlines()
]
PIECES = [b"\r\n", b"\r\n\r\n", b"\x00", b"\xff", b":", b" ", b"%", b'"', b"[", b"{", b"0", b"-", b"HTTP/1.1"]
PLACES = ["/", "/healthz", "/readyz", "/events/", "*", "//x", "http://["]
QUERIES = ["", "", "", "?", "?a=b&a=%ff", "?hub.mode=subscribe&hub.challenge=1", "?" + "x" * 500]


class Hostile:
    """Makes requests of a random generator. paths: of the endpoints."""

    def __init__(self, chosen: random.Random, paths: Sequence[str]) -> None:
        self._random, self._paths = chosen, paths

    def request(self) -> list[bytes]:
        """The parts in which a request is sent, one after the other."""
        kind = self._random.random()
        if kind < 0.05:
            whole = self._random.randbytes(self._random.randrange(2000))
        elif kind < 0.3:
            whole = self._valid()
        else:
            whole = self._valid() if kind < 0.5 else self._built()
            whole = self._changed(whole) if kind < 0.75 else whole + self._built()  # the latter is pipelined
        return self._parts(whole)

    def _valid(self) -> bytes:
        """A CloudEvent in one of the three modes, or an OpenLineage event."""
        kind = self._random.randrange(4)
        if kind == 3:
            return self._lineage()
        if kind == 0:
            headers = [(f"ce-{name}", value) for name, value in REQUIRED.items()]
            return self._whole("POST", "/events", headers, self._body())
        form = {**REQUIRED, "data": self._json(3)}
        if kind == 1:
            return self._whole("POST", "/events", [("content-type", STRUCTURED)], _dumped(form))
        batch = [form] * self._random.choice([0, 1, 100, 2000])
        return self._whole("POST", "/events", [("content-type", BATCH)], _dumped(batch))

    def _lineage(self) -> bytes:
        """An OpenLineage event in which one member may have any value; one, a batch, or compressed."""
        chosen, form = self._random, lineage.of_spark()
        at: Any = form
        while isinstance(at, (dict, list)) and at and chosen.random() < 0.7:
            name = chosen.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if chosen.random() < 0.3:
                at[name] = self._json(3)
            at = at[name]
        headers = [("content-type", "application/json")]
        if chosen.random() < 0.3:
            return self._whole("POST", f"{openlineage.PATH}/batch", headers, _dumped([form] * 3))
        body = _dumped(form)
        if chosen.random() < 0.3:
            headers, body = [*headers, ("content-encoding", "gzip")], gzip.compress(body)
        return self._whole("POST", openlineage.PATH, headers, body)

    def _built(self) -> bytes:
        """A request of any parts."""
        chosen = self._random
        path = chosen.choice([*self._paths, *self._paths, *PLACES]) + chosen.choice(QUERIES)
        headers = [("content-type", chosen.choice(TYPES)) for _ in range(chosen.choice([0, 1, 1, 1, 2]))]
        headers += [(f"ce-{name}", value) for name, value in REQUIRED.items() if chosen.random() < 0.9]
        headers += [
            (f"ce-{chosen.choice(NAMES)}", chosen.choice(VALUES)) for _ in range(chosen.choice([0, 0, 1, 3]))
        ]
        headers += [chosen.choice(MORE) for _ in range(chosen.randrange(4))]
        if chosen.random() < 0.01:
            headers += [("x", "y" * chosen.choice([1, 1000]))] * chosen.choice([60, 199, 250])
        return self._whole(chosen.choice(METHODS), path, headers, self._body())

    def _whole(self, method: str, path: str, headers: list[Any], body: bytes) -> bytes:
        chosen = self._random
        version = chosen.choice(["1.1"] * 30 + ["1.0", "2.0", "9"])
        headers = [("host", "x"), *headers]
        if chosen.random() < 0.2:
            headers.append(("transfer-encoding", "chunked"))
            chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in self._parts(body) if part]
            body = b"".join(chunks) + b"0\r\n\r\n"
        else:
            wrong = chosen.choice([-1, 1, 10**6, 10**30]) if chosen.random() < 0.05 else 0
            headers.append(("content-length", str(len(body) + wrong)))
        chosen.shuffle(headers)
        lines = [f"{method} {path} HTTP/{version}", *(f"{name}: {value}" for name, value in headers)]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body

    def _body(self) -> bytes:
        chosen = self._random
        kind = chosen.randrange(8)
        if kind == 0:
            return chosen.randbytes(chosen.randrange(500))
        if kind == 1:
            return b"a=b&c=%ff&payload=" + _dumped(self._json(3))
        if kind == 2:
            return chosen.choice([b"[", b'{"a":', b'{"data":[']) * chosen.choice([1, 100, 20_000])
        events = [self._event() for _ in range(chosen.choice([0, 1, 3, 60]))]
        body = _dumped(self._event() if kind < 5 else events)
        if kind == 7:
            return gzip.compress(body * chosen.choice([1, 1, 200]))
        return self._changed(body) if chosen.random() < 0.3 else body

    def _event(self) -> Any:
        chosen = self._random
        form: dict[str, Any] = dict(REQUIRED)
        for name in [*NAMES, "data", "data_base64", "eventType", "run", "job", "payload"]:
            if chosen.random() < 0.1:
                form[name] = self._json(3)
        return form if chosen.random() < 0.95 else self._json(2)

    def _json(self, depth: int) -> Any:
        chosen = self._random
        kind = chosen.randrange(8 if depth else 6)
        if kind < 3:
            return chosen.choice(VALUES)
        if kind < 6:
            return chosen.choice([None, True, 0, -1, 1.5, 2**31, 10**400, float("inf"), "\ud800"])
        inner = [self._json(depth - 1) for _ in range(chosen.randrange(4))]
        return inner if kind == 6 else dict(zip(NAMES, inner, strict=False))

    def _changed(self, text: bytes) -> bytes:
        chosen, changed = self._random, bytearray(text)
        for _ in range(chosen.choice([1, 1, 1, 2, 5])):
            at = chosen.randrange(len(changed) + 1)
            to = min(len(changed), at + chosen.choice([0, 0, 1, 1, 10]))
            changed[at:to] = chosen.choice(
                [b"", chosen.randbytes(1), chosen.choice(PIECES), bytes(changed[at:to]) * 3]
            )
        return bytes(changed)

    def _parts(self, whole: bytes) -> list[bytes]:
        chosen = self._random
        cuts = sorted(chosen.randrange(len(whole) + 1) for _ in range(chosen.choice([0, 0, 1, 3])))
        return [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def _dumped(form: Any) -> bytes:
    return json.dumps(form).encode()
