"""An automaton that looks for several texts at once, as free text needs that ends where a marker begins.

Take the markers `<a>` and `<b>`. After `x<` two characters are missing of either; after `<<` it is the second `<` that counts.
So a state is the longest end of the text that begins a marker, as in Aho and Corasick, Efficient string matching (1975). Special
tokens are symbols like characters. A special token that is not part of any marker changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logitkit.compiler.characters.alphabet import SURROGATES
from logitkit.compiler.characters.symbols import Symbol
from logitkit.limits import Limits
from logitkit.patterns.charset import ANY, CharSet

__all__ = ["Search", "Symbols"]

ENCODABLE = ANY - CharSet((SURROGATES,))

# A text with special tokens in it: code points, and symbols of special tokens.
Symbols = tuple[int, ...]

Move = tuple[CharSet, int]


@dataclass(frozen=True, eq=False, slots=True)
class Search:
    """The states while no text has been found.

    Args:
        moves: For each state, symbols and the state that they lead to. State 0 is the start.
        found: For each state, symbols with which texts are complete, and the numbers of these texts. A text that ends with
            another one is found together with it.
    """

    moves: tuple[tuple[Move, ...], ...]
    found: tuple[tuple[tuple[CharSet, tuple[int, ...]], ...], ...]

    @classmethod
    def of(cls, texts: Sequence[Iterable[Symbols]], tokens: Iterable[int], limits: Limits) -> Search:
        """Build the automaton.

        Args:
            texts: The texts, each with all ways to write it; none of them is empty. A way that begins with a way of another text
                is never found, as the other one is found first.
            tokens: The symbols of all special tokens.
            limits: Bounds on the states, and on the moves in all of them.

        Raises:
            PatternTooLarge: A limit is exceeded.
        """
        child: list[dict[int, int]] = [{}]
        ends: list[set[int]] = [set()]
        # The shortest first: what begins with another way adds no states.
        for way, number in sorted(((way, n) for n, ways in enumerate(texts) for way in ways), key=lambda w: len(w[0])):
            state = 0
            for symbol in way:
                if ends[state]:
                    break
                following = child[state].setdefault(symbol, len(child))
                if following == len(child):
                    child.append({})
                    ends.append(set())
                state = following
            else:
                ends[state].add(number)
            limits.check_states(len(child))
        used = {symbol for row in child for symbol in row}
        limits.spend(len(child) * len(used))
        others = ENCODABLE - CharSet.of((s, s) for s in used if Symbol.is_character(s))
        unused = [CharSet.single(token) for token in tokens if token not in used]
        # Level by level: what a state falls back to is shorter, so its steps are known.
        steps: list[dict[int, int]] = [{} for _ in child]
        order, fallback = [0], [0] * len(child)
        for state in order:
            below = steps[fallback[state]] if state else {}
            steps[state] = {**below, **child[state]}
            ends[state] |= ends[fallback[state]]
            for symbol, target in child[state].items():
                fallback[target] = below.get(symbol, 0)
                order.append(target)
        open_states = [state for state in range(len(child)) if not ends[state]]
        number_of = {state: number for number, state in enumerate(open_states)}
        moves, found = [], []
        for state in open_states:
            leads: dict[int, list[int]] = {}
            complete: dict[tuple[int, ...], list[int]] = {}
            for symbol in used:
                target = steps[state].get(symbol, 0)
                if ends[target]:
                    complete.setdefault(tuple(sorted(ends[target])), []).append(symbol)
                else:
                    leads.setdefault(number_of[target], []).append(symbol)
            row = [(charset, target) for target, symbols in leads.items() for charset in _sets(symbols)]
            row.extend((charset, number_of[state]) for charset in unused)
            moves.append(((others, 0), *row))
            found.append(tuple((charset, which) for which, symbols in complete.items() for charset in _sets(symbols)))
        return cls(tuple(moves), tuple(found))


def _sets(symbols: list[int]) -> list[CharSet]:
    """Return symbols as sets: characters together, each special token by itself."""
    characters = CharSet.of((s, s) for s in symbols if Symbol.is_character(s))
    return [*([characters] if characters else []), *(CharSet.single(s) for s in symbols if Symbol.is_special_token(s))]
