"""A tree of a grammar as a deterministic automaton over characters and the symbols of calls, words, special tokens and marks."""

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
        dfa: Its moves, by characters and after them by other symbols; None: no text belongs to it.
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
            checks_of: Returns the checks of its states, given its positions.

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
    moves: list[dict[int, int]], alphabet: Alphabet, special: Sequence[int], wider: Alphabet, among: Sequence[int]
) -> list[dict[int, int]]:
    """Return moves by the symbols of another alphabet.

    Args:
        moves: The moves.
        alphabet: Their alphabet.
        special: Their other symbols, in the order of their bits.
        wider: An alphabet that tells apart all that theirs does.
        among: Other symbols, with these among them.
    """
    masks = [0] * alphabet.size
    for symbol, new in zip(alphabet.symbol_at(wider.bounds).tolist(), wider.symbols.tolist(), strict=True):
        masks[symbol] |= 1 << new
    place = {symbol: wider.size + i for i, symbol in enumerate(among)}
    masks += [1 << place[symbol] for symbol in special]
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
