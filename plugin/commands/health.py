"""`airflow interlock health`: shows the state of a bus, as read from its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import action, answering_bus, counted, or_exit, print_whole, progress, say, show

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from airflow.cli.cli_config import ActionCommand

    from ...engine.admin.health import Health


def command() -> ActionCommand:
    from airflow.cli.cli_config import Arg

    return action(
        "health",
        "Show the state of a bus, and what is wrong",
        run,
        Arg(
            ("--late-after",),
            metavar="DURATION",
            default="15m",
            help="report a firing that has waited longer for its sink as a problem (15m)",
        ),
        description=(
            "Reads from the cluster: topics, engines and their partitions, positions and lag, registrations, "
            "who delivers to sinks, firings that wait for a sink, dead letters. Exits with 1 and a sentence "
            "for each problem."
        ),
    )


@or_exit("health")
def run(args: Namespace) -> None:
    """Shows the state of the bus; exits with 1 after a sentence for each problem."""
    from dataclasses import asdict

    from airflow.exceptions import AirflowNotFoundException

    from ...conditions.nodes.duration import duration_ms
    from ...engine.admin.alerts import Kind, alert_for
    from ...engine.admin.health import examine
    from ...engine.errors import UnreachableError
    from ...events.errors import InterlockError

    try:
        late_ms = duration_ms("--late-after", args.late_after)
        config = answering_bus(args)
        with progress("Reading the state of the bus"):
            health = examine(config, late_ms)
    except (InterlockError, AirflowNotFoundException) as e:
        if args.output in ("json", "yaml"):
            alert = alert_for(Kind.UNREACHABLE) if isinstance(e, UnreachableError) else None
            alerts = {} if alert is None else {str(e): alert}
            print_whole(args.output, {"ok": False, "problems": [str(e)], "alerts": alerts})
        raise
    if args.output in ("json", "yaml"):
        print_whole(args.output, {"ok": health.ok, **asdict(health)})
    else:
        show(args, [_summary(health)])
        shown = [each for each in health.partitions if _needs_row(each, health.problems)]
        waiting = [each for each in health.sinks if each["open_firings"] != 0]
        for rows in (health.engines, health.deliveries, waiting, shown):
            if rows:
                show(args, rows)
        if len(shown) < len(health.partitions):
            say(_not_shown([each for each in health.partitions if each not in shown]))
    for problem in health.problems:
        alert = health.alerts.get(problem)
        say(problem if alert is None else f"{problem} Alert: {alert}.")
    if not health.ok:
        raise SystemExit(1)


def _needs_row(partition: dict[str, Any], problems: Sequence[str]) -> bool:
    """Returns whether a partition has lag, is not read, tries a record alone, or is named in a problem."""
    place = f"{partition['topic']}[{partition['partition']}]"
    odd = partition["lag"] or partition["tries"] or partition["state"] in ("paused", "stopped")
    return bool(odd) or any(place in problem for problem in problems)


def _not_shown(partitions: Sequence[dict[str, Any]]) -> str:
    """Returns how many partitions have no row: those without lag, and those whose lag is not known yet."""
    unknown = sum(1 for each in partitions if each["lag"] is None)
    texts = []
    if well := len(partitions) - unknown:
        texts.append(f"{counted(well, 'partition')} without lag.")
    if unknown:
        opened = "it" if unknown == 1 else "them"
        texts.append(f"{counted(unknown, 'partition')} with unknown lag: no engine has opened {opened} yet.")
    return " ".join((*texts, "--output json shows all."))


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
        "dead letters": _dead_letters(health),
    }


def _dead_letters(health: Health) -> str:
    found, most = health.dead_letters, health.dead_letters_at_most
    if found is None:
        return "" if most is None else f"cannot be read: at most {most}"
    least = "" if found["complete"] else "at least "
    return f"{least}{found['open']} open, {found['redriven']} redriven"
