"""`airflow interlock explain`: explains why a subscription has not fired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import (
    action,
    answering_bus,
    moment,
    or_exit,
    print_lines,
    print_whole,
    printable,
    progress,
    show,
)
from .subscriptions import name_argument

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow.cli.cli_config import ActionCommand

    from ...engine.admin.explaining import SubscriptionReport


def command() -> ActionCommand:
    from airflow.cli.cli_config import Arg

    return action(
        "explain",
        "Explain why a wait or a durable subscription has not fired",
        run,
        name_argument(),
        Arg(
            ("--key",),
            help="the correlation key, if several are open; a JSON list for a composite key",
        ),
        Arg(
            ("--events",),
            type=int,
            default=2000,
            help="search about this many of the latest events for near misses (2000, at most 10000)",
        ),
        description=(
            "Reads what the subscription has pending, and searches the latest events of the bus for near "
            "misses. Prints which parts are met and by which events, what is missing, what nearly matched "
            "and why it did not, and what else prevents the firing. Changes nothing."
        ),
    )


@or_exit("explain")
def run(args: Namespace) -> None:
    """Shows the explanation, or the open keys to choose from."""
    from ...engine.admin.explaining import explain_subscription
    from ...engine.errors import HasFired
    from ...engine.following.kafka_view import KafkaView
    from ..completions.unemitted import unemitted

    if args.events < 0:
        raise SystemExit("--events: give 0 or more.")
    config = answering_bus(args)
    try:
        with progress("Reading the subscription, its state and recent events"):
            view = KafkaView.read(config, about=args.subscription)
            report = explain_subscription(view, args.subscription, args.key, args.events)
    except HasFired as fired:
        if args.output in ("json", "yaml"):
            whole = {"subscription": args.subscription, "fired": True, "notes": [str(fired)]}
            print_whole(args.output, whole)
        else:
            print(printable(fired))
        return
    notes = [*report.notes, *unemitted(report, config)]
    if args.output in ("json", "yaml"):
        print_whole(args.output, _whole(report, notes))
        return
    registration = report.registered.registration
    print(printable(f"{registration.kind} {registration.subscription!r} on {config.describe()}"))
    print(printable(f"condition: {report.registered.condition}"))
    print(
        f"registered {moment(report.registered.timestamp_ms)}; events count since "
        f"{moment(registration.since_ms)}"
    )
    if report.sink:
        print(printable(f"delivers to {report.sink}"))
    for note in notes:
        print(printable(f"! {note}"))
    if report.explanation is not None:
        print_lines(str(report.explanation))
        return
    shown = len(report.keys)
    print(f"{report.key_count} keys are open; --key explains one. The {shown} nearest to firing:")
    show(
        args,
        [
            {
                "key": each.key,
                "events": each.events,
                "missing": ", ".join(each.missing),
                "last": moment(each.last_ms),
            }
            for each in report.keys
        ],
    )


def _whole(report: SubscriptionReport, notes: list[str]) -> dict[str, Any]:
    registration = report.registered.registration
    explanation = report.explanation
    return {
        "subscription": registration.subscription,
        "kind": registration.kind,
        "incarnation": report.registered.incarnation,
        "condition": str(report.registered.condition),
        "registered_ms": report.registered.timestamp_ms,
        "since_ms": registration.since_ms,
        "delivers_to": report.sink or None,
        "fired": report.closed,
        "notes": notes,
        "explanation": None if explanation is None else explanation.to_json(),
        "open_keys": report.key_count,
        "keys": [
            {
                "key": each.key,
                "events": each.events,
                "missing": list(each.missing),
                "last_ms": each.last_ms,
            }
            for each in report.keys
        ],
        "unreadable": report.unread,
    }
