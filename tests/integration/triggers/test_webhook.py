"""A webhook of GitHub starts a run in a real Airflow, with the declarations of docs/use/webhooks.md."""

from __future__ import annotations

import hmac
import json
import re
import textwrap
from pathlib import Path
from typing import Any

import httpx
import pytest

from local.receiver import LocalReceiver

PAGE = (Path(__file__).parents[3] / "docs" / "use" / "webhooks.md").read_text()
TARGET = """

from airflow.sdk import DAG, task

with DAG("deploy", schedule=None):

    @task
    def deploy(dag_run=None) -> str:
        return dag_run.conf["commit"]

    deploy()
"""
# The members that GitHub documents for a push, with values of its own.
REPOSITORY = {
    "id": 35129377,
    "name": "shop",
    "full_name": "acme/shop",
    "private": False,
    "url": "https://github.com/acme/shop",  # in a push; in other events the API's address
    "html_url": "https://github.com/acme/shop",
    "default_branch": "main",
    "pushed_at": 1795658400,
}
COMMIT = {
    "id": "6113728f27ae82c7b1a177c8d03f9e96e0adf246",
    "distinct": True,
    "message": "Prices of the new year",
    "timestamp": "2026-11-26T10:00:00+01:00",
    "added": ["prices/2027.csv"],
    "removed": [],
    "modified": [],
}
PUSH = {
    "ref": "refs/heads/main",
    "before": "76ae82c7b1a177c8d03f9e96e0adf2466113728f",
    "after": COMMIT["id"],
    "created": False,
    "deleted": False,
    "forced": False,
    "base_ref": None,
    "compare": "https://github.com/acme/shop/compare/76ae82c7b1a1...6113728f27ae",
    "commits": [COMMIT],
    "head_commit": COMMIT,
    "repository": REPOSITORY,
    "pusher": {"name": "builder", "email": "builder@example.com"},
    "sender": {"login": "builder", "id": 6752317, "type": "Bot"},
}


@pytest.mark.long
def test_a_push_at_github_starts_one_run_of_the_target_however_often_it_is_delivered(
    site: Any, eventually: Any
) -> None:
    [dispatcher] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (site.airflow.dags_folder / "deploy_on_push.py").write_text(dispatcher + textwrap.dedent(TARGET))
    webhooks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
    for command in (
        ("dags", "reserialize"),
        ("connections", "add", "github_webhook", "--conn-type", "generic", "--conn-password", "a canary"),
        ("variables", "set", "webhooks", webhooks),
    ):
        done = site.airflow.cli(*command, timeout_s=180)
        assert done.returncode == 0, done.stdout
    site.api.unpause("deploy")
    site.api.unpause("deploy_on_push")
    [run] = eventually("the dispatcher runs", lambda: site.api.runs("deploy_on_push"))
    site.api.wait_for_task("deploy_on_push", run["dag_run_id"], "dispatch", "deferred", timeout_s=90)

    body = json.dumps(PUSH).encode()
    headers = {
        "content-type": "application/json",
        "user-agent": "GitHub-Hookshot/044aadd",
        "x-github-hook-id": "292430182",
        "x-github-event": "push",
        "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "x-hub-signature-256": f"sha256={hmac.new(b'a canary', body, 'sha256').hexdigest()}",
    }
    receiver = LocalReceiver(site.airflow, "--webhooks", "variable:webhooks", "--workers", "2")
    receiver.start()
    try:
        receiver.wait_ready()
        url = f"{receiver.url}/webhooks/github"
        for _ in range(3):  # GitHub's "Redeliver"
            answer = httpx.post(url, headers=headers, content=body)
            assert (answer.status_code, answer.content) == (200, b"")
        forged = httpx.post(url, headers=headers, content=body + b" ")
        assert forged.status_code == 401
    finally:
        receiver.stop()
    [started] = eventually("the target runs", lambda: site.api.runs("deploy"))
    assert site.api.wait_for_run("deploy", started["dag_run_id"]) == "success"
    assert site.api.xcom("deploy", started["dag_run_id"], "deploy") == PUSH["after"]
    assert len(site.api.runs("deploy")) == 1
    assert "a canary" not in receiver.log.read_text()
