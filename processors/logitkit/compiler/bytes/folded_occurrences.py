"""Where texts occur in a longer text, in any case.

The variants of a character may differ in length (`k` has one byte, the Kelvin sign three), but all lead to one state. A state
is a beginning of a text, its characters taken without case, and the first bytes of what may be the next. No character's bytes
begin inside another's, so what a state falls back to depends on nothing else, and there are hardly more states than for one case.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from logitkit.compiler.bytes.occurrences import STEPS_OF_LEVEL, Occurrences, linked
from logitkit.limits import Limits
from logitkit.patterns.case_folding import case_table


def folded_occurrences(texts: Sequence[str], limits: Limits) -> Occurrences:
    """Build the automaton of all that differs from some texts by case only, as `re.IGNORECASE` has it.

    Args:
        texts: None is empty or has a lone surrogate. Texts that are equal without case count as the first.
        limits: Bound on the number of states.

    Raises:
        PatternTooLarge: There are more states than allowed, or a text is too long.
    """
    limits.check_length(max(map(len, texts), default=0), STEPS_OF_LEVEL)
    spelled = variants(texts)
    tree = _Tree(limits)
    ends: dict[int, int] = {}
    for index, text in enumerate(texts):
        node = 0
        for character in text:
            node = tree.child(node, spelled[character])
        ends.setdefault(node, index)
    # A state inside a character comes after all that have fewer characters, and after those with fewer of its bytes.
    level = np.array(tree.level)
    order = np.argsort(level, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    source, byte, target = np.array(tree.steps).T
    source, target = number[source], number[target]
    by_source = np.argsort(source, kind="stable")
    _, first = np.unique(level[order], return_index=True)
    longest = np.full(len(order), -1, np.int64)
    longest[number[list(ends)]] = list(ends.values())
    return linked(
        [*first.tolist(), len(order)],
        source[by_source],
        byte[by_source].astype(np.uint8),
        target[by_source],
        longest,
        limits,
    )


def variants(texts: Sequence[str]) -> dict[str, tuple[bytes, ...]]:
    """Return how each character may be written, in all cases; equivalent characters share one tuple."""
    equivalents = case_table(ascii_only=False).equivalents
    spelled: dict[tuple[int, ...], tuple[bytes, ...]] = {}
    found = {}
    for character in sorted(set().union(*texts)):
        same = equivalents.get(ord(character), (ord(character),))
        found[character] = spelled.setdefault(same, tuple(chr(c).encode() for c in same))
    return found


class _Tree:
    """The beginnings of the texts.

    A state inside a character has the same name for all that may follow: the level counts characters, four to each, and bytes.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.level = [0]
        self.steps: list[tuple[int, int, int]] = []
        self._children: dict[tuple[int, bytes], int] = {}

    def child(self, node: int, spellings: tuple[bytes, ...]) -> int:
        """Return the state after one more character, in any of its spellings."""
        found = self._children.get((node, spellings[0]))
        if found is not None:
            return found
        found = self._add(self.level[node] + 4)
        for spelling in spellings:
            at = node
            for i, byte in enumerate(spelling[:-1], 1):
                inside = self._children.get((node, spelling[:i]))
                if inside is None:
                    inside = self._children[node, spelling[:i]] = self._add(self.level[node] + i)
                    self.steps.append((at, byte, inside))
                at = inside
            self.steps.append((at, spelling[-1], found))
            self._children[node, spelling] = found
        return found

    def _add(self, level: int) -> int:
        self.level.append(level)
        self.limits.check_states(len(self.level))
        return len(self.level) - 1
