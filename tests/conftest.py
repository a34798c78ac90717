"""What all tests share: an Airflow home of their own, names that no other test uses, and a real broker.

The broker cannot be skipped: without Java 17 the tests that ask for it fail and say so.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from local.polling import poll
from local.spark_conf import jvm_options
from tests.kit.budget import Budget, read_budget
from tests.kit.commit import commit_number
from tests.kit.scheduling import GroupScheduling, is_computing, rank_of

if TYPE_CHECKING:
    from interlock.plugin.broker import LocalBroker

    from tests.kit.shared_broker import SharedBroker

# How long an example takes depends on how busy the machine is.
settings.register_profile("interlock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("interlock")

# Before anything imports Airflow, which reads its home once, at import: tests neither see nor change
# the home of whoever runs them.
_AIRFLOW_HOME = tempfile.mkdtemp(prefix="interlock-tests-airflow-")
os.environ["AIRFLOW_HOME"] = _AIRFLOW_HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "False"
# Brokers and Spark jobs of the tests live for seconds; benchmarks (`bench`) keep the JVM's defaults.
os.environ["JDK_JAVA_OPTIONS"] = jvm_options()


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its option
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(commit_number())
    if not hasattr(config, "workerinput"):  # the workers of a distributed run send their reports here
        tier = "long" if config.option.markexpr == "long" else "test"
        config.pluginmanager.register(Budget(read_budget(tier)))


_shared_broker: pytest.StashKey[SharedBroker] = pytest.StashKey()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called by pytest-xdist before it starts one of the processes of a distributed run."""
    config = node.config
    if all(is_computing(argument) for argument in config.args):
        return
    if _shared_broker not in config.stash:
        from tests.kit.shared_broker import SharedBroker

        config.stash[_shared_broker] = SharedBroker(Path(tempfile.mkdtemp(prefix="interlock-tests-broker-")))
    node.workerinput["broker"] = config.stash[_shared_broker].address


def pytest_unconfigure(config: pytest.Config) -> None:
    if shared := config.stash.get(_shared_broker, None):
        shared.stop()
        shutil.rmtree(shared.address[0], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank_of(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without collecting garbage, and leaves them out of later garbage collections.

    They live until the end, and each full collection would walk them all.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing is skipped silently: a run with a skipped test fails."""
    if _skipped(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if skipped := _skipped(config):
        terminalreporter.write_line(
            f"FAILED: {skipped} skipped; a test that cannot run here must fail and say what it lacks",
            red=True,
        )


def _skipped(config: pytest.Config) -> int:
    reporter = config.pluginmanager.getplugin("terminalreporter")  # a worker of a distributed run has none
    return 0 if reporter is None else len(reporter.stats.get("skipped", ()))


@pytest.fixture(scope="session", autouse=True)
def _own_airflow_home() -> Iterator[None]:
    yield
    shutil.rmtree(_AIRFLOW_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def unique_name() -> Callable[[str], str]:
    """Gives names for topics, groups and buses: `unique_name("orders")` is another one each time."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a line at once, past pytest's capture: for what takes long."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{text}", flush=True)

    return line


@pytest.fixture(scope="session")
def eventually() -> Callable[..., Any]:
    """`eventually("what is awaited", fact)` gives the first true value of `fact()`.

    The test fails when there is none within `deadline_s`, by default 180: on a machine that runs four tests
    at a time, what takes 5 s alone has taken 60.
    """

    def first_true(what: str, fact: Callable[[], Any], deadline_s: float = 180.0) -> Any:
        return poll(fact, deadline_s) or pytest.fail(f"not within {deadline_s:.0f} s: {what}")

    return first_true


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, say: Callable[[str], None]
) -> Iterator[LocalBroker]:
    """A running broker. Tests of all processes share it: use unique names, do not stop it."""
    from tests.kit.shared_broker import new_broker, running_elsewhere

    if address := getattr(request.config, "workerinput", {}).get("broker"):
        yield running_elsewhere(*address)
        return
    with new_broker(tmp_path_factory.mktemp("broker"), 0, say) as running:
        yield running


@pytest.fixture
def bootstrap_servers(broker: LocalBroker) -> str:
    """Where the session's broker answers."""
    return broker.bootstrap_servers
