"""`GET /wait` and `GET /subscription`: why one has not fired, or what its firing was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...conditions.explanation.wanted import wanted_events
from ...engine.admin.advice import advice_for
from ...engine.admin.explaining import (
    Outside,
    SubscriptionReport,
    has_one_key,
    report_on,
    wanted_key,
)
from ...engine.admin.timeline import next_of, steps_of
from ...engine.admin.words import near_words, words_of, words_of_firing
from ...engine.following.fired import Fired
from ...engine.following.owner import Owner, name_of, owner_of
from ...engine.following.read_model import ReadModel
from ...engine.reading.sources import LastEvents
from ...engine.registry.registry import Registered
from ...events.errors import InterlockError
from .airflow_facts import TaskFacts, task_facts
from .answers import Asked, Asks
from .rows import RowMaker, ids, owner_by_name
from .waits import Text, dispatchers_of
from .withheld import explanation_json

router = APIRouter()
_DURABLE_TASKS: Final = ("dispatch", "deliver")  # whose subscriptions belong to their DAGs
_NOT_YET: Final = (
    "The task waits, and its wait is not registered on this bus yet: a triggerer registers it when it starts "
    "the trigger. If this stays so, look for a triggerer that runs, and for the task's log."
)

Required = Annotated[str, Query(min_length=1, max_length=1000)]


@router.get("/wait")
def wait(
    asks: Asks,
    dag_id: Required,
    run_id: Required,
    task_id: Required,
    map_index: int | None = None,
    key: Text = "",
) -> Response:
    """The wait of a task instance, or the durable subscription that its task keeps registered."""
    asks.rights.require(asks.rights.reads(dag_id), f"read DAG {dag_id!r}")
    owner = Owner(dag_id, run_id, task_id, map_index if map_index is not None and map_index >= 0 else None)
    model, deployment = asks.model(), asks.bus.config.deployment
    name = name_of(owner, deployment)
    if task_id in _DURABLE_TASKS and model.by_name(name) is None:
        durable = f"{deployment}/{task_id}/{dag_id}"
        if model.by_name(durable) is not None:
            return asks.answer(_Telling(asks, model, durable, Owner(dag_id)).told(key))
    return asks.answer(_Telling(asks, model, name, owner).told(key))


@router.get("/subscription")
def subscription(asks: Asks, name: Required, key: Text = "") -> Response:
    """The same by the name of a subscription."""
    model = asks.model()
    registered, fired = model.by_name(name), _latest(model, name)
    known = registered.registration if registered is not None else fired
    deployment = asks.bus.config.deployment
    owner = owner_by_name(name, deployment) if known is None else owner_of(name, known.kind, deployment)
    asks.rights.require(asks.rights.reads(owner.dag_id), f"see subscription {name!r}: it needs its DAG")
    return asks.answer(_Telling(asks, model, name, owner).told(key))


def _latest(model: ReadModel, name: str) -> Fired | None:
    return next(iter(model.firings(1, subscription=name).rows), None)


@dataclass
class _Telling:
    """Tells of one subscription."""

    asks: Asked
    model: ReadModel
    name: str
    owner: Owner

    def told(self, key: str) -> dict[str, Any]:
        registered = self.model.by_name(self.name)
        facts = TaskFacts() if self.owner.run_id is None else task_facts(self.owner)
        if registered is not None:
            return self._of_registered(registered, key, facts)
        fired = _latest(self.model, self.name)
        if fired is None:
            return {**self._frame("none"), "words": [_NOT_YET] if facts.waits else []}
        return {**self._of_firing(fired, facts), "subscription": self._row_of(fired)}

    def _of_registered(self, registered: Registered, key: str, facts: TaskFacts) -> dict[str, Any]:
        subscriptions = self.model.subscriptions
        wanted = wanted_key(registered, key or None)
        report = self._report(registered, wanted)
        maker = RowMaker(self.model, subscriptions, dispatchers_of(self.asks.bus, [self.name]))
        told = {
            "subscription": maker.row(registered),
            "condition": str(registered.condition),
            "notes": list(report.notes),
        }
        fired = _latest(self.model, self.name) if report.closed else None
        if fired is not None and fired.incarnation == registered.incarnation:
            return {**self._of_firing(fired, facts), **told}
        explanation = report.explanation
        texts = self._reads_texts
        words = words_of(report)
        if texts and explanation is not None:
            words += near_words(explanation)
        missing = () if explanation is None else explanation.missing
        explained_key = None if explanation is None else explanation.key
        wanted_ones = wanted_events(registered.condition, missing, explained_key)
        advice = advice_for(self.asks.bus.config, report, wanted_ones, subscriptions.refusal(registered))
        return {
            **self._frame("waiting"),
            **told,
            "words": words,
            "explanation": None if explanation is None else explanation_json(explanation, with_texts=texts),
            "keys": [
                {
                    "key": each.key,
                    "events": each.events,
                    "missing": list(each.missing),
                    "last_ms": each.last_ms,
                }
                for each in report.keys
            ],
            "key_count": report.key_count,
            "next": [each.to_json() for each in next_of(explanation, _next_of_task(facts))],
            "commands": [each.to_json() for each in advice],
            "wanted": [each.to_json() for each in wanted_ones],
        }

    def _report(self, registered: Registered, wanted: str | None) -> SubscriptionReport:
        """The report, with what Kafka tells beside the model; without it if the brokers do not answer."""
        bus, facts = self.asks.bus, self.model.subscriptions
        progress, latest, notes = None, LastEvents([], 0, []), []
        try:
            progress = bus.progress(facts)
            pending = self.model.pending(registered, wanted)  # read after the progress: see `report_on`
            if has_one_key(pending, wanted):
                latest = bus.latest(facts)
        except InterlockError as error:
            notes.append(f"The latest events were not searched: {error}")
            pending = self.model.pending(registered, wanted)
        if not self._reads_texts:
            latest = latest._replace(hints=[])
        return report_on(self.model, registered, pending, wanted, Outside(progress, latest, notes))

    def _of_firing(self, fired: Fired, facts: TaskFacts) -> dict[str, Any]:
        continued_ms = _continued_ms(fired, facts)
        maker = RowMaker(self.model, self.model.subscriptions, {})
        return {
            **self._frame("fired" if fired.open else "delivered"),
            "words": words_of_firing(fired, continued_ms),
            "firing": maker.firing(fired, self.asks),
            "steps": [each.to_json() for each in steps_of(fired, continued_ms)],
            "next": [each.to_json() for each in next_of(None, {"retry": facts.retry_ms})],
        }

    def _row_of(self, fired: Fired) -> dict[str, Any]:
        """The row of a subscription that has fired and is not registered any more."""
        return {
            **ids(self.owner),
            "name": self.name,
            "kind": fired.kind,
            "key": fired.key,
            "since_ms": None,
            "registered_ms": None,
            "labels": [*fired.events, *(label for label in fired.missing if label not in fired.events)],
            "firing": ("open" if fired.open else "acked") if fired.kind == "one-shot" else None,
            "missing": list(fired.missing),
            "parts": None,
            "held_by": [],
            "delivers_to": None,
            "open_keys": 0,
            "open_firings": None,
            "expires_ms": None,
        }

    def _frame(self, state: str) -> dict[str, Any]:
        """An answer without details."""
        rights, conn_id = self.asks.rights, self.asks.bus.conn_id
        edits = rights.edits(self.owner.dag_id, conn_id)
        return {
            "state": state,
            "words": [],
            "subscription": None,
            "condition": None,
            "explanation": None,
            "keys": [],
            "key_count": 0,
            "notes": [],
            "next": [],
            "firing": None,
            "steps": [],
            "commands": [],
            "wanted": [],
            "may": {
                "cancel": edits,
                "clear": edits and self.owner.run_id is not None,
                "emit": rights.operates(conn_id),
                "read_texts": self._reads_texts,
            },
        }

    @property
    def _reads_texts(self) -> bool:
        return self.asks.rights.reads_texts(self.owner.dag_id)


def _continued_ms(fired: Fired, facts: TaskFacts) -> int | None:
    """When the task continued that had waited for the firing; else when the firing was acknowledged."""
    if fired.kind != "one-shot":
        return None
    running_ms = facts.running_ms
    return running_ms if running_ms is not None and running_ms >= fired.fired_ms else fired.acked_ms


def _next_of_task(facts: TaskFacts) -> dict[str, int | None]:
    return {"timeout": facts.timeout_ms, "retry": facts.retry_ms}
