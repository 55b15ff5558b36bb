"""The automata that read the text of a section: characters byte by byte, and several searches side by side."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.reasoning.search_product import SearchProduct
from logitkit.reasoning.searches import SectionSearch, character_search
from tests.examples import examples
from tests.processors.plain_sections import continuations
from tests.registry import vocabulary


def test_bytes_that_may_continue_a_character() -> None:
    """All first bytes, and pairs of bytes around the bounds of what may follow, after other bytes too."""
    firsts = (0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5)
    seconds = (0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xE0)
    search, continues = character_search()
    for before in (b"", b"a", b"\xe2", b"\xf0\x9f"):
        for said in [*product(range(256)), *product(firsts, seconds)]:
            text, state = before + bytes(said), 0
            for byte in text:
                state = int(search.step[state, search.byte_class[byte]])
            wanted = continuations(text)
            assert continues[state].nonzero()[0].tolist() == wanted, text


texts = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3, unique=True)


@settings(max_examples=examples(50))
@given(texts, texts, texts, st.text("abc", max_size=12))
def test_searches_side_by_side(first: list[str], second: list[str], third: list[str], read: str) -> None:
    """The first text that is complete in one of two searches leads out, and the third search counts in no case."""
    searches = [SectionSearch.of([text.encode() for text in group], vocabulary()) for group in (first, second, third)]
    both = SearchProduct(searches, (0, 1))
    state, exits = 0, [*first, *second]
    for length in range(1, len(read) + 1):
        state = int(both.step[state, both.byte_class[ord(read[length - 1])]])
        found = [text for text in first if read[:length].endswith(text)]
        found = found or [text for text in second if read[:length].endswith(text)]
        if found:
            # Of several in one search, the longest counts.
            assert exits[-1 - state] == max(found, key=len)
            return
        assert state >= 0
        assert bool(both.found(2)[state]) == any(read[:length].endswith(text) for text in third)
