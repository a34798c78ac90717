"""The provider info that Airflow reads: name, settings and commands of this distribution.

Airflow checks it against its schema in every process, and an error here breaks every `airflow` command.
Import nothing here that takes time.
"""

from __future__ import annotations

from typing import Any


def _option(
    description: str, *, default: str = "", kind: str = "string", example: str | None = None
) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": example,
        "default": default,
    }


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
                    "bus": _option(
                        "Name of the bus: the prefix of its topics and of its consumer group.",
                        default="interlock",
                    ),
                    "deployment": _option(
                        "Name of this Airflow installation. It is part of the names of waits and of "
                        "event sources. Set it if several installations share a bus; `airflow interlock "
                        "doctor` reports two installations that use the same name.",
                        default="airflow",
                        example="finance",
                    ),
                    "lookback_hours": _option(
                        "How many hours before its logical date a wait with a key counts events. Events "
                        "older than the retention of the event topic are gone.",
                        default="24",
                        kind="float",
                    ),
                    "allowed_client_properties": _option(
                        "Kafka client properties, separated by commas, that connections may set although "
                        "they run a program, load a library, disable a certificate check, or accept "
                        "unsigned tokens or a token endpoint without https. Other properties of this "
                        "kind are refused.",
                        example="sasl.kerberos.kinit.cmd",
                    ),
                    "listener": _option(
                        "Which completion events Airflow emits by itself: dag_run, task_instance, or "
                        "both separated by a comma. Empty: no listener is registered.",
                        example="dag_run,task_instance",
                    ),
                    "listener_dags": _option(
                        "The listener emits events only for DAGs whose id matches one of these patterns, "
                        "separated by commas. A pattern that begins with ! excludes. Empty: all DAGs.",
                        example="ledger_*,!ledger_test*",
                    ),
                    "listener_tags": _option(
                        "The listener emits events only for DAGs that have one of these tags, separated "
                        "by commas. Empty: all DAGs.",
                        example="published",
                    ),
                    "listener_conn_id": _option(
                        "Airflow connection of type kafka that the listener uses, and the default for "
                        "airflow interlock reconcile.",
                        default="kafka_default",
                    ),
                    "listener_timeout": _option(
                        "How many seconds an ending task process or scheduler waits for the broker to "
                        "acknowledge the listener's events. At most 15.",
                        default="5",
                        kind="float",
                    ),
                    "receiver_in_api_server": _option(
                        "Airflow connection of type kafka with which the API server writes the events that "
                        "its users POST to /interlock/events. Empty: it takes none. docs/use/http.md says "
                        "who may write and what a request costs; airflow interlock receiver takes more.",
                        example="kafka_default",
                    ),
                    "page_connections": _option(
                        "Airflow connections of type kafka, separated by commas, whose buses the page "
                        "Interlock and the tab Wait in Airflow's UI show; the first is the default. Empty: "
                        "neither page nor tab. docs/use/page.md",
                        default="kafka_default",
                        example="kafka_default,kafka_eu",
                    ),
                    "delivery_networks": _option(
                        "Networks that deliveries to HTTP services may reach although they are private or "
                        "loopback, such as 10.0.0.0/8, separated by commas. Addresses of clouds' metadata "
                        "services are always refused. docs/use/deliver.md",
                        example="10.20.0.0/16,fd12::/64",
                    ),
                    "deliveries_in_triggerer": _option(
                        "How many deliveries to HTTP services a triggerer makes at a time, at most 1000. 0: "
                        "none, because airflow interlock deliver makes them.",
                        default="16",
                        kind="integer",
                    ),
                    "resume_margin": _option(
                        "A deferred task is resumed no earlier than [workers] min_heartbeat_interval "
                        "plus this many seconds after its deferral, so that the scheduler has seen the "
                        "deferral. Raise it if Airflow fails resumed tasks with `state mismatch`. At "
                        "most 300.",
                        default="5",
                        kind="float",
                    ),
                },
            }
        },
    }
