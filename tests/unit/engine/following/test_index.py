"""The order of subscriptions: pages by kind and DAG are those of a list that is filtered and cut."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.engine.following.index import Index, merged
from interlock.engine.registry.lazy import Listed

NAMES = ("airflow/a/r/t", "airflow/b/r/t", "airflow/b/r/u", "other/a/r/t", "w")
DURABLE = ("airflow/dispatch/a", "airflow/asset/x")
CHANGES = st.lists(
    st.tuples(st.booleans(), st.integers(0, 20), st.sampled_from([*NAMES, *DURABLE])), max_size=40
)


def dag_of(name: str) -> str | None:
    return {"airflow/dispatch/a": "a"}.get(name) or (name.split("/")[1] if name in NAMES[:3] else None)


@settings(max_examples=300)
@given(
    CHANGES,
    st.sampled_from([None, "one-shot", "durable"]),
    st.sampled_from([None, "a", "b", "c"]),
    st.sampled_from([None, (), ("a",), ("a", "b", "c")]),
    st.one_of(st.none(), st.integers(-1, 21)),
    st.booleans(),
)
def test_what_follows_a_cursor_is_what_is_wanted_in_order(
    changes: Sequence[tuple[bool, int, str]],
    kind: str | None,
    dag_id: str | None,
    dags: Sequence[str] | None,
    after: int | None,
    newest_first: bool,
) -> None:
    index, now = Index("airflow"), dict[int, Listed]()
    for is_added, offset, name in changes:
        if is_added and offset not in now:
            now[offset] = Listed(name, "i", name in NAMES, offset, 0)
            index.add(now[offset])
        elif not is_added and offset in now:
            index.remove(now.pop(offset))
    wanted = [
        offset
        for offset, each in now.items()
        if kind in (None, "one-shot" if each.one_shot else "durable")
        and dag_id in (None, dag_of(each.subscription))
        and (dags is None or dag_of(each.subscription) in dags)
    ]
    lists = index.lists(kind, dag_id, dags)  # type: ignore[arg-type]
    assert sum(map(len, lists)) == len(wanted)
    behind = [each for each in wanted if after is None or (each < after if newest_first else each > after)]
    assert list(merged(lists, after, newest_first=newest_first)) == sorted(behind, reverse=newest_first)
