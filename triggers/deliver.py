"""The trigger behind `deliver_dag`: registers the sink, and lets this triggerer make deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from ..events.visible import visible
from .arguments import serialized
from .connections import until_readable
from .firings import SubscriptionFirings
from .moments import seconds_to_read, seconds_until
from .settings import read_bus_config

if TYPE_CHECKING:
    from ..engine.waiting.notices import Notice, NoticeBoard


class DeliverTrigger(BaseTrigger):
    """Keeps a subscription and its sink registered until `renew_at`; then yields whether they are.

    It starts this triggerer's deliverer, which continues when the trigger ends.

    It keeps trying while Kafka does not answer or the connection cannot be read; it raises if the connection
    is not usable.

    durable: the arguments of `Durable`, with the members of a sink record.
    resume_not_before, renew_at: ISO 8601. It yields one event, after both (ADR 6).
    """

    def __init__(
        self,
        durable: dict[str, Any],
        kafka_conn_id: str,
        bus: str,
        deployment: str,
        resume_not_before: str,
        renew_at: str,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.durable = durable
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.deployment = deployment
        self.resume_not_before = resume_not_before
        self.renew_at = renew_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return serialized(self)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        # Heavy imports, not needed to parse a DAG file.
        from ..engine.waiting.dispatching import Durable
        from .delivering import deliver_here

        loop = asyncio.get_running_loop()

        def report(notice: Notice) -> None:  # in the deliverer's thread
            loop.call_soon_threadsafe(self._report, notice)

        read_config = partial(read_bus_config, self.kafka_conn_id, self.bus, self.deployment)
        firings = SubscriptionFirings(Durable(**self.durable), read_config, self.log)
        board: NoticeBoard | None = None
        try:
            within_s = seconds_to_read(self.renew_at)
            if await until_readable(firings.open, self.kafka_conn_id, self.log, within_s):
                delivering = await asyncio.to_thread(deliver_here, firings.config, loop)
                if delivering is not None:
                    board = delivering.board
                    board.listen(self, report)
                while left := seconds_until(self.renew_at):
                    await firings.wait_for_more(left)
                    if delivering is not None:
                        delivering.use(firings.config)  # it may have been corrected
            registered = firings.registered
        finally:
            if board is not None:
                board.stop_listening(self)
            firings.close()
        await asyncio.sleep(seconds_until(self.resume_not_before))
        yield TriggerEvent({"outcome": "renew", "registered": registered})

    def _report(self, notice: Notice) -> None:
        if notice.text is not None:
            self.log.warning("%s Firings are delivered when it works again.", visible(notice.text))
        else:
            self.log.info("Deliveries work again.")
