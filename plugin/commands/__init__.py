"""The commands under `airflow interlock`.

Airflow builds its parser from these for every `airflow ...` call. So a module here declares arguments and
names its function as a string; heavy imports wait until the command runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.cli.cli_config import CLICommand


def get_cli_commands() -> list[CLICommand]:
    """Returns the group `interlock`; Airflow finds this function through the provider info."""
    from airflow.cli.cli_config import GroupCommand

    from . import (
        broker,
        dead_letters,
        doctor,
        emit,
        engine,
        explain,
        health,
        reconcile,
        subscriptions,
        tail,
        topics,
    )

    return [
        GroupCommand(
            name="interlock",
            help="Event conditions on Kafka",
            subcommands=(
                broker.command(),
                dead_letters.command(),
                doctor.command(),
                emit.command(),
                engine.command(),
                explain.command(),
                health.command(),
                reconcile.command(),
                subscriptions.command(),
                tail.command(),
                topics.command(),
            ),
        )
    ]
