"""`airflow interlock broker`: its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.cli.cli_config import ActionCommand


def command() -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, Arg, lazy_load_command

    return ActionCommand(
        name="broker",
        help="Run a Kafka broker for development until Ctrl-C",
        description=(
            "Runs one real Kafka node, bound to 127.0.0.1, without authentication or TLS: for development "
            "only. Fetches its jars once (about 45 MB), verifies and caches them. Needs Java 17."
        ),
        func=lazy_load_command("interlock.plugin.broker.command.run"),
        args=(
            Arg(("--port",), type=int, default=9092, help="port of the broker; 0 chooses a free one"),
            Arg(
                ("--directory",),
                metavar="DIR",
                help="directory that keeps topics and logs between starts "
                "(default: interlock/broker in the user's data directory)",
            ),
            Arg(
                ("--ephemeral",),
                action="store_true",
                help="use a temporary directory, and remove it at the end",
            ),
            Arg(
                ("--kafka-version",),
                metavar="VERSION",
                help="version of Apache Kafka, one that Interlock can fetch (default: the most tested one); "
                "a directory needs the version that created it, or a later one",
            ),
        ),
    )
