"""`airflow interlock doctor`: checks a bus as this Airflow uses it, and says what is wrong and what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from .console import action, bus_of, counted, progress, say, show

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Collection, Iterator

    from airflow.cli.cli_config import ActionCommand

    from ...engine.admin.findings import AirflowInfo, DagRunId, Finding, SinkAccess

MOST_ASKED: Final = 1000  # runs or DAGs in one query: SQLite and PostgreSQL take about 32,000 parameters
RAN_LATELY: Final = timedelta(minutes=10)  # longer than the age of the leases whose hosts are compared
T = TypeVar("T")


def command() -> ActionCommand:
    from airflow.cli.cli_config import Arg

    return action(
        "doctor",
        "Check everything that a bus needs, and say what is wrong and what to do",
        run,
        Arg(
            ("--role",),
            choices=("emit", "wait", "engine", "deliver"),
            action="append",
            help="role whose rights the connection must have; repeatable (default: emit, wait, engine). With "
            "deliver, the connections of this deployment's sinks are checked too",
        ),
        description=(
            "Checks settings, connection, versions, topics, access rights, clocks, engines and lag, and who "
            "else uses the bus; with --role deliver also the connections of sinks, without a request. Exits "
            "with 1 if anything is wrong. Writes one empty record, which all readers ignore, and begins a "
            "transaction that it aborts."
        ),
    )


def run(args: Namespace) -> None:
    """Shows the findings; exits with 1 if one of them is `wrong`."""
    with progress("Checking settings") as now:
        findings = _findings(args, lambda check: now(f"Checking {check}"))
    columns = {"check": "check", "state": "level", "found": "text", "alert": "alert"}
    show(args, [{name: getattr(each, of) for name, of in columns.items()} for each in findings])
    wrong = sum(each.level == "wrong" for each in findings)
    if wrong:
        say(f"{counted(wrong, 'problem')} in {counted(len(findings), 'finding')}.")
        raise SystemExit(1)


def _findings(args: Namespace, begin: Callable[[str], None]) -> list[Finding]:
    from airflow.exceptions import AirflowNotFoundException

    from ...engine.admin.access import USUAL_ROLES
    from ...engine.admin.doctor import diagnose, teams
    from ...engine.admin.findings import Finding
    from ...events.errors import InterlockError

    info = _airflow_info(args.conn_id)
    unusable = [*_spark(), *_settings()]
    try:
        config = bus_of(args)
    except AirflowNotFoundException:
        # Airflow does not find a connection that belongs to a team either.
        make = f"airflow connections add {args.conn_id} --conn-type kafka"
        text = f"Connection {args.conn_id!r} does not exist. Run: {make} --conn-extra ..."
        of_team = [found for found in teams(args.conn_id, info) if found.level == "wrong"]
        return unusable + (of_team or [Finding("connection", "wrong", text)])
    except InterlockError as error:
        if str(error) in {finding.text for finding in unusable}:
            return unusable  # it is an invalid setting, which is a finding already
        return [*unusable, Finding("connection", "wrong", str(error))]
    others = [*_listeners(args.conn_id), *_receiver(args.conn_id)]
    return [*unusable, *others, *diagnose(config, info, args.role or USUAL_ROLES, begin)]


def _listeners(conn_id: str) -> list[Finding]:
    """Returns what the listener emits, and a note if it uses another connection, which is not checked."""
    from ...engine.admin.findings import Finding
    from ...events.errors import InterlockError
    from ...triggers.settings import listener_settings

    try:
        listener = listener_settings()
    except InterlockError:  # _settings reports it
        return []
    if not listener.kinds:
        text = (
            "Off: this Airflow emits no completion events by itself. A wait for dag_run() or task_instance() "
            "needs them: set [interlock] listener to dag_run, task_instance or both, and restart schedulers, "
            "API servers and workers."
        )
        return [Finding("listener", "ok", text)]
    found = [Finding("listener", "ok", f"As configured here, it emits {listener.describe()}.")]
    if listener.connection != conn_id:
        text = (
            f"The listener uses connection {listener.connection!r}, which was not checked. Run: "
            f"airflow interlock doctor --conn-id {listener.connection} --role emit"
        )
        found.append(Finding("settings", "note", text))
    return found


def _receiver(conn_id: str) -> list[Finding]:
    """Returns a note if the API server takes events over HTTP."""
    from ...engine.admin.findings import Finding
    from ...triggers.settings import RECEIVER, SECTION, receiver_connection

    connection = receiver_connection()
    if not connection:
        return []
    text = (
        f"The API server takes events from its users at /interlock/events ([{SECTION}] {RECEIVER}),"
        f" and writes them with connection {connection!r}"
    )
    check = f"airflow interlock doctor --conn-id {connection} --role emit"
    text += "." if connection == conn_id else f", which was not checked. Run: {check}"
    return [Finding("settings", "note", text)]


def _spark() -> list[Finding]:
    """Returns a finding if versions of PySpark are mixed in one folder."""
    from ...engine.admin.findings import Finding
    from ...spark.installed import conflict

    text = conflict()
    return [] if text is None else [Finding("settings", "wrong", text)]


def _settings() -> list[Finding]:
    """Returns a finding for each invalid setting in section [interlock] and in the sections read with it."""
    from airflow.sdk.exceptions import AirflowConfigException

    from ...engine.admin.findings import Finding
    from ...engine.errors import ConfigError
    from ...triggers.settings import delivery_settings, listener_settings, resume_floor, settings

    found = []
    for read in (settings, listener_settings, delivery_settings, resume_floor):
        try:
            read()
        except (ConfigError, AirflowConfigException) as error:
            found.append(Finding("settings", "wrong", str(error)))
    return found


def _airflow_info(conn_id: str) -> AirflowInfo:
    from airflow.configuration import conf
    from airflow.version import version

    from ...engine.admin.findings import AirflowInfo

    return AirflowInfo(
        version=version,
        multi_team=conf.getboolean("core", "multi_team", fallback=False),
        team=_team_of(conn_id),
        queues=conf.getboolean("triggerer", "queues_enabled", fallback=False),
        unknown_runs=_unknown_runs(),
        unknown_dags=_unknown_dags(),
        triggerer_hosts=_triggerer_hosts(),
        sinks=_sinks(),
    )


def _sinks() -> SinkAccess | None:
    """Returns what `airflow interlock deliver` uses here; None if a setting is invalid (`_settings`)."""
    from ...engine.admin.findings import SinkAccess
    from ...engine.errors import ConfigError
    from ...triggers.settings import delivery_settings
    from ...triggers.sink_connections import target_in_command

    try:
        return SinkAccess(target_in_command, delivery_settings().networks)
    except ConfigError:
        return None


def _team_of(conn_id: str) -> str | None:
    """Returns the team of a connection in Airflow's database; None without a team or without a database."""
    from airflow.models.connection import Connection
    from sqlalchemy.exc import SQLAlchemyError

    try:
        team: str | None = Connection.get_team_name(conn_id)
    except SQLAlchemyError:
        return None
    return team


