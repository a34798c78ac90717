"""Each way of securing a connection on a real listener, what is refused, and that no secret shows."""

from __future__ import annotations

import base64
import logging
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from interlock import Event, event
from interlock.engine.config import BusConfig
from interlock.engine.errors import ConfigError, UnreachableError
from interlock.engine.kafka.clients import client_log
from interlock.engine.kafka.reachability import require_answer
from interlock.engine.kafka.topics import check, create
from interlock.engine.records import Registration
from interlock.engine.runtime.runtime import Runtime
from interlock.engine.waiting.notices import Notice
from interlock.engine.waiting.waits import FiringForWait
from interlock.events import Emitter
from interlock.events.errors import EmitError

from tests.kit.certificates import Authority
from tests.kit.listeners import Listeners, listeners
from tests.kit.tokens import LIFETIME_S

from .conftest import Bench

# A handshake that takes too long on a busy machine ends the engine, which starts again: restarts are allowed.
CANARY = "canary-"  # begins every secret of this module
PASSWORD, WRONG = f"{CANARY}password", f"{CANARY}wrong"
CLIENT_SECRET, PASSPHRASE = f"{CANARY}client-secret", f"{CANARY}passphrase"
MECHANISMS = ("TLS", "MTLS", "SCRAM", "OAUTH")


