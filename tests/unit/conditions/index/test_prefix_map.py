"""PrefixMap: finds all stored texts that a text starts with."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.conditions.index.prefix_map import PrefixMap

# Few characters and many lengths: most texts begin others.
words = st.text("ab", min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(words, max_size=60), words, st.randoms(use_true_random=False))
def test_find_gives_the_texts_that_a_text_begins_with(
    given_texts: list[str], other: str, random: Random
) -> None:
    texts: PrefixMap[str] = PrefixMap()
    held: set[str] = set()
    # adding and removing texts again and again leaves levels that were split for others
    for text in given_texts + given_texts[::2]:
        if text in held and random.random() < 0.7:
            del texts[text]
            held.discard(text)
        else:
            texts[text] = text.upper()
            held.add(text)
        for asked in (text, other):
            assert texts.get(asked) == (asked.upper() if asked in held else None)
            whole = asked + "abab"
            assert sorted(texts.find(whole)) == sorted(t.upper() for t in held if whole.startswith(t))
    assert bool(texts) is bool(held)
    for text in held:
        del texts[text]
    assert not texts
    assert texts._root.table == {}


def test_a_search_takes_few_steps_whatever_the_number_of_texts_and_of_lengths() -> None:
    steps = 0

    class Counted(str):
        def __getitem__(self, part: object) -> str:
            nonlocal steps
            steps += 1
            return str.__getitem__(self, part)  # type: ignore[index]

    texts: PrefixMap[int] = PrefixMap()
    random = Random(1)
    given_texts = ["".join(random.choices("abcdefgh", k=random.randint(8, 60))) for _ in range(2000)]
    for number, text in enumerate(given_texts):
        texts[text] = number
    for number, text in enumerate(given_texts):
        assert texts.find(Counted(text + "/rest")) == [number]
    assert steps < 4 * len(given_texts)
