"""Names in templates that Airflow 2 knew and Airflow 3 does not: such a template fails in each run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from jinja2 import meta, nodes

if TYPE_CHECKING:
    from jinja2 import Environment

# {name: what to write instead}
_REMOVED: Final = {
    "conf": "{{ dag_run.conf }}",
    "execution_date": "{{ logical_date }}",
    "next_execution_date": "{{ data_interval_end }}",
    "next_ds": "{{ data_interval_end | ds }}",
    "next_ds_nodash": "{{ data_interval_end | ds_nodash }}",
    "prev_execution_date": "{{ prev_data_interval_start_success }}",
    "prev_execution_date_success": "{{ prev_data_interval_start_success }}",
    "prev_ds": "{{ macros.ds_add(ds, -1) }}",
    "prev_ds_nodash": "{{ macros.ds_add(ds, -1) | replace('-', '') }}",
    "yesterday_ds": "{{ macros.ds_add(ds, -1) }}",
    "yesterday_ds_nodash": "{{ macros.ds_add(ds, -1) | replace('-', '') }}",
    "tomorrow_ds": "{{ macros.ds_add(ds, 1) }}",
    "tomorrow_ds_nodash": "{{ macros.ds_add(ds, 1) | replace('-', '') }}",
    "triggering_dataset_events": "{{ triggering_asset_events }}",
}
# {(object, member): what to write instead}
_MEMBERS: Final = {
    ("dag_run", "execution_date"): "{{ dag_run.logical_date }}",
    ("dag_run", "external_trigger"): "{{ dag_run.run_type }}",
    ("ti", "execution_date"): "{{ dag_run.logical_date }}",
    ("task_instance", "execution_date"): "{{ dag_run.logical_date }}",
}
_WORD: Final = re.compile(rf"\b(?:{'|'.join([*_REMOVED, *(member for _, member in _MEMBERS)])})\b")


def instead_of_removed(text: str, environment: Callable[[], Environment]) -> str | None:
    """What to write instead of a removed name or member in a template; None if it has none, or needs none.

    environment: creates that of the task's DAG, whose macros may have the name.
    """
    if _WORD.search(text) is None:
        return None
    own = environment()
    tree = own.parse(text)
    if any(tree.find(each) is not None for each in (nodes.Test, nodes.If, nodes.CondExpr)):
        return None  # "if yesterday_ds is defined"
    if any(each.name in ("default", "d") for each in tree.find_all(nodes.Filter)):
        return None
    read = meta.find_undeclared_variables(tree) - own.globals.keys()
    found = {name: instead for name, instead in _REMOVED.items() if name in read}
    for each in tree.find_all(nodes.Getattr):
        member = (each.node.name, each.attr) if isinstance(each.node, nodes.Name) else ("", "")
        if member in _MEMBERS and member[0] in read:
            found[".".join(member)] = _MEMBERS[member]
    for name, instead in found.items():
        return f"{instead}, because Airflow 3 has no {name}"
    return None
