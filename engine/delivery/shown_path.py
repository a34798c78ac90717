"""A sink's path as logs, commands and dead letters show it."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"
# Longer values, and those with other characters, may be tokens or have a user's name and password.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._~,:-]{0,15}")
_OF_SECRETS: Final = re.compile("auth|code|cred|jwt|key|pass|pwd|sas|secret|session|sig|token", re.IGNORECASE)


def shown_path(path: str) -> str:
    """The path with its query, but for what may be a secret there.

    A value of the query is shown if it has at most 15 characters, all of them letters, digits or `._~,:-`,
    and its name has none of the words auth, code, cred, jwt, key, pass, pwd, sas, secret, session, sig and
    token; else as `***`. (The path is on the bus, so it should have no secret; a chat's webhook has one.)
    """
    below, mark, query = path.partition("?")
    return below + mark + "&".join(map(_shown, query.split("&")))


def _shown(part: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:  # a value alone
        name, value = "", part
    if _OF_SECRETS.search(name) or not _PLAIN.fullmatch(value):
        value = HIDDEN
    return name + equals + value
