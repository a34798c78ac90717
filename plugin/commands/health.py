"""`airflow interlock health`: how a bus is, as its cluster tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import answering_bus, bus_arguments, counted, or_exit, print_whole, say, show

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from airflow.cli.cli_config import ActionCommand

    from ...engine.admin.health import Health


def command() -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, lazy_load_command

    return ActionCommand(
        name="health",
        help="Tell how a bus is, and what is wrong",
        description=(
            "Asks the cluster: topics, engines and their partitions, positions and lag, registrations, dead "
            "letters. Exits with 1 and a sentence for each thing that is wrong."
        ),
        func=lazy_load_command("interlock.plugin.commands.health.run"),
        args=bus_arguments(),
    )


def run(args: Namespace) -> None:
    """Show all there is; exit 1 after a sentence for each thing that is wrong."""
    from dataclasses import asdict

    from airflow.exceptions import AirflowNotFoundException

    from ...engine.admin.health import examine
    from ...events.errors import InterlockError

    problems: list[str] = []

    def work() -> None:
        try:
            health = examine(answering_bus(args))
        except (InterlockError, AirflowNotFoundException) as e:
            if args.output in ("json", "yaml"):
                print_whole(args.output, {"ok": False, "problems": [str(e)]})
            raise
        problems.extend(health.problems)
        if args.output in ("json", "yaml"):
            print_whole(args.output, {"ok": health.ok, **asdict(health)})
            return
        show(args, [_summary(health)])
        told = [each for each in health.partitions if _to_be_told(each, health.problems)]
        for rows in (health.engines, told):
            if rows:
                show(args, rows)
        if len(told) < len(health.partitions):
            say(_left_out([each for each in health.partitions if each not in told]))

    or_exit("health", work)
    for problem in problems:
        say(problem)
    if problems:
        raise SystemExit(1)


def _to_be_told(partition: dict[str, Any], problems: Sequence[str]) -> bool:
    """Whether a partition has lag, stopped, tries a record alone, or stands in a problem."""
    place = f"{partition['topic']}[{partition['partition']}]"
    odd = partition["lag"] or partition["tries"] or partition["state"] == "stopped"
    return bool(odd) or any(place in problem for problem in problems)


def _left_out(partitions: Sequence[dict[str, Any]]) -> str:
    """How many have no row: those without lag, and those of a listed topic of which none is known."""
    unknown = sum(1 for each in partitions if each["lag"] is None)
    told = []
    if well := len(partitions) - unknown:
        told.append(f"{counted(well, 'partition')} without lag.")
    if unknown:
        opened = "it" if unknown == 1 else "them"
        told.append(
            f"{counted(unknown, 'partition')} whose lag is not known: no engine has opened {opened} yet."
        )
    return " ".join((*told, "--output json shows all."))


def _summary(health: Health) -> dict[str, Any]:
    registrations = health.registrations
    return {
        "bus": health.bus,
        "cluster": health.cluster,
        "state": "ok" if health.ok else f"problems: {len(health.problems)}",
        "one-shot": registrations.get("one_shot", ""),
        "durable": registrations.get("durable", ""),
        "oldest": " since ".join(
            filter(None, (registrations.get("oldest"), registrations.get("oldest_since")))
        ),
        "dead letters": "" if health.dead_letters_at_most is None else f"<= {health.dead_letters_at_most}",
    }
