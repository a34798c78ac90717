"""A listening socket of a process that may open no more files, for a while."""

from __future__ import annotations

import errno
import socket
from typing import Any


class FullSocket(socket.socket):
    """The first `left` calls of `accept` fail."""

    left = 3

    def accept(self) -> Any:
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()
