r"""The JSON text of a set of strings as an automaton over bytes, after the opening quote.

An automaton over the characters of strings becomes one over bytes as any other. Then come the escapes: where a line feed
leads from some state, its byte leads nowhere, but a backslash leads to a state of its own, from which `n` leads where the
line feed did. States from which all escaped characters lead to the same states share one such state:

    q --\--> q' --n--> where a line feed leads
                --u--> --0--> --0--> --0--> --1--> where U+0001 leads
                                     --1--> --f--> where U+001F leads

The result is minimal if the automaton over characters is, and is made without a loop over states: strings may have thousands.
A list of strings has no automaton over characters: that over bytes is made from the list, without a loop over its texts.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import outside_budget
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.in_utf8 import to_bytes
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.string_fragment import QUOTE, UNBOUNDED, StringFragment, counting
from logitkit.compiler.bytes.word_list import word_list_dfa
from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.string_text import SHORT

__all__ = ["string_fragment", "union_fragment"]

BACKSLASH = ord("\\")
ESCAPED = np.array([*range(0x20), QUOTE, BACKSLASH])
# The place of each escaped character, its letter after a backslash, and the bytes that escapes are written with.
SHORTS = [(place, ord(SHORT[c])) for place, c in enumerate(ESCAPED.tolist()) if c in SHORT]
LOWS, HIGHS = (
    [(place, ord(f"{c % 16:x}")) for place, c in enumerate(ESCAPED.tolist()) if c not in SHORT and c // 16 == half]
    for half in (0, 1)
)
LETTERS = sorted({QUOTE, BACKSLASH, *b"u01", *(letter for _, letter in (*SHORTS, *LOWS, *HIGHS))})

# The states of an escape: after the backslash; after `u`, `u0` and `u00`; and after `u000` and `u001`.
STATES = 6

# The cost of writing a set, in steps.
STEPS_ANY, STEPS_A_MOVE, CELLS_A_STEP = 500, 10, 8
# The cost of each character of a list.
STEPS_LISTED = 5

# The automata that are kept for all vocabularies.
_known: BoundedCache[Hashable, StringFragment] = BoundedCache(32 * 2**20)
_lock = Lock()


def string_fragment(language: TextLanguage, lengths: tuple[int, int] | None = None) -> StringFragment:
    r"""Return the fragment of the JSON texts of some strings; equal sets have the same one.

    Args:
        language: The strings.
        lengths: The least and the greatest number of their characters, if that is to be counted. The language must be
            `countable`, and have such a text.

    Raises:
        PatternTooLarge: There are too many states.
        ValueError: The language has no strings.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> fragment = string_fragment(TextLanguage.of_texts(["a\n"], DEFAULT_LIMITS))
        >>> state = 2
        >>> for byte in rb'a\n"':
        ...     state = int(fragment.step[state, fragment.byte_class[byte]])
        >>> NestedStep.is_end(state)
        True
    """
    if language.is_empty:
        raise ValueError("the language has no strings")
    language.limits.spend(STEPS_ANY + _steps(language))
    fragment = _known.get(language.key)
    if fragment is None:
        with outside_budget():
            fragment = _fragment(language)
        with _lock:
            _known.keep(language.key, fragment, 2 * fragment.step.nbytes)
    # An automaton that is known already costs the same as one that is made now.
    language.limits.check_states(fragment.states)
    language.limits.spend(fragment.step.size // CELLS_A_STEP)
    # Escapes have five bytes after the first one.
    return fragment if lengths is None else counting(fragment, language.needed, STATES, (lengths,))


def union_fragment(
    language: TextLanguage, needed: NDArray[np.int64], ends: NDArray[np.bool_], lengths: tuple[int, int]
) -> StringFragment:
    """Return the fragment of strings of which some may have any length.

    Args:
        language: The strings.
        needed: For each state, how many characters must follow if the length is bounded; `ANY_COUNT` if it need not be.
        ends: For each state, whether a string of any length may end there.
        lengths: The least and the greatest number of characters of the others.
    """
    fragment = string_fragment(language)
    step = fragment.step.copy()
    step[FIRST_STATE + np.flatnonzero(ends), fragment.byte_class[QUOTE]] = NestedStep.end(1)
    return counting(replace(fragment, step=step, marks=(1, 1)), needed, STATES, (lengths, UNBOUNDED))


def _steps(language: TextLanguage) -> int:
    """Return the cost of writing the strings of a set, but for what any set costs."""
    if language.listed is not None:
        return STEPS_LISTED * sum(map(len, language.listed))
    assert language.dfa is not None
    return STEPS_A_MOVE * sum(map(len, language.dfa.moves))


def _bytes_of(language: TextLanguage) -> ByteDfa:
    """Return the minimal automaton over the bytes of some strings, without escapes."""
    if language.listed is None:
        return to_bytes(language.dfa, language.alphabet, language.limits)
    found = word_list_dfa([text.encode() for text in language.listed], language.limits)
    # The start is the last state there, and the first one of a fragment.
    number = np.append(np.arange(FIRST_STATE), np.arange(len(found.step) - 1, FIRST_STATE - 1, -1)).astype(np.int32)
    return ByteDfa(number[found.step[number]], found.byte_class, found.accepting[number], FIRST_STATE)


def _fragment(language: TextLanguage) -> StringFragment:
    dfa = _bytes_of(language)
    accepting = np.flatnonzero(dfa.accepting)
    # The moves of escaped characters, in states that are not inside of a character.
    step, byte_class = _without_escaped(dfa.step, dfa.byte_class)
    does = dfa.step[:, dfa.byte_class[ESCAPED]]
    rows, group = np.unique(does, axis=0, return_inverse=True)
    group = group.ravel()
    first, escapes = _escapes(rows, byte_class, len(step), step.shape[1])
    step = np.concatenate([step, escapes])
    step[: len(group), byte_class[BACKSLASH]] = first[group]
    step[accepting, byte_class[QUOTE]] = NestedStep.end(0)
    return StringFragment(step, byte_class, (1,))


def _without_escaped(
    step: NDArray[np.int32], byte_class: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return a table in which escaped characters are dead, and a class for each byte that escapes are written with."""
    own = byte_class.copy()
    own[ESCAPED] = step.shape[1]
    told = np.zeros(256, np.int64)
    told[LETTERS] = 1 + np.arange(len(LETTERS))
    # The first class is dead in all states, as those of any automaton are.
    pairs = np.where((own == 0) & (told == 0), -1, own * 256 + told)
    _, example, classes = np.unique(pairs, return_index=True, return_inverse=True)
    wide = np.append(step, np.zeros((len(step), 1), np.int32), axis=1)
    return wide[:, own[example]], classes.ravel()


