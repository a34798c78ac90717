"""The `[interlock]` section of Airflow's configuration, and the bus behind an Airflow connection."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ..engine.config import BusConfig
from ..engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow.sdk import Connection

DEFAULT_CONNECTION = "kafka_default"
SECTION = "interlock"


@dataclass(frozen=True)
class Settings:
    """What the section says, with the defaults that the provider info declares."""

    bus: str = "interlock"
    deployment: str = "airflow"
    lookback: timedelta = timedelta(hours=24)
    allowed_client_properties: frozenset[str] = frozenset()


def settings() -> Settings:
    """Read the section; ConfigError names a value that does not fit."""
    from airflow.sdk.configuration import conf

    text = conf.get(SECTION, "lookback_hours", fallback="24")
    try:
        lookback = timedelta(hours=float(text))
        if lookback < timedelta(0):
            raise ValueError
    except (ValueError, OverflowError):
        raise ConfigError(
            f"[interlock] lookback_hours = {text!r}: give a number of hours, 0 or more."
        ) from None
    allowed = conf.get(SECTION, "allowed_client_properties", fallback="")
    return Settings(
        bus=conf.get(SECTION, "bus", fallback=Settings.bus),
        deployment=conf.get(SECTION, "deployment", fallback=Settings.deployment),
        lookback=lookback,
        allowed_client_properties=frozenset(name.strip() for name in allowed.split(",") if name.strip()),
    )


def resume_floor() -> timedelta:
    """How long after a deferral its task must not be resumed (ADR 6).

    Airflow notices the end of the deferring process up to `[workers] min_heartbeat_interval` late, and fails
    a task that is running again by then: apache/airflow#72716, #71580.
    """
    from airflow.sdk.configuration import conf

    return timedelta(seconds=conf.getint("workers", "min_heartbeat_interval", fallback=5) + 2)


def bus_config(connection: Connection, bus: str | None = None, deployment: str | None = None) -> BusConfig:
    """The bus behind a kafka connection; ConfigError tells what the connection lacks.

    `bus` and `deployment` None: as the section says.
    """
    if connection.conn_type and connection.conn_type != "kafka":
        raise ConfigError(
            f"Connection {connection.conn_id!r} is of type {connection.conn_type!r}; a bus needs 'kafka'."
        )
    default = settings()
    return BusConfig.from_extra(
        connection.extra_dejson,
        name=bus or default.bus,
        deployment=deployment or default.deployment,
        connection=connection.conn_id,
        allowed_client_properties=default.allowed_client_properties,
    )
