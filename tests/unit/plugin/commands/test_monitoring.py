"""`airflow interlock monitoring`: hands out the files for Prometheus and Grafana."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser
from interlock.plugin.commands import monitoring

from tests.kit.prometheus import MONITORING


def ran(*arguments: str) -> None:
    args = get_parser().parse_args(["interlock", "monitoring", *arguments])
    args.func(args)


def test_it_shows_each_file_of_the_package_and_needs_no_connection(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran("--output", "json")
    rows = json.loads(capsys.readouterr().out)
    assert {Path(row["file"]).name for row in rows} == {path.name for path in MONITORING.iterdir()}
    assert all(Path(row["file"]).is_file() and row["what"] for row in rows)


def test_it_copies_them_into_a_folder_and_again_without_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "made by it"
    for _ in range(2):
        ran("--write", str(folder), "--output", "json")
        rows = json.loads(capsys.readouterr().out)
        assert [row["file"] for row in rows] == [str(folder / name) for name in monitoring.FILES]
    for name in monitoring.FILES:
        assert (folder / name).read_bytes() == (MONITORING / name).read_bytes()


def test_a_file_that_somebody_has_edited_stays_and_nothing_is_written(tmp_path: Path) -> None:
    edited = tmp_path / "alerts.yaml"
    edited.write_text("groups: []\n")
    with pytest.raises(SystemExit, match=r"other files of these names: alerts\.yaml\. Nothing"):
        ran("--write", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["alerts.yaml"]
    assert edited.read_text() == "groups: []\n"


def test_a_folder_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SystemExit, match=r"airflow interlock monitoring: .*Not a directory.*file"):
        ran("--write", str(file / "folder"))
