"""A broker whose controller has just fenced all brokers of the cluster, e.g. because they were suspended.

It answers the first request for metadata with itself as only broker and controller, and later ones with an
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
    is_fenced = False

    def port(self) -> int:
        """The only broker's port the first time; then 0."""
        fenced, self.is_fenced = self.is_fenced, True
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
                answer = _metadata(request[10 + max(client, 0) :], self.server.port())
            answer = struct.pack(">i", number) + answer
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


def _versions(error: int) -> bytes:
    served = ((API_VERSIONS, 0), (METADATA, HIGHEST_METADATA))
    return struct.pack(">hi", error, len(served)) + b"".join(
        struct.pack(">hhh", api, 0, highest) for api, highest in served
    )


def _metadata(body: bytes, port: int) -> bytes:
    """port: of the only broker; 0 if all are fenced."""
    names, at = [], 4
    for _ in range(max(struct.unpack_from(">i", body)[0], 0)):
        end = at + 2 + struct.unpack_from(">h", body, at)[0]
        names.append(body[at:end])
        at = end
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
    with _Server(("127.0.0.1", 0), _Connection) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
