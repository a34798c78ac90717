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
        "config": {
            "interlock": {
                "description": "Event conditions on Kafka.",
                "options": {
                    "bus": {
                        "description": "Name of the bus: the prefix of its topics and of its consumer group.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": None,
                        "default": "interlock",
                    },
                    "deployment": {
                        "description": (
                            "Name of this Airflow installation, part of the names of waits and of event "
                            "sources. Set it where several installations share a bus; `airflow interlock "
                            "doctor` says where two use one name."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "finance",
                        "default": "airflow",
                    },
                    "lookback_hours": {
                        "description": (
                            "How long before its logical date a wait with a key counts events. At most as "
                            "long as the event topic keeps them."
                        ),
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": None,
                        "default": "24",
                    },
                    "allowed_client_properties": {
                        "description": (
                            "Names of Kafka client properties, separated by commas, that connections may set "
                            "although they run a program, load a library, switch a certificate check off, or "
                            "take unsigned tokens or a token endpoint without https. "
                            "Any other of this kind is refused."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "sasl.kerberos.kinit.cmd",
                        "default": "",
                    },
                    "listener": {
                        "description": (
                            "Which ends Airflow tells the bus by itself: dag_run, task_instance, or both "
                            "with a comma. Empty: no listener is registered."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "dag_run,task_instance",
                        "default": "",
                    },
                    "listener_dags": {
                        "description": (
                            "Patterns of the ids of the DAGs that the listener tells of, separated by "
                            "commas; ! before one excludes. Empty: all."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "ledger_*,!ledger_test*",
                        "default": "",
                    },
                    "listener_tags": {
                        "description": (
                            "Tags, separated by commas: the listener tells of DAGs that have one of them. "
                            "Empty: all."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "published",
                        "default": "",
                    },
                    "listener_conn_id": {
                        "description": (
                            "Airflow connection of type kafka through which the listener emits, and "
                            "airflow interlock reconcile unless it is told another."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": None,
                        "default": "kafka_default",
                    },
                    "listener_timeout": {
                        "description": (
                            "Seconds that a task's process, or a scheduler that stops, waits at most for the "
                            "broker to acknowledge what the listener tells. At most 15."
                        ),
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": None,
                        "default": "5",
                    },
                    "resume_margin": {
                        "description": (
                            "Seconds over [workers] min_heartbeat_interval between a deferral and the "
                            "resumption of its task, for the scheduler to take note of the deferral. "
                            "Raise it where Airflow fails resumed tasks with `state mismatch`. At most 300."
                        ),
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": None,
                        "default": "5",
                    },
                },
            }
        },
    }
