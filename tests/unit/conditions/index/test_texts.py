"""Texts: all that a text begins with."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.conditions.index.texts import MAX_LENGTHS, Texts

# Few characters and many lengths: most texts begin others, and lengths go beyond what one level has.
words = st.text("ab", min_size=1, max_size=4 * MAX_LENGTHS)


@settings(max_examples=500, deadline=None)
@given(st.lists(words, max_size=60), words, st.randoms(use_true_random=False))
def test_find_gives_the_texts_that_a_text_begins_with(
    given_texts: list[str], other: str, random: Random
) -> None:
    texts: Texts[str] = Texts()
    held: set[str] = set()
    # texts come, go and come again, which leaves levels that had other lengths before
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
    assert texts._root.tables == {}
    assert texts._root.sealed is False


def test_a_look_up_probes_few_lengths_whatever_the_number_of_lengths() -> None:
    texts: Texts[int] = Texts()
    random = Random(1)
    for number in range(2000):
        texts["".join(random.choices("abcdefgh", k=random.randint(3, 60)))] = number
    assert len(texts._root.tables) < 2 * MAX_LENGTHS
