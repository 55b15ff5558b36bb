r"""Where texts occur that contain names of special tokens.

By hand, for the texts `"a<X>b"` and `"ac"`, where `<X>` is a special token without text: the token may be generated, or its
name may be spelled in bytes. Within `"ac"`, the token changes nothing, like any other token without text, so `a`, the token and
`c` are an occurrence. So after `a` and the token, both `b` and `c` complete a text, and no single beginning of a text describes
this. A state is therefore a set of *places* in texts, and is found by subset construction.

Texts without names have an automaton of their own (`occurrences`), which can be large. A state of the whole is a pair of states
of both. Special tokens do not change the state of the part without names.

Invariants:

- A place belongs to one text. It says how far the last symbols spell the text, and how many bytes they have.
- A special token moves or drops the places of texts that contain it, and keeps all others.
- Nothing is followed after the end of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import one_budget
from logitkit.compiler.bytes.occurrences import Occurrences, folded_occurrences, variants
from logitkit.limits import Limits
from logitkit.vocabulary.marker_symbol import MarkerSymbol
from logitkit.vocabulary.text_with_names import TextWithNames

__all__ = ["NamedSearch", "named_occurrences", "numbered", "together"]

# The cost of a move of one place, in steps.
STEPS_OF_MOVE = 16

# Pairs of states whose numbers take the memory of one step.
PAIRS_A_STEP = 6


class TextPlace(NamedTuple):
    """How far a text has been read.

    Args:
        text: Its number.
        at: How many of its bytes have been read, or of its characters if case is ignored; a name counts as if it had been
            spelled.
        begun: The first bytes of the next character, if that is not complete.
        read: How many bytes have been read.
    """

    text: int
    at: int
    begun: bytes
    read: int


def named_occurrences(texts: Sequence[TextWithNames], limits: Limits, ignore_case: bool = False) -> Occurrences:
    """Build the automaton of any number of texts that are not empty. Of equal texts, the first counts.

    If a text is only the name of a special token, the caller must handle the token itself. Here, the name is only spelled.

    Args:
        texts: The texts. If case is ignored, they are str.
        limits: Bounds on the states.
        ignore_case: Whether texts that differ in case only are equal, as in `re.IGNORECASE`.

    Raises:
        PatternTooLarge: There are more states than allowed, or a text is too long.
    """
    mixed = [number for number, text in enumerate(texts) if text.is_mixed]
    others = [number for number, text in enumerate(texts) if not text.is_mixed]
    if ignore_case and others:
        plain = folded_occurrences([t for t in (texts[i].text for i in others) if isinstance(t, str)], limits)
    else:
        plain = Occurrences.of([texts[i].encoded for i in others], limits)
    if not mixed:
        return plain
    with one_budget(limits.work):
        named = NamedSearch([texts[i] for i in mixed], limits, ignore_case).occurrences
        return together(numbered(plain, others), numbered(named, mixed), limits)


def numbered(found: Occurrences, numbers: Sequence[int]) -> Occurrences:
    """Return the same automaton with other numbers for its texts."""
    return replace(found, longest=np.array([*numbers, -1])[found.longest])


class NamedSearch:
    """The places in texts that contain names.

    Args:
        texts: The texts.
        limits: Bounds on the states.
        ignore_case: Whether case is ignored.
    """

    def __init__(self, texts: Sequence[TextWithNames], limits: Limits, ignore_case: bool = False) -> None:
        limits.check_length(max((len(text.encoded) for text in texts), default=0), STEPS_OF_MOVE)
        self._limits = limits
        self._spelled = [_characters(text, ignore_case) for text in texts]
        self._tokens = [text.tokens for text in texts]
        self._all_tokens: frozenset[int] = frozenset().union(*self._tokens)
        self._names = [{name.begin: name for name in text.names} for text in texts]
        self._begin = [TextPlace(number, 0, b"", 0) for number in range(len(texts))]
        self.live: list[frozenset[TextPlace]] = []
        """The places of each state in which no text is complete; these states come first."""
        self.occurrences = self._built()

    def next_symbol(self, state: int) -> int:
        """Return the symbol that continues a text, the one of which most has been read.

        A name is continued by its token only. So places inside of a name do not count, even if part of the name has been spelled.
        """
        outside = [place for place in [*self.live[state], self._begin[0]] if not self._is_in_name(place)]
        text, at, begun, _ = max(outside, key=lambda place: (place.at, place.begun))
        name = self._names[text].get(at)
        return self._spelled[text][at][0][len(begun)] if name is None else MarkerSymbol.token(name.tokens[0])

    def spelled(self, state: int) -> int:
        """Return how many bytes or characters of a text have been read. Names count as if they had been spelled."""
        return max((place.at for place in self.live[state]), default=0)

    def _is_in_name(self, place: TextPlace) -> bool:
        inside = any(name.begin < place.at < name.end for name in self._names[place.text].values())
        return inside or (bool(place.begun) and place.at in self._names[place.text])

    def _built(self) -> Occurrences:
        moves: list[dict[int, int]] = []
        number: dict[frozenset[TextPlace], int] = {frozenset(): 0}
        waiting = [frozenset[TextPlace]()]
        ends: dict[tuple[int, int], int] = {}
        for places in waiting:
            row = {}
            for symbol, after in self._moves(places).items():
                complete = [place for place in after if place.at == len(self._spelled[place.text])]
                if complete:
                    # Several texts may end here: the one that began first counts, and then the first in the list.
                    read, text = max((place.read, -place.text) for place in complete)
                    row[symbol] = -1 - ends.setdefault((-text, read), len(ends))
                    continue
                key = frozenset(after)
                if key not in number:
                    number[key] = len(waiting)
                    waiting.append(key)
                    self._limits.check_states(len(waiting))
                row[symbol] = number[key]
            moves.append(row)
        self.live = waiting
        return self._tables(moves, [*ends])

    def _moves(self, places: frozenset[TextPlace]) -> dict[int, set[TextPlace]]:
        """Return the places after each symbol that leads to any."""
        found: dict[int, set[TextPlace]] = {}
        for place in [*places, *self._begin]:
            text, at, begun, read = place
            self._limits.spend(STEPS_OF_MOVE * (1 + len(self._all_tokens)))
            for spelling in self._spelled[text][at]:
                if spelling.startswith(begun):
                    more = spelling[: len(begun) + 1]
                    after = (
                        TextPlace(text, at + 1, b"", read + 1)
                        if more == spelling
                        else TextPlace(text, at, more, read + 1)
                    )
                    found.setdefault(more[-1], set()).add(after)
            name = None if begun else self._names[text].get(at)
            if name is not None:
                for token in name.tokens:
                    found.setdefault(MarkerSymbol.token(token), set()).add(TextPlace(text, name.end, b"", read))
            if at or begun:
                for token in self._all_tokens - self._tokens[text]:
                    found.setdefault(MarkerSymbol.token(token), set()).add(place)
        return found

    def _tables(self, moves: list[dict[int, int]], ends: list[tuple[int, int]]) -> Occurrences:
        """Return moves as arrays. A complete text, with its number of bytes, is a state after all others."""
        live, states = len(moves), len(moves) + len(ends)
        used = sorted({symbol for row in moves for symbol in row if MarkerSymbol.is_byte(symbol)})
        byte_class = np.zeros(256, np.int64)
        byte_class[used] = np.arange(1, len(used) + 1)
        step = np.zeros((states, len(used) + 1), np.int32)
        special_tokens = {token: np.zeros(states, np.int64) for token in sorted(self._all_tokens)}
        for state, row in enumerate(moves):
            for symbol, target in row.items():
                to = target if target >= 0 else live - 1 - target
                if MarkerSymbol.is_byte(symbol):
                    step[state, byte_class[symbol]] = to
                else:
                    special_tokens[MarkerSymbol.token_id(symbol)][state] = to
        longest, depth = np.full(states, -1, np.int64), np.zeros(states, np.int64)
        longest[live:], depth[live:] = np.array(ends, np.int64).reshape(-1, 2).T
        depth[:live] = [max((place.read for place in places), default=0) for places in self.live]
        return Occurrences(step, byte_class, longest, depth, None, special_tokens)


def _characters(text: TextWithNames, ignore_case: bool) -> list[tuple[bytes, ...]]:
    """Return the spellings of each character of a text, or each byte if case counts."""
    if ignore_case:
        assert isinstance(text.text, str)
        spellings = variants([text.text])
        return [spellings[character] for character in text.text]
    return [(bytes([byte]),) for byte in text.encoded]


def together(plain: Occurrences, named: Occurrences, limits: Limits) -> Occurrences:
    """Return the automaton of the texts of two automata. Special tokens change nothing in the first one.

    Args:
        plain: The first one.
        named: The other one.
        limits: Bounds on the states.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """
    width = named.step.shape[1]
    pairs, byte_class = np.unique(plain.byte_class * width + named.byte_class, return_inverse=True)
    # Class 0 holds the bytes of no text.
    others = int(np.flatnonzero(pairs == 0)[0]) if (pairs == 0).any() else None
    if others is None:
        pairs, byte_class = np.append(0, pairs), byte_class + 1
    columns = np.stack([pairs // width, pairs % width])
    count = np.int64(len(named.step))
    limits.spend(len(plain.step) * int(count) // PAIRS_A_STEP)
    numbers = np.full(len(plain.step) * int(count), -1, np.int64)
    numbers[0] = 0
    reached, step_rows, special_token_rows = [np.zeros(1, np.int64)], [], []
    states = 1
    for level in reached:
        first, second = np.divmod(level, count)
        after = plain.step[first][:, columns[0]] * count + named.step[second][:, columns[1]]
        moved = np.array([first * count + leads[second] for leads in named.special_tokens.values()], np.int64)
        moved = moved.reshape(len(named.special_tokens), len(first)).T
        ends = (plain.longest[first] >= 0) | (named.longest[second] >= 0)
        # Nothing is followed after the end of a text.
        after[ends], moved[ends] = 0, 0
        fresh = np.unique(np.concatenate([after.reshape(-1), moved.reshape(-1)]))
        fresh = fresh[numbers[fresh] < 0]
        numbers[fresh] = states + np.arange(len(fresh))
        states += len(fresh)
        limits.check_states(states)
        limits.spend(after.size)
        step_rows.append(after)
        special_token_rows.append(moved)
        if len(fresh):
            reached.append(fresh)
    first, second = np.divmod(np.concatenate(reached), count)
    special_tokens = numbers[np.concatenate(special_token_rows)]
    return Occurrences(
        numbers[np.concatenate(step_rows)].astype(np.int32),
        byte_class.reshape(-1),
        *_first_found(plain, named, first, second),
        None,
        {token: special_tokens[:, i] for i, token in enumerate(named.special_tokens)},
    )


def _first_found(
    plain: Occurrences, named: Occurrences, first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the text that is complete in each pair of states, of two the one that began first, and the depth."""
    text, other = plain.longest[first], named.longest[second]
    depth, other_depth = plain.depth[first], named.depth[second]
    takes_other = (text < 0) | ((other >= 0) & ((other_depth > depth) | ((other_depth == depth) & (other < text))))
    longest = np.where(takes_other, other, text)
    complete = np.where(takes_other, other_depth, depth)
    return longest, np.where(longest >= 0, complete, np.maximum(depth, other_depth))
