"""Serves the receiver with uvicorn: one process, or several on one port."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import ssl
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..engine.config import BusConfig
from ..engine.errors import ConfigError, UnreachableError
from ..engine.kafka.event_producer import EventProducer
from ..engine.kafka.reachability import require_answer
from ..engine.log import log
from . import cloudevents, openlineage
from .app import Observe, Receiver, RequestLimits
from .credentials import Credentials
from .credentials_document import Document, is_loopback
from .endpoint import Endpoint, Senders
from .handshake import check_origins
from .webhooks.endpoint import Webhook

MOST_PORT: Final = 65_535
DELIVERY_S: Final = 10.0
PROBE_S: Final = 15.0  # between two checks whether the cluster answers
PROBE_AGAIN_S: Final = 1.0  # the same while it does not
# Longer than a body and its delivery may take together, so that the process answers each request first.
GRACE_S: Final = int(RequestLimits().body_s + DELIVERY_S) + 5
KEEP_ALIVE_S: Final = 75  # above the 60 s of most proxies, so that the proxy closes first
# How soon a worker process must answer its parent, which kills it otherwise. On a busy machine a worker still
# imports Airflow after uvicorn's 5 s: it would be killed and started again for ever.
ANSWER_S: Final = 120

# New objects that start a garbage collection; Python's default is 700. Eight batches of 100 events in flight
# hold about so many, and need no collection: a request leaves no cycles behind. A connection that ends in its
# TLS handshake leaves one of ten objects, so a thousand of those wait for a collection, in a few megabytes.
_YOUNG_OBJECTS: Final = 10_000


@dataclass(frozen=True)
class ReceiverOptions:
    """Where the receiver listens, and who may write: the arguments of `airflow interlock receiver`."""

    host: str = "127.0.0.1"
    port: int = 8085
    workers: int = 1
    credentials: str | None = None
    webhooks: str | None = None
    allow_anonymous: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    allow_origin: list[str] | None = None

    def check(self, document: Document | None) -> None:
        """Raises ConfigError if this could not be served, or would let anybody write.

        document: the document of `credentials`.
        """
        if self.credentials is None and not self.allow_anonymous and not is_loopback(self.host):
            raise ConfigError(
                f"On {self.host} anybody who reaches this machine could write events. Give --credentials"
                " FILE, or --allow-anonymous if only those who may write can reach it."
            )
        if not 0 <= self.port <= MOST_PORT:  # the resolver would take the rest of a division
            raise ConfigError(f"--port {self.port} is no port: give a number up to {MOST_PORT}.")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("Give --tls-cert and --tls-key together.")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ConfigError("--tls-client-ca needs --tls-cert and --tls-key.")
        by_certificate = [] if document is None else document.by_certificate
        if by_certificate and self.tls_client_ca is None:
            raise ConfigError(
                f"Credential {by_certificate[0]!r} has a client_cert: give --tls-client-ca FILE."
            )
        if self.tls_client_ca is not None and not by_certificate:
            raise ConfigError("--tls-client-ca has no effect: no credential has a client_cert.")
        check_origins(self.allow_origin or [])
        for path in filter(None, (self.tls_cert, self.tls_key, self.tls_client_ca)):
            if not Path(path).is_file():
                raise ConfigError(f"There is no file {path}.")
        if self.tls_cert is not None:
            self._check_certificate(self.tls_cert)

    def _check_certificate(self, certificate: str) -> None:
        """Loads what uvicorn is going to load.

        A process that cannot load it ends with a stack only, and one of several is started again for ever.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without a pass phrase OpenSSL would ask for it on the terminal.
            context.load_cert_chain(certificate, self.tls_key, password="")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"--tls-cert {certificate} and --tls-key {self.tls_key} cannot be used: {error}. Give a"
                " certificate chain in PEM, and its private key in PEM without a pass phrase."
            ) from None
        if self.tls_client_ca is None:
            return
        try:
            context.load_verify_locations(self.tls_client_ca)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"--tls-client-ca {self.tls_client_ca} cannot be used: {error}. Give certificates in PEM."
            ) from None


