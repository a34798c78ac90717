"""`SparkSubmitEventOperator`: submits a Spark application and emits its completion event."""

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
from jinja2 import UndefinedError

from ..events.attributes import kind, shown
from ..events.content import serialize
from ..events.emitter import Emitter
from ..events.errors import EventError, InterlockError
from ..events.plain_text import own, plain_text
from ..events.visible import visible
from ..spark.completion.application import Application
from ..spark.completion.outcome import Failure, redacted
from ..spark.completion.report import Report, reports_in
from ..spark.settings import (
    BOOTSTRAP,
    BUS,
    CLIENT_FILE,
    DATA,
    EVENTS,
    KINDS,
    NAME,
    REPORTS,
    RESERVED,
    STARTED,
    CompletionError,
    client_file_text,
    kinds_of,
)
from ..triggers.argument_checks import ArgumentChecks, without_outputs
from ..triggers.settings import DEFAULT_CONNECTION, bus_config
from .identity import event_id
from .templates import check_defined, environment_of, gave_nothing, instead_of_undefined, is_missing

if TYPE_CHECKING:
    from airflow.sdk import Context

    from ..engine.config import BusConfig

_LOCAL_SCHEMES: Final = ("file", "local")  # URI schemes of files on this machine
_KILL_S: Final = 10.0
_DEPLOY_MODE: Final = "spark.submit.deployMode"
# {beginning of the master: the setting by which spark-submit waits in cluster mode, its default}
_WAITS: Final = {
    "yarn": ("spark.yarn.submit.waitAppCompletion", "true"),
    "k8s": ("spark.kubernetes.submission.waitAppCompletion", "true"),
    "spark": ("spark.standalone.submit.waitAppCompletion", "false"),
}
_EXIT_CODE: Final = "Error code is:"  # in the provider's error message, after the whole command line
_WRAPPER: Final = Path(__file__).parents[1] / "spark" / "__main__.py"


