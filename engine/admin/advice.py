"""The commands that help with a subscription, as a person types them. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ...conditions.explanation.wanted import WantedEvent
from ...events.listed import is_own
from ..config import BusConfig
from .explaining import SubscriptionReport

DEFAULT_CONNECTION: Final = "kafka_default"  # the default of --conn-id
_MOST_EVENTS: Final = 3


class Advice(NamedTuple):
    """A command, and what it does."""

    what: str
    command: str

    def to_json(self) -> dict[str, object]:
        return self._asdict()


def advice_for(
    config: BusConfig, report: SubscriptionReport, wanted: Iterable[WantedEvent], refusal: str
) -> tuple[Advice, ...]:
    """What can be done about a registered subscription.

    wanted: the events that would meet its missing parts. refusal: why it cannot be cancelled; "" if it can.
    """
    found = _all(config, report, wanted, refusal)
    # Whoever writes to the bus chooses names and labels: what does not print as itself is not for a shell.
    return tuple(each for each in found if each.command.isprintable() and each.what.isprintable())


def _all(
    config: BusConfig, report: SubscriptionReport, wanted: Iterable[WantedEvent], refusal: str
) -> Iterator[Advice]:
    name = report.registered.registration.subscription
    if name.startswith("-"):  # it would be taken for an option
        return
    key = () if report.explanation is not None or not report.keys else (f"--key={report.keys[0].key}",)
    what = "Why it has not fired" if report.registered.one_shot else "What it has, and what it lacks"
    yield Advice(what, _line(config, "explain", name, *key))
    yield Advice("Its registration", _line(config, "subscriptions", "show", name))
    # Without its key an event meets nothing, and a durable subscription has one for each event.
    has_key = report.registered.one_shot or (report.explanation is not None and report.explanation.key)
    if has_key and not report.closed:
        for each in list(wanted)[:_MOST_EVENTS]:
            if each.type is not None and not is_own(each.type) and not each.type.startswith("-"):
                yield Advice(f"Send {each.label} by hand", _line(config, "emit", *_event(each)))
    if not refusal:
        yield Advice("Remove it", _line(config, "subscriptions", "cancel", name))


def _event(wanted: WantedEvent) -> Iterator[str]:
    yield wanted.type or ""
    for option, value in (("--source", wanted.source), ("--subject", wanted.subject)):
        if value is not None:
            yield f"{option}={value}"
    for name, value in wanted.extensions.items():
        yield f"--key={value}" if name == "partitionkey" else f"--extension={name}={value}"
    if wanted.data is not None:
        yield f"--data={json.dumps(wanted.data)}"


def _line(config: BusConfig, *words: str) -> str:
    """The command line, quoted for a shell."""
    connection = () if config.connection == DEFAULT_CONNECTION else ("--conn-id", config.connection)
    return shlex.join(("airflow", "interlock", *words, "--bus", config.name, *connection))