def endpoints(
    options: ReceiverOptions, senders: Senders, webhooks: Iterable[Webhook] = ()
) -> dict[str, Endpoint]:
    """Every endpoint by its path."""
    made: dict[str, Endpoint] = {
        cloudevents.PATH: cloudevents.CloudEvents(senders, options.allow_origin or ())
    }
    made |= openlineage.endpoints(senders)
    return made | {webhook.path: webhook for webhook in webhooks}


def build_app(
    config: BusConfig,
    options: ReceiverOptions,
    document: Document | None,
    observe: Observe,
    webhooks: Iterable[Webhook] = (),
) -> Callable[..., Any]:
    """The app of one process, whose lifespan opens and closes its producer.

    document: see `ReceiverOptions.check`.
    """
    if (options.credentials is None) != (document is None):
        raise ValueError("give the document that options.credentials names, and none if it names none")
    credentials = Credentials(document, config.name, is_open=options.allow_anonymous)
    receiver = Receiver(endpoints(options, credentials, webhooks), observe=observe)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(config, receiver, receive, send)
        else:
            await receiver(scope, receive, send)

    return app


def serve(app: Callable[..., Any] | str, options: ReceiverOptions) -> None:
    """Serves until a signal. app: with several workers the import path of the function that makes it."""
    import uvicorn

    uvicorn.run(app, factory=isinstance(app, str), **uvicorn_settings(options))


def uvicorn_settings(options: ReceiverOptions) -> dict[str, Any]:
    """The arguments of uvicorn's Config."""
    from .connection import Connection

    return {
        "host": options.host,
        "port": options.port,
        "workers": options.workers,
        "ssl_certfile": options.tls_cert,
        "ssl_keyfile": options.tls_key,
        "ssl_ca_certs": options.tls_client_ca,
        # A certificate that is sent must be valid. Probes, and senders with tokens, send none.
        "ssl_cert_reqs": ssl.CERT_NONE if options.tls_client_ca is None else ssl.CERT_OPTIONAL,
        "loop": f"{__package__}.loop:new_loop",
        "http": Connection,
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": GRACE_S,
        "timeout_worker_healthcheck": ANSWER_S,
    }


def end_with_parent() -> None:
    """Makes this worker process end as at SIGTERM when the process that started it has ended.

    Else workers would keep the port after their parent was killed, and the next receiver could not start.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="interlock-parent", daemon=True).start()


def _collect_rarely() -> None:
    """Makes garbage collections rare in this process, and short: they leave out what exists now.

    Only for a process of the receiver's own. Of what exists now, no cycle would ever be collected later.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])


async def _lifespan(config: BusConfig, receiver: Receiver, receive: Any, send: Any) -> None:
    from .connection import Connection, reserve_connections

    await receive()  # lifespan.startup
    Connection.most_connections = reserve_connections()
    try:
        loop = asyncio.get_running_loop()
        producer = await asyncio.to_thread(EventProducer, config, loop, DELIVERY_S)
    except (ConfigError, UnreachableError) as error:
        await send({"type": "lifespan.startup.failed", "message": str(error)})
        return
    _collect_rarely()
    receiver.writer = producer
    probe = asyncio.create_task(_probe(config, receiver))
    await send({"type": "lifespan.startup.complete"})
    await receive()  # lifespan.shutdown: no request is left
    receiver.writer = None
    probe.cancel()
    with suppress(asyncio.CancelledError):
        await probe
    await asyncio.to_thread(producer.close)
    await send({"type": "lifespan.shutdown.complete"})


async def _probe(config: BusConfig, receiver: Receiver) -> None:
    """Checks regularly whether the cluster answers, for /readyz."""
    answers = [False]
    receiver.is_ready = lambda: answers[0]
    while True:
        try:
            await asyncio.to_thread(require_answer, config, PROBE_S / 3)
            answers[0] = True
        except (ConfigError, UnreachableError) as error:  # Config: a certificate file is being replaced
            if answers[0]:
                log.warning("receiver: %s", error)
            answers[0] = False
        except Exception:  # noqa: BLE001  # else readiness would stay as it was, for ever
            if answers[0]:
                log.exception("receiver: the check whether Kafka answers failed")
            answers[0] = False
        await asyncio.sleep(PROBE_S if answers[0] else PROBE_AGAIN_S)
