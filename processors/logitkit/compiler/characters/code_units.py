r"""Automata over UTF-16 code units, as JavaScript reads patterns without the flag `u`, as automata over characters.

There, a character above U+FFFF is two units, the halves of a surrogate pair: `.` matches one of them, and `\ud83c[\udf00-\udfff]`
two. Characters above U+FFFF do not occur in such patterns, so code points from there on stand for halves in their sets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.characters.alphabet import SURROGATES, Alphabet
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet

__all__ = ["in_characters", "of_units"]

FIRST_PAIR = 0x10000
# From a half to the code point that stands for it.
_SHIFT = FIRST_PAIR - SURROGATES[0]
# The halves that begin a pair, and as many that end one.
_HALVES = 0x400

# Filling this many cells of a table takes as long as a step.
_CELLS_PER_STEP = 4


def of_units(charset: CharSet) -> CharSet:
    """Return a set of code units, given as code points up to U+FFFF, in the form for `in_characters`.

    Example:
        >>> [hex(first) for first, _ in of_units(CharSet.of([(0x61, 0x61), (0xD801, 0xD801)])).ranges]
        ['0x61', '0x10001']
    """
    halves = charset & CharSet((SURROGATES,))
    others = (charset & CharSet(((0, FIRST_PAIR - 1),))) - halves
    return others | CharSet(tuple((first + _SHIFT, last + _SHIFT) for first, last in halves.ranges))


def in_characters(dfa: SymbolDfa | None, alphabet: Alphabet, limits: Limits) -> tuple[SymbolDfa | None, Alphabet]:
    """Return the automaton that reads characters where one over code units reads their units, and its alphabet.

    Args:
        dfa: Reads units, in the form of `of_units`; None accepts nothing.
        alphabet: Its alphabet.
        limits: Bounds on the construction.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    if dfa is None:
        return None, alphabet
    highs, high_of = _kinds(alphabet, FIRST_PAIR)
    lows, low_of = _kinds(alphabet, FIRST_PAIR + _HALVES)
    dead = len(dfa.moves)
    # All pairs that begin with one half are in runs of halves that end them.
    ends = np.flatnonzero(np.diff(low_of, prepend=-1))
    cells = dead * (alphabet.size + len(highs) * (len(lows) + 1)) + _HALVES * len(ends)
    limits.spend(cells // _CELLS_PER_STEP)
    targets = _targets(dfa, alphabet.size)
    # Where each state goes, for each kind of pair.
    pairs = targets[targets[:, highs]][:dead][:, :, lows]
    columns = np.ascontiguousarray(pairs.reshape(dead, -1).T)
    number: dict[bytes, int] = {}
    symbol_of = [number.setdefault(column.tobytes(), len(number)) for column in columns]
    kinds = columns[np.unique(symbol_of, return_index=True)[1]]
    size = alphabet.size + len(kinds)
    symbols = (alphabet.size + np.array(symbol_of)).reshape(len(highs), len(lows))
    bounds = FIRST_PAIR + _HALVES * np.arange(_HALVES)[:, None] + ends
    found = _with_pairs(alphabet, bounds.ravel(), symbols[high_of][:, low_of[ends]].ravel(), size)
    return minimise(_reading_pairs(dfa, kinds.T, found), limits), found


def _kinds(alphabet: Alphabet, first: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the symbols of the halves from one on, and which of them is that of each."""
    return np.unique(alphabet.symbol_at(np.arange(first, first + _HALVES)), return_inverse=True)


def _targets(dfa: SymbolDfa, size: int) -> NDArray[np.int32]:
    """Return where each state goes with each symbol, as a table; one more state stands for none, and stays."""
    dead = len(dfa.moves)
    table = np.full((dead + 1, size), dead, np.int32)
    for state, row in enumerate(dfa.moves):
        for target, mask in row.items():
            table[state, _symbols(mask, size)] = target
    return table


def _symbols(mask: int, size: int) -> NDArray[np.intp]:
    bits = np.frombuffer(mask.to_bytes(size // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


def _with_pairs(alphabet: Alphabet, bounds: NDArray[np.int64], symbols: NDArray[np.int64], size: int) -> Alphabet:
    """Return the alphabet with the characters below U+10000 of another one, and these runs of the others."""
    below = alphabet.bounds < FIRST_PAIR
    edges = np.diff(symbols, prepend=-1) != 0
    return Alphabet(
        np.concatenate([alphabet.bounds[below], bounds[edges]]),
        np.concatenate([alphabet.symbols[below], symbols[edges]]),
        size,
        {},
    )


def _reading_pairs(dfa: SymbolDfa, kinds: NDArray[np.int32], alphabet: Alphabet) -> SymbolDfa:
    """Return the states that can be reached with characters.

    Args:
        dfa: The automaton over code units.
        kinds: [S, kinds] where each state goes with each kind of pair.
        alphabet: The alphabet, whose last symbols are the kinds.
    """
    dead, first = len(dfa.moves), alphabet.size - kinds.shape[1]
    # Symbols of halves alone are those of no character.
    read = sum(1 << symbol for symbol in np.unique(alphabet.symbols[alphabet.bounds < FIRST_PAIR]).tolist() if symbol)
    number, places = {0: 0}, [0]
    moves: list[dict[int, int]] = []
    for state in places:
        row = {target: mask & read for target, mask in dfa.moves[state].items() if mask & read}
        for kind, target in enumerate(kinds[state].tolist()):
            if target != dead:
                row[target] = row.get(target, 0) | 1 << first + kind
        for target in row:
            if number.setdefault(target, len(places)) == len(places):
                places.append(target)
        moves.append({number[target]: mask for target, mask in row.items()})
    return SymbolDfa(moves, [dfa.accepting[state] for state in places])
