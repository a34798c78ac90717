"""Two brokers: the first still loads its groups, the second lists a group of others.

Their answers have the oldest forms: https://kafka.apache.org/protocol#The_Messages_ListGroups.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

API_VERSIONS, METADATA, DESCRIBE_GROUPS, LIST_GROUPS = 18, 3, 15, 16
SERVED = {API_VERSIONS: 0, METADATA: 4, DESCRIBE_GROUPS: 0, LIST_GROUPS: 0}  # {API: highest version}
LOADING, UNSUPPORTED_VERSION = 14, 35


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    ports: tuple[int, ...] = ()
    is_loading = False


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        while size := self.rfile.read(4):
            request = self.rfile.read(struct.unpack(">i", size)[0])
            api, version, number, client = struct.unpack_from(">hhih", request)
            if api == API_VERSIONS:
                answer = struct.pack(">hi", UNSUPPORTED_VERSION if version else 0, len(SERVED))
                answer += b"".join(struct.pack(">hhh", each, 0, highest) for each, highest in SERVED.items())
            elif api == METADATA:
                answer = _metadata(request[10 + max(client, 0) :], self.server.ports)
            elif self.server.is_loading:
                answer = struct.pack(">hi", LOADING, 0)
            else:
                answer = struct.pack(">hi", 0, 1) + _text(b"other") + _text(b"consumer")
            answer = struct.pack(">i", number) + answer
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


def _text(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def _metadata(body: bytes, ports: tuple[int, ...]) -> bytes:
    """Each topic that the request names is unknown."""
    topics, at = b"", 4
    count = max(struct.unpack_from(">i", body)[0], 0)
    for _ in range(count):
        end = at + 2 + struct.unpack_from(">h", body, at)[0]
        topics += struct.pack(">h", 3) + body[at:end] + struct.pack(">bi", 0, 0)
        at = end
    brokers = b"".join(
        struct.pack(">i", number) + _text(b"127.0.0.1") + struct.pack(">ih", port, -1)
        for number, port in enumerate(ports)
    )
    return struct.pack(">ii", 0, len(ports)) + brokers + struct.pack(">hii", -1, 0, count) + topics


@contextmanager
def loading_coordinator() -> Iterator[str]:
    """Starts the brokers; yields the address of the first."""
    with ExitStack() as stack:
        servers = [stack.enter_context(_Server(("127.0.0.1", 0), _Connection)) for _ in range(2)]
        servers[0].is_loading = True
        for server in servers:
            server.ports = tuple(int(each.server_address[1]) for each in servers)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        yield f"127.0.0.1:{servers[0].ports[0]}"
