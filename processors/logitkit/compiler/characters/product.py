"""Two deterministic automata at once: intersection, union and difference of their languages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import took
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.limits import Limits

# The state of an automaton that has left its language.
GONE = -1


def product(
    a: SymbolDfa,
    b: SymbolDfa,
    accepts: Callable[[bool, bool], bool],
    limits: Limits,
) -> SymbolDfa:
    """Run two automata over one alphabet side by side.

    Args:
        a: The first one.
        b: The second one.
        accepts: Whether a text is in the result, given whether each accepts it; not so for a text that neither does. Where one
            has left its language, the other goes on alone as far as that can still matter.
        limits: Bounds on the construction.

    Raises:
        PatternTooLarge: There are too many states, or the construction takes too many steps.
    """
    a_alone, b_alone = accepts(True, False), accepts(False, True)
    number: dict[tuple[int, int], int] = {(0, 0): 0}
    places = [(0, 0)]
    moves: list[dict[int, int]] = []
    work = 0

    def reached(x: int, y: int) -> int:
        found = number.setdefault((x, y), len(places))
        if found == len(places):
            limits.check_states(found)
            places.append((x, y))
        return found

    try:
        while len(moves) < len(places):
            x, y = places[len(moves)]
            from_a = {} if x == GONE else a.moves[x]
            from_b = {} if y == GONE else b.moves[y]
            row: dict[int, int] = {}
            for p, q, mask in _pairs(from_a, from_b, a_alone, b_alone):
                target = reached(p, q)
                row[target] = row.get(target, 0) | mask
            work += len(from_a) * len(from_b) + len(row) + 1
            limits.check_work(work)
            moves.append(row)
    finally:
        took(work + 400)
    accepting = [accepts(x != GONE and a.accepting[x], y != GONE and b.accepting[y]) for x, y in places]
    return SymbolDfa(moves, accepting)


def _pairs(
    from_a: dict[int, int], from_b: dict[int, int], a_alone: bool, b_alone: bool
) -> Iterator[tuple[int, int, int]]:
    """Yield the pairs of states that symbols lead to from a pair, each with these symbols, as a mask."""
    left = dict(from_b) if b_alone else {}
    for p, mask in from_a.items():
        alone = mask
        for q, other in from_b.items():
            both = mask & other
            if both:
                yield p, q, both
                alone &= ~both
                if b_alone:
                    left[q] &= ~both
        if alone and a_alone:
            yield p, GONE, alone
    for q, mask in left.items():
        if mask:
            yield GONE, q, mask


def common_alphabet(a: Alphabet, b: Alphabet) -> tuple[Alphabet, list[int], list[int]]:
    """Return the coarsest alphabet that refines two, and for each symbol of either, as a mask, what it consists of there."""
    bounds = np.union1d(a.bounds, b.bounds)
    pairs = a.symbol_at(bounds) * b.size + b.symbol_at(bounds)
    # Symbol 0 is what belongs to no set: it must be there, and be the first.
    known, symbols = np.unique(np.append(pairs, 0), return_inverse=True)
    return (
        Alphabet(bounds, symbols.ravel()[:-1], len(known), {}),
        _parts(known // b.size, a.size),
        _parts(known % b.size, b.size),
    )


def _parts(own: NDArray[np.int64], size: int) -> list[int]:
    masks = [0] * size
    for common, symbol in enumerate(own.tolist()):
        masks[symbol] |= 1 << common
    return masks


def in_symbols(dfa: SymbolDfa, parts: list[int]) -> SymbolDfa:
    """Write an automaton in a finer alphabet, given the masks of its symbols there."""
    known: dict[int, int] = {}

    def rewritten(mask: int) -> int:
        found = known.get(mask)
        if found is None:
            found, left = 0, mask
            while left:
                lowest = left & -left
                found |= parts[lowest.bit_length() - 1]
                left ^= lowest
            known[mask] = found
        return found

    return SymbolDfa([{t: rewritten(m) for t, m in row.items()} for row in dfa.moves], dfa.accepting)
