"""The commands under `airflow interlock`.

Airflow builds its parser from these for every `airflow ...` call. So heavy imports wait until a command runs.
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
        deliver,
        doctor,
        emit,
        engine,
        explain,
        health,
        migrate,
        monitoring,
        receiver,
        reconcile,
        subscriptions,
        tail,
        topics,
    )

    modules = (
        broker, dead_letters, deliver, doctor, emit, engine, explain, health, migrate, monitoring,
        receiver, reconcile, subscriptions, tail, topics,
    )  # fmt: skip
    return [
        GroupCommand(
            name="interlock",
            help="Event conditions on Kafka",
            subcommands=tuple(module.command() for module in modules),
        )
    ]
