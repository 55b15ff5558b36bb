"""From a network to one automaton over bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.behaviours import starts
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.concatenation import joint_byte_classes
from logitkit.compiler.bytes.in_utf8 import to_bytes
from logitkit.compiler.bytes.nested_dfa import NEVER, NestedDfa
from logitkit.compiler.bytes.nesting_needs import alive, behind_is, needs
from logitkit.compiler.characters.network import Network
from logitkit.compiler.characters.network_parts import Called, Part, has_calls, parts_of
from logitkit.compiler.language import byte_dfa_of
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits

Ints = NDArray[np.int64]


def network_dfa(network: Network, limits: Limits) -> NestedDfa:
    """Compile a network to an automaton over bytes.

    Raises:
        PatternTooLarge: A limit is exceeded, or too many calls cannot be told apart by their brackets.
        ConfigurationError: A bracket begins a call and something else, or the end of a definition is none.
    """
    if not has_calls(network.main):
        return NestedDfa.of(byte_dfa_of(network.main, limits))
    parts = parts_of(network, limits)
    return _live(_joined(parts, [to_bytes(p.dfa, p.alphabet, limits) for p in parts.values()], limits))


def _joined(parts: dict[Called, Part], dfas: list[ByteDfa], limits: Limits) -> NestedDfa:
    """Number the states of all parts one after another, and put in what brackets do."""
    number = {called: i for i, called in enumerate(parts)}
    shift = FIRST_STATE + starts(np.array([len(d.step) - FIRST_STATE for d in dfas]))
    states = int(shift[-1])
    limits.check_states(states)
    byte_class, columns = joint_byte_classes([d.byte_class for d in dfas], b"[{")
    limits.check_work(states * len(columns[0]) // 4)
    step = np.zeros((states, len(columns[0])), np.int32)
    accepting = np.zeros(states, bool)
    end_at = np.full(states, -1)
    ends: dict[tuple[int, int], int] = {}
    frames: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
    calls: dict[tuple[int, int], int] = {}
    opened: list[tuple[int, int, int]] = []
    for i, (part, dfa) in enumerate(zip(parts.values(), dfas, strict=True)):
        own = dfa.step[FIRST_STATE:][:, columns[i]]
        first = int(shift[i])
        step[first : shift[i + 1]] = np.where(own == DEAD, DEAD, own + (first - FIRST_STATE))
        for state, (brackets, marks) in enumerate(zip(part.brackets, part.ends, strict=True)):
            if marks:
                end_at[first + state] = ends.setdefault((i, marks), len(ends))
            for opening, bracket in brackets.items():
                called = number[bracket.called]
                behind = tuple((m, first + target) for m, target in bracket.behind)
                frame = frames.setdefault((called, behind), len(frames))
                opened.append((first + state, ord(opening), calls.setdefault((called, frame), len(calls))))
        if i == 0:
            accepting[first : shift[1]] = dfa.accepting[FIRST_STATE:]
    goes_on = (step != DEAD).any(axis=1)
    source, symbol, call = np.array(opened, np.int64).reshape(-1, 3).T
    symbol = byte_class[symbol]
    if (step[source, symbol] != DEAD).any():
        raise ConfigurationError("where a bracket begins a call it must begin nothing else")
    if (goes_on[end_at >= 0]).any() or (end_at[source] >= 0).any():
        raise ConfigurationError("a definition must end with its closing bracket, behind which nothing of it goes on")
    where = np.flatnonzero(end_at[step] >= 0)
    if len(where):
        flat = step.ravel()
        flat[where] = states + len(calls) + end_at[flat[where]]
    step[source, symbol] = states + call
    behind_of = np.zeros((len(ends), len(frames)), np.int64)
    for (called, behind), frame in frames.items():
        for marks, target in behind:
            if (called, marks) in ends:
                behind_of[ends[called, marks], frame] = target
    bodies = np.array([called for called, _ in calls], np.int64)
    return NestedDfa(
        step,
        byte_class,
        accepting,
        FIRST_STATE,
        shift[bodies],
        np.array([frame for _, frame in calls], np.int64),
        behind_of,
        np.zeros(states, np.int64),
    )


def _live(dfa: NestedDfa) -> NestedDfa:
    """Leave out the states from which no text can be ended, and find out how deep the others must go for that."""
    lives, met = alive(dfa)
    dfa = replace(dfa, behind=np.where(met[:, None], dfa.behind, DEAD))
    need = needs(dfa)
    if (lives & (need == NEVER)).any():
        raise ConfigurationError(
            "what follows a call must go deeper than the call, however deep that was, so that no depth is enough; let one of the "
            "definitions that a bracket may begin end otherwise"
        )
    kept = np.flatnonzero(need < NEVER)
    if need[dfa.start] == NEVER:
        return NestedDfa.of(to_nothing())
    known = np.concatenate([np.arange(FIRST_STATE), kept])
    number = np.zeros(dfa.states, np.int64)
    number[kept] = FIRST_STATE + np.arange(len(kept))
    usable = (need[dfa.entry] < NEVER) & behind_is(dfa, need < NEVER)
    if ((need[dfa.entry] < NEVER) & ~usable & ~behind_is(dfa, need == NEVER)).any():
        raise ConfigurationError("behind a call no text can be ended, but for some of its texts only")
    left = np.flatnonzero(usable)
    # What each number in the table stands for now.
    means = np.concatenate(
        [
            number,
            np.where(usable, len(known) + np.cumsum(usable) - 1, DEAD),
            len(known) + len(left) + np.arange(len(dfa.behind)),
        ]
    )
    step = means[dfa.step[known]].astype(np.int32)
    step[:FIRST_STATE] = DEAD
    accepting = dfa.accepting[known]
    accepting[:FIRST_STATE] = False
    need = need[known]
    need[:FIRST_STATE] = 0
    return NestedDfa(
        step,
        dfa.byte_class,
        accepting,
        int(number[dfa.start]),
        number[dfa.entry[left]],
        dfa.frame[left],
        number[dfa.behind],
        need,
    )


def to_nothing() -> ByteDfa:
    """Return the automaton of no text."""
    return ByteDfa(np.zeros((FIRST_STATE + 1, 1), np.int32), np.zeros(256, np.int64), np.zeros(3, bool), FIRST_STATE)
