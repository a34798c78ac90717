"""Knative Eventing control plane contract: Triggers that are migrated."""

from __future__ import annotations

from typing import Any

import pytest
from interlock import Event
from interlock.engine.delivery.retry import Retry
from interlock.migrate.documents import Resource
from interlock.migrate.knative import subscriptions
from interlock.migrate.subscription import Subscription

SPECIFICATION = "https://github.com/knative/specs/blob/main/specs/eventing/control-plane.md"
VERSION = "eventing.knative.dev/v1"
SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "orders"}


def trigger(name: str = "t", **spec: Any) -> dict[str, Any]:
    spec = {"broker": "default", "subscriber": {"uri": "http://sink.example.com"}, **spec}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": VERSION, "kind": "Trigger", "metadata": metadata, "spec": spec}


def migrated(*resources: dict[str, Any]) -> list[Subscription]:
    found = subscriptions([Resource("a file", each) for each in resources])
    return [each for each in found if isinstance(each, Subscription)]


def policy(delivery: dict[str, Any], *others: dict[str, Any]) -> Retry:
    [made] = migrated(*others, trigger(delivery=delivery))
    return Retry(**made.arguments.get("retry", {}))


def accepts(made: Subscription, **attributes: str) -> bool:
    condition: Any = made.condition
    accepted: bool = condition.accepts(Event.of("com.shop.paid", "/shop", **attributes))
    return accepted


@pytest.mark.section("TriggerFilter", "each named attribute is present and equal, case included")
def test_all_attributes_must_be_equal() -> None:
    [made] = migrated(trigger(filter={"attributes": {"type": "com.shop.paid", "tenant": "a"}}))
    assert accepts(made, tenant="a")
    assert not accepts(made, tenant="A")
    assert not accepts(made)


@pytest.mark.section("TriggerFilter", 'the value `""` matches any value of an attribute that is present')
def test_an_empty_value_matches_any_value() -> None:
    [made] = migrated(trigger(filter={"attributes": {"tenant": ""}}))
    assert accepts(made, tenant="a")
    assert not accepts(made)


@pytest.mark.section("Content Based Routing", "an event that two Triggers match is delivered for each")
def test_each_matching_trigger_gets_a_delivery() -> None:
    made = migrated(trigger("a"), trigger("b"))
    assert len({each.name for each in made}) == 2
    assert all(accepts(each) for each in made)


@pytest.mark.section("Destination Resolution", "a Service is its DNS name, and `uri` is relative to it")
def test_a_destination_is_resolved() -> None:
    [made] = migrated(trigger(subscriber={"ref": SERVICE, "uri": "/update"}))
    assert (made.destination.host, made.destination.path) == ("http://orders.shop.svc", "/update")


@pytest.mark.section("Broker", "if a Trigger has a delivery option, none of its Broker's options apply")
def test_the_options_of_a_trigger_replace_its_brokers() -> None:
    broker = {
        "apiVersion": VERSION,
        "kind": "Broker",
        "metadata": {"name": "default", "namespace": "shop"},
        "spec": {"delivery": {"retry": 7, "timeout": "PT5S"}},
    }
    assert (policy({}, broker).tries, policy({}, broker).timeout_s) == (8, 5.0)
    assert policy({"retry": 1}, broker).timeout_s == Retry().timeout_s


@pytest.mark.section("Event Delivery", "a failed delivery is retried `retry` times")
@pytest.mark.parametrize("retries", [0, 3])
def test_deliveries_are_retried(retries: int) -> None:
    made = policy({"retry": retries})
    assert [made.is_exhausted(failed, failed, 0.0) for failed in (retries, retries + 1)] == [False, True]


@pytest.mark.section("DeliverySpec", "exponential delays are 2^N multiples of `backoffDelay`, in ISO 8601")
def test_exponential_delays_double() -> None:
    made = policy({"retry": 4, "backoffPolicy": "exponential", "backoffDelay": "PT0.5S"})
    assert [made.delay(failed, 0.9) for failed in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 4.0]
