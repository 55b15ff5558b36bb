"""A tree of a grammar as a deterministic automaton over characters and the symbols of calls, words, special tokens and marks.

A move is a set of characters and other symbols, as the bits of a mask. The classes of the alphabet have the lowest bits, and
the other symbols follow.

By hand, for a tree that reads `a` or calls rule 0: the alphabet has the class 0 for all other characters and the class 1 for
`a`, so `a` is bit 1, and the call is bit 2. The move that both make is the mask 0b110.

Invariants: an alphabet belongs to one automaton. If two automata are joined, `translated` writes their moves in a finer
alphabet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import Positions, positions_of
from logitkit.compiler.characters.subset import Check, SymbolDfa, determinise
from logitkit.compiler.characters.symbols import Symbol
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Node

__all__ = ["TreeDfa", "translated"]


@dataclass(frozen=True, eq=False, slots=True)
class TreeDfa:
    """The minimal automaton of a tree.

    Args:
        dfa: Its moves by characters and other symbols; None: no text belongs to it.
        alphabet: The alphabet of characters.
        special: The other symbols, in the order of their bits.
    """

    dfa: SymbolDfa | None
    alphabet: Alphabet
    special: tuple[int, ...]

    @classmethod
    def of(cls, tree: Node, limits: Limits, checks_of: Callable[[Positions], Sequence[Check]]) -> TreeDfa:
        """Compile a tree.

        Args:
            tree: The tree.
            limits: Bounds on the automaton.
            checks_of: Returns checks that each state must pass, given the positions of the tree.

        Raises:
            PatternTooLarge: A limit is exceeded.
        """
        positions = positions_of(tree, limits)
        special: dict[CharSet, int] = {}
        for charset in positions.charsets:
            if charset.ranges and not Symbol.is_character(charset.ranges[0][0]):
                special.setdefault(charset, len(special))
        alphabet = Alphabet.of(c for c in positions.charsets if c not in special)
        mask_of = {**alphabet.members, **{c: 1 << (alphabet.size + i) for c, i in special.items()}}
        masks = [mask_of[c] for c in positions.charsets]
        dfa = minimise(determinise(positions, masks, limits, checks_of(positions)), limits)
        return cls(dfa, alphabet, tuple([c.ranges[0][0] for c in special]))


def translated(
    moves: list[dict[int, int]], alphabet: Alphabet, special: Sequence[int], finer: Alphabet, all_special: Sequence[int]
) -> list[dict[int, int]]:
    """Write moves in a finer alphabet, with more other symbols.

    Args:
        moves: The moves.
        alphabet: Their alphabet.
        special: Their other symbols, in the order of their bits.
        finer: An alphabet in which each class of theirs is one class or several.
        all_special: The new list of other symbols, theirs among them.
    """
    # For each bit, the bits that take its place.
    masks = [0] * alphabet.size
    for symbol, new in zip(alphabet.symbol_at(finer.bounds).tolist(), finer.symbols.tolist(), strict=True):
        masks[symbol] |= 1 << new
    bit_of = {symbol: finer.size + i for i, symbol in enumerate(all_special)}
    masks += [1 << bit_of[symbol] for symbol in special]
    known: dict[int, int] = {}

    def new_mask(mask: int) -> int:
        if mask not in known:
            found, left = 0, mask
            while left:
                found |= masks[(left & -left).bit_length() - 1]
                left &= left - 1
            known[mask] = found
        return known[mask]

    return [{target: new_mask(mask) for target, mask in row.items()} for row in moves]
