"""What the page's routes answer, to whom, from a read model that is fed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from interlock import event
from interlock.conditions import Seen
from interlock.engine.admin.health import Health
from interlock.engine.admin.progress import EnginesProgress
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError, UnreachableError
from interlock.engine.reading.sources import LastEvents
from interlock.engine.registry.lazy import LazyRegistry
from interlock.events import Event
from interlock.plugin.page import answers, buses, events, health, wait, waits
from interlock.plugin.page.airflow_facts import Dispatching, TaskFacts
from interlock.plugin.page.app import page_app

from tests.kit.page_routes import OPEN, REQUESTS
from tests.unit.plugin.page.bus_in_memory import CONFIG, NOW_MS, BusInMemory, rows_by_name
from tests.unit.plugin.page.users import Manager, bearer, manager

__all__ = ["manager"]
DAY = "2026-11-20"
ORDERS, RATES = (event(name, by="data.day", label=name) for name in ("orders", "rates"))
BOTH = ORDERS & RATES


def happened(event_type: str = "orders", **data: Any) -> Event:
    return Event.of(event_type, "/spark/orders", id="o1", subject="SECRET-subject", data={"day": DAY, **data})


class World:
    """The bus, the browser, and what Kafka and Airflow's database say."""

    def __init__(self, client: TestClient) -> None:
        self.client, self.bus = client, BusInMemory()
        self.latest: list[Seen] = []
        self.error: Exception | None = None
        self.facts = TaskFacts()

    def ask(self, path: str, user: str | None = "viewer", etag: str = "", **sent: Any) -> Any:
        headers = {**bearer(user), **({"if-none-match": etag} if etag else {})}
        return self.client.get(path, params=sent, headers=headers)

    def get(self, path: str, user: str = "viewer", **sent: Any) -> Any:
        found = self.ask(path, user, **sent)
        assert found.status_code == 200, found.text
        return found.json()

    def last_events(self, *_: object) -> LastEvents:
        if self.error is not None:
            raise self.error
        return LastEvents(self.latest, 0, ["3 of the latest records hold no event: SECRET-hint"])

    def progress(self, *_: object) -> EnginesProgress:
        if self.error is not None:
            raise self.error
        return EnginesProgress(True, (), "b-trigger")


def read_bus(conn_id: str) -> BusConfig:
    if conn_id == "broken":
        raise ConfigError("cannot be read: SECRET-backend") from OSError("SECRET-backend")
    return CONFIG


