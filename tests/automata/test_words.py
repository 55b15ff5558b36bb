"""Words written out as bytes, compared with a dict."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.nested_grammars.remembered_arrays import Remembers, label_of
from logitkit.compiler.nested_grammars.words import Words
from logitkit.limits import DEFAULT_LIMITS
from tests.examples import examples

# Quoted names: none of them begins another one.
TEXTS = st.lists(st.text(st.sampled_from('ab"é'), max_size=5), min_size=1, max_size=6, unique=True)


@settings(max_examples=examples(200), deadline=None)
@given(TEXTS, st.data())
def test_each_state_reads_its_words_and_nothing_else(names: list[str], data: st.DataObject) -> None:
    texts = [json.dumps(name, ensure_ascii=False).encode() for name in names]
    readers = 3
    words = Words(texts, 10, DEFAULT_LIMITS)
    ways = st.dictionaries(st.integers(0, len(texts) - 1), st.integers(5, 9), min_size=1)
    targets = {state: data.draw(ways) for state in range(2, 2 + readers)}
    for state, where in targets.items():
        words.add(state, where)
    moves: dict[tuple[int, int], int] = {}
    for source, byte, target in zip(*(column.tolist() for column in words.moves()), strict=True):
        # One state does one thing with a byte.
        assert moves.setdefault((source, byte), target) == target
    for state, where in targets.items():
        for word, text in enumerate(texts):
            at: int | None = state
            for byte in text:
                at = None if at is None else moves.get((at, byte))
            assert at == where.get(word)


def test_what_is_left_of_one_word_is_shared() -> None:
    texts = [b'"name"', b'"nothing"']
    words = Words(texts, 10, DEFAULT_LIMITS)
    words.add(2, {0: 5, 1: 6})
    alone = words.states
    words.add(3, {1: 6})
    # The quote and the `n` are read where both words are possible, and where one is.
    assert words.states == alone + 2
    words.add(4, {1: 6})
    assert words.states == alone + 2
    words.add(4, {1: 7})
    assert words.states == alone + 2 + len(texts[1]) - 1


def test_words_to_one_state_share_their_ends() -> None:
    texts = [b'get_city", "arguments": ', b'set_city", "arguments": ', b'pay", "arguments": ']
    words = Words(texts, 10, DEFAULT_LIMITS)
    words.add(2, {0: 5, 1: 5, 2: 5})
    # The first byte leads from state 2. The second text shares all others, the third one those from the `y` on.
    assert words.states - 10 == len(texts[0]) - 1 + len(b"a")
    words.add(3, {0: 6})
    assert words.states - 10 == 2 * (len(texts[0]) - 1) + len(b"a")


def test_a_label_shares_no_state_with_another_word() -> None:
    """The states inside of labels are taken out."""
    label, other = (label_of(kind, 0).encode("utf-8", "surrogatepass") for kind in (Remembers.ALIKE, Remembers.VARIED))
    texts = [label, b"a1000000", other]
    words = Words(texts, 10, DEFAULT_LIMITS)
    words.add(2, {0: 5})
    words.add(3, {1: 5})
    before = words.states
    assert before - 10 == len(label) - 1 + len(b"1000000")
    # Labels of two kinds share the digits after the kind.
    words.add(4, {2: 5})
    assert words.states - before == len(b"\xed\xbf\xbf")
