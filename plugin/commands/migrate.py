"""`airflow interlock migrate`: turns resources of Knative and Argo Events into subscriptions or DAGs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .console import (
    action,
    answering_bus,
    confirmed,
    counted,
    or_exit,
    print_lines,
    print_whole,
    say,
    show,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from airflow.cli.cli_config import GroupCommand

    from ...migrate.subscription import Subscription, Unread

_KNATIVE = (
    "Reads Triggers, and the Brokers beside them, and prints for each the condition, the connection of its "
    "sink, the deliver_dag(...) that makes the subscription, and each field that is left out or means "
    "something else, with the reason. Changes nothing, unless --apply is given: then it registers the "
    "subscriptions and their sinks on the bus. Exits with 1 if a Trigger is refused."
)

_ARGO = (
    "Reads Sensors, and prints for each trigger the condition, the dispatch_dag(...) or deliver_dag(...) for "
    "it, and each field that is left out or has to be completed, with the reason. A trigger with a filter "
    "that cannot be carried over is refused. Changes nothing. Exits with 1 if a trigger is refused."
)


def command() -> GroupCommand:
    from airflow.cli.cli_config import ARG_OUTPUT, ARG_YES, ActionCommand, Arg, GroupCommand

    file = Arg(
        ("file",), metavar="FILE", help="YAML or JSON with resources, such as kubectl prints; - reads stdin"
    )
    source = Arg(
        ("--source",), action="store_true", help="print only the DAG file with the same subscriptions"
    )
    return GroupCommand(
        name="migrate",
        help="Turn resources of Knative and Argo Events into subscriptions or DAGs",
        subcommands=(
            action(
                "knative",
                "Show the subscriptions that Knative's Triggers become, or register them",
                knative,
                file,
                source,
                Arg(("--apply",), action="store_true", help="register the subscriptions, without DAGs"),
                ARG_YES,
                description=_KNATIVE,
            ),
            ActionCommand(
                "argo",
                "Show the DAGs that Argo Events' Sensors become",
                argo,
                (file, source, ARG_OUTPUT),
                description=_ARGO,
            ),
        ),
    )


@or_exit("migrate knative")
def knative(args: Namespace) -> None:
    """Shows what becomes of each resource of the file."""
    from ...migrate.documents import read_resources
    from ...migrate.knative import subscriptions

    found = subscriptions(read_resources(_text(args.file)))
    if args.apply:
        _apply(args, found)
    else:
        _report(args, found)


@or_exit("migrate argo")
def argo(args: Namespace) -> None:
    """Shows what becomes of each trigger of the file's Sensors."""
    from ...migrate.argo import sensors
    from ...migrate.documents import read_resources

    _report(args, sensors(read_resources(_text(args.file))))


def _apply(args: Namespace, found: Sequence[Subscription | Unread]) -> None:
    from ...engine.admin.registering import register
    from ...engine.following.subscriptions import Subscriptions
    from ...migrate.registered import durable

    made = _made(found)
    _print_on_stderr(found)
    _exit_if_refused(found)
    if not made:
        raise SystemExit("The file holds no Trigger: nothing was changed.")
    subscriptions = Subscriptions.read(answering_bus(args))
    config = subscriptions.config
    wanted = [durable(each, config.deployment, subscriptions.now_ms) for each in made]
    question = f"Register {counted(len(wanted), 'subscription')} on {config.describe()}?"
    if not confirmed(args, f"{question} Events count from now on."):
        raise SystemExit("Nothing was changed.")
    written = register(subscriptions, wanted)
    rows = [
        {
            "subscription": record.subscription,
            "connection": each.conn_id,
            "state": "registered" if is_new else "unchanged",
        }
        for each, record, is_new in zip(made, wanted, written, strict=True)
    ]
    show(args, rows)
    say(f"To deliver their firings, create these Airflow connections and run: {config.command('deliver')}")


def _report(args: Namespace, found: Sequence[Subscription | Unread]) -> None:
    made = _made(found)
    _print(args, found, made)
    _exit_if_refused(found)


def _made(found: Sequence[Subscription | Unread]) -> list[Subscription]:
    from ...migrate.subscription import Subscription

    return [each for each in found if isinstance(each, Subscription)]


def _exit_if_refused(found: Sequence[Subscription | Unread]) -> None:
    from ...migrate.subscription import Unread

    refused = [
        each for each in found if (each.is_other_version if isinstance(each, Unread) else each.refused)
    ]
    if refused:
        names = ", ".join(each.resource for each in refused)
        raise SystemExit(f"Refused: {names}. Correct the fields that are named, and run the command again.")


def _print(args: Namespace, found: Sequence[Subscription | Unread], made: Sequence[Subscription]) -> None:
    from ...migrate.source import dag_file

    source = dag_file(made)
    if args.source:
        print_lines(source.rstrip("\n"))
    elif args.output in ("json", "yaml"):
        print_whole(args.output, [_whole(each) for each in found])
        return
    else:
        show(args, [_row(each) for each in found])
    if args.source:
        _print_on_stderr(found)
        return
    if notes := [note for each in found for note in _notes(each)]:
        show(args, notes)
    for each in made:
        if each.condition is not None and each.conn_id is not None:
            print_lines(_connection(each.conn_id, each.destination.host or "HOST"))
    if source:
        print_lines(source.rstrip("\n"))


def _print_on_stderr(found: Sequence[Subscription | Unread]) -> None:
    from ...migrate.subscription import Unread

    for each in found:
        if isinstance(each, Unread):
            say(f"{each.resource} becomes no subscription: {each.reason}")
        for note in _notes(each):
            say(f"{note['resource']}, {note['field']} {note['is']}: {note['because']}")


def _text(file: str) -> str:
    from pathlib import Path

    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SystemExit(f"airflow interlock migrate: {file} cannot be read: {error}") from None


def _row(each: Subscription | Unread) -> dict[str, Any]:
    from ...migrate.subscription import Unread

    if isinstance(each, Unread):
        return {"resource": each.resource, "becomes": f"no subscription: {each.reason}", "condition": ""}
    condition = "" if each.condition is None else str(each.condition)
    becomes = f"{each.function} {each.name}" if each.condition is not None else "refused"
    return {"resource": each.resource, "becomes": becomes, "condition": condition}


def _notes(each: Subscription | Unread) -> list[dict[str, str]]:
    kinds = {
        "refused": getattr(each, "refused", ()),
        "left out": each.left_out,
        "differs": getattr(each, "differs", ()),
    }
    return [
        {"resource": each.resource, "field": note.field, "is": name, "because": note.text}
        for name, notes in kinds.items()
        for note in notes
    ]


def _whole(each: Subscription | Unread) -> dict[str, Any]:
    from ...migrate.source import call
    from ...migrate.subscription import Unread

    left_out = [note._asdict() for note in each.left_out]
    if isinstance(each, Unread):
        return {"resource": each.resource, "subscription": None, "reason": each.reason, "left_out": left_out}
    condition = each.condition
    made = (
        None
        if condition is None
        else {
            "name": each.name,
            "function": each.function,
            "condition": str(condition),
            "condition_json": condition.to_json(),
            "conn_id": each.conn_id,
            "host": each.destination.host,
            **each.arguments,
            "source": call(each),
        }
    )
    return {
        "resource": each.resource,
        "subscription": made,
        "left_out": left_out,
        "differs": [note._asdict() for note in each.differs],
        "refused": [note._asdict() for note in each.refused],
    }


def _connection(conn_id: str, host: str) -> str:
    import shlex

    return shlex.join(("airflow", "connections", "add", conn_id, "--conn-type", "http", "--conn-host", host))
