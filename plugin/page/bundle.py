"""`GET /interlock.js`: what the browser runs. Anybody may read it: it has no data."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import Response

from . import ui_apps

router = APIRouter()
_YEAR_S: Final = 31_536_000


@router.get("/interlock.js")
def bundle(request: Request, v: str = "") -> Response:
    """The bundle. A browser that asks for this version keeps it for a year."""
    current = ui_apps.bundle_version()
    headers = {
        "etag": f'"{current}"',
        "cache-control": f"public, max-age={_YEAR_S}, immutable" if v == current else "no-cache",
        "x-content-type-options": "nosniff",
    }
    if request.headers.get("if-none-match", "").removeprefix("W/") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    try:
        body = ui_apps.FILE.read_bytes()
    except OSError:
        raise HTTPException(404, "This installation has no interlock.js: build it with npm in ui/.") from None
    return Response(body, media_type="text/javascript; charset=utf-8", headers=headers)
