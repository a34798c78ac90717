"""A file of resources: YAML or JSON, one or many, and nothing in it that is passed over."""

from __future__ import annotations

import pytest
from interlock.migrate.documents import MAX_CHARS, read_resources
from interlock.migrate.errors import UnreadableFile

YAML = """
apiVersion: a/v1
kind: A
metadata: {name: one, namespace: shop}
---
---
apiVersion: a/v1
kind: B
metadata: {name: two}
spec: {at: 2026-11-20T06:00:00Z, day: 2026-11-20}
"""
ONE, TWO = '{"apiVersion": "a/v1", "kind": "A"}', '{"apiVersion": "a/v1", "kind": "B"}'


def kinds(text: str) -> list[str]:
    return [each.kind for each in read_resources(text)]


def test_documents_of_yaml_are_read_and_empty_ones_are_not() -> None:
    found = read_resources(YAML)
    assert [str(each) for each in found] == ["A shop/one", "B two"]


def test_a_time_is_a_text_as_kubernetes_reads_it() -> None:
    assert read_resources(YAML)[1].value["spec"] == {"at": "2026-11-20T06:00:00Z", "day": "2026-11-20"}


@pytest.mark.parametrize("text", ["10:30", "10:30:00", "1:30.5", "2026-11-20", "09:00:00"])
def test_what_only_yaml_takes_for_a_number_or_a_time_is_a_text(text: str) -> None:
    assert read_resources(f"kind: A\napiVersion: v1\nat: {text}")[0].value["at"] == text


def test_numbers_and_booleans_are_what_they_are() -> None:
    value = read_resources("kind: A\napiVersion: v1\nfound: [3, 0.5, true, off, null]")[0].value
    assert value["found"] == [3, 0.5, True, False, None]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000),
        ("+1E+3", 1000),
        ("5e-1", 0.5),
        ("12e03", 12000),
        ("012345678901", 12345678901),
        ("-09", -9),
        ("0o17", 15),
        ("017", 15),
        ("0x1F", 31),
        ("y", True),
        ("Y", True),
        ("n", False),
        ("N", False),
    ],
)
def test_what_only_kubernetes_takes_for_a_number_or_a_boolean_is_one(text: str, value: object) -> None:
    """argoproj-labs/hera#1607: PyYAML reads texts here, the cluster something else."""
    found = read_resources(f"kind: A\napiVersion: v1\nat: {text}")[0].value["at"]
    assert (found, isinstance(found, bool)) == (value, isinstance(value, bool))


@pytest.mark.parametrize("text", ["'1e3'", '"09"', "'y'", "!!str 1e3", "!!str n", "|-\n  1e3"])
def test_in_quotes_it_is_a_text(text: str) -> None:
    found = read_resources(f"kind: A\napiVersion: v1\nat: {text}")[0].value["at"]
    assert found in ("1e3", "09", "y", "n")


@pytest.mark.parametrize("text", ["e3", "1e", "1e3f", "0x1G", "0o18", "yy", "1.2.3", "1-2", "+", "."])
def test_what_only_begins_like_a_number_or_a_boolean_is_a_text(text: str) -> None:
    assert read_resources(f"kind: A\napiVersion: v1\nat: '{text}'\nto: {text}")[0].value["to"] == text


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}\n{TWO}",
        f"{ONE}{TWO}",
        f"[{ONE}, {TWO}]",
        f'{{"apiVersion": "v1", "kind": "List", "items": [{ONE}, {TWO}]}}',
        f'\t{{"apiVersion": "v1", "kind": "AList",\n\t"items": [{ONE}, {TWO}]}}\n',
        f"apiVersion: v1\nkind: List\nitems:\n- {ONE}\n- {TWO}\n",
        f"{ONE}\n---\n{TWO}\n",
        f"{{apiVersion: a/v1, kind: A}}\n---\n{TWO}",
    ],
)
def test_lists_and_several_objects_are_their_items(text: str) -> None:
    assert kinds(text) == ["A", "B"]


def test_an_item_without_a_name_is_called_by_its_place() -> None:
    assert [str(each) for each in read_resources(f"[{ONE}, {TWO}]")][
        1
    ] == "B without a name (document 1, item 2)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no resource"),
        ("---\n---\n", "no resource"),
        ("kind: [", "neither YAML nor JSON"),
        ("a\n", "must be a resource"),
        ("kind: A", "no apiVersion"),
        ("{kind: A, apiVersion: 1}", "no apiVersion"),
        ("kind: A\nkind: B\napiVersion: v1", "there twice"),
        ("kind: A\napiVersion: v1\nspec: {a: {b: 1, b: 2}}", "there twice"),
        ('{"kind": "A", "kind": "B"}', "twice"),
        ("kind: A\napiVersion: v1\nspec: {on: 1}", "write it in quotes"),
        ("apiVersion: v1\nkind: List\nitems: {}", "must be a list"),
        ("!!python/object/apply:os.getcwd []", "neither YAML nor JSON"),
        ("[" * 5000, "nested too deeply"),
        ("kind: A\napiVersion: v1\nspec: {y: 1}", "a key is a bool to Kubernetes: write it in quotes, 'y'"),
        (
            "kind: A\napiVersion: v1\nspec: {09: 1}",
            "a key is a float to Kubernetes: write it in quotes, '09'",
        ),
        ("kind: A\x00", "neither YAML nor JSON"),
        ("kind: A\napiVersion: v1\nspec: !!int ten", "a value that cannot be read"),
        (f'{{"kind": "A", "apiVersion": "v1", "spec": {"1" * 5000}}}', "a value that cannot be read"),
    ],
)
def test_what_is_no_file_of_resources_is_an_error_that_says_why(text: str, reason: str) -> None:
    with pytest.raises(UnreadableFile, match=reason):
        read_resources(text)


def test_a_file_that_is_too_long_is_refused_with_its_size() -> None:
    with pytest.raises(
        UnreadableFile, match=f"it has {MAX_CHARS + 1} characters: at most {MAX_CHARS}. Split"
    ):
        read_resources(" " * (MAX_CHARS + 1))


def test_an_anchor_is_its_value() -> None:
    text = "kind: A\napiVersion: v1\na: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n"
    assert read_resources(text)[0].value["c"] == {"b": 1, "d": 2}
