"""The backtest in 512 MB compared with a plain loop: a short run of `make backtest-scale`."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.backtest.log import CONDITION, write
from bench.backtest.measuring import backtest, loop


@pytest.mark.long
def test_a_backtest_in_512_mb_fires_as_the_plain_loop_does(tmp_path: Path) -> None:
    write(tmp_path / "archive", events=20_000, keys=2_000)
    plain = loop(tmp_path / "archive", CONDITION)
    found = backtest(tmp_path, tmp_path / "output", CONDITION, cores=2)
    assert found.events == plain.events == 20_000
    assert plain.firings > 5_000
    assert found.answer == plain.answer
