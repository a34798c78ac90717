"""Reads section `[interlock]` of Airflow's configuration, and the bus of an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ..engine.config import BusConfig
from ..engine.errors import ConfigError
from .connections import read_connection

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from ..engine.delivery.addresses import Network

DEFAULT_CONNECTION = "kafka_default"
SECTION = "interlock"
RECEIVER = "receiver_in_api_server"  # the option that `receiver_connection` reads
PAGE = "page_connections"  # the option that `page_connections` reads
KINDS = ("dag_run", "task_instance")  # of completion events
MAX_LISTENER_TIMEOUT_S = 15.0  # Airflow kills a process 20 s after its task has ended
MAX_RESUME_MARGIN_S = 300.0
MAX_DELIVERIES_IN_TRIGGERER = 1000
_MAX_HOURS = timedelta.max / timedelta(hours=1)


@dataclass(frozen=True)
class InterlockSettings:
    """Settings of the section; the defaults are those in the provider info."""

    bus: str = "interlock"
    deployment: str = "airflow"
    lookback: timedelta = timedelta(hours=24)
    allowed_client_properties: frozenset[str] = frozenset()


def settings() -> InterlockSettings:
    """Reads the section. Raises ConfigError for an invalid value."""
    from airflow.sdk.configuration import conf

    hint = "a number of hours, 0 or more"
    hours = _number("lookback_hours", "24", lambda hours: 0 <= hours < _MAX_HOURS, hint)
    allowed = conf.get(SECTION, "allowed_client_properties", fallback="")
    return InterlockSettings(
        bus=conf.get(SECTION, "bus", fallback=InterlockSettings.bus),
        deployment=conf.get(SECTION, "deployment", fallback=InterlockSettings.deployment),
        lookback=timedelta(hours=hours),
        allowed_client_properties=frozenset(_items(allowed)),
    )


def _number(name: str, default: str, is_valid: Callable[[float], bool], hint: str) -> float:
    """Reads a number of the section. Raises ConfigError with the hint if it is not valid."""
    from airflow.sdk.configuration import conf

    text = conf.get(SECTION, name, fallback=default)
    with suppress(ValueError):
        if is_valid(number := float(text)):
            return number
    raise ConfigError(f"[interlock] {name} = {text!r}: give {hint}.")


@dataclass(frozen=True)
class ListenerSettings:
    """Which completion events the listener emits, and how; see docs/use/events.md.

    kinds: of KINDS; empty: no listener. dags: (pattern, whether it excludes). connection: to emit with.
    timeout_s: how long an ending process waits for the broker.
    """

    kinds: frozenset[str] = frozenset()
    dags: tuple[tuple[str, bool], ...] = ()
    tags: frozenset[str] = frozenset()
    connection: str = DEFAULT_CONNECTION
    timeout_s: float = 5.0

    def wants(self, dag_id: str, tags: Callable[[], Collection[str]]) -> bool:
        """Returns whether events of a DAG are emitted. tags: called only if the result depends on them."""
        included = [pattern for pattern, excludes in self.dags if not excludes]
        if included and not any(fnmatchcase(dag_id, pattern) for pattern in included):
            return False
        if any(excludes and fnmatchcase(dag_id, pattern) for pattern, excludes in self.dags):
            return False
        return not self.tags or not self.tags.isdisjoint(tags())

    def describe(self) -> str:
        """Which events are emitted, of which DAGs: "dag_run and task_instance events of all DAGs"."""
        kinds = " and ".join(kind for kind in KINDS if kind in self.kinds)
        included = [pattern for pattern, excludes in self.dags if not excludes]
        excluded = [pattern for pattern, excludes in self.dags if excludes]
        dags = f"DAGs {', '.join(included)}" if included else "all DAGs"
        dags += f" except {', '.join(excluded)}" if excluded else ""
        dags += f" with one of the tags {', '.join(sorted(self.tags))}" if self.tags else ""
        return f"{kinds} events of {dags}"


def listener_settings() -> ListenerSettings:
    """Reads the listener's settings. Raises ConfigError for an invalid value."""
    from airflow.sdk.configuration import conf

    hint = f"seconds, above 0 and at most {MAX_LISTENER_TIMEOUT_S:g}"
    timeout_s = _number("listener_timeout", "5", lambda s: 0 < s <= MAX_LISTENER_TIMEOUT_S, hint)
    return ListenerSettings(
        kinds=kinds_of(conf.get(SECTION, "listener", fallback=""), "[interlock] listener"),
        dags=patterns_of(conf.get(SECTION, "listener_dags", fallback="")),
        tags=tags_of(conf.get(SECTION, "listener_tags", fallback="")),
        connection=conf.get(SECTION, "listener_conn_id", fallback=DEFAULT_CONNECTION),
        timeout_s=timeout_s,
    )


