"""The claims of refused records that a source partition's metadata keep."""

from __future__ import annotations

from interlock.engine.protocol.tasks.claims import MOST_CLAIMS, Claims
from interlock.engine.records import OffsetMetadata


def test_the_latest_claims_are_kept_and_found_again() -> None:
    claims = Claims(OffsetMetadata(applied=0))
    assert claims.metadata() == {}
    for at in range(MOST_CLAIMS + 1):
        claims.add(at + 100, at)
    claims.add(101, 1)
    found = Claims(OffsetMetadata(applied=0, **claims.metadata()))
    assert [found.true_offset(at) for at in (100, 101, 102, 5)] == [100, 1, 2, 5]


def test_claims_of_an_aborted_transaction_are_dropped() -> None:
    claims = Claims(OffsetMetadata(applied=0, claims=[(9, 1)]))
    claims.add(20, 10)
    claims.rollback()
    assert claims.metadata() == {"claims": [(9, 1)]}
    claims.add(20, 10)
    claims.committed()
    claims.rollback()
    assert claims.metadata() == {"claims": [(9, 1), (20, 10)]}
