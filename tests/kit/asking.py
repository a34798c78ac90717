"""Asking a process of this machine over HTTP."""

from __future__ import annotations

import httpx


def status(port: int, path: str) -> int | None:
    """The status of the answer to a GET; None without one."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5).status_code
    except httpx.TransportError:
        return None
