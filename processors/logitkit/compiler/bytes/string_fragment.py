"""Automata that stand in another one many times, as strings do in a schema: each is built once, and copied to these places.

A *string fragment* calls nothing. Each of its texts ends with a byte after which no text continues, as a string ends with its
closing quote. An *instance* of it is a run of states in a `NestedDfa`, and each end of the instance leads to a state outside of
it. Up to the end, a token does the same in all instances. So the effects of tokens in a fragment are found once for each
vocabulary (`compiler.tokens.fragments.fragment_tokens`), and an automaton with instances is put together from them.

By hand, for strings of the letters `a` and `b`, after the opening quote: state 2 is the start, both letters lead from it to
itself, and the closing quote is end 0. If the fragment counts up to 5 characters, both letters count, and end 0 is legal with a
count of 0 to 5.

Invariants: a fragment has no states for counts; a count stands beside the state. An end is a number, not a state.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.nested_step import NestedStep

__all__ = [
    "ANY_COUNT",
    "MOST",
    "QUOTE",
    "UNBOUNDED",
    "Counted",
    "StringFragment",
    "counting",
    "counting_byte",
]

# The byte that begins a fragment.
QUOTE = ord('"')

# The greatest count.
MOST = 2**31 - 1
# More than any state needs.
NEVER = 2**30
# The need of a state that is legal with any count; lower than any number.
ANY_COUNT = -(2**31)
# The bounds of an end that is legal with any count.
UNBOUNDED = (0, MOST)


class Counted(NamedTuple):
    """The moves that a fragment counts in its texts: those that begin a character, or those that read a certain byte.

    A state is legal with a count if the count plus the need of the state is at most `most`. If ends have different bounds,
    `most` is the highest one. To the need of a state that leads to an end with a lower bound, the difference is added. So one
    bound is enough for all states.

    Args:
        most: The highest of the greatest counts of all ends.
        counts: [S, K] bool, whether the move of a state with a class of bytes counts. A move to an end never counts.
        needed: [S] the need of each state: how many moves that count must follow at least, or `ANY_COUNT`.
        ends: For each end, the least and the greatest count with which it is legal, or `UNBOUNDED`.
    """

    most: int
    counts: NDArray[np.bool_]
    needed: NDArray[np.int64]
    ends: tuple[tuple[int, int], ...]

    def at_ends(self, fragment: StringFragment) -> NDArray[np.int64]:
        """Return [S, 2] the least and the greatest count with which a text may end in each state of the fragment.

        All ends to which one state leads have the same bounds. The bounds of a state that leads to no end have no meaning.
        """
        found = np.zeros((fragment.states, 2), np.int64)
        state, symbol = np.nonzero(NestedStep.is_end(fragment.step))
        found[state] = np.array(self.ends)[NestedStep.number(fragment.step[state, symbol])]
        return found


@dataclass(frozen=True, eq=False)
class StringFragment:
    """A fragment, after its first byte.

    Args:
        step: [S, K] int32, the step of each state with each class of bytes (`NestedStep`): to a state or an end. State 0 is dead,
            and state 1 is unused.
        byte_class: [256] int64, the class of each byte.
        marks: For each end, the marks of the rules that the text belongs to, as bits.
        counted: The moves that it counts; None: it does not count.
        is_text: Whether it is free text, which begins without a quote and may end with any byte.
    """

    step: NDArray[np.int32]
    byte_class: NDArray[np.int64]
    marks: tuple[int, ...]
    counted: Counted | None = None
    is_text: bool = False

    @classmethod
    def of(cls, dfa: ByteDfa, marks: list[int]) -> StringFragment:
        """Turn the ends of an automaton, which are states there, into ends of a fragment.

        Args:
            dfa: The automaton.
            marks: The marks of its states, from the start state on; 0 for a state that is not an end. States after these are not
                ends either.
        """
        ends = [FIRST_STATE + state for state, found in enumerate(marks) if found]
        kept = np.setdiff1d(np.arange(len(dfa.step)), ends)
        number = np.zeros(len(dfa.step), np.int32)
        number[kept] = np.arange(len(kept))
        number[ends] = NestedStep.end(np.arange(len(ends)))
        return cls(number[dfa.step[kept]], dfa.byte_class, tuple(mark for mark in marks if mark))

    @property
    def states(self) -> int:
        """Number of its states, with states 0 and 1; state 2 is the start."""
        return len(self.step)

    @property
    def size(self) -> int:
        """Number of states of an instance."""
        return len(self.step) - FIRST_STATE

    def holds(self, text: bytes) -> bool:
        """Whether a text, with its last byte, belongs to the fragment."""
        state, count = FIRST_STATE, 0
        for symbol in self.byte_class[list(text)].tolist():
            if state == DEAD or NestedStep.is_end(state):
                return False
            count += self.counted is not None and int(self.counted.counts[state, symbol])
            state = int(self.step[state, symbol])
        is_end = bool(NestedStep.is_end(state))
        if not is_end or self.counted is None:
            return is_end
        least, most = self.counted.ends[NestedStep.number(state)]
        return least <= count <= most

    @cached_property
    def highest_counts(self) -> NDArray[np.int64]:
        """[S] a count that no row in a state exceeds, for a fragment that counts; -1 for states in which no row is."""
        assert self.counted is not None
        possible = np.clip(self.counted.most - self.counted.needed, 0, MOST)
        found = np.full(self.states, -1)
        found[FIRST_STATE] = 0
        fresh = np.array([FIRST_STATE])
        while len(fresh):
            target = self.step[fresh]
            owner, symbol = np.nonzero(NestedStep.is_state(target) & (target != DEAD))
            target, source = target[owner, symbol], fresh[owner]
            before = found.copy()
            np.maximum.at(
                found, target, np.minimum(found[source] + self.counted.counts[source, symbol], possible[target])
            )
            # A loop may count again and again, so a state that is reached again may have any count that is possible.
            found = np.where((before >= 0) & (found != before), possible, found)
            fresh = np.flatnonzero(found != before)
        return found

    @cached_property
    def key(self) -> bytes:
        """A digest of the content, by which equal fragments are found."""
        bounds = () if self.counted is None else (self.counted.most, self.counted.ends)
        return hashlib.sha256(self.uncounted_key + repr(bounds).encode()).digest()

    @cached_property
    def uncounted_key(self) -> bytes:
        """A digest of the content without the bounds of counts, but with the moves that count."""
        counts = b"" if self.counted is None else np.packbits(self.counted.counts).tobytes()
        digest = hashlib.sha256(repr((self.step.shape, self.marks, len(counts), self.is_text)).encode())
        for content in (self.step.tobytes(), self.byte_class.tobytes(), counts):
            digest.update(content)
        return digest.digest()

    def with_class_of(self, byte: int) -> StringFragment:
        """Return the same fragment, in which one byte has a class of its own."""
        shared = self.byte_class[[byte]]
        if np.count_nonzero(self.byte_class == shared) == 1:
            return self
        byte_class = self.byte_class.copy()
        byte_class[byte] = self.step.shape[1]
        step, counted = np.append(self.step, self.step[:, shared], axis=1), self.counted
        if counted is not None:
            counted = counted._replace(counts=np.append(counted.counts, counted.counts[:, shared], axis=1))
        return replace(self, step=step, byte_class=byte_class, counted=counted)

    @property
    def stays(self) -> NDArray[np.bool_]:
        """[S, K] whether each move leads to a state of the fragment, not to an end or nowhere."""
        found: NDArray[np.bool_] = NestedStep.is_state(self.step) & (self.step != DEAD)
        return found


def counting(
    fragment: StringFragment,
    needed: NDArray[np.int64],
    within: int,
    ends: tuple[tuple[int, int], ...],
) -> StringFragment:
    """Return a fragment that counts the characters of its texts.

    Args:
        fragment: The fragment. Its first states are those in which a character may begin.
        needed: [N] how many characters must follow at least in each of these states, or `ANY_COUNT`; see `Counted`.
        within: The most states inside of one character, one after another.
        ends: For each end, the least and the greatest number of characters before its last byte, or `UNBOUNDED`.
    """
    between = FIRST_STATE + len(needed)
    found = np.full(fragment.states, 0)
    found[FIRST_STATE:between] = needed
    # A state inside of a character needs what the states after the character need.
    inside = fragment.step[between:]
    found[between:] = NEVER
    for _ in range(within):
        outside = (inside == DEAD) | NestedStep.is_end(inside)
        reached = np.where(outside, NEVER, found[np.where(outside, DEAD, inside)])
        found[between:] = reached.min(axis=1, initial=NEVER)
    # A character counts from its first byte on.
    counts = fragment.stays
    counts[between:] = False
    most = max((high for low, high in ends if (low, high) != UNBOUNDED), default=MOST)
    return replace(fragment, counted=Counted(most, counts, found, ends))


def counting_byte(fragment: StringFragment, byte: int, most: int) -> StringFragment:
    """Return a fragment that counts how often a byte occurs in its texts, without the last byte of each.

    Args:
        fragment: The fragment.
        byte: The byte.
        most: The greatest number.
    """
    fragment = fragment.with_class_of(byte)
    stays = fragment.stays
    counts = stays & (np.arange(fragment.step.shape[1]) == fragment.byte_class[byte])
    at_once = np.where(NestedStep.is_end(fragment.step), 0, NEVER)
    after = np.where(stays, fragment.step, DEAD)
    needed, before = at_once.min(axis=1), None
    while before is None or (needed != before).any():
        needed, before = np.where(stays, needed[after] + counts, at_once).min(axis=1), needed
    return replace(fragment, counted=Counted(most, counts, needed, ((0, most),) * len(fragment.marks)))