def receiver_connection() -> str:
    """Returns the connection with which the API server writes events that come by HTTP; "": it takes none."""
    from airflow.sdk.configuration import conf

    connection: str = conf.get(SECTION, RECEIVER, fallback="")
    return connection.strip()


def page_connections() -> tuple[str, ...]:
    """Returns the connections whose buses the page shows, the default first; none: there is no page."""
    from airflow.sdk.configuration import conf

    return tuple(dict.fromkeys(_items(conf.get(SECTION, PAGE, fallback=DEFAULT_CONNECTION))))


@dataclass(frozen=True)
class DeliverySettings:
    """Settings of deliveries to HTTP services.

    networks: those that deliveries may reach although they are not public. in_triggerer: how many deliveries
    a triggerer makes at a time; 0: it makes none.
    """

    networks: tuple[Network, ...] = ()
    in_triggerer: int = 16


def delivery_settings() -> DeliverySettings:
    """Reads the settings of deliveries. Raises ConfigError for an invalid value."""
    from ipaddress import ip_network

    from airflow.sdk.configuration import conf

    networks = conf.get(SECTION, "delivery_networks", fallback="")
    try:
        allowed = tuple(map(ip_network, _items(networks)))
    except ValueError as e:
        raise ConfigError(
            f"[interlock] delivery_networks = {networks!r}: {e}; give networks such as 10.0.0.0/8, separated "
            "by commas."
        ) from None
    most = MAX_DELIVERIES_IN_TRIGGERER
    hint = f"a whole number, 0 to {most}"
    slots = _number("deliveries_in_triggerer", "16", lambda n: 0 <= n <= most and n == int(n), hint)
    return DeliverySettings(allowed, int(slots))


def kinds_of(text: str, what: str) -> frozenset[str]:
    """Returns the kinds of completion events in a comma-separated text. Raises ConfigError for others."""
    kinds = frozenset(_items(text))
    if kinds - set(KINDS):
        raise ConfigError(f"{what} = {text!r}: give {' or '.join(KINDS)}, or both separated by a comma.")
    return kinds


def patterns_of(text: str) -> tuple[tuple[str, bool], ...]:
    """Returns the patterns of DAG ids in a comma-separated text; a leading `!` excludes."""
    return tuple((each.removeprefix("!").strip(), each.startswith("!")) for each in _items(text))


def tags_of(text: str) -> frozenset[str]:
    return frozenset(_items(text))


def _items(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def resume_floor() -> timedelta:
    """Returns the least time between a deferral and the resumption of its task (ADR 6).

    Airflow notices the end of the deferring process up to `[workers] min_heartbeat_interval` late, and fails
    a task that is running again by then: apache/airflow#72716, #71580. Raises ConfigError if `resume_margin`
    is invalid.
    """
    from airflow.sdk.configuration import conf

    hint = f"seconds, 0 to {MAX_RESUME_MARGIN_S:g}"
    margin_s = _number("resume_margin", "5", lambda s: 0 <= s <= MAX_RESUME_MARGIN_S, hint)
    return timedelta(seconds=conf.getint("workers", "min_heartbeat_interval", fallback=5) + margin_s)


def bus_config(connection: Connection, bus: str | None = None, deployment: str | None = None) -> BusConfig:
    """Returns the bus of a kafka connection. Raises ConfigError if the connection is not usable.

    bus, deployment: None for the values in the section.
    """
    if connection.conn_type and connection.conn_type != "kafka":
        raise ConfigError(
            f"Connection {connection.conn_id!r} has type {connection.conn_type!r}; give one of type 'kafka'."
        )
    default = settings()
    extra, allowed = connection.extra_dejson, default.allowed_client_properties
    if not isinstance(extra, dict):  # JSON of another kind, such as an object that was encoded twice
        raise ConfigError(
            f"The extra of connection {connection.conn_id!r} is not a JSON object; give one, "
            'such as {"bootstrap.servers": "broker:9092"}.'
        )
    callback = extra.get("oauth_cb")
    if isinstance(callback, str) and callback in _trusted_callbacks():
        allowed |= {"oauth_cb"}
    return BusConfig.from_extra(
        extra,
        name=bus or default.bus,
        deployment=deployment or default.deployment,
        connection=connection.conn_id,
        allowed_client_properties=allowed,
    )


def _trusted_callbacks() -> frozenset[str]:
    """Returns the callbacks that an administrator allows in connections, for Airflow's Kafka hooks too."""
    from airflow.sdk.configuration import conf

    allowed = conf.get("apache_kafka", "callback_allowlist", fallback="") or ""
    return frozenset(_items(allowed))


async def read_bus_config(conn_id: str, bus: str, deployment: str) -> BusConfig:
    """Returns the bus of an Airflow connection. For triggerers; the connection may be seconds old.

    Raises UnreadableError if it could not be read, which a retry may solve, and ConfigError if the connection
    is not usable.
    """
    return bus_config(await read_connection(conn_id), bus=bus, deployment=deployment)
