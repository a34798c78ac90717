"""DAG files as Airflow reads them: a mistake in a condition is an import error with its message."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from interlock.testing import dags_in

HEAD = """
from airflow.sdk import DAG
from interlock import absent, at_least, event
from interlock.operators import EventSensor

a, b, keyed = event("a"), event("b"), event("k", by="data.day")
with DAG("it", schedule=None):
    EventSensor(task_id="w", """
# {file name: (arguments in the file, error message)}
MISTAKES = {
    "and": ("condition=a and b", "join conditions with & and |, not with `and`, `or` and `not`"),
    "negation": ("condition=a & ~b", 'write (a & ~b).within("1h")'),
    "duration": ('condition=(a & b).within("2 hours")', "'2 hours' is not a duration: write"),
    "number": ("condition=at_least(3, a, b)", "at_least(n) is 3: from 1 to 2, the number of different"),
    "slip": ('condition=event("a", lable="x")', "event(lable=...): did you mean label=?"),
    "topic": ('condition=event(topic="t")', "write event(source='t')"),
    "data": ('condition=event("a", data="x")', "write where="),
    "where": ('condition=event("a", where="data.x >")', "where"),
    "text": ('condition="a"', "EventSensor 'w': condition is a str; build it with interlock.event()"),
    "key": ('condition=a, key="{{ ds }}"', "a key is given, but no matcher reads one: add by="),
    "no_key": ("condition=keyed & a", "reads no key, but other matchers of the condition do: add by="),
    "timers": ('condition=absent(a, "1h").within("2h")', "absent"),
}


@pytest.fixture(scope="module")
def import_errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns {file name: import error} of a real DagBag."""
    folder = tmp_path_factory.mktemp("dags")
    for name, (text, _) in MISTAKES.items():
        (folder / f"{name}.py").write_text(f"{HEAD}{text})\n")
    bag = DagBag(str(folder), load_op_links=False)
    assert bag.dags == {}
    return {Path(name).stem: text for name, text in bag.import_errors.items()}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_condition_is_an_import_error_with_its_message(
    import_errors: dict[str, str], name: str
) -> None:
    _, found, sentence = import_errors[name].rpartition("\ninterlock.conditions.errors.ConditionError: ")
    assert found
    assert MISTAKES[name][1] in sentence


def test_dag_files_can_import_modules_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "beside_the_dags.py").write_text("from interlock import event\n\na = event('a')\n")
    (tmp_path / "it.py").write_text(
        f"from beside_the_dags import a\n{HEAD}condition=a & b)\n".replace("a, b, keyed", "_, b, keyed")
    )
    [(dag_id, dag)] = dags_in(tmp_path).items()
    assert (dag_id, list(dag.task_ids)) == ("it", ["w"])
    assert list(dags_in(tmp_path / "it.py")) == ["it"]


def test_dag_files_that_cannot_be_imported_fail_with_each_error(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(f"{HEAD}condition=a and b)\n")
    (tmp_path / "worse.py").write_text("import airflow\nfrom nowhere import dag\n")
    with pytest.raises(
        AssertionError, match=r"bad\.py: .*ConditionError: .*\n.*worse\.py: ModuleNotFoundError"
    ):
        dags_in(tmp_path)
