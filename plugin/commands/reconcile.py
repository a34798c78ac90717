"""`airflow interlock reconcile`: emits missing completion events of DAG runs and task instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import answering_bus, bus_arguments, counted, or_exit, say, show

if TYPE_CHECKING:
    from argparse import Namespace
    from datetime import datetime

    from airflow.cli.cli_config import ActionCommand

    from ...events.event import Event
    from ...triggers.settings import ListenerSettings


def command() -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, Arg

    when = 'such as "24h" (before now) or "2026-11-20T06:00:00Z"'
    return ActionCommand(
        name="reconcile",
        help="Emit the completion events of DAG runs and tasks that are missing on the bus",
        description=(
            "Compares ended DAG runs and task instances in Airflow's database with the events on the bus, "
            "and emits the missing completion events, with the ids that the listener would use. Safe to "
            "repeat. Prints what it emitted. The defaults for DAGs, kinds and connection are the listener's "
            "settings."
        ),
        func=run,
        args=(
            Arg(("--since",), metavar="WHEN", default="24h", help=f"completions since WHEN, {when} (24h)"),
            Arg(("--until",), metavar="WHEN", default="1m", help=f"completions before WHEN, {when} (1m)"),
            Arg(
                ("--kinds",),
                help="dag_run, task_instance, or both separated by a comma (default: those of the listener)",
            ),
            Arg(
                ("--dags",),
                metavar="PATTERNS",
                help="patterns of DAG ids, separated by commas; * and ? are wildcards, ! excludes",
            ),
            Arg(("--tags",), help="only DAGs that have one of these tags, separated by commas"),
            Arg(("--dry-run",), action="store_true", help="show what would be emitted; emit nothing"),
            Arg(("--limit",), type=int, default=1000, help="show at most this many events (1000)"),
            *bus_arguments(listeners=True),
        ),
    )


@or_exit("reconcile")
def run(args: Namespace) -> None:
    """Emits the missing events, shows them, and prints how many were compared.

    After an error or Ctrl-C it shows those of the steps that were finished before; of the next step some may
    have been emitted too.
    """
    from airflow.utils.session import create_session

    from ...events.errors import EventError
    from ..completions.reconcile import PAGE, reconcile

    what = "would be emitted" if args.dry_run else "emitted"
    since, until = _moment("--since", args.since), _moment("--until", args.until)
    if until <= since:
        raise EventError(
            f"--since {since:%FT%TZ} is not before --until {until:%FT%TZ}: give an earlier --since or a"
            " later --until"
        )
    wanted, config = _wanted(args), answering_bus(args)
    compared = missing = 0
    rows: list[dict[str, Any]] = []
    scope = "compared before the command ended"
    try:
        with create_session() as session:
            for step in reconcile(config, session, since, until, wanted, dry_run=args.dry_run):
                compared += step.completions
                missing += len(step.missing)
                rows += map(_row, step.missing[: max(0, args.limit - len(rows))])
                if step.completions >= PAGE:
                    say(
                        f"{counted(compared, 'completion')} up to {step.until:%FT%TZ} compared: "
                        f"{counted(missing, 'event')} {what} so far."
                    )
        scope = f"from {since:%FT%TZ} to {until:%FT%TZ} compared"
    finally:  # also after an error: the same command, run again, shows only what it emits then
        show(args, rows)
        if missing > len(rows):
            say(f"Not shown: {missing - len(rows)} more.")
        say(f"{counted(compared, 'completion')} {scope}: {counted(missing, 'event')} {what}.")


def _row(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        "source": event.source,
        "run_id": event.payload["run_id"],  # type: ignore[index]
        "map_index": event.payload.get("map_index"),  # type: ignore[attr-defined]
        "time": event.attributes.get("time", ""),
        "id": event.id,
    }


def _wanted(args: Namespace) -> ListenerSettings:
    from dataclasses import replace

    from ...triggers.settings import KINDS, kinds_of, listener_settings, patterns_of, tags_of

    wanted = listener_settings()
    if args.kinds is not None:
        wanted = replace(wanted, kinds=kinds_of(args.kinds, "--kinds"))
    if args.dags is not None:
        wanted = replace(wanted, dags=patterns_of(args.dags))
    if args.tags is not None:
        wanted = replace(wanted, tags=tags_of(args.tags))
    return wanted if wanted.kinds else replace(wanted, kinds=frozenset(KINDS))


def _moment(name: str, text: str) -> datetime:
    from datetime import UTC, datetime, timedelta

    from ...conditions.errors import ConditionError
    from ...conditions.nodes.duration import duration_ms
    from ...events.attributes import parse_timestamp
    from ...events.errors import EventError

    if text == "now":
        return datetime.now(UTC)
    try:
        return parse_timestamp(text)
    except ValueError:
        pass
    try:
        return datetime.now(UTC) - timedelta(milliseconds=duration_ms(name, text))
    except ConditionError:
        raise EventError(
            f'{name} is {text!r}: give a duration before now, such as "24h" or "1d12h"; a time with its zone,'
            ' such as "2026-11-20T06:00:00Z"; or "now"'
        ) from None
