"""`airflow interlock doctor`: what is wrong with a bus as this Airflow uses it, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .console import bus_arguments, bus_of, printable, say, show

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Collection

    from airflow.cli.cli_config import ActionCommand

    from ...engine.findings import Finding, Host, Run


def command() -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, Arg, lazy_load_command

    return ActionCommand(
        name="doctor",
        help="Look at all that a bus needs, and say what is wrong and what to do",
        description=(
            "Looks at settings, connection, versions, topics, rights, clocks, engines and lag, and at who "
            "else uses the bus. Exits with 1 if anything is wrong. Writes one empty record, which all pass "
            "over, and begins a transaction that it aborts."
        ),
        func=lazy_load_command("interlock.plugin.commands.doctor.run"),
        args=(
            Arg(
                ("--role",),
                choices=("emit", "wait", "engine"),
                action="append",
                help="whose rights the connection must have; may be given again (default: all three)",
            ),
            *bus_arguments(),
        ),
    )


def run(args: Namespace) -> None:
    """Show the findings; exit 1 if one says that something is wrong."""
    findings = _findings(args)
    show(args, [{"check": each.check, "state": each.level, "found": each.text} for each in findings])
    wrong = sum(each.level == "wrong" for each in findings)
    if wrong:
        say(f"{wrong} of {len(findings)} findings: something is wrong.")
        raise SystemExit(1)


def _findings(args: Namespace) -> list[Finding]:
    from airflow.exceptions import AirflowNotFoundException

    from ...engine.access import ROLES
    from ...engine.doctor import diagnose
    from ...engine.findings import Finding
    from ...events.errors import InterlockError

    try:
        config = bus_of(args)
    except AirflowNotFoundException:
        make = f"airflow connections add {args.conn_id} --conn-type kafka"
        text = f"Connection {args.conn_id!r} is not there: {make} --conn-extra ..."
        return [Finding("connection", "wrong", text)]
    except InterlockError as error:
        return [Finding("connection", "wrong", printable(str(error)))]
    return list(diagnose(config, _host(args.conn_id), args.role or ROLES))


def _host(conn_id: str) -> Host:
    from airflow.configuration import conf
    from airflow.version import version

    from ...engine.findings import Host

    multi_team = conf.getboolean("core", "multi_team", fallback=False)
    return Host(
        airflow=version,
        multi_team=multi_team,
        team=_team_of(conn_id) if multi_team else None,
        queues=conf.getboolean("triggerer", "queues_enabled", fallback=False),
        unknown_runs=_unknown_runs(),
    )


def _team_of(conn_id: str) -> str | None:
    from airflow.models.connection import Connection

    team: str | None = Connection.get_team_name(conn_id)
    return team


def _unknown_runs() -> Callable[[Collection[Run]], Collection[Run]] | None:
    """Asks Airflow's database; None where there is none to ask."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select, tuple_
    from sqlalchemy.exc import SQLAlchemyError

    def ask(runs: Collection[Run]) -> Collection[Run]:
        asked = select(DagRun.dag_id, DagRun.run_id).where(tuple_(DagRun.dag_id, DagRun.run_id).in_(runs))
        with create_session() as session:
            known = {(dag, run) for dag, run in session.execute(asked)}
        return set(runs) - known

    try:
        ask([("", "")])
    except SQLAlchemyError:
        return None
    return ask
