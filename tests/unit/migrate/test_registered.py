"""What the command registers without a DAG is what the printed `deliver_dag` registers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.waiting.dispatching import Durable
from interlock.migrate.documents import read_resources
from interlock.migrate.knative import subscriptions
from interlock.migrate.registered import durable
from interlock.migrate.source import dag_file
from interlock.migrate.subscription import Subscription

TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata:
  name: orders
  namespace: shop
  annotations: {kafka.eventing.knative.dev/delivery.order: %s}
spec:
  broker: default
  filter: {attributes: {type: com.shop.paid, tenant: ""}}
  subscriber: {uri: "http://orders.example.com%s"}
  delivery: %s
"""
CONFIG = BusConfig(deployment="finance", client={"bootstrap.servers": "x:1"})
SINCE = datetime(2026, 11, 20, tzinfo=UTC)


def made(order: str, path: str, delivery: str) -> Subscription:
    [found] = subscriptions(read_resources(TRIGGER % (order, path, delivery)))
    assert isinstance(found, Subscription)
    return found


@pytest.mark.parametrize("order", ["ordered", "unordered"])
@pytest.mark.parametrize("path", ["", "/in?x=%20"])
@pytest.mark.parametrize(
    "delivery",
    [
        "{}",
        "{retry: 3, backoffPolicy: exponential, backoffDelay: PT1S}",
        "{retry: 50, backoffPolicy: linear, backoffDelay: PT1H, timeout: PT5M, retryAfterMax: PT0S}",
        "{retry: 2147483647, backoffPolicy: exponential, backoffDelay: P30D, timeout: P1D, format: json}",
        "{format: binary, retryAfterMax: P90D}",
    ],
)
def test_it_is_what_the_printed_dag_registers(order: str, path: str, delivery: str) -> None:
    found = made(order, path, delivery)
    names: dict[str, Any] = {}
    exec(dag_file([found]), names)
    operator: Any = names["shop_orders"].get_task("deliver")
    since_ms = int(SINCE.timestamp() * 1000)
    by_dag = Durable(
        subscription=operator._subscription(CONFIG),
        condition=operator.condition.to_json(),
        since_ms=since_ms,
        since_given=operator.since is not None,
        max_keys=operator.max_keys,
        at_limit=operator.at_limit,
        sink=operator._sink(CONFIG),
    )
    assert durable(found, "finance", since_ms) == by_dag


def test_what_starts_a_dag_has_no_sink() -> None:
    """The command asks only for subscriptions with one: Triggers that were not refused."""
    dispatched = replace(made("ordered", "", "{}"), function="dispatch_dag")
    with pytest.raises(ValueError, match=r"Trigger shop/orders has no sink"):
        durable(dispatched, "finance", 0)
