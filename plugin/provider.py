"""What Airflow reads about this distribution: its name, settings and commands."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    return {
        "package-name": "airflow-interlock",
        "name": "Interlock",
        "description": "Event conditions on Kafka for Airflow.",
    }
