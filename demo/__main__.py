"""`make demo`: runs and checks the main use case on a real broker, Airflow and Spark.

The last line of output is a JSON object.
Environment: KEEP=1 keeps everything running afterwards until Ctrl-C. FAULT=<name> makes something go wrong.
FAULT=a+b has both faults in one story; FAULT=a,,b plays three stories, two at a time: one with each fault
and one without. DEMO_DIR is the folder for topics, logs, data and reports (.build/demo); each start empties
it, so it must be new, empty, or made by the demo. DEMO_PORT is the UI's port (default: a free one). Exit
code: 0 if all checks pass; 1, with the reason, if a check fails or a part does not start; 130 on Ctrl-C.
Always stops everything that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import Any

import httpx
from interlock.events.errors import InterlockError
from interlock.plugin.broker import LocalBroker
from interlock.plugin.broker.java import find_java

from local import spark_conf
from local.airflow import MIGRATED, LocalAirflow, free_port
from local.processes import ServiceError
from local.rest import RestError

from . import check, timeline
from .evidence import ACTION_TOPIC, gather
from .feed import RatesFeed
from .folder import FolderError, own_folder
from .progress import ProgressPrinter, complain
from .readers import ReportReaders
from .story import DAGS, FAULTS, NONE, Fault, Story, StoryError, business_dates, together

ROOT = Path(__file__).resolve().parent.parent
ACKNOWLEDGED_S = 10.0  # how long to wait for the acknowledgement, which follows the resumed task
# Stories at a time: each runs Spark jobs, and two of them keep two cores busy.
SIDE_BY_SIDE = 2


class DemoError(RuntimeError):
    """The demo cannot run as asked; the message is one sentence for the user."""


def main() -> int:
    # SIGTERM acts like Ctrl-C, so that every `finally` runs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    progress = ProgressPrinter()
    try:
        faults = _chosen_faults(os.environ.get("FAULT", ""))
        folder = Path(os.environ.get("DEMO_DIR") or ROOT / ".build" / "demo").resolve()
        with own_folder(folder):
            return _run(folder, faults, os.environ.get("KEEP", "") not in ("", "0"), progress)
    except KeyboardInterrupt:
        complain("demo: stopped by Ctrl-C; nothing is left running")
        return 130
    except (
        DemoError,
        FolderError,
        StoryError,
        ServiceError,
        RestError,
        InterlockError,
        httpx.HTTPError,
        OSError,
    ) as error:
        complain(f"demo: {error}")
        return 1


def _run(folder: Path, faults: Sequence[Fault], keep: bool, progress: ProgressPrinter) -> int:
    for fault in faults:
        if fault is not NONE:
            progress.plain(f"FAULT={fault.name}: {fault.description}")
    os.environ["JDK_JAVA_OPTIONS"] = spark_conf.jvm_options()  # the broker inherits it
    broker = LocalBroker(folder / "broker", port=free_port(), report=progress.say)
    readers = ReportReaders()
    airflow = LocalAirflow(
        folder / "airflow",
        ROOT / "dags_examples",
        connections={
            "kafka_default": {
                "conn_type": "kafka",
                "extra": {"bootstrap.servers": f"127.0.0.1:{broker.port}"},
            },
            "spark_default": {"conn_type": "spark", "host": "local[1]"},
            "report_readers": readers.connection,
        },
        variables={"interlock_examples_data": str(folder / "data")},
        settings={("interlock", "delivery_networks"): "127.0.0.0/8"},
        environment=spark_conf.write(folder / "spark"),
        port=int(os.environ.get("DEMO_PORT") or 0),
        migrated=MIGRATED,
    )
    feed = RatesFeed(airflow, folder / "feed", folder / "data")
    try:
        with readers:
            _start(broker, airflow, feed, progress)
            verdicts = _play(broker, airflow, feed, readers, faults, folder / "data", progress)
            summary = json.dumps(_summary(verdicts, progress))
            if keep:
                progress.plain(summary)
                _keep_up(airflow, broker, progress)
    finally:
        _stop(broker, airflow, progress)
    if not keep:
        progress.plain(summary)
    return 1 if any(verdict.problems for verdict in verdicts.values()) else 0


def _start(broker: LocalBroker, airflow: LocalAirflow, feed: RatesFeed, progress: ProgressPrinter) -> None:
    find_java()  # what is missing is said before anything starts
    airflow.require_port()
    progress.say("starting a Kafka broker, and creating Airflow's database")
    with ThreadPoolExecutor(max_workers=1) as pool:
        database = pool.submit(airflow.prepare)
        broker.start()
        progress.say(f"broker up at {broker.bootstrap_servers}")
        _until_done(database, "for Airflow's database", progress)
        airflow.start()
        progress.say("starting Airflow: API server, scheduler, DAG processor, triggerer")
        topics = pool.submit(airflow.cli, "interlock", "topics", "create")
        began = time.monotonic()
        _until_done(topics, "for the topics", progress)
        created = topics.result()
        if created.returncode:
            raise DemoError(f"airflow interlock topics create failed:\n{created.stdout.strip()[-2000:]}")
        progress.say("created the topics of the bus `interlock`; starting a receiver of events over HTTP")
        feed.start()
    airflow.wait_ready(meanwhile=lambda: progress.waiting("for Airflow"))
    airflow.api.wait_for_dags(*DAGS)
    feed.receiver.wait_ready(meanwhile=lambda: progress.waiting("for the receiver"))
    progress.say(f"Airflow up at {airflow.url} ({time.monotonic() - began:.0f} s)")


def _until_done(future: Any, what: str, progress: ProgressPrinter) -> None:
    while not future.done():
        progress.waiting(what)
        time.sleep(0.1)
    future.result()


def _play(
    broker: LocalBroker,
    airflow: LocalAirflow,
    feed: RatesFeed,
    readers: ReportReaders,
    faults: Sequence[Fault],
    data: Path,
    progress: ProgressPrinter,
) -> dict[str, check.DemoVerdict]:
    """Plays a story for each fault, two at a time and on their own dates. Returns {fault's name: verdict}."""
    ended = threading.Event()

    def check_services() -> None:
        airflow.processes.check()
        if ended.is_set():
            raise StoryError("stopped")

    stories = [
        Story(
            airflow.new_client(),
            broker.bootstrap_servers,
            feed,
            fault,
            business_dates(number, fault),
            progress,
            check_services,
        )
        for number, fault in enumerate(faults)
    ]
    with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
        plays = [pool.submit(story.play) for story in stories]
        try:
            for future in as_completed(plays):
                future.result()
        finally:
            ended.set()
    progress.say(f"checking topics, runs and reports ({ACTION_TOPIC}, REST API, {data})")
    known = [day for story in stories for day in story.dates]
    verdicts = {}
    for story in stories:
        verdict = _judge(broker, airflow, readers, data, story.dates, known)
        verdicts[story.fault.name] = verdict
        _print(verdict, progress)
    return verdicts


def _judge(
    broker: LocalBroker,
    airflow: LocalAirflow,
    readers: ReportReaders,
    data: Path,
    dates: Sequence[date],
    known: Sequence[date],
) -> check.DemoVerdict:
    deadline = time.monotonic() + ACKNOWLEDGED_S
    while True:
        announced = readers.announced  # read before the topic, which then has the event of each of them
        evidence = gather(airflow.api, broker.bootstrap_servers, data, announced, dates, known)
        verdict = check.judge(evidence)
        # The last records and deliveries may still be on their way. A missing report will not come: so do not
        # wait for more than the announcements of the existing ones.
        is_over = verdict.missing and verdict.announced == verdict.reports
        if not verdict.problems or is_over or time.monotonic() > deadline:
            return verdict
        time.sleep(0.5)


def _print(verdict: check.DemoVerdict, progress: ProgressPrinter) -> None:
    progress.plain()
    for line in timeline.lines(verdict.waits):
        progress.plain(line)
    progress.plain()
    for problem in verdict.problems:
        complain(f"demo: {problem}")


def _summary(verdicts: Mapping[str, check.DemoVerdict], progress: ProgressPrinter) -> dict[str, Any]:
    """Returns the totals of all stories; of several stories also the counts of each, by its fault's name."""
    total: dict[str, Any] = {"reports": 0, "duplicates": 0, "missing": 0, "announced": 0, "resume_ms": []}
    for verdict in verdicts.values():
        for name in total:
            total[name] += getattr(verdict, name)
    total["seconds"] = round(progress.elapsed_s, 1)
    if len(verdicts) > 1:
        total["stories"] = {
            name or "none": {"reports": v.reports, "duplicates": v.duplicates, "missing": v.missing}
            for name, v in verdicts.items()
        }
    return total


def _keep_up(airflow: LocalAirflow, broker: LocalBroker, progress: ProgressPrinter) -> None:
    progress.plain(f"Everything keeps running.  UI: {airflow.url}")
    progress.plain(f"  login: {airflow.login.user}  password: {airflow.login.password}")
    progress.plain(f"  broker: {broker.bootstrap_servers}   files and logs: {airflow.home.parent}")
    progress.plain("  Ctrl-C stops everything.")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            airflow.processes.check()
            time.sleep(1.0)


def _stop(broker: LocalBroker, airflow: LocalAirflow, progress: ProgressPrinter) -> None:
    # A second Ctrl-C must not interrupt this; stopping has its own time limits.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    progress.say("stopping everything")
    try:
        airflow.stop()
    finally:
        broker.stop()
    progress.say("stopped everything")


def _chosen_faults(names: str) -> list[Fault]:
    return [_chosen_fault(each) if each else NONE for each in names.split(",")]


def _chosen_fault(names: str) -> Fault:
    for name in names.split("+"):
        if name not in FAULTS:
            raise DemoError(f"unknown FAULT={name}; choose among {', '.join(FAULTS)}")
    return together(names)


if __name__ == "__main__":
    sys.exit(main())
