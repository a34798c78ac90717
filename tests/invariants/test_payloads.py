"""I13: what a wait logs, stores and hands to Airflow: no secrets, and small payloads of strict JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from interlock import Event, event
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError
from interlock.engine.kafka import clients
from interlock.engine.records import Registration, event_form
from interlock.engine.records.sizes import MAX_FIRING_BYTES
from interlock.engine.waiting import waits
from interlock.events.kafka import encode
from interlock.triggers import payload as payload_module
from interlock.triggers.payload import Payload

from tests.invariants.host import Brokers, a_trigger, all_logs, first_of, process, run_in_loop, until
from tests.invariants.needs import Patch, needs, unharmed
from tests.kit.pool import ACTION, EVENT, Pool

X: Final = event("x")

SECRET: Final = "correct-horse-battery"


def _descriptions_without_secrets(patch: Patch) -> None:
    patch.setattr(BusConfig, "describe", lambda self: f"bus {self.name!r} with {dict(self.client)}")


def _configs_that_hide_their_properties(patch: Patch) -> None:
    patch.setattr(BusConfig, "__repr__", lambda self: f"BusConfig(client={self.client})")


@needs(_descriptions_without_secrets, _configs_that_hide_their_properties)
def test_i13_no_secret_of_the_connection_is_in_any_log_notice_record_payload_or_repr() -> None:
    properties = {"bootstrap.servers": "nowhere:1", "sasl.username": "triggerer", "sasl.password": SECRET}
    brokers = Brokers(reachable=False, client=properties)
    trigger = a_trigger(X)

    async def waits_through() -> dict[str, Any]:
        given = asyncio.ensure_future(first_of(trigger))
        await until("the task sees a notice", lambda: trigger.log.lines, given)  # type: ignore[attr-defined]
        changed = {**properties, "sasl.password": SECRET + "-rotated"}
        [running] = runtimes.running.values()
        running.use(BusConfig("b", "d", changed))
        with brokers.lock:
            brokers.reachable = True
            brokers.pool.emit("x")
        return await given

    with process(brokers) as runtimes, all_logs() as lines:
        payload = run_in_loop(waits_through())
        logging.getLogger("interlock").debug("%r %s", brokers.config, brokers.config)
    records = [
        repr((entry.key, entry.value, entry.headers))
        for topic in brokers.pool.cluster.topics.values()
        for log in topic.logs
        for entry in log.entries
    ]
    task_log: list[str] = trigger.log.lines  # type: ignore[attr-defined]
    everything = [*lines, *task_log, *records, repr(payload), repr(trigger.serialize())]
    assert any("has changed" in line for line in lines)
    assert any("Cannot reach" in line for line in task_log)
    assert len(records) > 5
    assert not [text for text in everything if SECRET in text]


def _leaving_the_value_out(patch: Patch) -> None:
    patch.setattr(clients, "re", SimpleNamespace(sub=lambda pattern, by, text, flags: text, DOTALL=0))


@needs(_leaving_the_value_out)
def test_i13_a_property_that_a_client_refuses_is_named_without_its_value() -> None:
    config = BusConfig("b", client={"bootstrap.servers": "nowhere:1", "security.protocol": SECRET})
    with pytest.raises(ConfigError) as refused:
        clients.connect(Producer, config, clients.ClientErrors())
    assert "security.protocol" in str(refused.value)
    assert SECRET not in str(refused.value)


HOSTILE: Final = (
    b'{"x": NaN}',
    b'"\\u0000"',
    b"[" * 900 + b"]" * 900,
    b"9" * 6000,
    b"\xff\xfe",
    '{"name": "\u00e4\u2603"}'.encode(),
    b'"' + b"0" * 60_000 + b'"',
)


def _data_that_every_hop_can_carry(patch: Patch) -> None:
    patch.setattr(event_form, "is_portable", lambda data: True)
    patch.setattr(event_form, "is_surely_portable", lambda data: True)


def _payloads_that_fit(patch: Patch) -> None:
    patch.setattr(payload_module, "fit_action", lambda action: action)


def _payloads_in_ascii(patch: Patch) -> None:
    def dumps(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    patch.setattr(payload_module, "json", SimpleNamespace(dumps=dumps, loads=json.loads))


@needs(_data_that_every_hop_can_carry, _payloads_that_fit, _payloads_in_ascii)
def test_i13_a_payload_is_small_strict_json_in_ascii_whatever_the_events_hold() -> None:
    for data in HOSTILE:
        pool = Pool(Registration.of("w", X, None, 0))
        pool.write(EVENT, *encode(Event.of("x", "/s", id="1", data=data, datacontenttype="application/json")))
        pool.boot()
        shown = repr(data[:20])
        with unharmed(f"the delivery of {shown}"):
            pool.run()
            [value] = [value for _, value in pool.records(ACTION)]
            action = waits.decode_json(waits.ActionRecord, value or b"", "the action")
            given = Payload.of_firing(action, ("i:n",))
            text = json.dumps(given.to_json(), allow_nan=False, ensure_ascii=False)
            arrived = Payload.from_json(json.loads(text)).action_record()
            json.dumps(arrived.firing.events, allow_nan=False)
        assert text.isascii(), shown
        assert "\\u0000" not in json.dumps(arrived.firing.events), shown
        assert len(text) < MAX_FIRING_BYTES + 1000, shown
