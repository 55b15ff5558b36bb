"""The states inside of a section: how far the text has come in each of the texts that matter there.

Several searches read the text of a section side by side (`search_product`). In a pause, only its own end and the ends of the
section matter. When a pause begins or ends, all searches start again, so a text counts for one marker only.

By hand, for the end `</t>` and the message `Go`: after `</`, the search for `</t>` is in state 2, and that for the forced text
`Go</t>` in state 0. If the budget is spent there, `Go` is forced, and then the marker.

Invariants: the start is state 0. First come the open states, of which those at which a grace ends are last, and then the states
of each pause. Targets are states, or `CLOSED`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.errors import ConfigurationError
from logitkit.reasoning.search_product import SearchProduct, joined_classes
from logitkit.reasoning.searches import NOTHING, ForcedText, SectionSearch, character_search
from logitkit.reasoning.section_texts import SectionTexts
from logitkit.vocabulary.marker import shown, token_of
from logitkit.vocabulary.marker_symbol import MarkerSymbol
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["CLOSED", "SectionGraph"]

# The target of a move that completes an end marker.
CLOSED = -1

Ints = NDArray[np.int64]

# The searches in an open state, by number.
ENDS, FORCED, CHARACTERS, GRACE, BEGINS = range(5)


class SectionGraph:
    """The states of a section and their moves.

    Args:
        texts: The texts.
        vocabulary: The vocabulary.

    Attributes:
        states: The number of states.
        open: How many of them are not in a pause.
        breaks: How many open states are at the end of a line or a sentence.
        pause_starts: The first state of each pause.
        byte_class: [256] int64, the class of each byte.
        step: [S, K] int64, the target of each state with each class of bytes.
        special_tokens: For each special token that is part of a text, [S] int64 the targets.
        forced: The text that is forced.
        end_tokens: The token that each end marker is or names, or None.
        pause_tokens: The same for both markers of each pause.

    Raises:
        ConfigurationError: The forced text contains another end marker, or may begin a pause.
    """

    def __init__(self, texts: SectionTexts, vocabulary: Vocabulary) -> None:
        self.texts = texts
        self.end_tokens = [token_of(end, vocabulary) for end in texts.ends]
        self.forced = ForcedText.of(texts.message.encode(), texts.ends[0], self.end_tokens[0], vocabulary)
        self.pause_tokens = [[token_of(marker, vocabulary) for marker in pause] for pause in texts.pauses]
        # Without that, every character counts as complete.
        characters, self._continues = NOTHING, np.zeros((1, 256), bool)
        if texts.whole_characters:
            characters, self._continues = character_search()
        ends = SectionSearch.of(_spelled(texts.ends), vocabulary)
        grace = SectionSearch.exactly([text.encode() for text in texts.grace_at])
        begins = SectionSearch.of(_spelled([begin for begin, _ in texts.pauses]), vocabulary)
        opened = SearchProduct((ends, self.forced.search, characters, grace, begins), (ENDS, BEGINS))
        paused = [
            SearchProduct((ends, SectionSearch.of(_spelled([end]), vocabulary)), (0, 1)) for _, end in texts.pauses
        ]
        at_break = opened.found(GRACE)
        # Stable, so the start stays the first state.
        order = np.argsort(at_break, kind="stable")
        self._forced_at, self._character_at = opened.parts[FORCED][order], opened.parts[CHARACTERS][order]
        self.open, self.breaks = len(opened), int(at_break.sum())
        bounds = np.cumsum([self.open, *map(len, paused)]).tolist()
        self.pause_starts, self.states = bounds[:-1], bounds[-1]
        number = np.empty(self.open, np.int64)
        number[order] = np.arange(self.open)
        closed = [CLOSED] * len(_spelled(texts.ends))
        begun = [at for at, (begin, _) in zip(self.pause_starts, texts.pauses, strict=True) if isinstance(begin, bytes)]
        self.byte_class, columns = joined_classes([part.byte_class for part in (opened, *paused)])
        parts = [_Part(opened, order, number, [*closed, *begun], columns[0])]
        for product, at, column in zip(paused, self.pause_starts, columns[1:], strict=True):
            rows = np.arange(len(product))
            parts.append(_Part(product, rows, at + rows, [*closed, 0], column))
        self.step = np.concatenate([part.step() for part in parts])
        tokens = sorted({token for part in parts for token in part.product.special_tokens})
        self.special_tokens = {token: np.concatenate([part.after(token) for part in parts]) for token in tokens}
        self._check_forced()

    def target(self, state: int, symbol: int) -> int:
        """Return the target of a state with a symbol."""
        if MarkerSymbol.is_byte(symbol):
            return int(self.step[state, self.byte_class[symbol]])
        token = MarkerSymbol.token_id(symbol)
        if token in self.end_tokens:
            return CLOSED
        return int(self.special_tokens[token][state]) if token in self.special_tokens else state

    def following(self, state: int) -> list[int]:
        """Return the symbols that may be forced in an open state: the next one of the forced text, or those of a character."""
        symbol, continues = self.forced.following[self._forced_at[state]], self._continues[self._character_at[state]]
        if not self.is_in_character(state) or (MarkerSymbol.is_byte(symbol) and continues[symbol]):
            return [symbol]
        # A pause that a completed character begins would suspend the end.
        bytes_ = np.flatnonzero(continues).tolist()
        return [byte for byte in bytes_ if self.target(state, byte) < self.open]

    def is_in_character(self, state: int) -> bool:
        """Whether a character of which only some bytes have been read must be completed in an open state."""
        return bool(self._continues[self._character_at[state]].any())

    def already_read(self, state: int) -> int:
        """Return how much of the forced text has been read in an open state."""
        return self.forced.read[int(self._forced_at[state])]

    def token_targets(self, token: int, targets: Ints) -> Ints:
        """Return [S] the targets of a token that is a marker by its id, given those by its text, which counts elsewhere."""
        if token in self.end_tokens:
            return np.full(self.states, CLOSED, np.int64)
        after = targets.copy()
        for i, (begin, end) in enumerate(self.pause_tokens):
            first = self.pause_starts[i]
            last = [*self.pause_starts, self.states][i + 1]
            if token == end:
                after[first:last] = 0
            if token == begin:
                after[: self.open] = first
        return after

    @property
    def marker_tokens(self) -> list[int]:
        """The tokens that are or name markers, ends first."""
        tokens = [*self.end_tokens, *(token for pause in self.pause_tokens for token in pause)]
        return [*dict.fromkeys(token for token in tokens if token is not None)]

    def _check_forced(self) -> None:
        state, text = 0, shown(self.forced.text)
        for symbol in self.forced.symbols[:-1]:
            state = self.target(state, symbol)
            if state == CLOSED:
                raise ConfigurationError(
                    f"{text} is forced at the end of a section, but another end marker occurs in it before; change message, or "
                    "the order of the end markers"
                )
        for state in range(self.open):
            symbol = self.forced.following[self._forced_at[state]]
            if self.target(state, symbol) >= self.open:
                raise ConfigurationError(
                    f"{text} is forced at the end of a section, but may begin a pause; change message, or the markers of pause"
                )


class _Part(NamedTuple):
    """The states of an open section, or of a pause.

    Args:
        product: The searches.
        rows: [S] the states in the order in which they are numbered.
        number: [S] the number of each state.
        exits: Where each exit leads.
        columns: The class of bytes in the product for each common one.
    """

    product: SearchProduct
    rows: Ints
    number: Ints
    exits: list[int]
    columns: Ints

    def step(self) -> Ints:
        """Return the targets of the states, in order."""
        return self._targets(self.product.step[self.rows][:, self.columns])

    def after(self, token: int) -> Ints:
        """Return the targets with a special token."""
        leads = self.product.special_tokens.get(token)
        return self.number[self.rows] if leads is None else self._targets(leads[self.rows])

    def _targets(self, moves: Ints) -> Ints:
        # Exits are negative, so they are found from the end.
        table: Ints = np.concatenate([self.number, np.array(self.exits[::-1], np.int64)])
        return table[moves]


def _spelled(markers: Iterable[bytes | int]) -> list[bytes]:
    """Return the markers that are texts."""
    return [marker for marker in markers if isinstance(marker, bytes)]
