"""`airflow interlock broker`: what it takes."""

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
            "Run one real Kafka node, bound to 127.0.0.1 and without protection of its own: for "
            "development only. Its jars are fetched once (about 45 MB), checked and cached. Needs Java 17."
        ),
        func=lazy_load_command("interlock.plugin.broker.command.run"),
        args=(
            Arg(("--port",), type=int, default=9092, help="port of the broker; 0 takes a free one"),
            Arg(
                ("--directory",),
                metavar="DIR",
                help="where topics and logs are kept from one start to the next "
                "(default: interlock/broker in the user's data directory)",
            ),
            Arg(
                ("--ephemeral",),
                action="store_true",
                help="keep nothing: a temporary directory, removed at the end",
            ),
            Arg(
                ("--kafka-version",),
                metavar="VERSION",
                help="version of Apache Kafka, of those whose jars Interlock lists (default: the newest of "
                "them); a directory is for the version that began it, or a later one",
            ),
        ),
    )
