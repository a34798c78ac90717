"""What a sink answers, without the secrets of its connection."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from interlock.engine.sending.bodies import blanked


@pytest.mark.parametrize("secrets", [("-prod-", "token-prod-12345678"), ("token-prod-12345678", "-prod-")])
def test_no_part_of_a_secret_that_contains_another_one_remains(secrets: tuple[str, ...]) -> None:
    assert blanked(b"wrong: token-prod-12345678", secrets) == b"wrong: ***"


SECRET = "c2hvcDpz/ZWNyZXQ+ \"'&<é\\end"


@pytest.mark.parametrize(
    "repeat",
    [
        str,
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps(text).replace("/", "\\/"),  # as PHP
        lambda text: json.dumps(text, ensure_ascii=False).replace("/", "\\/"),
        lambda text: (  # as Go
            json.dumps(text, ensure_ascii=False)
            .replace("&", "\\u0026")
            .replace("<", "\\u003c")
            .replace(">", "\\u003e")
        ),
        quote,
        quote_plus,
        lambda text: quote(text, safe=""),
        lambda text: quote(text, safe="!'()*"),  # as encodeURIComponent
        html.escape,
        lambda text: html.escape(text, quote=False),
        lambda text: html.escape(text).replace("&quot;", "&#34;").replace("&#x27;", "&#39;"),
        lambda text: html.escape(text).replace("&#x27;", "&#039;"),
    ],
)
def test_a_secret_is_blanked_in_each_form_in_which_a_sink_may_repeat_it(repeat: Callable[[str], str]) -> None:
    """What followed the first escaped character remained: the end of a password, of Basic credentials."""
    found = blanked(f"[{repeat(SECRET)}]".encode(), (SECRET,))
    assert found in (b"[***]", b'["***"]')


def test_secrets_that_begin_alike_are_blanked_to_their_ends() -> None:
    secrets = ("token-prod/longer", "token-prod 1")
    assert (
        blanked(b"token-prod 1, token-prod/longer, token-prod, token-", secrets) == b"***, ***, ***, token-"
    )