class Log(logging.Handler):
    """Every line of every logger, errors with their traces."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(scope="module", autouse=True)
def log() -> Iterator[Log]:
    kept, root = Log(), logging.getLogger()
    level, filters = root.level, client_log.filters
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    client_log.filters = []  # lines repeated within a minute count as well
    yield kept
    client_log.filters = filters
    root.setLevel(level)
    root.removeHandler(kept)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    with listeners(tmp_path_factory.mktemp("site"), {"worker": CLIENT_SECRET}) as running:
        running.set_scram_secret("triggerer", PASSWORD)
        running.authority.issue("triggerer", passphrase=PASSPHRASE)
        yield running


def client(site: Listeners, listener: str, secret: str | None = None, **more: str) -> dict[str, str]:
    """The properties of a client that a listener lets in; `secret`: another than the right one."""
    own = {
        "MTLS": {
            "ssl_certificate_location": str(site.folder / "triggerer.pem"),
            "ssl_key_location": str(site.folder / "triggerer-key.pem"),
            "ssl_key_password": secret or PASSPHRASE,
        },
        "SCRAM": {"sasl_username": "triggerer", "sasl_password": secret or PASSWORD},
        "OAUTH": {
            "sasl_oauthbearer_client_id": "worker",
            "sasl_oauthbearer_client_secret": secret or CLIENT_SECRET,
        },
    }
    return site.client(listener, **own.get(listener, {}), **more)


@pytest.mark.parametrize("listener", MECHANISMS)
def test_a_bus_is_made_and_checked_and_a_wait_fires_through_the_listener(
    site: Listeners, listener: str, unique_name: Callable[[str], str], eventually: Any
) -> None:
    config = BusConfig(name=unique_name("bus"), client=client(site, listener))
    create(config, partitions=2)
    check(config)
    bench = Bench(config, 2, eventually)
    with bench.stack, bench.engine(allow_restarts=True), bench.waiting() as open_wait:
        wait = open_wait("w", event("x"))
        bench.emit("x")
        assert wait.firing().action.subscription == "w"


@pytest.mark.long
def test_tokens_that_a_signer_makes_for_msk_let_engine_waits_and_emitter_in(
    site: Listeners, unique_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    def sign(_region: str) -> tuple[str, int]:
        return site.tokens.token("worker"), (int(time.time()) + LIFETIME_S) * 1000

    signer = SimpleNamespace(MSKAuthTokenProvider=SimpleNamespace(generate_auth_token=sign))
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", signer)
    named = f"b-1.demo.abcde1.c2.kafka.us-east-1.amazonaws.com:9098,{site.at('OAUTH')}"
    properties = {
        "bootstrap.servers": named,  # nobody is called by the first of them here
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(site.authority.file),
        "sasl.mechanism": "OAUTHBEARER",
    }
    config = BusConfig(name=unique_name("bus"), client=properties)
    create(config, partitions=1)
    bench = Bench(config, 1, eventually)
    with bench.stack, bench.engine(allow_restarts=True), bench.waiting() as open_wait:
        wait = open_wait("w", event("x"))
        emit_with(properties, config.topic("event"))
        assert wait.firing().action.subscription == "w"


# -- what is refused


class Waiting:
    """A runtime with one open wait, and the notices of its task; stopped by `stack`."""

    def __init__(self, config: BusConfig, stack: ExitStack, subscription: str, event_type: str) -> None:
        self.subscription, self.event_type = subscription, event_type
        self.notices: list[str | None] = []
        self.delivered: list[FiringForWait] = []
        self.runtime = Runtime(config)
        self.runtime.start()
        stack.callback(self.runtime.stop)  # nothing to do where it was stopped before
        self.open()

    def open(self) -> None:
        self.runtime.waits.open(Registration.of(self.subscription, event(self.event_type), None, 0), self)

    def __call__(self, item: FiringForWait | Notice) -> None:
        if isinstance(item, Notice):
            self.notices.append(item.text)
        else:
            self.delivered.append(item)

    def last_notice(self, words: str) -> str | None:
        """The last notice, if these words are in it."""
        last = self.notices[-1] if self.notices else None
        return last if last and re.search(words, last) else None


IN_BOTH_TIERS = (
    "another authority",
    "a wrong password",
    "a wrong client secret",
    "no TLS where it is wanted",
)
REFUSALS = {
    "another authority": r"certificate is refused, (self-signed certificate|unable to get)",
    "another host's certificate": r"certificate is refused, .*not valid for '127\.0\.0\.1'",
    "an expired certificate": r"certificate is refused, certificate has expired",
    "no client certificate": r"alert (bad certificate|certificate required)",
    "a wrong password": r"Authentication failed",
    "a wrong client secret": r"OAUTHBEARER token: .*invalid_client",
    "a token endpoint of another authority": r"OAUTHBEARER token: .*unable to get local issuer",
    "no TLS where it is wanted": r"they may require TLS",
}


@pytest.fixture(scope="module")
def refused(request: pytest.FixtureRequest, site: Listeners, eventually: Any) -> dict[str, Waiting]:
    """A waiting task for each case of this run, with its notices; stopped, since each tries again for ever.

    They wait at the same time: it takes a client 10 s to give up.
    """
    stranger = str(Authority(site.folder, "stranger").file)
    clients = {
        "another authority": site.client("TLS", ssl_ca_location=stranger),
        "another host's certificate": site.client("OTHERNAME"),
        "an expired certificate": site.client("EXPIRED"),
        "no client certificate": site.client("MTLS"),
        "a wrong password": client(site, "SCRAM", secret=WRONG),
        "a wrong client secret": client(site, "OAUTH", secret=WRONG),
        "a token endpoint of another authority": client(site, "OAUTH", https_ca_location=stranger),
        "no TLS where it is wanted": site.client("TLS", security_protocol="PLAINTEXT"),
    }
    if request.config.option.markexpr == "not long":
        clients = {what: clients[what] for what in IN_BOTH_TIERS}
    create(BusConfig(name="refused", client=site.client("PLAINTEXT")), partitions=2)
    with ExitStack() as stack, ThreadPoolExecutor(len(clients)) as pool:  # they stop together
        tasks = {
            what: Waiting(BusConfig(name="refused", client=properties), stack, what, "x")
            for what, properties in clients.items()
        }
        for what, task in tasks.items():
            eventually(f"{what}: the task gets a notice", lambda task=task: task.notices)
        list(pool.map(lambda task: task.runtime.stop(), tasks.values()))
    return tasks


@pytest.mark.parametrize(
    "what",
    [what if what in IN_BOTH_TIERS else pytest.param(what, marks=pytest.mark.long) for what in REFUSALS],
)
def test_the_waiting_task_sees_why_the_connection_is_refused(what: str, refused: dict[str, Waiting]) -> None:
    notices = refused[what].notices
    assert notices[0] is not None
    assert re.search(REFUSALS[what], notices[0]), notices


def test_nobody_gets_through_by_another_way(
    site: Listeners, refused: dict[str, Waiting], eventually: Any
) -> None:
    """What is refused is not tried again with less security: no wait of theirs is ever registered."""
    bench = Bench(BusConfig(name="refused", client=site.client("PLAINTEXT")), 2, eventually)
    registered = [(record.key or b"").decode() for record in bench.records("subscription")]
    incarnations = [Registration.of(what, event("x"), None, 0).incarnation for what in refused]
    assert [key for key in registered if any(one in key for one in incarnations)] == []
    assert [what for what, task in refused.items() if None in task.notices] == []


@pytest.mark.parametrize(
    ("listener", "name", "value"),
    [
        ("EXPIRED", "enable.ssl.certificate.verification", "false"),
        ("OTHERNAME", "ssl.endpoint.identification.algorithm", "none"),
    ],
)
def test_a_check_is_off_only_where_the_administrator_names_it(
    site: Listeners, listener: str, name: str, value: str
) -> None:
    properties = site.client(listener) | {name: value}
    with pytest.raises(ConfigError, match=rf"sets {name}: .*\[interlock\] allowed_client_properties"):
        BusConfig(client=properties)
    require_answer(BusConfig(client=properties, allowed_client_properties=frozenset({name})))


# -- rotation


@pytest.fixture
def rotated(
    site: Listeners, unique_name: Callable[[str], str], eventually: Any
) -> Iterator[tuple[Waiting, Callable[..., BusConfig]]]:
    """(A wait, the bus as its user reaches it with a given password).

    The wait was registered; then the user's password was changed at the broker, and the task got a notice.
    """
    name = unique_name("rotated")
    site.set_scram_secret(name, f"{CANARY}first")

    def reached_with(password: str) -> BusConfig:
        properties = client(site, "SCRAM") | {"sasl.username": name, "sasl.password": password}
        return BusConfig(name=name, client=properties)

    create(BusConfig(name=name, client=site.client("PLAINTEXT")), partitions=2)
    with ExitStack() as stack:
        task = Waiting(reached_with(f"{CANARY}first"), stack, "before", "before")
        emit(site, name, "before")
        eventually("the wait fires", lambda: task.delivered)
        # On a busy machine one of the reauthentications may come too late, and the engine begins again.
        task.notices.clear()
        task.delivered.clear()
        task.subscription = task.event_type = "after"
        task.open()
        site.set_scram_secret(name, f"{CANARY}second")
        eventually("the task gets a notice", lambda: task.last_notice("Authentication failed"))
        yield task, reached_with


def emit(site: Listeners, bus: str, event_type: str) -> None:
    with Emitter(site.client("PLAINTEXT"), f"{bus}-event") as emitter:
        emitter.emit(Event.of(event_type, "/test"))


@pytest.mark.long
def test_a_rotated_password_is_reported_and_the_wait_continues_with_the_mended_connection(
    site: Listeners, rotated: Any, eventually: Any
) -> None:
    task, reached_with = rotated
    emit(site, task.runtime.config.name, "after")
    task.runtime.use(reached_with(f"{CANARY}second"))
    eventually("the wait fires", lambda: task.delivered)


@pytest.mark.long
def test_a_wait_continues_by_itself_when_its_password_is_right_again(
    site: Listeners, rotated: Any, eventually: Any
) -> None:
    task, _ = rotated
    emit(site, task.runtime.config.name, "after")
    site.set_scram_secret(task.runtime.config.name, f"{CANARY}first")
    eventually("the wait fires", lambda: task.delivered)
    eventually("the task gets the notice that all is well", lambda: task.notices[-1] is None)


# -- secrets


def test_no_secret_is_in_any_log_notice_error_or_repr(
    site: Listeners,
    refused: dict[str, Waiting],
    log: Log,
    capfd: pytest.CaptureFixture[str],
    unique_name: Callable[[str], str],
    eventually: Any,
) -> None:
    shown_texts: list[str | None] = []

    def fails(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> None:
        with pytest.raises(kind) as raised:
            call()
        shown_texts.extend((repr(raised.value), *traceback.format_exception(raised.value)))

    for listener in MECHANISMS:
        name = unique_name("secrets")
        config = BusConfig(name=name, client=client(site, listener, debug="security,conf,feature"))
        create(config, partitions=1)
        bench = Bench(config, 1, eventually)
        with bench.stack, bench.engine(allow_restarts=True), bench.waiting() as open_wait:
            bench.emit("x")
            open_wait("w", event("x")).firing()
        runtime = Runtime(config)
        shown_texts += [repr(config), str(config), config.describe(), repr(runtime), repr(bench)]
    for listener in ("SCRAM", "OAUTH"):
        wrong = client(site, listener, secret=WRONG, debug="security,conf,feature")
        fails(UnreachableError, lambda wrong=wrong: require_answer(BusConfig(client=wrong), timeout_s=1))
        fails(EmitError, lambda wrong=wrong: emit_with(wrong))
    spoilt = [
        client(site, "MTLS", secret=WRONG),
        *(client(site, "TLS") | {name: WRONG} for name in ("ssl.key.pem", "ssl.ca.pem", "debug", "oauth_cb")),
        *(client(site, "SCRAM") | {name: WRONG} for name in ("sasl.jaas.config", "security.protocol")),
    ]
    for properties in spoilt:
        fails(ConfigError, lambda properties=properties: require_answer(BusConfig(client=properties)))
        fails(EmitError, lambda properties=properties: emit_with(properties))
    fails(ConfigError, lambda: BusConfig(client=client(site, "TLS") | {"sasl.kerberos.kinit.cmd": WRONG}))
    extra = {"bootstrap.servers": "x:1", "sasl.password": {"value": PASSWORD}}
    fails(
        ConfigError, lambda: BusConfig.from_extra(extra, name="b", deployment="d", connection="kafka_default")
    )
    for task in refused.values():
        shown_texts += task.notices
    out, err = capfd.readouterr()
    everything = "\n".join((*map(str, shown_texts), *log.lines, out, err))
    encoded = base64.b64encode(f"worker:{CLIENT_SECRET}".encode()).decode()
    shown = [secret for secret in (CANARY, encoded, *site.tokens.given) if secret in everything]
    assert shown == [], [line for line in everything.splitlines() if any(s in line for s in shown)][:5]
    # The capture works: these words come from the client's own debugging, the broker's answer and the log.
    assert all(words in everything for words in ("SASL", "Authentication failed", "invalid_client", "SSL"))


def emit_with(properties: dict[str, str], topic: str = "nowhere") -> None:
    with Emitter(properties, topic) as emitter:
        emitter.emit(Event.of("x", "/test"), timeout_s=1 if topic == "nowhere" else 30)
