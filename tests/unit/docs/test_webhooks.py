"""What docs/use/webhooks.md declares is read as it stands, and does what the page says."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from interlock import Event
from interlock.receiver.endpoint import Request
from interlock.receiver.webhooks.declaration import Declaration, Hmac, Secret, read_webhooks
from interlock.receiver.webhooks.endpoint import Webhook
from interlock.receiver.webhooks.presets import PRESETS
from interlock.testing import runs_of

USE = Path(__file__).parents[3] / "docs" / "use"
PAGE, MIGRATING = (USE / "webhooks.md").read_text(), (USE / "migrating-events.md").read_text()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE + MIGRATING, re.DOTALL)
PUSH = {
    "ref": "refs/heads/main",
    "after": "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
    "repository": {"url": "https://api.github.com/repos/acme/shop"},
}


def webhooks(text: str) -> dict[str, Webhook]:
    found = read_webhooks(text, "the page", lambda conn_id: Secret(conn_id, SECRET))
    return {each.name: each for each in found}


def event_of(webhook: Webhook, body: dict[str, Any], **headers: str) -> Event:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    request = Request("POST", webhook.path, [(b"content-type", b"application/json"), *named])
    assert not hasattr(asyncio.run(webhook.admit(request)), "status")
    [event] = webhook.read(request, json.dumps(body).encode())  # type: ignore[misc]
    return event


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_each_declaration_of_the_pages_is_valid(number: int) -> None:
    assert webhooks(BLOCKS[number])


def test_a_push_starts_the_run_of_the_first_example() -> None:
    webhook = webhooks(BLOCKS[0])["github"]
    digest = hmac.new(SECRET.encode(), json.dumps(PUSH).encode(), "sha256").hexdigest()
    event = event_of(
        webhook, PUSH, x_hub_signature_256=f"sha256={digest}", x_github_event="push", x_github_delivery="1"
    )
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], "page", "exec"), names)
    [run] = runs_of(names["deploy_on_push"], [(event, "2026-11-26T10:00:00Z")])
    assert (run.dag_id, run.conf) == ("deploy", {"commit": PUSH["after"]})


def test_the_declared_hmac_of_the_second_example_takes_both_secrets() -> None:
    webhook = webhooks(BLOCKS[1])["warehouse"]
    body = {"kind": "arrived", "site": "eu 1", "order": 7, "at": 1700000000}
    digest = hmac.new(SECRET.encode(), json.dumps(body).encode(), "sha256").hexdigest()
    event = event_of(webhook, body, x_signature=f"sha256={digest}", x_delivery="d1", x_tenant="eu")
    assert dict(event.attributes) == {
        "specversion": "1.0", "type": "com.warehouse.arrived", "source": "/warehouse/eu%201", "id": "d1",
        "subject": "7", "time": "2023-11-14T22:13:20Z", "partitionkey": "7", "tenant": "eu",
        "datacontenttype": "application/json",
    }  # fmt: skip


def test_each_field_and_preset_is_on_the_page_and_no_other() -> None:
    table = PAGE[PAGE.index("## Declaration") : PAGE.index("An unknown field")]
    cells = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table, re.MULTILINE)
    listed = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert listed == {field.name for field in msgspec.structs.fields(Declaration)}
    table = PAGE[PAGE.index("`hmac` has these fields") : PAGE.index("A request whose signature")]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {
        field.name for field in msgspec.structs.fields(Hmac)
    }
    heads = re.search(r"^\| \| (.*) \|$", PAGE[PAGE.index("## Presets") :], re.MULTILINE)
    assert heads is not None
    assert set(re.findall(r"`(\w+)`", heads[1])) == set(PRESETS)
