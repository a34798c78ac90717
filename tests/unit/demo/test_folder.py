"""The demo empties only its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.folder import FolderError, own_folder


def test_a_folder_with_other_contents_is_refused_and_kept_unchanged(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "last.txt").write_text("the only copy")
    with pytest.raises(FolderError) as refused, own_folder(tmp_path):
        pytest.fail("the folder was given")
    assert str(refused.value) == (
        f"{tmp_path} is not empty and was not made by the demo, which would empty it; "
        "set DEMO_DIR to a new or empty folder"
    )
    assert (tmp_path / "thesis" / "last.txt").read_text() == "the only copy"
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


@pytest.mark.parametrize("there", [True, False], ids=["empty", "new"])
def test_a_new_or_empty_folder_is_accepted_and_leftovers_of_a_demo_are_removed(
    tmp_path: Path, there: bool
) -> None:
    folder, elsewhere = tmp_path / "a" / "demo", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    if there:
        folder.mkdir(parents=True)
    with own_folder(folder):
        (folder / "airflow" / "logs").mkdir(parents=True)
        (folder / "airflow" / "airflow.cfg").touch()
        (folder / "link").symlink_to(elsewhere)
    with own_folder(folder):
        assert [path.name for path in folder.iterdir()] == [".interlock-demo"]
    assert (elsewhere / "kept").exists()


def test_an_interrupted_removal_can_be_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with own_folder(tmp_path):
        (tmp_path / "topics").mkdir()

    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt), own_folder(tmp_path):
            pass
    with own_folder(tmp_path):
        assert not (tmp_path / "topics").exists()


def test_a_folder_in_use_by_another_demo_is_refused_and_kept(tmp_path: Path) -> None:
    with own_folder(tmp_path):
        (tmp_path / "topics").mkdir()
        with pytest.raises(FolderError, match="another demo runs in"), own_folder(tmp_path):
            pass
        assert (tmp_path / "topics").exists()


def test_a_full_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="MiB free and the demo needs"), own_folder(tmp_path, 1 << 60):
        pass


def test_a_file_instead_of_a_folder_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "demo"
    file.write_text("mine")
    with pytest.raises(FolderError, match="is not a folder"), own_folder(file):
        pass
    assert file.read_text() == "mine"