def _escapes(
    rows: NDArray[np.int32], byte_class: NDArray[np.int64], states: int, width: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the states of escapes.

    Args:
        rows: [N, 34] where each escaped character leads, for each group of states that agree on this.
        byte_class: [256] the class of each byte.
        states: The number of states before them.
        width: The number of classes.

    Returns:
        The state after the backslash for each group, `DEAD` if there is none, and what the new states do.
    """
    low, high = (rows[:, [place for place, _ in digits]].any(axis=1) for digits in (LOWS, HIGHS))
    numbered = low | high
    any_short = rows[:, [place for place, _ in SHORTS]].any(axis=1)
    alive = np.stack([any_short | numbered, numbered, numbered, numbered, low, high], axis=1)
    number = np.where(alive, (states - 1 + np.cumsum(alive)).reshape(alive.shape), DEAD)
    step = np.zeros((len(rows), STATES, width), np.int32)
    for place, letter in SHORTS:
        step[:, 0, byte_class[letter]] = rows[:, place]
    step[:, 0, byte_class[ord("u")]] = number[:, 1]
    step[:, 1, byte_class[ord("0")]] = number[:, 2]
    step[:, 2, byte_class[ord("0")]] = number[:, 3]
    step[:, 3, byte_class[ord("0")]] = number[:, 4]
    step[:, 3, byte_class[ord("1")]] = number[:, 5]
    for state, digits in ((4, LOWS), (5, HIGHS)):
        for place, digit in digits:
            step[:, state, byte_class[digit]] = rows[:, place]
    return number[:, 0].astype(np.int32), step[alive]
