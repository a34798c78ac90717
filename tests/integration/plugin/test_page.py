"""The page's routes in a real API server of Airflow, with its simple auth manager and a real bus."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from interlock import event
from interlock.engine.config import BusConfig
from interlock.engine.kafka.topics import create
from interlock.plugin.broker import LocalBroker
from interlock.plugin.page.app import page_app

from local.airflow import MIGRATED, LocalAirflow
from tests.integration.engine.conftest import Bench
from tests.kit.page_routes import OPEN, REQUESTS, ROLES
from tests.kit.page_server import ROOM, Page, page_server

DAY = "2026-11-20"
ORDERS, RATES = (event(f"com.shop.{name}", by="data.day", label=name) for name in ("orders", "rates"))
BOTH = ORDERS & RATES


@pytest.fixture(scope="module")
def page(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, eventually: Callable[..., Any]
) -> Iterator[Page]:
    settings = {("interlock", "page_connections"): "kafka_default,kafka_down"}
    with page_server(tmp_path_factory.mktemp("page") / "home", bench, eventually, settings) as made:
        yield made


def test_each_route_asks_who_the_user_is_and_what_he_may(page: Page) -> None:
    """Each route with no token, as each role, and with a cookie that a page of another site makes it send."""
    routes = {
        (method, route.path)
        for route in page_app(["x"], lambda _: pytest.fail("nothing is asked")).routes
        for method in route.methods  # type: ignore[attr-defined]
    }
    assert {(each.method, each.path) for each in REQUESTS} | set(OPEN) == routes
    for method, path, sent, statuses in REQUESTS:
        assert page.ask(method, path, sent, None).status_code == 401, path
        nobody = page.ask(method, path, sent, None, authorization="Bearer x.y.z", cookie="_token=x.y.z")
        assert nobody.status_code == 401, path
        for role, status in zip(ROLES, statuses, strict=True):
            found = page.ask(method, path, sent, role)
            assert found.status_code == status, (path, role, found.text)
            assert found.headers["content-type"] == "application/json"
        if method == "POST":
            cookie = f"_token={page.tokens['admin']}"
            for foreign in (
                {"sec-fetch-site": "cross-site", "origin": "https://elsewhere.example"},
                {"origin": "https://elsewhere.example"},
                {},
            ):
                found = page.ask(method, path, sent, None, cookie=cookie, **foreign)
                assert found.status_code == 403, path
            own = page.ask(method, path, sent, None, cookie=cookie, **{"sec-fetch-site": "same-origin"})
            assert own.status_code == statuses[-1], path
    for method, path in OPEN:
        assert page.ask(method, path, {}, None).status_code in (200, 404)
    for hidden in ("/docs", "/openapi.json", "/redoc", "/"):
        assert page.ask("GET", hidden, {}, "admin").status_code == 404


def test_airflow_lists_the_page_and_the_tab(page: Page) -> None:
    found = page.client.get("/api/v2/plugins", headers={"authorization": f"Bearer {page.tokens['viewer']}"})
    [plugin] = [each for each in found.json()["plugins"] if each["name"] == "interlock"]
    assert [(each["name"], each["destination"]) for each in plugin["react_apps"]] == [
        ("Interlock", "nav"),
        ("Wait", "task_instance"),
    ]


def test_a_wait_says_what_came_what_is_missing_and_what_nearly_was_it(page: Page) -> None:
    bench, name = page.bench, "airflow/report/scheduled__1/wait"
    with bench.engine(), bench.waiting() as wait:
        opened = wait(name, BOTH, DAY)
        bench.emit("com.shop.orders", source="/spark/orders", data={"day": DAY}, id="o1")
        bench.emit("com.shop.rates", source="/bank", data={"day": "2026-11-19"}, id="r1")

        def told() -> Any:
            found = page.get("/wait", "viewer", dag_id="report", run_id="scheduled__1", task_id="wait")
            return found if found["words"] and "came at" in " ".join(found["words"]) else None

        found = page.until("the first event counts", told)
        assert found["state"] == "waiting"
        assert "orders came at" in found["words"][1]
        assert found["words"][1].endswith("from /spark/orders; rates is missing.")
        assert "key 2026-11-19 here, 2026-11-20 wanted" in found["words"][2]
        assert found["subscription"]["parts"] == [1, 2]
        assert found["wanted"] == [
            {
                "label": "rates", "type": "com.shop.rates", "source": None, "subject": None,
                "data": {"day": DAY}, "extensions": {},
            }
        ]  # fmt: skip
        assert found["may"] == {"cancel": False, "clear": False, "emit": False, "read_texts": True}
        held = page.post("/cancel", "user", name=name)
        assert held.status_code == 409
        assert "wait" in held.json()["detail"]
        assert "would register it again" in held.json()["detail"]
        rows = page.get("/waits", kind="one-shot", dag_id="report", key=DAY, type="com.shop.rates")
        assert [(each["name"], each["missing"]) for each in rows["rows"]] == [(name, ["rates"])]

        sent = page.post("/emit", "op", **{k: v for k, v in found["wanted"][0].items() if k != "label"})
        assert sent.status_code == 200, sent.text
        opened.firing()

    def fired() -> Any:
        now = page.get("/wait", "viewer", dag_id="report", run_id="scheduled__1", task_id="wait")
        return now if now["state"] == "fired" else None

    found = page.until("the firing is read", fired)
    assert found["firing"]["events"]["orders"][0]["id"] == "o1"
    assert [each["what"] for each in found["steps"]] == ["event", "event", "firing"]
    assert all(each.get("took_ms", 0) >= 0 for each in found["steps"])
    [listed] = page.get("/firings", name=name)["rows"]
    assert (listed["state"], listed["run_id"], listed["target"]) == ("open", "scheduled__1", None)
    [row] = page.get("/waits", kind="one-shot", dag_id="report")["rows"]
    assert (row["firing"], row["missing"], row["parts"]) == ("open", None, None)


def test_a_durable_subscription_is_cancelled_and_the_log_says_by_whom(page: Page) -> None:
    name = "airflow/dispatch/settle"
    page.bench.subscribe(name, BOTH)
    shown = page.until("it is read", lambda: page.get("/subscription", name=name)["subscription"])
    assert (shown["kind"], shown["dag_id"], shown["task_id"]) == ("durable", "settle", None)
    assert page.post("/cancel", "viewer", name=name).status_code == 403
    assert page.post("/cancel", "user", name=name).json() == {"cancelled": name}

    def gone() -> bool:
        return page.get("/subscription", name=name)["state"] == "none"

    page.until("it is gone", gone)
    assert page.post("/cancel", "user", name=name).status_code == 404
    text = page.airflow.processes.log_path("api-server").read_text()
    assert f'cancel of the page by user \'user\': {{"bus": "{page.bench.config.name}", "sub' in text
    assert "by user 'viewer'" not in text


def test_airflows_audit_log_says_who_has_sent_an_event(page: Page) -> None:
    sent = page.post("/emit", "op", type="com.shop.audited", subject="7").json()["event"]
    found = page.client.get(
        "/api/v2/eventLogs",
        params={"event": "interlock_emit", "owner": "op"},
        headers={"authorization": f"Bearer {page.tokens['admin']}"},
    )
    entries = [json.loads(each["extra"]) for each in found.json()["event_logs"]]
    assert {"bus": page.bench.config.name, **sent} in entries


def test_a_firing_of_a_dispatcher_is_skipped_once(page: Page) -> None:
    bench, name = page.bench, "airflow/dispatch/skipped"
    with bench.engine():
        bench.subscribe(name, event("com.shop.trade", by="data.n", label="trade"))
        bench.emit("com.shop.trade", data={"n": 7})
        [fired] = page.until("it has fired", lambda: page.get("/firings", name=name)["rows"])
    assert (fired["state"], fired["key"]) == ("open", "7")
    told = page.get("/subscription", name=name)
    assert told["subscription"]["open_firings"] == 1
    assert told["notes"][0].startswith("It has fired; open firings that were not dispatched yet: 1")
    assert page.post("/skip", "viewer", name=name, firing=fired["id"]).status_code == 403
    assert page.post("/skip", "user", name=name, firing=fired["id"]).json() == {"skipped": fired["id"]}

    def state() -> Any:
        return page.get("/firings", name=name)["rows"][0]["state"] == "acked"

    page.until("it is acknowledged", state)
    assert page.post("/skip", "user", name=name, firing=fired["id"]).status_code == 404


def test_dead_letters_are_sent_again_after_a_preview_that_sends_nothing(page: Page) -> None:
    bench = page.bench
    with bench.engine():
        produce(bench, b"\xffrubbish", secret=b"canary")
        [letter] = page.until("it is a dead letter", lambda: page.get("/dead-letters", "viewer")["rows"])
    assert (letter["stage"], letter["redriven_ms"]) == ("event", None)
    assert letter["origin"] == f"{bench.config.topic('event')}[1]@{letter['origin'].rpartition('@')[2]}"
    seen = page.get("/dead-letter", "user", place=letter["place"])
    assert (seen["content"], "canary" in json.dumps(seen)) == (None, False)
    content = page.get("/dead-letter", "op", place=letter["place"])["content"]
    assert (content["value"], content["headers"]["secret"]) == ("hex ff72756262697368", "canary")

    before = len(bench.records("event"))
    body = {"places": [letter["place"]], "preview": True}
    assert page.post("/redrive", "user", **body).status_code == 403
    planned = page.post("/redrive", "op", **body).json()["rows"]
    assert planned == [{"place": letter["place"], "to": f"{bench.config.topic('event')}[1]", "refused": None}]
    assert len(bench.records("event")) == before
    assert page.post("/redrive", "op", **{**body, "preview": False}).json()["rows"] == planned
    assert len(bench.records("event")) == before + 1
    [again] = page.post("/redrive", "op", **body).json()["rows"]
    assert again["refused"].startswith("it was already sent again")
    assert page.get("/dead-letter", "viewer", place=letter["place"])["redriven_ms"] is not None


def produce(bench: Bench, value: bytes, **headers: bytes) -> None:
    """A record that is no CloudEvent."""
    producer = Producer(dict(bench.config.client))
    producer.produce(bench.config.topic("event"), value, b"k", partition=1, headers=list(headers.items()))
    assert producer.flush(20) == 0


def test_hostile_texts_are_data_and_nothing_else(page: Page) -> None:
    bench = page.bench
    text = "</script><img src=x onerror=alert(1)>'\"`${7*7}{{7*7}}"
    data = f"{text}\u202e\x00\x07\n".encode() + b"\xff"
    place = bench.emit("com.shop.hostile", subject=text, id=text, data=data, datacontenttype="text/html")
    listed = page.until(
        "it is listed",
        lambda: page.ask("GET", "/events", {"type": "hostile"}, "viewer").json()["rows"],
    )
    assert [(each["id"], each["subject"]) for each in listed] == [(text, text)]
    where = {"topic": place[0], "partition": place[1], "offset": place[2]}
    found = page.ask("GET", "/event", where, "viewer")
    assert found.headers["content-type"] == "application/json"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["cache-control"] == "private, no-cache"
    assert found.content.isascii()
    assert found.json()["event"]["data"] == data.decode("utf-8", "replace")
    assert (
        page.ask("GET", "/waits", {"search": text, "dag_id": text, "key": text}, "viewer").json()["rows"]
        == []
    )
    refused = page.ask(
        "POST", "/emit", {"type": text, "source": "\x07", "extensions": {"Not-A-Name": "x"}}, "op"
    )
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/json")


def test_own_types_and_members_that_are_not_known_are_refused(page: Page) -> None:
    own = page.post("/emit", "op", type="interlock.airflow.dag_run.succeeded")
    assert (own.status_code, "Interlock's own" in own.json()["detail"]) == (403, True)
    assert page.post("/emit", "op", type="t", subjekt="x").status_code == 422
    assert page.post("/emit", "op", type="t", extensions={"id": "x"}).status_code == 400


def test_an_answer_that_the_browser_has_is_not_sent_again(page: Page) -> None:
    for path in ("/waits", "/firings", "/graph", "/health", "/buses"):
        first = page.ask("GET", path, {}, "viewer")
        if path == "/buses":
            continue

        def same(path: str = path, first: httpx.Response = first) -> bool:
            known = page.ask("GET", path, {}, "viewer")
            again = page.ask("GET", path, {}, "viewer", **{"if-none-match": known.headers["etag"]})
            return again.status_code == 304 and not again.content

        page.until(f"{path} does not change", same)
        other = page.ask("GET", path, {}, "op", **{"if-none-match": first.headers["etag"]})
        assert other.status_code == 200 or path == "/health"


def test_brokers_that_do_not_answer_hold_no_thread_of_airflows_own_api(page: Page) -> None:
    """Thirty people look at a bus whose brokers are away: as many requests as nearly fill the thread pool."""
    headers = {"authorization": f"Bearer {page.tokens['op']}"}

    def look(number: int) -> int:
        path = ("/waits", "/health", "/events")[number % 3]
        found = page.client.get(f"{ROOM}{path}", params={"bus": "kafka_down"}, headers=headers)
        assert found.status_code == 202 or found.json()["detail"]
        return found.status_code

    with ThreadPoolExecutor(30) as people:
        asked = [people.submit(look, number) for number in range(30)]
        answered = page.client.get("/api/v2/dags", headers=headers)
        assert answered.status_code == 200
        assert {each.result(60) for each in asked} <= {202, 503}
    said = page.until(
        "its problem is told",
        lambda: (
            (
                found := page.client.get(f"{ROOM}/waits", params={"bus": "kafka_down"}, headers=headers)
            ).status_code
            == 503
            and found.json()["detail"]
        ),
    )
    assert "127.0.0.1:1" in said
    assert page.ask("GET", "/waits", {"bus": "elsewhere"}, "viewer").status_code == 404


def test_the_api_server_has_logged_no_secret_and_no_fault(page: Page) -> None:
    text = page.airflow.processes.log_path("api-server").read_text()
    assert [token for token in page.tokens.values() if token in text] == []
    assert "Traceback" not in text


DAGS = """
from datetime import timedelta

