"""Subscriptions and firings as the page's JSON has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...conditions import ConditionError, Explanation, explain
from ...engine.admin.sinks import destination
from ...engine.admin.timeline import next_of
from ...engine.admin.words import parts_of
from ...engine.following.fired import EventPlace, Fired
from ...engine.following.owner import Owner, owner_of
from ...engine.following.read_model import ReadModel
from ...engine.following.states import Pending
from ...engine.following.subscriptions import Subscriptions
from ...engine.protocol.tasks.trigger_task import single_key
from ...engine.registry.leases import LeaseHolder
from ...engine.registry.registry import Registered
from .airflow_facts import Dispatching
from .answers import Asked
from .rights import Rights

_RUN: Final = "dispatch__{}"  # the id of a dispatcher's run


@dataclass
class RowMaker:
    """Makes the rows of one answer. dispatchers: {DAG: what it does}, of those that are shown."""

    model: ReadModel
    subscriptions: Subscriptions
    dispatchers: Mapping[str, Dispatching]

    def row(self, registered: Registered, pending: Pending | None = None) -> dict[str, Any]:
        """A subscription. pending: of all its keys; read from the model by default."""
        registration = registered.registration
        pending = self.model.pending(registered) if pending is None else pending
        firing = self._firing_state(registered, pending)
        explanation = None if firing else self._explained(registered, pending)
        found = {
            **ids(owner_of(registration.subscription, registration.kind, self._deployment)),
            "name": registration.subscription,
            "kind": registration.kind,
            "key": registration.key,
            "since_ms": registration.since_ms,
            "registered_ms": registered.timestamp_ms,
            "labels": list(registered.condition.labels),
            "firing": firing,
            "missing": None if explanation is None else list(explanation.missing),
            "parts": None if explanation is None else list(parts_of(explanation.tree)),
            "held_by": [_where(holder) for holder in self.subscriptions.held_by(registered)],
            "delivers_to": destination(self.subscriptions, registration.subscription) or None,
            "open_keys": len(pending.keys),
            "open_firings": None,
            "expires_ms": _expires_ms(explanation),
        }
        return found if registered.one_shot else found | self._durable(registered, found["dag_id"])

    def firing(self, fired: Fired, asked: Asked) -> dict[str, Any]:
        """A firing. asked: whose rights decide what of it is shown, and whether it may be skipped."""
        rights = asked.rights
        owner = owner_of(fired.subscription, fired.kind, self._deployment)
        texts = rights.reads_texts(owner.dag_id)
        return {
            **ids(owner),
            "id": fired.id,
            "name": fired.subscription,
            "kind": fired.kind,
            "key": fired.key,
            "outcome": fired.outcome,
            "fired_ms": fired.fired_ms,
            "state": "open" if fired.open else "acked",
            "events": {
                label: [_place(each, with_texts=texts) for each in events]
                for label, events in fired.events.items()
            },
            "left_out": fired.left_out,
            "missing": list(fired.missing),
            "target": self._target(fired, owner, rights),
            "may_skip": fired.open
            and fired.kind == "durable"
            and rights.edits(owner.dag_id, asked.bus.conn_id),
        }

    @property
    def _deployment(self) -> str:
        return self.model.config.deployment

    def _firing_state(self, registered: Registered, pending: Pending) -> str | None:
        """Of a wait that fired: "open", or "acked" until its registration is removed. It lacks nothing."""
        if not (registered.one_shot and pending.closed):
            return None
        fired = self.model.firing_of_wait(registered.registration.subscription)
        is_taken = fired is not None and fired.incarnation == registered.incarnation and not fired.open
        return "acked" if is_taken else "open"

    def _explained(self, registered: Registered, pending: Pending) -> Explanation | None:
        """Of its only key; None if several are open, or its state cannot be read."""
        key = single_key(registered)
        if key is None:
            if len(pending.keys) > 1:
                return None
            key = next(iter(pending.keys), "")
        try:
            state = pending.state(registered, key)
            return explain(registered.condition, state, self.subscriptions.now_ms, key=key or None)
        except ConditionError:  # one damaged record hides no other row
            return None

    def _durable(self, registered: Registered, dag_id: str | None) -> dict[str, Any]:
        firings = self.model.open_firings(registered.registration.subscription)
        found: dict[str, Any] = {"open_firings": firings.count, "oldest_since_ms": firings.since_ms}
        if (dispatching := self.dispatchers.get(dag_id or "")) is not None:
            found |= {"held": dispatching.held, "in_flight": dispatching.in_flight}
        return found

    def _target(self, fired: Fired, owner: Owner, rights: Rights) -> dict[str, str] | None:
        """The run that a dispatcher has created, or will create."""
        dispatching = self.dispatchers.get(owner.dag_id or "")
        if fired.kind == "one-shot" or dispatching is None or not rights.reads(dispatching.target):
            return None
        return {"dag_id": dispatching.target, "run_id": _RUN.format(fired.id)}


def owner_by_name(name: str, deployment: str) -> Owner:
    """The owner of a subscription whose kind is not known: it is not registered, or not any more."""
    of_wait = owner_of(name, "one-shot", deployment)
    return of_wait if of_wait.dag_id is not None else owner_of(name, "durable", deployment)


def ids(owner: Owner) -> dict[str, Any]:
    """The members of a row that say to which task instance, or DAG, it belongs."""
    return owner._asdict()


def _place(event: EventPlace, *, with_texts: bool) -> dict[str, Any]:
    """An event of a firing: its identity, times and place, and its subject."""
    found = {name: getattr(event, name) for name in event.__struct_fields__}
    return found if with_texts else {**found, "subject": None}


def dispatcher_dags(names: Collection[str], deployment: str) -> list[str]:
    """The DAGs of those of these subscriptions that dispatchers hold."""
    prefix = f"{deployment}/dispatch/"
    return sorted({name.removeprefix(prefix) for name in names if name.startswith(prefix)})


def _expires_ms(explanation: Explanation | None) -> int | None:
    return next((each.at_ms for each in next_of(explanation, {}) if each.what == "expires"), None)


def _where(holder: LeaseHolder) -> str:
    return f"{holder.process}@{holder.host}" if holder.host else holder.process
