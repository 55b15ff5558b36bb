"""Byte automata after one another: a fixed text and what follows it, or some text until a marker and what follows that.

A state inside the marker is a state of the first part, that before the marker's possible beginning, and how much of the marker
has been read since. Where it does not go on, the bytes that turn out not to begin it are read by the first part after all.
A special token that stands for the marker leads on at once, and so the bytes before it belong to the first part.

Source: Knuth, Morris and Pratt, Fast pattern matching in strings (1977), for how much of the marker is left then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.behaviours import starts
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.letters import free_states, letter_of, tokens_of
from logitkit.compiler.bytes.sorting import distinct_rows
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

Bytes = NDArray[np.int64]


def anything() -> ByteDfa:
    """Return the automaton of all texts; ids without text are free."""
    step = np.full((FIRST_STATE + 1, 1), FIRST_STATE, np.int32)
    step[:FIRST_STATE] = DEAD
    live = np.array([False, False, True])
    return ByteDfa(step, np.zeros(256, np.int64), live, FIRST_STATE, free=live)


def after_text(text: bytes, rest: ByteDfa, limits: Limits) -> ByteDfa:
    """Return the automaton of a text followed by any text of `rest`.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """
    first = len(rest.step)
    limits.check_states(first + len(text))
    byte_class, (columns,) = joint_byte_classes([rest.byte_class], text)
    step = np.zeros((first + len(text), len(columns)), np.int32)
    step[:first] = rest.step[:, columns]
    begin = np.arange(first, first + len(text))
    step[begin, byte_class[np.frombuffer(text, np.uint8)]] = np.append(begin[1:], rest.start)[: len(text)]
    nothing = np.zeros(len(text), bool)
    return ByteDfa(
        step,
        byte_class,
        np.concatenate([rest.accepting, nothing]),
        first if text else rest.start,
        free=None if rest.free is None else np.concatenate([rest.free, nothing]),
        letters={t: np.concatenate([target, np.zeros(len(text), np.int64)]) for t, target in rest.letters.items()},
    )


def until_marker(first: ByteDfa, marker: bytes, second: ByteDfa, limits: Limits, token: int | None = None) -> ByteDfa:
    """Return the automaton of a text of `first`, the marker, and a text of `second`; the marker is where it occurs first.

    Args:
        first: What comes before the marker.
        marker: Not empty.
        second: What comes behind it.
        limits: Bounds on the result, before states that lead nowhere are left out.
        token: The special token that stands for the marker too, if there is one; it has no text.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    count, length = len(first.step), len(marker)
    byte_class, (own, others) = joint_byte_classes([first.byte_class, second.byte_class], marker)
    states = count * length + len(second.step)
    letters = sorted({*tokens_of(first, second), *([] if token is None else [token])})
    limits.check_work(states * (len(own) + len(letters)) // 4)
    symbols = byte_class[np.frombuffer(marker, np.uint8)]
    read = first.step[:, own]
    # Where each state of the first part is after the marker's first bytes.
    after = [np.arange(count)]
    for symbol in symbols[:-1].tolist():
        after.append(read[after[-1], symbol].astype(np.int64))
    left = _left_of(symbols.tolist(), len(own))
    base = len(second.step)
    step = np.zeros((states, len(own)), np.int32)
    step[:base] = second.step[:, others]
    for seen in range(length):
        rows = step[base + seen * count : base + (seen + 1) * count]
        for symbol in range(len(own)):
            kept = left[seen][symbol]
            if kept == length:
                rows[:, symbol] = np.where(first.accepting, second.start, DEAD)
                continue
            # Of what has been seen and this byte, all but the bytes that begin the marker again belong to the first part.
            target = read[after[seen], symbol] if kept == 0 else after[seen + 1 - kept]
            rows[:, symbol] = np.where(target == DEAD, DEAD, base + kept * count + target)
        rows[:FIRST_STATE] = DEAD
    accepting = np.concatenate([second.accepting, np.zeros(count * length, bool)])
    free = np.concatenate([free_states(second), *[free_states(first)] * length])
    leads_on = np.where(first.accepting, second.start, DEAD)
    targets = {
        letter: np.concatenate(
            [
                letter_of(second, letter),
                *_letter_before(first, letter, after, base, leads_on if letter == token else None),
            ]
        )
        for letter in letters
    }
    return trimmed(ByteDfa(step, byte_class, accepting, base + first.start, free=free, letters=targets), limits)


def _letter_before(first: ByteDfa, letter: int, after: list[Bytes], base: int, leads_on: Bytes | None) -> list[Bytes]:
    """Return where a letter leads from the states before the marker, for each number of its bytes that have been read.

    Args:
        first: What comes before the marker.
        letter: The token.
        after: Where each state of it is after so many bytes of the marker.
        base: The number of its first state in the result.
        leads_on: [S] where each of its states leads if the letter stands for the marker, else None.
    """
    does = letter_of(first, letter) if leads_on is None else leads_on
    found = []
    for seen, reached in enumerate(after):
        target = does[reached]
        if leads_on is None:
            # A token that changes nothing leaves what has been read of the marker as it is.
            here = base + seen * len(does) + np.arange(len(does))
            target = np.where(target == DEAD, DEAD, np.where(target == reached, here, base + target))
        target[:FIRST_STATE] = DEAD
        found.append(target)
    return found


def trimmed(dfa: ByteDfa, limits: Limits) -> ByteDfa:
    """Leave out the states that are not reached, and those from which no accepting one is.

    Raises:
        PatternTooLarge: More states than allowed are left.
    """
    source, _ = np.nonzero(dfa.step)
    source = np.concatenate([source, *(np.flatnonzero(letter) for letter in dfa.letters.values())])
    target = dfa.step[dfa.step != DEAD].astype(np.int64)
    target = np.concatenate([target, *(letter[letter != DEAD] for letter in dfa.letters.values())])
    count = len(dfa.step)
    live = reached(np.array([dfa.start]), source, target, count)
    live &= reached(np.flatnonzero(dfa.accepting), target, source, count)
    live[:FIRST_STATE] = False
    kept = np.flatnonzero(live)
    if not live[dfa.start]:
        # The empty language still has a start.
        return ByteDfa(
            np.zeros((FIRST_STATE + 1, 1), np.int32), np.zeros(256, np.int64), np.zeros(3, bool), FIRST_STATE
        )
    limits.check_states(len(kept))
    number = np.zeros(count, np.int32)
    number[kept] = FIRST_STATE + np.arange(len(kept))
    dead = np.arange(FIRST_STATE)
    rows = np.concatenate([dead, kept])
    step = number[dfa.step[rows]]
    step[:FIRST_STATE] = DEAD
    accepting = dfa.accepting[rows]
    accepting[:FIRST_STATE] = False
    letters = {token: number[letter[rows]].astype(np.int64) for token, letter in dfa.letters.items()}
    return ByteDfa(
        step, dfa.byte_class, accepting, int(number[dfa.start]), free=free_states(dfa)[rows], letters=letters
    )


def reached(begin: Bytes, source: Bytes, target: Bytes, count: int) -> NDArray[np.bool_]:
    """Return which of `count` states some moves lead to from the given ones."""
    order = np.argsort(source, kind="stable")
    target, first = target[order], starts(np.bincount(source, minlength=count))
    seen = np.zeros(count, bool)
    seen[begin] = True
    fresh = begin
    while len(fresh):
        place, _ = expand(first[fresh], first[fresh + 1] - first[fresh])
        found = np.unique(target[place])
        fresh = found[~seen[found]]
        seen[fresh] = True
    return seen


def joint_byte_classes(parts: list[Bytes], text: bytes) -> tuple[Bytes, list[Bytes]]:
    """Return classes of bytes that tell apart what all parts do and each byte of a text, and each one's class in the parts."""
    told = np.zeros(256, np.int64)
    letters = sorted(set(text))
    told[letters] = np.arange(1, len(letters) + 1)
    example, byte_class = distinct_rows([*parts, told])
    return byte_class, [part[example] for part in parts]


def _left_of(marker: list[int], symbols: int) -> list[list[int]]:
    """Return how many symbols at the end begin the marker, after so many of it and each symbol."""
    left = [[0] * symbols]
    left[0][marker[0]] = 1
    # What is left after all of it but the first symbol.
    shorter = 0
    for seen in range(1, len(marker)):
        left.append([*left[shorter]])
        left[seen][marker[seen]] = seen + 1
        shorter = left[shorter][marker[seen]]
    return left
