"""`SparkSubmitEventOperator`: submits a Spark application and tells how it ended, by its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowTaskTimeout

from ..events.emitter import Emitter
from ..events.errors import EventError, InterlockError
from ..spark.completion.application import Application
from ..spark.completion.outcome import Failure, redacted
from ..spark.completion.report import Report, reports_in
from ..spark.settings import (
    BOOTSTRAP,
    BUS,
    CLIENT_FILE,
    DATA,
    EVENTS,
    NAME,
    REPORTS,
    RESERVED,
    STARTED,
    client_file,
)
from ..triggers.settings import DEFAULT_CONNECTION, bus_config
from .identity import event_id

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.config import BusConfig

_HERE: Final = ("file", "local")  # schemes of URIs that name a file of this machine
_KILL_S: Final = 10.0
_EXIT_CODE: Final = "Error code is:"  # the provider's words, behind the whole command line
_WRAPPER: Final = Path(__file__).parents[1] / "spark" / "__main__.py"


class SparkSubmitEventOperator(SparkSubmitOperator):
    """A SparkSubmitOperator whose application's end is an event on the bus, whatever ended it.

    completion: the event's subject; by default `name`. Templated. completion_data: members of its data, JSON;
        templated. events: what is told beside the end, as `spark.interlock.events`. started: tell the start
        too. wrap: run an application in Python in the wrapper, which tells ids, what was written, queries and
        streaming queries; without it, and for other applications, the event has what this task knows.
    kafka_conn_id, bus, delivery_timeout: as of EmitEventOperator. The driver reads the connection from a file
        that only its user can read; nothing of it is on a command line.
    required: fail the task when an event was not acknowledged, as it does for a block that requires its own.
        A retry submits the application again.

    The application failed if spark-submit says so, or a block of `completion_event` in it did; one event for
    `completion`, and one for each block of another name. A task that is killed with its worker tells nothing.
    In cluster deploy mode the driver is elsewhere: it tells nothing, and this task all it knows. Other
    arguments are those of SparkSubmitOperator.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "completion", "completion_data")
    template_fields_renderers: ClassVar[dict[str, str]] = {"completion_data": "json"}

    def __init__(
        self,
        *,
        completion: str | None = None,
        completion_data: Mapping[str, Any] | None = None,
        events: str = "write,streaming",
        started: bool = False,
        wrap: bool = True,
        required: bool = False,
        kafka_conn_id: str = DEFAULT_CONNECTION,
        bus: str | None = None,
        delivery_timeout: float = 30.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if isinstance(completion_data, Mapping):  # another task's output is known when the task runs
            _check(completion_data, self.task_id)
        self.completion = completion
        self.completion_data = completion_data
        self.events = events
        self.started = started
        self.wrap = wrap
        self.required = required
        self.kafka_conn_id = kafka_conn_id
        self.bus = bus
        self.delivery_timeout = delivery_timeout

    def execute(self, context: Context) -> Any:
        _check(self.completion_data or {}, self.task_id)
        config = bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)
        with TemporaryDirectory(prefix="interlock-") as folder:
            if not self._is_cluster_mode():
                self._prepare(Path(folder), config)
            try:
                result = super().execute(context)
            except AirflowTaskTimeout as error:
                self._end_driver()  # Airflow does so as well, later: what was told would not be the end
                self._tell(context, config, Path(folder), error)
                raise
            except BaseException as error:
                self._tell(context, config, Path(folder), error)
                raise
            self._tell(context, config, Path(folder), None)
            return result

    def _end_driver(self) -> None:
        self.on_kill()
        process = None if self._hook is None else self._hook._submit_sp
        if process is not None:
            with suppress(TimeoutExpired):  # then it is told all the same
                process.wait(_KILL_S)

    def _is_cluster_mode(self) -> bool:
        return self._get_hook()._connection.get("deploy_mode") == "cluster"

    def _prepare(self, folder: Path, config: BusConfig) -> None:
        """What the driver needs: settings, the client's properties in a file, the wrapper."""
        client = folder / "client.properties"
        client.touch(mode=0o600)
        client.write_text(client_file(config.client))
        ours = {
            BOOTSTRAP: "",  # nothing of spark-defaults.conf goes before the file
            BUS: config.name,
            CLIENT_FILE: str(client),
            EVENTS: self.events or "none",
            NAME: self._subject(),
            REPORTS: str(folder),
            STARTED: str(self.started).lower(),
        }
        data = {f"{DATA}{name}": str(value) for name, value in (self.completion_data or {}).items()}
        self.conf = {**data, **(self.conf or {}), **ours}
        if not (self.wrap and self.application.endswith(".py")):
            return
        scheme, colon, path = self.application.partition(":")
        if not colon or scheme in _HERE:
            job = f"/{path.lstrip('/')}" if colon else self.application
            self.application_args = [job, *(self.application_args or ())]
            self.application = str(_WRAPPER)
        else:  # spark-submit fetches the application that it is given, and would not fetch an argument
            self.log.warning(
                "%s is run without the wrapper, which runs files of this machine: its event has what this"
                " task knows, and queries are not told",
                self.application,
            )

    def _subject(self) -> str:
        return self.completion or self.name

    def _tell(self, context: Context, config: BusConfig, folder: Path, error: BaseException | None) -> None:
        """The outcome of each report, or of the application where there is none."""
        failed = None if error is None else _failure(error)
        ti = context["ti"]
        task = {
            "dag_id": ti.dag_id,
            "run_id": ti.run_id,
            "task_id": ti.task_id,
            "try_number": ti.try_number,
            "map_index": ti.map_index,
        }
        fallback_id = f"{event_id(context, config.deployment)}/{ti.try_number}"
        reports = reports_in(folder) or [
            Report(self._subject(), Application(None, self.name, fallback_id=fallback_id))
        ]
        now = datetime.now(UTC)
        try:
            events = [
                replace(report, data={**(self.completion_data or {}), **report.data}, airflow=task).event(
                    report.failure or failed, now
                )
                for report in reports
            ]
            with Emitter(config.client, config.topic("event")) as emitter:
                for delivery in emitter.emit_all(events, timeout_s=self.delivery_timeout):
                    self.log.info("The end of the application was told: %s[%d]@%d", *delivery)
        except InterlockError as problem:
            if error is None and (self.required or any(report.required for report in reports)):
                raise
            self.log.warning("The end of the application was not told; its result stands: %s", problem)


def _failure(error: BaseException) -> Failure:
    """Of a task; without the command line, which is long and the author's, where spark-submit failed."""
    _, found, rest = str(error).partition(_EXIT_CODE)
    failure = Failure.of(error)
    return replace(failure, message=redacted(f"spark-submit: {_EXIT_CODE}{rest}")) if found else failure


def _check(data: object, task_id: str) -> None:
    what = f"completion_data of {task_id!r}"
    if not isinstance(data, Mapping):
        raise EventError(f"{what} is a {type(data).__name__}: give a mapping of names to values")
    if taken := sorted(RESERVED & data.keys()):
        raise EventError(f"{what} has {', '.join(taken)}: Interlock's names; choose others")