from airflow.sdk import DAG, task
from interlock import event
from interlock.operators import EventSensor, dispatch_dag

row = event("row", by="data.row", label="row")
with DAG("mapped", schedule=None):
    waits = EventSensor.partial(task_id="wait", condition=row, timeout=3600).expand(key=["a", "b"])

    @task
    def after():
        pass

    waits >> after()

trade = event("trade", by="data.n", label="trade")
settler = dispatch_dag("settler", condition=trade, trigger_dag_id="settled")
with DAG("settled", schedule=None):

    @task
    def settle():
        pass

    settle()
"""


@pytest.mark.long
def test_the_tab_of_a_task_follows_it_from_its_deferral_to_its_resumption(
    broker: LocalBroker, unique_name: Callable[[str], str], eventually: Callable[..., Any], tmp_path: Path
) -> None:
    """In an Airflow with all its components: a mapped task, and a dispatcher with its run."""
    config = BusConfig(name=unique_name("bus"), client={"bootstrap.servers": broker.bootstrap_servers})
    create(config, partitions=2)
    home = tmp_path / "home"
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "page.py").write_text(DAGS)
    connection = {"conn_type": "kafka", "extra": json.dumps(dict(config.client))}
    settings = {("interlock", "bus"): config.name}
    airflow = LocalAirflow(
        home,
        home / "dags",
        connections={"kafka_default": connection},
        settings={**settings, ("core", "simple_auth_manager_users"): ",".join(f"{n}:{n}" for n in ROLES)},
        migrated=MIGRATED,
    )
    with airflow, ExitStack() as stack:
        airflow.api.wait_for_dags("mapped", "settler", "settled")
        for dag_id in ("mapped", "settler", "settled"):
            airflow.api.unpause(dag_id)
        run_id = airflow.api.trigger("mapped")
        bench = Bench(config, 2, eventually)
        stack.enter_context(bench.stack)
        page = Page(airflow, bench, eventually)
        stack.callback(page.client.close)

        def tab(
            map_index: int | None = None, dag_id: str = "mapped", run: str = run_id, task: str = "wait"
        ) -> Any:
            sent = {"dag_id": dag_id, "run_id": run, "task_id": task}
            return page.get(
                "/wait", "user", **sent, **({} if map_index is None else {"map_index": map_index})
            )

        def registered(map_index: int) -> Any:
            found = tab(map_index)
            return found if found["state"] == "waiting" else None

        first, second = (
            eventually(f"the wait {n} is registered", lambda n=n: registered(n)) for n in range(2)
        )
        assert [each["subscription"]["map_index"] for each in (first, second)] == [0, 1]
        assert [each["subscription"]["key"] for each in (first, second)] == ["a", "b"]
        [timeout] = [each["at_ms"] for each in first["next"] if each["what"] == "timeout"]
        assert 3500_000 < timeout - first["subscription"]["registered_ms"] < 3700_000
        assert first["may"] == {"cancel": True, "clear": True, "emit": False, "read_texts": True}
        held = page.post("/cancel", "user", name=first["subscription"]["name"])
        assert held.status_code == 409
        assert tab(task="after")["state"] == "none"

        assert page.post("/emit", "op", type="row", data={"row": "b"}).status_code == 200

        def resumed() -> Any:
            found = tab(1)
            return (
                found if found["state"] == "delivered" and found["steps"][-1]["what"] == "resumed" else None
            )

        told = eventually("the second task was resumed", resumed)
        assert [each["what"] for each in told["steps"]] == ["event", "firing", "resumed"]
        assert "The task continued at" in told["words"][1]
        assert all(each["took_ms"] >= 0 for each in told["steps"][1:])
        assert tab(0)["state"] == "waiting"

        def dispatching() -> Any:
            rows = page.get("/waits", kind="durable")["rows"]
            return [row for row in rows if row["name"] == "airflow/dispatch/settler"]

        [dispatcher] = eventually("the dispatcher is registered", dispatching)
        assert (dispatcher["dag_id"], dispatcher["held"], dispatcher["in_flight"]) == ("settler", 0, 0)
        assert page.post("/emit", "admin", type="trade", data={"n": 7}).status_code == 200

        def settled() -> Any:
            rows = page.get("/firings", name="airflow/dispatch/settler")["rows"]
            return rows if rows and rows[0]["state"] == "acked" else None

        [fired] = eventually("the run was created", settled)
        assert fired["target"]["dag_id"] == "settled"
        assert fired["target"]["run_id"] in {run["dag_run_id"] for run in airflow.api.runs("settled")}
        graph = page.get("/graph")
        assert {
            ("event:trade", "dispatcher:airflow/dispatch/settler"),
            ("dispatcher:airflow/dispatch/settler", "dag:settled"),
            ("wait:mapped/wait", "dag:mapped"),
        } <= {(edge["from"], edge["to"]) for edge in graph["edges"]}
        text = airflow.processes.log_path("api-server").read_text()
        assert "Traceback" not in text
