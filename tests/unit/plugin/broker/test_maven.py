"""Jars come from a Maven repository without Maven or PySpark; a repository that fails ends the fetch."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from interlock.plugin.broker import BrokerError, maven
from interlock.plugin.broker.jars import class_path
from tenacity import wait_none


class Repository(ThreadingHTTPServer):
    """A Maven repository on 127.0.0.1 of two jars, g.a:a:1 (b"a") and g.b:b:2 (b"b")."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = {"/g/a/a/1/a-1.jar": b"a", "/g/b/b/2/b-2.jar": b"b"}
        self.requests: Counter[str] = Counter()
        self.busy: Counter[str] = Counter()  # by path: how often it is answered with 503 first
        self.behaviour = ""
        self.released = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Repository

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        server = self.server
        server.requests[self.path] += 1
        if server.behaviour == "silent":
            server.released.wait(60)
            return
        if server.behaviour == "endless":
            self.send_response(200)
            self.end_headers()
            try:
                while not server.released.is_set():
                    self.wfile.write(b"." * 1024)
            except OSError:
                return
        if server.busy[self.path]:
            server.busy[self.path] -= 1
            self.send_error(503)
        elif (content := server.files.get(self.path)) is None:
            self.send_error(404)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            # A connection that breaks in the middle: half of what was announced.
            self.wfile.write(content[: len(content) // 2] if server.behaviour == "cut" else content)


@pytest.fixture
def repository() -> Iterator[Repository]:
    server = Repository()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven, "wait_exponential", lambda **_: wait_none())


@pytest.fixture
def checksums(tmp_path: Path) -> Path:
    lines = [f"{hashlib.sha512(n.encode()).hexdigest()}  g.{n}:{n}:{v}" for n, v in (("a", 1), ("b", 2))]
    file = tmp_path / "list.sha512"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "not there" / "kafka"


def test_the_jars_are_fetched_by_their_coordinates_verified_and_kept(
    repository: Repository, checksums: Path, cache: Path
) -> None:
    lines: list[str] = []
    class_path(lines.append, cache, checksums, repository=repository.address)
    assert {file.name: file.read_bytes() for file in cache.iterdir()} == {"a-1.jar": b"a", "b-2.jar": b"b"}
    assert lines[1:] == ["  2 of 2 jars", f"Verified 2 jars and stored them in {cache}."]
    class_path(lines.append, cache, checksums, repository=repository.address)
    assert set(repository.requests.values()) == {1}
    assert len(lines) == 3


def test_a_busy_repository_is_tried_again(repository: Repository, checksums: Path, cache: Path) -> None:
    repository.busy["/g/b/b/2/b-2.jar"] = maven.TRIES - 1
    class_path(print, cache, checksums, repository=repository.address)
    assert repository.requests["/g/b/b/2/b-2.jar"] == maven.TRIES


def test_a_jar_that_the_repository_lacks_is_named_and_not_tried_again(
    repository: Repository, checksums: Path, cache: Path
) -> None:
    del repository.files["/g/a/a/1/a-1.jar"]
    with pytest.raises(BrokerError, match=r"Maven Central: 404 Not Found \(.*/g/a/a/1/a-1\.jar\)\. Check"):
        class_path(print, cache, checksums, repository=repository.address)
    assert repository.requests["/g/a/a/1/a-1.jar"] == 1
    assert [f.name for f in cache.parent.iterdir()] == ["kafka.lock"]


@pytest.mark.parametrize(
    ("behaviour", "limit", "reason"),
    [
        ("silent", "SILENCE_S", r"no answer for 0\.2 s"),
        ("endless", "FETCH_TIMEOUT_S", r"not done in 0\.2 s"),
        ("cut", None, "peer closed connection|Content-Length|incomplete"),
    ],
)
def test_a_fetch_that_hangs_never_ends_or_breaks_off_is_abandoned(
    repository: Repository,
    checksums: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
    limit: str | None,
    reason: str,
) -> None:
    repository.behaviour = behaviour
    repository.files = {path: content * 100 for path, content in repository.files.items()}
    if limit is not None:
        monkeypatch.setattr(maven, limit, 0.2)
    with pytest.raises(BrokerError, match=f"Maven Central: .*({reason}).* Check the network"):
        class_path(print, cache, checksums, repository=repository.address)
    assert not cache.exists()


def test_a_repository_that_nobody_serves_is_a_reason_to_check_the_network(
    checksums: Path, cache: Path
) -> None:
    with pytest.raises(BrokerError, match=r"cannot be fetched from Maven Central: .*Check the network"):
        class_path(print, cache, checksums, repository="http://127.0.0.1:9")
    assert not cache.exists()


def test_a_fetched_jar_with_a_wrong_checksum_is_not_kept(
    repository: Repository, checksums: Path, cache: Path
) -> None:
    repository.files["/g/b/b/2/b-2.jar"] = b"x"
    with pytest.raises(BrokerError, match=r"not those of Kafka .*: wrong SHA-512: b-2\.jar\. Try again"):
        class_path(print, cache, checksums, repository=repository.address)
    assert not cache.exists()


def test_an_interrupted_fetch_ends_all_its_downloads(
    repository: Repository, checksums: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> Iterator[object]:
        raise KeyboardInterrupt
        yield

    repository.behaviour = "endless"
    monkeypatch.setattr(maven, "as_completed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        class_path(print, cache, checksums, repository=repository.address)
    assert not [each for each in threading.enumerate() if each.name.startswith("fetch-jars")]
    assert not cache.exists()
