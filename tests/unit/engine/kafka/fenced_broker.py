"""Brokers that answer requests for metadata only, and have no topic.

A fenced one is a broker whose controller has just fenced all brokers of the cluster, e.g. because they were
suspended. It answers the first request with itself as only broker and controller, and later ones with an
empty list of brokers.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

API_VERSIONS, METADATA = 18, 3
HIGHEST_METADATA = 8  # the last version before the one with compact forms
UNKNOWN_TOPIC, UNSUPPORTED_VERSION = 3, 35


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    is_fenced = fences = False
    answers = True

    def __init__(self, creatable: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.creatable = creatable

    def port(self) -> int:
        """The only broker's port; if it fences only the first time, then 0."""
        fenced, self.is_fenced = self.is_fenced, self.fences
        return 0 if fenced else int(self.server_address[1])


class _Connection(socketserver.StreamRequestHandler):
    """Answers two requests of the protocol: https://kafka.apache.org/protocol#The_Messages_Metadata."""

    def handle(self) -> None:
        while size := self.rfile.read(4):
            request = self.rfile.read(struct.unpack(">i", size)[0])
            api, version, number, client = struct.unpack_from(">hhih", request)
            if api == API_VERSIONS:
                answer = _versions(UNSUPPORTED_VERSION if version else 0)
            else:
                assert isinstance(self.server, _Server)
                names, may_create = _asked(request[10 + max(client, 0) :])
                if may_create:
                    self.server.creatable += [name[2:].decode() for name in names]
                answer = _metadata(names if self.server.answers else [], self.server.port())
            answer = struct.pack(">i", number) + answer
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


def _versions(error: int) -> bytes:
    served = ((API_VERSIONS, 0), (METADATA, HIGHEST_METADATA))
    return struct.pack(">hi", error, len(served)) + b"".join(
        struct.pack(">hhh", api, 0, highest) for api, highest in served
    )


def _asked(body: bytes) -> tuple[list[bytes], bool]:
    """The names of topics, with their lengths, and whether the broker may create those that are missing."""
    names, at = [], 4
    for _ in range(max(struct.unpack_from(">i", body)[0], 0)):
        end = at + 2 + struct.unpack_from(">h", body, at)[0]
        names.append(body[at:end])
        at = end
    return names, bool(body[at])


def _metadata(names: list[bytes], port: int) -> bytes:
    """port: of the only broker; 0 if all are fenced."""
    host = b"127.0.0.1"
    broker = struct.pack(f">ih{len(host)}sih", 1, len(host), host, port, -1) if port else b""
    topics = (struct.pack(">h", UNKNOWN_TOPIC) + name + struct.pack(">bii", 0, 0, 0) for name in names)
    return b"".join(
        [
            struct.pack(">ii", 0, bool(port)) + broker,  # throttle_time_ms, brokers
            struct.pack(">hi", -1, 1 if port else -1),  # no cluster id, controller
            struct.pack(">i", len(names)) + b"".join(topics),
            struct.pack(">i", 0),  # authorized operations
        ]
    )


@contextmanager
def fenced_broker() -> Iterator[str]:
    """Starts it; yields its address."""
    with broker_without_topics(fences=True) as servers:
        yield servers


@contextmanager
def broker_without_topics(
    creatable: list[str] | None = None, *, fences: bool = False, answers: bool = True
) -> Iterator[str]:
    """Starts it; yields its address.

    creatable: gets the names that it was asked for and allowed to create. answers: whether it names the
    topics that it was asked for, as Kafka does.
    """
    with _Server([] if creatable is None else creatable) as server:
        server.fences, server.answers = fences, answers
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