@pytest.fixture
def world(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    app = page_app(["kafka", "broken"], read_bus)
    with TestClient(app, base_url="http://airflow.example") as client:
        made = World(client)
        monkeypatch.setattr(buses, "Follower", made.bus.follower)
        monkeypatch.setattr(buses, "last_events", made.last_events)
        monkeypatch.setattr(buses.EnginesProgress, "read", made.progress)
        monkeypatch.setattr(wait, "task_facts", lambda owner: made.facts)
        monkeypatch.setattr(
            waits, "dispatching", lambda dags: {dag: Dispatching("secret", 2, 3) for dag in dags}
        )
        yield made


def test_each_route_is_in_the_list_of_those_whose_rights_are_tested(world: World) -> None:
    """A new route fails here until tests/kit/page_routes.py says who may use it."""
    routes = {(method, route.path) for route in world.client.app.routes for method in route.methods}  # type: ignore[attr-defined]
    assert {(each.method, each.path) for each in REQUESTS} | set(OPEN) == routes
    for method, path, sent, _ in REQUESTS:
        given = {"params": sent} if method == "GET" else {"json": sent}
        assert world.client.request(method, path, **given).status_code == 401, path  # type: ignore[arg-type]


def test_a_row_says_what_is_missing_and_a_user_gets_the_rows_of_his_dags(world: World) -> None:
    half = world.bus.register("airflow/report/r/wait", BOTH, DAY)
    world.bus.match(half, happened())
    world.bus.register("airflow/secret/r/wait/3", BOTH, DAY)
    world.bus.register("other/report/r/wait", BOTH, DAY)
    world.bus.register("airflow/dispatch/report", BOTH, kind="durable")
    rows = rows_by_name(world.get("/waits"))
    assert list(rows) == [
        "airflow/dispatch/report",
        "other/report/r/wait",
        "airflow/secret/r/wait/3",
        "airflow/report/r/wait",
    ]
    wait_row = rows["airflow/report/r/wait"]
    assert (wait_row["missing"], wait_row["parts"], wait_row["key"]) == (["rates"], [1, 2], DAY)
    assert (wait_row["dag_id"], wait_row["run_id"], wait_row["task_id"], wait_row["map_index"]) == (
        "report",
        "r",
        "wait",
        None,
    )
    assert rows["airflow/secret/r/wait/3"]["map_index"] == 3
    assert rows["other/report/r/wait"]["dag_id"] is None
    assert (rows["airflow/dispatch/report"]["held"], rows["airflow/dispatch/report"]["open_firings"]) == (
        3,
        0,
    )
    limited = world.get("/waits", "limited")
    assert sorted(rows_by_name(limited)) == ["airflow/dispatch/report", "airflow/report/r/wait"]
    assert limited["total"] == 2


def test_rows_come_in_pages_by_filter_and_order(world: World) -> None:
    for number in range(5):
        world.bus.register(f"airflow/report/r{number}/wait", BOTH, DAY)
    first = world.get("/waits", limit=2, order="oldest", kind="one-shot")
    second = world.get("/waits", limit=2, order="oldest", kind="one-shot", after=first["next"])
    assert [row["run_id"] for row in (*first["rows"], *second["rows"])] == ["r0", "r1", "r2", "r3"]
    assert (first["total"], world.get("/waits", search="r4")["rows"][0]["run_id"]) == (5, "r4")
    assert world.get("/waits", key="2026-11-21")["rows"] == []
    assert world.get("/waits", type="rates", dag_id="report")["total"] == 5
    for wrong in (
        {"limit": 0},
        {"limit": 201},
        {"order": "x"},
        {"kind": "x"},
        {"after": "x"},
        {"search": "x" * 1001},
    ):
        assert world.ask("/waits", **wrong).status_code == 422


def test_while_the_bus_is_read_the_answer_is_how_far(world: World) -> None:
    world.bus.reading = (1200, 100_000)
    for path in ("/waits", "/firings", "/graph"):
        found = world.ask(path)
        assert (found.status_code, found.json()) == (202, {"reading": {"read": 1200, "of": 100_000}})
        assert "etag" not in found.headers


def test_a_change_that_needs_the_model_is_not_taken_for_done_while_it_is_read(world: World) -> None:
    world.bus.reading = (1200, 100_000)
    found = world.client.post("/cancel", json={"name": "airflow/report/r/wait"}, headers=bearer("op"))
    assert (found.status_code, found.headers["retry-after"]) == (503, "5")
    assert found.json()["detail"].startswith("The topics of the bus are being read: 1200 of about 100000")


def test_an_answer_of_the_same_version_is_not_sent_again_to_the_same_user(world: World) -> None:
    world.bus.register("airflow/report/r/wait", BOTH, DAY)
    first = world.ask("/waits")
    etag = first.headers["etag"]
    again = world.ask("/waits", etag=f'"x", {etag}')
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert world.ask("/waits", "limited", etag=etag).status_code == 200
    assert world.ask("/waits", "user", etag=etag).status_code == 200
    world.bus.register("airflow/report/r2/wait", BOTH, DAY)
    assert world.ask("/waits", etag=etag).status_code == 200
    assert (first.headers["cache-control"], first.headers["x-content-type-options"]) == (
        "private, no-cache",
        "nosniff",
    )


def test_leases_get_old_and_so_an_answer_is_only_the_same_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    etag = world.ask("/waits").headers["etag"]
    now = answers.time.time()
    monkeypatch.setattr(answers.time, "time", lambda: now + answers.STEP_MS / 1000)
    assert world.ask("/waits", etag=etag).status_code == 200


TASK = {"dag_id": "report", "run_id": "r", "task_id": "wait"}


def test_a_wait_is_told_in_words_with_what_comes_next_and_what_can_be_done(world: World) -> None:
    half = world.bus.register("airflow/report/r/wait/0", BOTH.expires(at="2026-11-20T12:00:00Z"), DAY)
    world.bus.match(half, happened())
    world.facts = TaskFacts("deferred", True, NOW_MS + 1000)
    found = world.get("/wait", "user", **TASK, map_index=0)
    assert found["state"] == "waiting"
    assert found["words"] == [
        "Waits since 2026-11-20T09:12:00Z for 2 events of key 2026-11-20.",
        "orders came at 2026-11-20T09:12:00Z from /spark/orders; rates is missing.",
    ]
    assert [each["what"] for each in found["next"]] == ["timeout", "expires"]
    assert found["wanted"][0]["data"] == {"day": DAY}
    assert found["may"] == {"cancel": True, "clear": True, "emit": False, "read_texts": True}
    assert found["commands"][0] == {
        "what": "Why it has not fired",
        "command": "airflow interlock explain airflow/report/r/wait/0 --bus b",
    }
    assert found["explanation"]["missing"] == ["rates"]
    assert world.get("/subscription", name="airflow/report/r/wait/0")["words"] == found["words"]
    assert world.ask("/wait", "limited", **{**TASK, "dag_id": "secret"}).status_code == 403


def test_a_task_that_waits_for_nothing_has_a_calm_answer(world: World) -> None:
    found = world.get("/wait", **TASK)
    assert (found["state"], found["words"], found["subscription"], found["notes"]) == ("none", [], None, [])
    world.facts = TaskFacts("deferred", True)
    [word] = world.get("/wait", **TASK)["words"]
    assert word.startswith("The task waits, and its wait is not registered on this bus yet")


def test_texts_of_events_are_for_whoever_may_read_the_log(world: World) -> None:
    half = world.bus.register(
        "airflow/report/r/wait", BOTH & event("fx", where="data.rate > 1", label="fx"), DAY
    )
    world.bus.match(half, happened())
    near = Event.of("rates", "/bank", id="r1", data={"day": "SECRET-day"})
    fx = Event.of("fx", "/bank", id="x1", data={"rate": "SECRET-rate"})
    world.latest = [Seen(each, "b-event", 0, n, NOW_MS) for n, each in enumerate((near, fx))]
    whole = world.ask("/wait", "viewer", **TASK).text
    assert {text for text in ("SECRET-day", "SECRET-hint") if text in whole} == {"SECRET-day", "SECRET-hint"}
    blind = world.ask("/wait", "blind", **TASK)
    assert "SECRET" not in blind.text
    told = blind.json()
    assert told["may"]["read_texts"] is False
    assert told["words"][1].endswith("rates and fx are missing.")
    assert [each["misses"][0]["event"]["id"] for each in told["explanation"]["near_misses"]] == ["r1", "x1"]


def test_without_an_answer_of_the_brokers_the_model_is_told_and_why_no_more(world: World) -> None:
    world.bus.register("airflow/report/r/wait", BOTH, DAY)
    world.error = UnreachableError("one:1 does not answer")
    found = world.get("/wait", **TASK)
    assert found["words"][1] == "Nothing came yet: orders and rates are missing."
    assert "The latest events were not searched: one:1 does not answer" in found["notes"]


def test_a_firing_says_which_event_resumed_the_task_and_how_long_each_step_took(world: World) -> None:
    made = world.bus.register("airflow/report/r/wait", BOTH, DAY)
    world.bus.fire(made, happened())
    opened = world.get("/wait", **TASK)
    assert (opened["state"], opened["firing"]["state"]) == ("fired", "open")
    assert opened["words"][0].startswith("Fired at 2026-11-20T09:12:00Z: orders came at 2026-11-20T09:11:59Z")
    assert [(each["what"], each.get("took_ms")) for each in opened["steps"]] == [
        ("event", None),
        ("firing", 1000),
    ]
    world.bus.fire(made, happened(), state="acked")
    world.facts = TaskFacts("success", running_ms=NOW_MS + 3000)
    taken = world.get("/wait", **TASK)
    assert (taken["state"], taken["steps"][-1]) == (
        "delivered",
        {"what": "resumed", "at_ms": NOW_MS + 3000, "took_ms": 3000},
    )
    [listed] = world.get("/firings")["rows"]
    assert (listed["id"], listed["dag_id"], listed["events"]["orders"][0]["id"]) == ("f", "report", "o1")
    assert listed["events"]["orders"][0]["subject"] == "SECRET-subject"
    assert "SECRET" not in world.ask("/firings", "blind").text + world.ask("/wait", "blind", **TASK).text
    world.bus.fire(world.bus.register("airflow/secret/r/wait", BOTH, DAY), happened())
    assert len(world.get("/firings")["rows"]) == 2
    assert [row["dag_id"] for row in world.get("/firings", "limited")["rows"]] == ["report"]
    assert world.get("/firings", "limited", dag_id="secret")["rows"] == []
    assert world.ask("/firings", before="no cursor").status_code == 400


def test_a_firing_of_a_dispatcher_leads_to_its_run_for_whoever_may_read_the_target(world: World) -> None:
    made = world.bus.register("airflow/dispatch/report", ORDERS, kind="durable")
    world.bus.fire(made, happened())
    [fired] = world.get("/firings", name="airflow/dispatch/report")["rows"]
    assert fired["target"] == {"dag_id": "secret", "run_id": "dispatch__f"}
    [fired] = world.get("/firings", "limited")["rows"]
    assert (fired["target"], fired["may_skip"]) == (None, True)
    assert world.get("/firings", "reader")["rows"][0]["may_skip"] is False
    of_task = world.get("/wait", dag_id="report", run_id="any", task_id="dispatch")
    assert of_task["subscription"]["name"] == "airflow/dispatch/report"
    assert of_task["notes"][0].startswith("It has fired; open firings that were not dispatched yet: 1")


def test_events_are_for_whoever_may_read_all_dags_and_their_texts_for_whoever_may_read_logs(
    world: World,
) -> None:
    world.latest = [Seen(happened(note="SECRET-data"), "b-event", 0, 7, NOW_MS)]
    [row] = world.get("/events", search="SECRET-data")["rows"]
    assert (row["id"], row["subject"], row["offset"]) == ("o1", "SECRET-subject", 7)
    assert "data" not in row
    assert world.get("/events", "blind", search="SECRET")["rows"] == []
    assert "SECRET" not in world.ask("/events", "blind", type="ORD").text
    guesses = [world.get("/events", "blind", subject=text)["rows"] for text in ("SECRET", "another")]
    assert guesses[0] == guesses[1]
    assert len(world.get("/events", subject="SECRET")["rows"]) == 1
    assert world.get("/events", since=NOW_MS + 1)["rows"] == []
    for user in ("limited", "team"):
        assert world.ask("/events", user).status_code == 403
        assert world.ask("/event", user, topic="b-event", partition=0, offset=7).status_code == 403
        assert world.ask("/dead-letters", user).status_code == 403
    assert world.ask("/dead-letters", "blind").status_code == 403


def test_an_event_says_who_takes_it_also_a_wait_of_its_key_that_is_not_among_the_newest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_MOST_SUBSCRIPTIONS", 3)
    monkeypatch.setattr(events, "_read", lambda *_: Seen(happened(), "b-event", 0, 7, NOW_MS))
    world.bus.register("airflow/report/old/wait", BOTH, DAY)
    refusing = event("orders", where="data.rows > 5", label="orders")
    for number in range(4):
        world.bus.register(f"airflow/report/r{number}/wait", BOTH, f"2026-10-0{number + 1}")
    world.bus.register("airflow/report/r/other", refusing)
    found = world.get("/event", topic="b-event", partition=0, offset=7)
    assert [(each["name"], each["dag_id"], each["task_id"]) for each in found["met"]] == [
        ("airflow/report/old/wait", "report", "wait")
    ]
    assert found["nearly"][0]["subscription"] == "airflow/report/r/other"
    assert "could not be evaluated" in found["nearly"][0]["because"]
    assert found["subscriptions"] == {"shown": 4, "all": 6}
    assert found["event"]["data"] == '{"day":"2026-11-20"}'
    blind = world.ask("/event", "blind", topic="b-event", partition=0, offset=7)
    assert "SECRET" not in blind.text
    assert blind.json()["nearly"][0]["because"] == 'error: Where("data.rows > 5")'


def test_health_knows_the_registrations_from_the_read_model_unless_that_is_not_up_to_date(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examine(config: BusConfig, registry: Callable[[], LazyRegistry]) -> Health:
        return Health(config.name, "", registrations={"one_shot": len(registry())})

    monkeypatch.setattr(health, "examine", examine)
    monkeypatch.setattr(health, "read_registry", lambda *_, **__: LazyRegistry())
    monkeypatch.setattr(health, "_FRESH_S", 0.0)
    world.bus.register("airflow/report/r/wait", BOTH, DAY)

    def registered() -> int:
        return int(world.get("/health")["registrations"]["one_shot"])

    assert registered() == 1
    world.bus.model.be_stale(NOW_MS)
    assert registered() == 0
    world.bus.model.be_stale(None)
    assert registered() == 1
    world.bus.reading = (1, 2)
    assert registered() == 0


def test_a_topic_that_is_not_of_the_bus_is_not_read(world: World) -> None:
    for topic in ("payments", "b-state", "b-subscription", "b-action", "b-dead-letter"):
        found = world.ask("/event", topic=topic, partition=0, offset=0)
        assert (found.status_code, found.json()["detail"]) == (404, f"The bus reads no topic '{topic}'.")


def test_the_graph_links_no_dag_that_the_user_may_not_read(world: World) -> None:
    world.bus.register("airflow/dispatch/report", ORDERS, kind="durable")
    world.bus.register("airflow/secret/r/wait", RATES, DAY)
    whole = {node["id"]: node.get("dag_id") for node in world.get("/graph")["nodes"]}
    assert whole["dag:secret"] == "secret"
    assert "wait:secret/wait" in whole
    seen = world.get("/graph", "limited")
    assert {node["id"]: node.get("dag_id") for node in seen["nodes"]} == {
        "dispatcher:airflow/dispatch/report": "report",
        "event:orders": None,
        "dag:secret": None,
    }
    assert seen["subscriptions"] == {"shown": 1, "all": 1}


def test_a_wait_whose_last_event_came_long_ago_is_late_in_the_graph(world: World) -> None:
    half = world.bus.register("airflow/report/r/wait", BOTH, DAY)
    world.bus.match(half, happened(), NOW_MS - 3 * 3_600_000)
    late = {node["id"]: node["late"] for node in world.get("/graph")["nodes"]}
    assert late["wait:report/wait"] == (
        "Of key 2026-11-20, rates is missing; the last of its events came at 2026-11-20T06:12:00Z."
    )
    assert late["dag:report"] is False


def test_a_wait_that_fired_misses_nothing_and_is_late_while_nobody_takes_its_firing(world: World) -> None:
    made = world.bus.register("airflow/report/r/wait", BOTH, DAY)
    world.bus.fire(made, happened())
    [row] = world.get("/waits")["rows"]
    assert (row["firing"], row["missing"], row["parts"]) == ("open", None, None)
    late = {node["id"]: node["late"] for node in world.get("/graph")["nodes"]}
    assert late["wait:report/wait"] == "It fired at 2026-11-20T09:12:00Z, and its task has not continued."
    world.bus.fire(made, happened(), state="acked")
    [row] = world.get("/waits")["rows"]
    assert (row["firing"], row["missing"]) == ("acked", None)


def test_a_dispatcher_whose_firing_nobody_takes_is_late_in_the_graph(world: World) -> None:
    made = world.bus.register("airflow/dispatch/report", BOTH, kind="durable")
    world.bus.fire(made, happened())
    late = {node["id"]: node["late"] for node in world.get("/graph")["nodes"]}
    assert late["dispatcher:airflow/dispatch/report"] == (
        "Its firing of 2026-11-20T09:12:00Z was not taken yet."
    )


def test_a_connection_that_cannot_be_read_says_so_without_the_backends_words(world: World) -> None:
    found = world.get("/buses", "op")
    assert [(each["conn_id"], each["bus"]) for each in found["buses"]] == [("kafka", "b"), ("broken", "")]
    assert found["may"] == {"operate": True}
    assert world.get("/buses", "viewer")["may"] == {"operate": False}
    failed = world.ask("/waits", bus="broken")
    assert (failed.status_code, "SECRET" in failed.text) == (503, False)
    assert failed.headers["retry-after"] == "5"
    other = world.ask("/waits", bus="elsewhere")
    assert (other.status_code, "page_connections: 'kafka', 'broken'" in other.json()["detail"]) == (404, True)


def test_a_wrong_key_is_an_error_that_says_what_to_write(world: World) -> None:
    world.bus.register("airflow/report/r/wait", BOTH, DAY)
    found = world.ask("/subscription", name="airflow/report/r/wait", key="2026-11-21")
    assert (found.status_code, found.json()["detail"]) == (
        400,
        "'airflow/report/r/wait' waits for key '2026-11-20' only, not for '2026-11-21'.",
    )


def test_a_name_of_anothers_dag_says_nothing_of_whether_it_exists(world: World) -> None:
    world.bus.register("airflow/secret/r/wait", BOTH, DAY)
    for name in ("airflow/secret/r/wait", "airflow/secret/r/none", "airflow/dispatch/secret", "program"):
        assert world.ask("/subscription", "limited", name=name).status_code == 403
