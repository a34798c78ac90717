"""`GET /graph`: who feeds which waits, and which runs come of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.responses import Response

from ...conditions import ConditionError, explain
from ...engine.admin.graph import Feeding, graph_of
from ...engine.admin.sinks import destination
from ...engine.admin.words import late_words, not_taken_words
from ...engine.following.owner import owner_of
from ...engine.following.read_model import Page, ReadModel, Rows
from ...engine.protocol.tasks.trigger_task import single_key
from ...engine.registry.registry import Registered
from .airflow_facts import Dispatching
from .answers import Asks
from .waits import dispatchers_of

router = APIRouter()
# How many registrations and firings it looks at: one whose condition no other has takes half a millisecond.
MOST_WAITS: Final = 1000
MOST_DURABLE: Final = 500
MOST_FIRINGS: Final = 500
_FRESH_S: Final = 30.0


@router.get("/graph")
def graph(asks: Asks) -> Response:
    """The newest waits, the durable subscriptions and the senders of recent firings, with what is late."""
    model = asks.model()
    asks.unless_known(model)
    dags = asks.rights.dags
    durable = model.page(Rows("durable", dags=dags), MOST_DURABLE)
    dispatchers = dispatchers_of(asks.bus, [each.registration.subscription for each in durable.rows])
    found: dict[str, Any] = asks.bus.ask(
        ("graph", dags), lambda: _graph(model, durable, dispatchers, dags), _FRESH_S
    )
    return asks.answer(found)


def _graph(
    model: ReadModel, durable: Page, dispatchers: Mapping[str, Dispatching], dags: frozenset[str] | None
) -> dict[str, Any]:
    waits = model.page(Rows("one-shot", dags=dags), MOST_WAITS)
    firings = model.firings(MOST_FIRINGS, dags=dags).rows
    sent = (event for fired in firings for events in fired.events.values() for event in events)
    feeding = _feedings(model, [*durable.rows, *waits.rows], dispatchers)
    found: dict[str, Any] = graph_of(feeding, sent, model.config.deployment).to_json()
    for node in found["nodes"]:
        if dags is not None and node.get("dag_id") not in dags:
            node.pop("dag_id", None)  # a condition names it; its page is not for this user
    shown = len(durable.rows) + len(waits.rows)
    return {**found, "subscriptions": {"shown": shown, "all": durable.total + waits.total}}


def _feedings(
    model: ReadModel, rows: list[Registered], dispatchers: Mapping[str, Dispatching]
) -> Iterator[Feeding]:
    subscriptions = model.subscriptions
    for each in rows:
        registration = each.registration
        owner = owner_of(registration.subscription, registration.kind, model.config.deployment)
        dispatching = None if each.one_shot else dispatchers.get(owner.dag_id or "")
        yield Feeding(
            registration.subscription,
            each.one_shot,
            each.condition,
            owner.dag_id,
            owner.task_id,
            destination(subscriptions, registration.subscription),
            None if dispatching is None else dispatching.target,
            _late(model, each, subscriptions.now_ms),
        )


def _late(model: ReadModel, registered: Registered, now_ms: int) -> str:
    """What is late about a subscription; without a look at a state where it has none that could say so."""
    name, kind = registered.registration.subscription, registered.registration.kind
    if kind == "durable":
        since_ms = model.open_firings(name).since_ms
        return "" if since_ms is None else not_taken_words(name, kind, since_ms, now_ms)
    pending = model.pending(registered)
    key = single_key(registered) or ""
    if pending.closed:
        fired = model.firing_of_wait(name)
        is_own = fired is not None and fired.open and fired.incarnation == registered.incarnation
        return not_taken_words(name, kind, fired.fired_ms, now_ms) if fired is not None and is_own else ""
    if not (pending.keys or registered.condition.plan.expires):
        return ""
    try:
        return late_words(
            explain(registered.condition, pending.state(registered, key), now_ms, key=key or None)
        )
    except ConditionError:
        return ""
