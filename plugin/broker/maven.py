"""Downloads jars from Maven Central, several at once.

Needs neither Maven nor Ivy: a checksum file names every jar, so no dependencies are resolved.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from .errors import BrokerError

FETCH_TIMEOUT_S = 900.0
SILENCE_S = 30.0  # also how long Ctrl-C may take while a connection hangs
TRIES = 3
_PARALLEL = 6
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses after which another try may succeed

Report = Callable[[str], None]


@dataclass(frozen=True)
class Jar:
    """One jar: Maven coordinates and expected SHA-512 (hex)."""

    group: str
    artifact: str
    version: str
    sha512: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def central() -> str:
    """Returns the address of Maven Central."""
    from maven_artifact import Downloader  # here, because it brings an XML parser, and jars are fetched once

    return str(Downloader().resolver.base)


def fetch(jars: Sequence[Jar], folder: Path, report: Report, repository: str | None = None) -> None:
    """Downloads all jars into `folder`; does not verify them.

    repository: address of a Maven repository; default: Maven Central.
    Raises BrokerError if a jar cannot be fetched. By then all other downloads have stopped.
    """
    base = central() if repository is None else repository
    deadline = time.monotonic() + FETCH_TIMEOUT_S
    stop = threading.Event()
    with (
        httpx.Client(follow_redirects=True, timeout=SILENCE_S) as client,
        ThreadPoolExecutor(_PARALLEL, thread_name_prefix="fetch-jars") as pool,
    ):
        try:
            running = [
                pool.submit(_fetch, client, _address(jar, base), folder / jar.name, stop, deadline)
                for jar in jars
            ]
            for done, each in enumerate(as_completed(running), 1):
                each.result()
                if done % 10 == 0 or done == len(jars):
                    report(f"  {done} of {len(jars)} jars")
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _address(jar: Jar, base: str) -> str:
    from maven_artifact import Artifact

    return str(Artifact(jar.group, jar.artifact, jar.version).with_resolved_version(jar.version).uri(base))


def _fetch(client: httpx.Client, url: str, file: Path, stop: threading.Event, deadline: float) -> None:
    def pause(seconds: float) -> None:
        stop.wait(seconds)

    tries = Retrying(
        retry=retry_if_exception(_is_temporary),
        stop=stop_after_attempt(TRIES),
        wait=wait_exponential(max=8),
        sleep=pause,
        reraise=True,
    )
    try:
        tries(_download, client, url, file, stop, deadline)
    except httpx.TimeoutException as error:
        raise _cannot_fetch(f"no answer for {SILENCE_S:g} s ({url})") from error
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise _cannot_fetch(f"{status} {error.response.reason_phrase} ({url})") from error
    except httpx.HTTPError as error:
        raise _cannot_fetch(f"{error or type(error).__name__} ({url})") from error


def _is_temporary(error: BaseException) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in _TEMPORARY
    return isinstance(error, httpx.TransportError)


def _download(client: httpx.Client, url: str, file: Path, stop: threading.Event, deadline: float) -> None:
    with client.stream("GET", url) as response, file.open("wb") as opened:
        response.raise_for_status()
        for chunk in response.iter_bytes():
            if stop.is_set():
                raise _cannot_fetch("it was interrupted")
            if time.monotonic() > deadline:
                raise _cannot_fetch(f"not done in {FETCH_TIMEOUT_S:g} s")
            opened.write(chunk)


def _cannot_fetch(why: str) -> BrokerError:
    return BrokerError(
        f"The broker's jars cannot be fetched from Maven Central: {why}. "
        "Check the network and its settings (HTTPS_PROXY; SSL_CERT_FILE for the certificates of a proxy)."
    )