class SparkSubmitEventOperator(SparkSubmitOperator):
    """A SparkSubmitOperator that emits a completion event when its application ends, for whatever reason.

    completion: the event's subject; default: `name`. Templated. completion_data: members of its data, JSON
        values; templated. events: which other events are emitted, as `spark.interlock.events`. started: emit
        an event at the start too. wrap: run a Python application in the wrapper, which adds ids and written
        data to the event and emits events of queries and streaming queries. Without it, and for other
        applications, the event contains what this task knows.
    kafka_conn_id, bus, delivery_timeout: as for EmitEventOperator. The driver reads the connection from a
        file that only its user can read; no part of it is on a command line.
    required: fail the task if an event was not acknowledged, as `completion_event(required=True)`
        does. A retry submits the application again.

    The application failed if spark-submit fails, or a block of `completion_event` in it fails. Emits one
    event for `completion`, and one for each block with another name. A task that is killed with its worker
    emits nothing. In cluster deploy mode the driver runs elsewhere and emits nothing; the event contains what
    this task knows. Other arguments are those of SparkSubmitOperator.
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
        super().__init__(**plain_text(kwargs))
        completion, completion_data, events = map(own, (completion, completion_data, events))
        kafka_conn_id, bus = plain_text(kafka_conn_id), plain_text(bus)
        checks = ArgumentChecks(f"SparkSubmitEventOperator {self.task_id!r}", self.template_fields)
        checks.text("completion", completion, "the subject of the event", none=True)
        if completion_data is not None and not checks.is_unknown("completion_data", completion_data):
            _check_completion_data(completion_data, self.task_id)
        checks.text("application", self.application, "the path or URI of the application", most=100_000)
        checks.text("name", self.name, "the application's name", most=100_000)
        if not checks.is_unknown("conf", self.conf) and not _is_settings(self.conf):
            checks.fail("conf", self.conf, "a dict of Spark's settings, whose names are texts")
        args = self.application_args
        if args is not None and not checks.is_unknown("application_args", args):
            if not isinstance(args, (list, tuple)):
                checks.fail("application_args", args, "a list of texts")
            for each in args:
                if not isinstance(each, str) and not checks.is_unknown("application_args", each):
                    checks.fail("application_args", each, "a list of texts")
        for argument, given in (
            ("completion", completion),
            ("completion_data", completion_data),
            ("application", self.application),
            ("name", self.name),
            ("conf", self.conf),
            ("application_args", args),
        ):
            checks.templates(argument, given, environment_of(self))
        checks.text("events", events, f"any of {', '.join(sorted(KINDS))}, or none", empty=True)
        try:
            kinds_of(events)
        except CompletionError as e:
            raise ValueError(f"{checks.who}: events: {e}") from None
        for name, value in (("started", started), ("wrap", wrap), ("required", required)):
            checks.flag(name, value)
        checks.connection(kafka_conn_id)
        checks.name_of("bus", bus)
        checks.delivery_timeout(delivery_timeout)
        # Which argument is the subject, and its template: the arguments are rendered in place.
        self._subject_from = ("completion", completion) if completion else ("name", self.name)
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
        self._check_rendered()
        _check_completion_data(self.completion_data or {}, self.task_id)
        config = bus_config(BaseHook.get_connection(self.kafka_conn_id), bus=self.bus)
        self._check_waits()
        with TemporaryDirectory(prefix="interlock-") as folder:
            if not self._is_cluster_mode():
                self._prepare(Path(folder), config)
            try:
                result = super().execute(context)
            except AirflowTaskTimeout as error:
                self._end_driver()  # it must end before its event; Airflow would end it later
                self._emit(context, config, Path(folder), error)
                raise
            except BaseException as error:
                self._emit(context, config, Path(folder), error)
                raise
            self._emit(context, config, Path(folder), None)
            return result

    def _check_rendered(self) -> None:
        """Raises EventError if a template gave nothing: an event with the subject "None" meets no wait."""
        who = f"SparkSubmitEventOperator {self.task_id!r}"
        try:
            check_defined([self.completion, self.completion_data, self.name])
        except UndefinedError as error:
            raise EventError(f"{who}: {error}. {instead_of_undefined(error)}") from error
        argument, written = self._subject_from
        if is_missing(written, getattr(self, argument)):
            raise EventError(gave_nothing(who, [argument]))

    def _end_driver(self) -> None:
        """Kills spark-submit, and waits up to _KILL_S for its end."""
        self.on_kill()
        process = None if self._hook is None else self._hook._submit_sp
        if process is not None:
            with suppress(TimeoutExpired):  # emit the event anyway
                process.wait(_KILL_S)

    def _is_cluster_mode(self) -> bool:
        mode = self._get_hook()._connection.get("deploy_mode") or (self.conf or {}).get(_DEPLOY_MODE)
        return bool(mode == "cluster")

    def _check_waits(self) -> None:
        """Raises EventError if the task would end when the application is submitted: its event would be
        false."""
        hook, conf = self._get_hook(), self.conf or {}
        # The provider sees the mode of the argument and of the connection only.
        tracks = hook._should_track_driver_status or hook._should_track_driver_via_k8s_api()
        tracks = tracks or hook._should_track_yarn_application_via_rm_api()
        master = str(hook._connection["master"])
        waits, default = next((_WAITS[each] for each in _WAITS if master.startswith(each)), ("", "true"))
        if self._is_cluster_mode() and not tracks and str(conf.get(waits, default)).lower() == "false":
            remedy = 'the argument deploy_mode="cluster"' if default == "false" else f"{waits} to true"
            raise EventError(
                f"SparkSubmitEventOperator {self.task_id!r}: in cluster mode with these settings spark-submit"
                " ends before the application does, so its end is not known here. Set"
                f" {remedy}, or use SparkSubmitOperator and emit the event in the application"
            )

    def _prepare(self, folder: Path, config: BusConfig) -> None:
        """Prepares what the driver needs: settings, a file with the client's properties, the wrapper."""
        client = folder / "client.properties"
        client.touch(mode=0o600)
        client.write_text(client_file_text(config.client), encoding="utf-8")
        ours = {
            BOOTSTRAP: "",  # a value in spark-defaults.conf must not override the file
            BUS: config.name,
            CLIENT_FILE: str(client),
            EVENTS: self.events or "none",
            NAME: self._subject(),
            REPORTS: str(folder),
            STARTED: str(self.started).lower(),
        }
        given = self.completion_data or {}
        data = {f"{DATA}{name}": _setting(value) for name, value in given.items() if value is not None}
        self.conf = {**data, **(self.conf or {}), **ours}
        if not (self.wrap and self.application.endswith(".py")):
            return
        scheme, colon, path = self.application.partition(":")
        if not colon or scheme in _LOCAL_SCHEMES:
            job = f"/{path.lstrip('/')}" if colon else self.application
            self.application_args = [job, *(self.application_args or ())]
            self.application = str(_WRAPPER)
        else:  # spark-submit fetches the application from its URI, but not an argument
            self.log.warning(
                "%s runs without the wrapper, which needs a file on this machine: its event contains only"
                " what this task knows, and no events of queries are emitted",
                visible(self.application),
            )

    def _subject(self) -> str:
        return self.completion or self.name

    def _emit(self, context: Context, config: BusConfig, folder: Path, error: BaseException | None) -> None:
        """Emits an event for each report of the driver, or for the application if there is no report."""
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
                    self.log.info("Emitted the application's completion event to %s[%d]@%d", *delivery)
        except InterlockError as problem:
            if error is None and (self.required or any(report.required for report in reports)):
                raise
            self.log.warning(
                "The application's completion event was not emitted. This does not change the result of the "
                "task: %s",
                visible(problem),
            )


def _failure(error: BaseException) -> Failure:
    """Returns the failure of a task. If spark-submit failed, without its command line, which is long."""
    _, found, rest = str(error).partition(_EXIT_CODE)
    failure = Failure.of(error)
    return replace(failure, message=redacted(f"spark-submit: {_EXIT_CODE}{rest}")) if found else failure


def _setting(value: object) -> str:
    """Returns the value as text, in JSON unless it is one: "true", as events have it, not "True"."""
    return value if isinstance(value, str) else serialize(value, None).decode()


def _is_settings(conf: object) -> bool:
    return conf is None or (isinstance(conf, Mapping) and all(isinstance(name, str) for name in conf))


def _check_completion_data(data: object, task_id: str) -> None:
    """Raises EventError for what is no mapping of names to JSON values, or cannot be on a command line."""
    what = f"completion_data of {task_id!r}"
    if not isinstance(data, Mapping):
        raise EventError(f"{what} is {kind(data)}: give a mapping of names to values")
    if not all(isinstance(name, str) for name in data):
        raise EventError(f"{what} has a name that is not a text: give a mapping of names to values")
    if wrong := [name for name in data if not name or "=" in name or name != name.strip()]:
        raise EventError(  # it becomes the name of a setting on spark-submit's command line
            f"{what} has the name {shown(wrong[0])}: give names without '=' and without blanks around them"
        )
    try:
        serialize(without_outputs(data), None)
    except EventError as e:
        raise EventError(f"{what}: {e}") from None
    if any("\0" in text for item in data.items() for text in map(str, item)):
        raise EventError(f"{what} contains NUL, which no command line can have: leave it out")
    if reserved := sorted(RESERVED & data.keys()):
        raise EventError(f"{what} contains names that Interlock uses: {', '.join(reserved)}; choose others")
