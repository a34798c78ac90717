"""The trigger behind `dispatch_dag`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from .arguments import serialized
from .connections import until_readable
from .firings import SubscriptionFirings
from .moments import seconds_to_read, seconds_until
from .settings import read_bus_config

MAX_FIRINGS: Final = 500  # in one event; their places take about 6 kB
ROOM_S: Final = 5.0  # between two counts of the runs of a full target
IN_FLIGHT: Final = ("queued", "running")  # states of a run that takes up room in the target


class DispatchTrigger(BaseTrigger):
    """Yields one event: places of open firings as soon as the target has room, or no places at `renew_at`.

    The event also contains whether the subscription has been registered. The trigger keeps trying while Kafka
    does not answer or the connection cannot be read; it raises if the connection is not usable.

    durable: the arguments of `Durable`.
    trigger_dag_id, max_runs_in_flight: the target, and how many of its runs may be queued or running.
    held, gone: places (partition, offset) to leave out: firings that are held, or whose records are gone.
    resume_not_before, renew_at: ISO 8601. Yields after the first (ADR 6); without firings, at the second.
    """

    def __init__(
        self,
        durable: dict[str, Any],
        trigger_dag_id: str,
        max_runs_in_flight: int,
        kafka_conn_id: str,
        bus: str,
        deployment: str,
        resume_not_before: str,
        renew_at: str,
        held: Sequence[Sequence[int]] = (),
        gone: Sequence[Sequence[int]] = (),
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.durable = durable
        self.trigger_dag_id = trigger_dag_id
        self.max_runs_in_flight = max_runs_in_flight
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.deployment = deployment
        self.resume_not_before = resume_not_before
        self.renew_at = renew_at
        self.held = [list(place) for place in held]
        self.gone = [list(place) for place in gone]

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return serialized(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from ..engine.waiting.dispatching import Durable  # a heavy import, not needed to parse a DAG file

        read_config = partial(read_bus_config, self.kafka_conn_id, self.bus, self.deployment)
        firings = SubscriptionFirings(Durable(**self.durable), read_config, self.log)
        places: list[tuple[int, int]] = []
        try:
            within_s = seconds_to_read(self.renew_at)
            if await until_readable(firings.open, self.kafka_conn_id, self.log, within_s):
                places = await self._places(firings)
            registered = firings.registered
        finally:
            firings.close()
        await asyncio.sleep(seconds_until(self.resume_not_before))
        outcome = "fired" if places else "renew"
        yield TriggerEvent({"outcome": outcome, "places": places, "registered": registered})

    async def _places(self, firings: SubscriptionFirings) -> list[tuple[int, int]]:
        """Returns the places of the firings to hand over; empty at `renew_at`.

        At `renew_at` it still hands over what is open if the target has room.
        """
        excluded = {(place[0], place[1]) for place in (*self.held, *self.gone)}
        gone = {(place[0], place[1]) for place in self.gone}
        logged_full = False
        while True:
            left = seconds_until(self.renew_at)
            if firings.take(1, excluded, gone):  # also forgets those that are gone
                await asyncio.sleep(seconds_until(self.resume_not_before))
                room = self.max_runs_in_flight - await runs_in_flight(self.trigger_dag_id)
                if room > 0:
                    return firings.take(min(room, MAX_FIRINGS), excluded)
                if not logged_full:
                    logged_full = True
                    self.log.info(
                        "%d runs of %r are queued or running. Firings wait until there are fewer.",
                        self.max_runs_in_flight - room,
                        self.trigger_dag_id,
                    )
                if left:
                    await _pause(firings, min(ROOM_S, left))
            elif left:
                await firings.wait_for_more(left)
            if not left:
                return []


async def _pause(firings: SubscriptionFirings, seconds: float) -> None:
    """Lets time pass. Notices of the bus are handled meanwhile; firings that come do not end the pause."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        await firings.wait_for_more(left)


async def runs_in_flight(dag_id: str) -> int:
    """Returns how many runs of a DAG are queued or running. For triggerers."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
    from asgiref.sync import sync_to_async

    count = sync_to_async(RuntimeTaskInstance.get_dr_count)
    return int(await count(dag_id=dag_id, states=list(IN_FLIGHT)))
