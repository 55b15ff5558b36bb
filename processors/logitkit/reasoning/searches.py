r"""The automata that read the text of a section, each for itself: where texts occur, and whether a character is complete.

A section is read by several of these at once: one looks for end markers, one for the text that is forced, one for the ends of
lines and sentences. `SectionGraph` runs them side by side.

By hand, for the text `ab`: state 0 is the start, state 1 comes after `a`, and in state 2 the text is found. From state 1, another
`a` leads to state 1, and `c` to state 0.

Invariants: state 0 is the start, and every state reads every byte. An id without text changes nothing unless it is listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.named_occurrences import NamedSearch, named_occurrences
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.limits import UNBOUNDED
from logitkit.vocabulary.marker_symbol import MarkerSymbol
from logitkit.vocabulary.text_with_names import TextWithNames
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["NOTHING", "ForcedText", "SectionSearch", "character_search"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SectionSearch:
    """An automaton that reads bytes and special tokens.

    Args:
        step: [S, K] integers, the state after each class of bytes.
        byte_class: [256] int64, the class of each byte.
        found: [S] int64, the number of the text that is complete in each state, or -1.
        texts: The number of texts. Some may never be found, because others are complete before them.
        special_tokens: For each special token that is part of a text, [S] int64 the state after it.
    """

    step: NDArray[np.int32]
    byte_class: Ints
    found: Ints
    texts: int
    special_tokens: Mapping[int, Ints] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Sequence[bytes], vocabulary: Vocabulary) -> SectionSearch:
        """Return the search for some texts, in which names of special tokens stand for these tokens too."""
        if not texts:
            return NOTHING
        named = [vocabulary.special_names.named(text) for text in texts]
        # Without the numbers of several texts, the states keep the order in which saved states know them.
        if len(named) == 1 and named[0].is_mixed:
            return cls.of_occurrences(NamedSearch(named, UNBOUNDED).occurrences, 1)
        return cls.of_occurrences(named_occurrences(named, UNBOUNDED), len(named))

    @classmethod
    def exactly(cls, texts: Sequence[bytes]) -> SectionSearch:
        """Return the search for some texts, in which names of special tokens are ordinary text."""
        return cls.of_occurrences(Occurrences.of(texts, UNBOUNDED), len(texts)) if texts else NOTHING

    @classmethod
    def of_occurrences(cls, occurrences: Occurrences, texts: int) -> SectionSearch:
        """Return the search that an automaton of texts is."""
        return cls(occurrences.step, occurrences.byte_class, occurrences.longest, texts, occurrences.special_tokens)


# The search for no text.
NOTHING = SectionSearch(np.zeros((1, 1), np.int32), np.zeros(256, np.int64), np.full(1, -1), 0)


@dataclass(frozen=True, eq=False)
class ForcedText:
    """The text that is forced at the end of a section: a message, if there is one, and then a marker.

    Args:
        search: How much of it the last bytes spell.
        following: The symbol with which each state goes on.
        read: How much of the text each state has read.
        symbols: The whole text.
        text: It, with special tokens by their names, for errors.
    """

    search: SectionSearch
    following: list[int]
    read: list[int]
    symbols: list[int]
    text: bytes

    @classmethod
    def of(cls, message: bytes, end: bytes | int, token: int | None, vocabulary: Vocabulary) -> ForcedText:
        """Return the text of a message and a marker, which is a token if it is the id or the name of one.

        Args:
            message: The message, which names no special token.
            end: The marker.
            token: The token that it is or names, or None.
            vocabulary: The vocabulary.
        """
        if token is not None:
            symbols = [*message, MarkerSymbol.token(token)]
            search = SectionSearch.exactly([message] if message else [])
            name = end if isinstance(end, bytes) else b"token %d" % token
            return cls(search, symbols, [*range(len(symbols))], symbols, message + name)
        assert isinstance(end, bytes)
        named = vocabulary.special_names.named(end)
        names = tuple(
            name._replace(begin=name.begin + len(message), end=name.end + len(message)) for name in named.names
        )
        whole = TextWithNames(message + end, names)
        if not whole.is_mixed:
            symbols = [*whole.encoded]
            return cls(SectionSearch.exactly([whole.encoded]), symbols, [*range(len(symbols))], symbols, whole.encoded)
        places = NamedSearch([whole], UNBOUNDED)
        live = range(len(places.live))
        following, read = [places.next_symbol(state) for state in live], [places.spelled(state) for state in live]
        return cls(
            SectionSearch.of_occurrences(places.occurrences, 1), following, read, _with_tokens(whole), message + end
        )


def _with_tokens(text: TextWithNames) -> list[int]:
    """Return the symbols of a text, with a token for each name."""
    symbols, end = list[int](), 0
    for name in text.names:
        symbols += [*text.encoded[end : name.begin], MarkerSymbol.token(name.tokens[0])]
        end = name.end
    return [*symbols, *text.encoded[end:]]


@cache
def character_search() -> tuple[SectionSearch, NDArray[np.bool_]]:
    """Return the search that knows how many bytes the last character still lacks, and which bytes may continue it, [S, 256].

    A byte that cannot continue a character begins a new one, or is not part of any.
    """
    # The states inside of a character by the ranges of their next bytes, and the states after these.
    inside = {
        1: (0x80, 0xBF, 0),
        2: (0x80, 0xBF, 1),
        3: (0x80, 0xBF, 2),
        4: (0xA0, 0xBF, 1),  # after E0: less would be overlong
        5: (0x80, 0x9F, 1),  # after ED: more would be a surrogate
        6: (0x90, 0xBF, 2),  # after F0: less would be overlong
        7: (0x80, 0x8F, 2),  # after F4: more would be beyond Unicode
    }
    first = np.zeros(256, np.int32)
    first[0xC2:0xE0], first[0xE0:0xF0], first[0xF0:0xF4] = 1, 2, 3
    first[0xE0], first[0xED], first[0xF0], first[0xF4] = 4, 5, 6, 7
    step = np.tile(first, (8, 1))
    continues = np.zeros((8, 256), bool)
    for state, (least, most, after) in inside.items():
        step[state, least : most + 1] = after
        continues[state, least : most + 1] = True
    columns, byte_class = np.unique(step, axis=1, return_inverse=True)
    return SectionSearch(
        columns.astype(np.int32), byte_class.reshape(-1).astype(np.int64), np.full(8, -1), 0
    ), continues
