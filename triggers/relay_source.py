"""Runs another trigger inside a relay's, which lets it continue after an event once the event is written."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple

from airflow.triggers.base import BaseEventTrigger, BaseTrigger

OF_AIRFLOW: Final = "airflow.providers."  # the class paths of Airflow's own triggers
_FAILED: Final = ("error", "failed", "failure", "timeout")


class Fired(NamedTuple):
    """What the inner trigger fired. position: where in the source it came from, if the source says so."""

    payload: Any
    position: str | None = None


def error_fired(path: str, arguments: Mapping[str, Any], payload: Any) -> str | None:
    """Returns the error that one of Airflow's triggers fired instead of raising it; None for a message.

    Many fire {"status": "error", "message": text} (apache/airflow#54804). The same from a trigger of others,
    or from the author's `apply_function`, is a message.

    path, arguments: of the trigger, as it serializes itself.
    """
    if not path.startswith(OF_AIRFLOW) or arguments.get("apply_function") or not isinstance(payload, dict):
        return None
    text = payload.get("message")
    if payload.get("status") not in _FAILED or not (text is None or isinstance(text, str)):
        return None
    return f"{payload['status']}: {text or 'without a reason'}"


async def fired_by(trigger: BaseTrigger) -> AsyncGenerator[Fired, None]:
    """Runs the trigger once, until it ends, and cleans it up.

    Take the next event only when the last one is written: then the trigger continues after its `yield`, for
    example to acknowledge, and the producer of a shared stream in Airflow's ack mode is advanced. If the
    iterator is closed instead, neither happens.
    """
    try:
        if not isinstance(trigger, BaseEventTrigger) or trigger.shared_stream_key() is None:
            async with aclosing(_generator(trigger.run())) as events:
                async for event in events:
                    yield Fired(event.payload)
            return
        async with aclosing(_of_stream(trigger)) as shared:
            async for fired in shared:
                yield fired
    finally:
        with suppress(Exception):  # as Airflow does
            await trigger.cleanup()


async def _of_stream(trigger: BaseEventTrigger) -> AsyncGenerator[Fired, None]:
    """As `fired_by`, for a trigger that reads from a shared stream: opens a stream for it alone."""
    from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome

    arguments = trigger.serialize()[1]
    kind = type(trigger)
    # Without a producer of its own, the trigger's stream is never told what is stored.
    if kind.create_shared_stream_producer.__func__ is BaseEventTrigger.create_shared_stream_producer.__func__:  # type: ignore[attr-defined]
        async with (
            aclosing(_generator(kind.open_shared_stream(arguments))) as raw,
            aclosing(_generator(trigger.filter_shared_stream(raw))) as events,
        ):
            async for event in events:
                yield Fired(event.payload)
        return
    producer = kind.create_shared_stream_producer(arguments)
    position: Any = None

    async def advanced() -> AsyncIterator[Any]:
        nonlocal position
        async with aclosing(_generator(producer.open_stream())) as stream:
            async for raw, position in stream:  # read by the loop below
                yield raw
                # The trigger asks for the next one, so all events of this one are written.
                await producer.advance([AdvanceItem(position, AdvanceOutcome(acked=1, failed=0))])

    try:
        async with (
            aclosing(_generator(advanced())) as raw,
            aclosing(_generator(trigger.filter_shared_stream(raw))) as events,
        ):
            async for event in events:
                yield Fired(event.payload, _position_text(position))
    finally:
        await producer.aclose()


def _position_text(position: Any) -> str | None:
    """Returns topic, partition and offset of a Kafka record; None for another source."""
    parts = [getattr(position, name, None) for name in ("topic", "partition", "offset")]
    return None if None in parts else "/".join(map(str, parts))


def _generator(iterator: AsyncIterator[Any]) -> Any:
    """Returns an async generator, which can be closed. Most triggers return one; Airflow asks for less."""
    return iterator if hasattr(iterator, "aclose") else _closable(iterator)


async def _closable(iterator: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for each in iterator:
        yield each
