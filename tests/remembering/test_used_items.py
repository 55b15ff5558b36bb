"""Used items and texts as values, compared with plain sets and bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logitkit.runtime.constraint_row import NO_IDS
from logitkit.runtime.remembering.text_pieces import EMPTY
from logitkit.runtime.remembering.used_items import UsedItems

LETTERS = b"ab"
MOST = 4
# All items are words of four letters.
WORDS = st.lists(st.binary(min_size=MOST, max_size=MOST).map(lambda word: bytes(LETTERS[byte & 1] for byte in word)))


def following(begin: bytes) -> list[bytes]:
    return [b"a", b"b"] if len(begin) < MOST else []


def is_used_up(begin: bytes, used: set[bytes]) -> bool:
    """Whether all words with a beginning are used."""
    if len(begin) == MOST:
        return begin in used
    return all(is_used_up(begin + byte, used) for byte in following(begin))


@given(WORDS)
def test_beginnings_are_used_up_when_all_their_words_are(words: list[bytes]) -> None:
    items, used = UsedItems.none(varied=False), set[bytes]()
    for word in dict.fromkeys(words):
        items = items.with_item(word, following, lambda _: NO_IDS)
        used.add(word)
        assert [*items.used_up] == sorted(items.used_up)
        low, high = 0, len(items.used_up)
        for depth in range(MOST):
            assert is_used_up(word[:depth], used) == any(word[:depth].startswith(one) for one in items.used_up)
            if low < high and len(items.used_up[low]) > depth:
                low, high = items.narrowed(low, high, depth, word[depth])
                matching = [one for one in items.used_up if one.startswith(word[: depth + 1])]
                assert [*items.used_up[low:high]] == matching


@given(st.lists(st.binary(max_size=5)), st.data())
def test_pieces_are_a_text(parts: list[bytes], data: st.DataObject) -> None:
    pieces = EMPTY
    for part in parts:
        pieces = pieces.plus(part)
    text = b"".join(parts)
    assert (pieces.text, pieces.length) == (text, len(text))
    begin = data.draw(st.integers(0, len(text)))
    before, found = pieces.split(begin)
    assert (before.text, before.length, found) == (text[:begin], begin, text[begin:])
    assert pieces.text == text
