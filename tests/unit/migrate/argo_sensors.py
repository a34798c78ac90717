"""Argo's Sensors, and what becomes of them."""

from __future__ import annotations

from typing import Any

from interlock.conditions import event
from interlock.migrate.argo import sensors
from interlock.migrate.documents import Resource
from interlock.migrate.subscription import Subscription, Unread

A = {"name": "a", "eventSourceName": "shop", "eventName": "orders"}
B = {"name": "b-1", "eventSourceName": "bank", "eventName": "rates"}
C = {"name": "c", "eventSourceName": "ops", "eventName": "go"}
MATCHERS = {
    name: event(source=source, subject=subject, label=name)
    for name, source, subject in (("a", "shop", "orders"), ("b-1", "bank", "rates"), ("c", "ops", "go"))
}


def sensor(*triggers: Any, dependencies: Any = (A, B, C), **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Sensor",
        "metadata": {"name": "s"},
        "spec": {"dependencies": list(dependencies), "triggers": list(triggers), **spec},
    }


def trigger(conditions: str | None = None, /, **more: Any) -> dict[str, Any]:
    template: dict[str, Any] = {"name": "t", "argoWorkflow": {"operation": "submit"}}
    template |= {} if conditions is None else {"conditions": conditions}
    return {"template": template | more.pop("template", {}), "atLeastOnce": True, **more}


def read(given: dict[str, Any]) -> list[Subscription | Unread]:
    return sensors([Resource("document 1", given)])


def one(*args: Any, **named: Any) -> Subscription:
    _, found = read(sensor(*args, **named))
    assert isinstance(found, Subscription)
    return found
