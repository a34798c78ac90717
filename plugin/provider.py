"""What Airflow reads about this distribution: its name, settings and commands.

Airflow checks this against its schema in every process; what breaks the schema stops the whole
`airflow` command. Nothing may be imported here that costs time.
"""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    return {
        "package-name": "airflow-interlock",
        "name": "Interlock",
        "description": "Event conditions on Kafka for Airflow.",
        "cli": ["interlock.plugin.commands.get_cli_commands"],
    }
