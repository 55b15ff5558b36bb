"""Several searches that read the same text side by side: a state is a tuple of their states.

By hand, for the texts `ab` and `b`: after `a`, the searches are in the states 1 and 0, which is one state of both. There, `b`
completes both texts, and that of the first search counts.

Invariants: state 0 is the start. States are in the order of the tuples, so those of a single search keep their order. A move that
completes a text of one of the searches that lead out is a negative number, an *exit*: -1 for the first text, -2 for the second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.reasoning.searches import SectionSearch

__all__ = ["SearchProduct", "joined_classes"]

Ints = NDArray[np.int64]

# The number of moves found in one step.
MOVES_A_STEP = 16


class SearchProduct:
    """The states of several searches, as far as they can be reached without an exit.

    Args:
        searches: The searches.
        exits: The numbers of those whose texts lead out, in the order in which they count.

    Attributes:
        byte_class: [256] int64, the class of each byte.
        parts: The state of each search in each state, [S] int64 each.
        step: [S, K] int64, the state after each class of bytes, or an exit.
        special_tokens: For each special token that is part of a text, [S] int64 the state after it, or an exit.
    """

    def __init__(self, searches: Sequence[SectionSearch], exits: Sequence[int]) -> None:
        self._searches = searches
        # The number of the first exit of each search.
        self._exits, first = dict[int, int](), 0
        for number in exits:
            self._exits[number] = first
            first += searches[number].texts
        self.byte_class, self._columns = joined_classes([search.byte_class for search in searches])
        tokens = sorted({token for search in searches for token in search.special_tokens})
        moves = self._moves(tokens)
        codes = np.array(sorted(moves), np.int64)
        self.parts = self._split(codes)
        table = np.stack([moves[code] for code in codes.tolist()])
        table = np.where(table < 0, table, np.searchsorted(codes, table))
        width = len(self._columns[0])
        self.step = table[:, :width]
        self.special_tokens = {token: table[:, width + i] for i, token in enumerate(tokens)}

    def __len__(self) -> int:
        return len(self.step)

    def found(self, number: int) -> NDArray[np.bool_]:
        """Return [S] bool, whether a text of one search is complete in each state."""
        return np.asarray(self._searches[number].found[self.parts[number]] >= 0)

    def _split(self, codes: Ints) -> list[Ints]:
        """Return the state of each search in some tuples, given their numbers."""
        parts = []
        for search in reversed(self._searches):
            codes, part = np.divmod(codes, len(search.step))
            parts.append(part)
        return parts[::-1]

    def _moves(self, tokens: Sequence[int]) -> dict[int, Ints]:
        """Return the moves of each tuple that can be reached, by its number: the numbers of tuples, or exits."""
        moves: dict[int, Ints] = {}
        level = np.zeros(1, np.int64)
        while len(level):
            codes = leaving = np.zeros((len(level), len(self._columns[0]) + len(tokens)), np.int64)
            for number, (search, part) in enumerate(zip(self._searches, self._split(level), strict=True)):
                after = search.step[part][:, self._columns[number]].astype(np.int64)
                leads = [search.special_tokens.get(token) for token in tokens]
                by_token = [part if to is None else to[part] for to in leads]
                after = np.column_stack([after, *by_token])
                codes = codes * len(search.step) + after
                if number in self._exits:
                    text = search.found[after]
                    leaving = np.where((leaving == 0) & (text >= 0), -1 - self._exits[number] - text, leaving)
            spend(codes.size // MOVES_A_STEP)
            targets = np.where(leaving < 0, leaving, codes)
            moves.update(zip(level.tolist(), targets, strict=True))
            fresh = np.unique(targets[targets >= 0])
            level = np.array([code for code in fresh.tolist() if code not in moves], np.int64)
        return moves


def joined_classes(byte_classes: Sequence[Ints]) -> tuple[Ints, list[Ints]]:
    """Join several divisions of bytes into classes.

    Args:
        byte_classes: [256] int64 each.

    Returns:
        [256] int64, the common class of each byte; and for each division, [K] the class in it of each common one.
    """
    numbers = np.zeros(256, np.int64)
    for classes in byte_classes:
        # Numbered again each time, so that the numbers of many divisions stay small.
        numbers = np.unique(numbers * (int(classes.max()) + 1) + classes, return_inverse=True)[1].reshape(-1)
    _, example = np.unique(numbers, return_index=True)
    return numbers, [classes[example] for classes in byte_classes]
