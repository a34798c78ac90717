"""`airflow interlock monitoring`: hands out the dashboard, the alert rules and StatsD's mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .console import or_exit, say, show

if TYPE_CHECKING:
    from argparse import Namespace
    from pathlib import Path

    from airflow.cli.cli_config import ActionCommand

FILES: Final = {
    "alerts.yaml": "alert rules for Prometheus",
    "dashboard.json": "dashboard for Grafana",
    "statsd.yaml": "mappings for Prometheus' statsd_exporter",
}


def command() -> ActionCommand:
    from airflow.cli.cli_config import ARG_OUTPUT, ActionCommand, Arg

    return ActionCommand(
        name="monitoring",
        help="Show or write the alert rules, the dashboard and the mappings for StatsD",
        description=(
            "Shows where the installed package has its files for Prometheus and Grafana; with --write copies "
            "them into a folder. Needs no bus. docs/operate/alerts.md says how to use them, and what to do "
            "when an alert fires."
        ),
        func=run,
        args=(
            Arg(
                ("--write",),
                metavar="DIR",
                help="copy the files into this folder, which is made if it is missing; a file that is there "
                "already and differs is an error, and then nothing is written",
            ),
            ARG_OUTPUT,
        ),
    )


@or_exit("monitoring")
def run(args: Namespace) -> None:
    """Shows the files; with --write those that it has copied. Exits with 1 if they cannot be written."""
    from pathlib import Path

    folder = Path(__file__).parents[1] / "monitoring"
    if args.write is not None:
        folder = _copied(folder, Path(args.write))
    show(args, [{"file": str(folder / name), "what": what} for name, what in FILES.items()])


def _copied(source: Path, target: Path) -> Path:
    """Copies the files. Raises SystemExit with the reason if that is not possible."""
    changed = [
        name
        for name in FILES
        if (target / name).exists() and (target / name).read_bytes() != (source / name).read_bytes()
    ]
    if changed:
        raise SystemExit(
            f"airflow interlock monitoring: {target} has other files of these names: {', '.join(changed)}. "
            "Nothing was written: give another folder, and compare."
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (target / name).write_bytes((source / name).read_bytes())
    except OSError as e:
        raise SystemExit(f"airflow interlock monitoring: {e}") from None
    say("docs/operate/alerts.md says how to use them.")
    return target
