"""`airflow interlock receiver`: takes events over HTTP and writes them to a bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .console import bus_arguments, bus_of, or_exit

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from airflow.cli.cli_config import ActionCommand

    from ...engine.config import BusConfig
    from ...receiver.credentials_document import Document
    from ...receiver.server import ReceiverOptions
    from ...receiver.webhooks.declaration import Secret
    from ...receiver.webhooks.endpoint import Webhook

# How the worker processes, which uvicorn starts, learn the command's arguments. It holds no secret.
_ARGUMENTS = "INTERLOCK_RECEIVER_ARGUMENTS"
_MOST_WORKERS = 64
_VARIABLE = "variable:"
_CONNECTION = "conn:"


def command() -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, Arg

    return ActionCommand(
        name="receiver",
        help="Take events over HTTP, until Ctrl-C or SIGTERM",
        description=(
            "Serves POST /events: writes the CloudEvents of a request to the bus, and answers 202 when all "
            "in-sync replicas have them. POST /api/v1/lineage takes OpenLineage events. --webhooks adds "
            "POST /webhooks/NAME. Runs in the foreground, and answers the requests it has before it ends. "
            "docs/use/http.md has the answers, limits and credentials, docs/use/openlineage.md OpenLineage, "
            "docs/use/webhooks.md the webhooks."
        ),
        func=run,
        args=(
            Arg(("--host",), default="127.0.0.1", help="address to listen on (127.0.0.1)"),
            Arg(("--port",), type=int, default=8085, help="port to listen on (8085)"),
            Arg(("--workers",), type=int, default=1, help="processes that share the port (1)"),
            Arg(
                ("--credentials",),
                metavar="FILE",
                help="TOML file, or conn:ID for an Airflow connection's extra: who may write which events",
            ),
            Arg(
                ("--webhooks",),
                metavar="FILE",
                help="TOML file, or variable:NAME for an Airflow Variable: which requests become events",
            ),
            Arg(
                ("--allow-anonymous",),
                action="store_true",
                help="listen on any address without --credentials; interlock.* types stay refused",
            ),
            Arg(("--tls-cert",), metavar="FILE", help="certificate chain in PEM, to serve HTTPS"),
            Arg(("--tls-key",), metavar="FILE", help="private key in PEM"),
            Arg(
                ("--tls-client-ca",),
                metavar="FILE",
                help="authorities in PEM of the client certificates that credentials name",
            ),
            Arg(
                ("--allow-origin",),
                action="append",
                metavar="NAME",
                help="sender that OPTIONS /events allows to send (CloudEvents webhook handshake); repeatable",
            ),
            *(arg for arg in bus_arguments() if "--output" not in arg.flags),
        ),
    )


@or_exit("receiver")
def run(args: Namespace) -> None:
    """Serves until a signal. Exits with 1 if the configuration cannot be used or the port is taken."""
    import os
    from contextlib import suppress

    from ...engine.kafka.reachability import require_usable
    from ...engine.log import log
    from ...receiver.server import build_app, serve

    if not 1 <= args.workers <= _MOST_WORKERS:
        raise SystemExit(f"--workers: give a number from 1 to {_MOST_WORKERS}.")
    config, options = bus_of(args), _options(args)
    document = _credentials_document(options)
    options.check(document)
    webhooks = _webhooks(options)
    require_usable(config)
    scheme = "http" if options.tls_cert is None else "https"
    log.info("Serving %s://%s:%d/events for %s.", scheme, options.host, options.port, config.describe())
    with suppress(KeyboardInterrupt):
        if options.workers == 1:
            serve(build_app(config, options, document, _observer(config), webhooks), options)
        else:
            os.environ[_ARGUMENTS] = _encoded(args)
            serve(f"{__name__}:worker", options)
    log.info("The receiver for %s has ended.", config.describe())


def worker() -> Callable[..., Any]:
    """The app of one of several processes."""
    import json
    import os
    from argparse import Namespace

    from ...receiver.server import build_app, end_with_parent

    end_with_parent()
    args = Namespace(**json.loads(os.environ[_ARGUMENTS]))
    config, options = bus_of(args), _options(args)
    return build_app(config, options, _credentials_document(options), _observer(config), _webhooks(options))


def _options(args: Namespace) -> ReceiverOptions:
    from dataclasses import fields

    from ...receiver.server import ReceiverOptions

    return ReceiverOptions(**{field.name: getattr(args, field.name) for field in fields(ReceiverOptions)})


def _credentials_document(options: ReceiverOptions) -> Document | None:
    """The document that says who may write. Raises ConfigError naming its fault."""
    from pathlib import Path

    from airflow.exceptions import AirflowNotFoundException
    from airflow.models.connection import Connection

    from ...engine.errors import ConfigError
    from ...receiver.credentials_document import read_document, read_file

    origin = options.credentials
    if origin is None or not origin.startswith(_CONNECTION):
        return None if origin is None else read_file(Path(origin))
    conn_id = origin.removeprefix(_CONNECTION)
    try:
        extra = Connection.get_connection_from_secrets(conn_id).extra_dejson
    except AirflowNotFoundException:
        raise ConfigError(f"There is no Airflow connection {conn_id!r}, which --credentials names.") from None
    except PermissionError as error:  # of Airflow, if a secrets backend refuses it
        what = f"connection {conn_id!r}, which --credentials names"
        raise ConfigError(_refused(what, error)) from None
    return read_document(extra, f"The extra of the connection {conn_id!r}")


def _webhooks(options: ReceiverOptions) -> list[Webhook]:
    """The webhooks of the file or Variable, with the secrets of their connections."""
    from pathlib import Path

    from airflow.models.variable import Variable

    from ...engine.errors import ConfigError
    from ...receiver.webhooks.declaration import read_webhooks

    origin = options.webhooks
    if origin is None:
        return []
    if origin.startswith(_VARIABLE):
        name = origin.removeprefix(_VARIABLE)
        try:
            text = Variable.get_variable_from_secrets(name)
        except PermissionError as error:
            raise ConfigError(_refused(f"Variable {name!r}, which --webhooks names", error)) from None
        if text is None:
            raise ConfigError(f"There is no Airflow Variable {name!r}, which --webhooks names.")
    else:
        try:
            text = Path(origin).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{origin} cannot be read: {error}") from None
    return read_webhooks(text, origin, _secret_of)


def _secret_of(conn_id: str) -> Secret | None:
    """The secret in a connection; None without it. Raises ValueError if this process may not read it."""
    from airflow.exceptions import AirflowNotFoundException
    from airflow.models.connection import Connection

    from ...receiver.webhooks.declaration import Secret

    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None
    except PermissionError as error:  # `read_webhooks` adds where the connection is named
        raise ValueError(_refused(f"connection {conn_id!r}", error)) from None
    return Secret(found.login or "", found.password or "")


def _refused(what: str, error: PermissionError) -> str:
    return f"This process may not read {what}: {error}. Allow it in the secrets backend."


def _encoded(args: Namespace) -> str:
    import json
    from dataclasses import asdict

    return json.dumps({**asdict(_options(args)), "conn_id": args.conn_id, "bus": args.bus})


def _observer(config: BusConfig) -> Callable[[str, int, int], None]:
    """Counts requests and events in Airflow's metrics, if this Airflow offers them."""
    from ...triggers.stats import initialised_stats, request_counter

    return request_counter(initialised_stats(), config.name, config.deployment)
