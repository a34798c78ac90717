"""What each user may see and do, and which requests may come from a page of another site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from interlock.plugin.page.rights import Guarded, Rights, User

from tests.unit.plugin.page.users import DAGS, Manager, bearer, manager

__all__ = ["manager"]
JSON = {"content-type": "application/json"}


@pytest.fixture
def client(manager: Manager) -> Iterator[TestClient]:
    app = FastAPI()

    @app.get("/who")
    def who(rights: User) -> str:
        return rights.name

    @app.post("/change", dependencies=[Guarded])
    def change(rights: User) -> str:
        return rights.name

    with TestClient(app, base_url="http://airflow.example:8080") as made:
        yield made


def rights_of(name: str) -> Rights:
    return Rights(Manager(), Manager.users[name])


@pytest.mark.parametrize(
    ("name", "dags", "texts", "edits", "operates"),
    [
        ("viewer", None, True, False, False),
        ("user", None, True, True, False),
        ("op", None, True, True, True),
        ("limited", {"report"}, True, True, False),
        ("reader", {"report"}, True, False, False),
        ("blind", None, False, False, False),
        ("team", {"report", "settle"}, True, False, False),
    ],
)
def test_each_user_has_the_rights_that_airflow_gives(
    manager: Manager, name: str, dags: set[str] | None, texts: bool, edits: bool, operates: bool
) -> None:
    rights = rights_of(name)
    assert rights.dags == dags
    assert [rights.reads(each) for each in ("report", "secret", None)] == [
        True,
        dags is None,
        dags is None,
    ]
    assert (rights.reads_texts("report"), rights.reads_texts()) == (texts, texts and dags is None)
    assert (rights.edits("report", "kafka"), rights.operates("kafka")) == (edits, operates)
    assert rights.edits(None, "kafka") == operates


def test_a_dag_that_airflow_does_not_know_is_for_who_may_read_all(manager: Manager) -> None:
    assert rights_of("viewer").reads("deleted")
    assert not rights_of("limited").reads("deleted")
    assert not rights_of("limited").edits("settle", "kafka")
    assert "deleted" not in DAGS


@pytest.mark.parametrize(
    ("headers", "cookies", "status"),
    [
        (bearer("viewer"), {}, 200),
        ({}, {"_token": "viewer"}, 200),
        (bearer("viewer"), {"_token": "nobody"}, 200),
        ({}, {}, 401),
        (bearer("nobody"), {}, 401),
        (bearer("nobody"), {"_token": "viewer"}, 401),
        ({}, {"_token": "nobody"}, 401),
        (bearer("expired"), {}, 401),
        (bearer("harmful"), {}, 401),
        (bearer("strange"), {}, 401),
        (bearer("x" * 8193), {}, 401),
        ({}, {"_token": "x" * 8193}, 401),
        ({"authorization": "Basic dmlld2Vy"}, {}, 401),
    ],
)
def test_a_user_is_known_by_a_token_or_a_cookie_of_airflow(
    client: TestClient, headers: dict[str, str], cookies: dict[str, str], status: int
) -> None:
    client.cookies.update(cookies)
    answer = client.get("/who", headers=headers)
    assert answer.status_code == status
    assert isinstance(answer.json() if status == 200 else answer.json()["detail"], str)


COOKIE = {"cookie": "_token=user"}
OWN = "http://airflow.example:8080"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**COOKIE, "sec-fetch-site": "same-origin"}, 200),
        ({**COOKIE, "sec-fetch-site": "same-origin", "origin": "http://proxied.example"}, 200),
        ({**COOKIE, "origin": OWN}, 200),
        (bearer("user"), 200),
        ({**COOKIE, "sec-fetch-site": "cross-site"}, 403),
        ({**COOKIE, "sec-fetch-site": "same-site"}, 403),
        ({**COOKIE, "sec-fetch-site": "none"}, 403),
        ({**COOKIE, "sec-fetch-site": "cross-site", "origin": OWN}, 403),
        ({**COOKIE, "origin": "https://elsewhere.example"}, 403),
        ({**COOKIE, "origin": "null"}, 403),
        ({**COOKIE, "origin": ""}, 403),
        (COOKIE, 403),
        # as with simple_auth_manager_all_admins, which adds a token to each request
        ({**bearer("user"), "sec-fetch-site": "cross-site"}, 403),
        ({**bearer("user"), "origin": "https://elsewhere.example"}, 403),
        ({**bearer("user"), "origin": "null"}, 403),
    ],
)
def test_a_page_of_another_site_changes_nothing_with_the_cookie_of_its_reader(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    answer = client.post("/change", headers={**JSON, **headers}, json={})
    assert answer.status_code == status
    if status == 403:
        assert "Authorization: Bearer TOKEN" in answer.json()["detail"]


def test_airflows_configured_address_is_its_own_behind_a_proxy(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.corp.example/team")
    headers = {**JSON, **COOKIE, "origin": "https://airflow.corp.example"}
    assert client.post("/change", headers=headers, json={}).status_code == 200


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"]
)
def test_a_body_that_another_site_may_send_without_asking_is_refused(
    client: TestClient, content_type: str
) -> None:
    headers: dict[str, Any] = {**bearer("user"), "content-type": content_type}
    answer = client.post("/change", headers=headers, content=b"{}")
    assert answer.status_code == 415