def _unknown_runs() -> Callable[[Collection[DagRunId]], Collection[DagRunId]] | None:
    """Returns a function that returns the runs that Airflow's database does not have.

    None if there is no database.
    """
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select, tuple_
    from sqlalchemy.exc import SQLAlchemyError

    def ask(runs: Collection[DagRunId]) -> Collection[DagRunId]:
        unknown, column = set(runs), tuple_(DagRun.dag_id, DagRun.run_id)
        with create_session() as session:
            for part in _parts(runs):
                asked = select(DagRun.dag_id, DagRun.run_id).where(column.in_(part))
                unknown.difference_update((dag, run) for dag, run in session.execute(asked))
        return unknown

    try:
        ask([("", "")])
    except SQLAlchemyError:
        return None
    return ask


def _unknown_dags() -> Callable[[Collection[str]], Collection[str]] | None:
    """As `_unknown_runs`, for DAGs."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    def ask(dags: Collection[str]) -> Collection[str]:
        unknown = set(dags)
        with create_session() as session:
            for part in _parts(dags):
                asked = select(DagModel.dag_id).where(DagModel.dag_id.in_(part))
                unknown.difference_update(session.scalars(asked))
        return unknown

    try:
        ask([""])
    except SQLAlchemyError:
        return None
    return ask


def _parts(names: Collection[T]) -> Iterator[list[T]]:
    """The names in lists that one query takes."""
    left = iter(names)
    while part := list(islice(left, MOST_ASKED)):
        yield part


def _triggerer_hosts() -> Collection[str] | None:
    """Returns the hosts with a recent triggerer heartbeat; None if the database does not have host names."""
    from airflow.jobs.job import Job
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.exc import SQLAlchemyError

    asked = select(Job.hostname).where(
        Job.job_type == "TriggererJob", Job.latest_heartbeat > datetime.now(UTC) - RAN_LATELY
    )
    try:
        with create_session() as session:
            hosts = {name or "" for name in session.scalars(asked)}
    except SQLAlchemyError:
        return None
    return None if any(not _is_name(host) for host in hosts) else hosts


def _is_name(host: str) -> bool:
    """Returns whether this is a host name: no address ([core] hostname_callable), no `localhost`."""
    from ipaddress import ip_address

    try:
        ip_address(host)
    except ValueError:
        return host.partition(".")[0].lower() not in ("", "localhost")
    return False
