from __future__ import annotations

from tests.conformance.page import PAGE, page


def test_the_page_of_the_docs_is_made_from_these_tests() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.conformance.page"
