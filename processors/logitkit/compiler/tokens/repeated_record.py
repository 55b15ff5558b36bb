"""A record that is repeated up to many times, such as a line: a few copies are compiled, and their rows are copied.

A token does in each copy what it does in the copy before it, one copy further on, unless the copies end. So only the last ones
differ: as many as a token may reach into.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from logitkit.compiler.bytes.behaviours import Behaviours, Ints, starts
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.language import repeated_record
from logitkit.compiler.tokens.dead_ends import may_have_dead_ends
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.token_classes import token_classes
from logitkit.limits import Limits
from logitkit.patterns.syntax import Node, Repeat
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["record_automaton"]

# Fewer copies are sooner compiled as they are.
MANY_COPIES = 32

# So many entries of the table take as long as one other step.
ENTRIES_A_STEP = 4


def record_automaton(tree: Node, vocabulary: Vocabulary, limits: Limits) -> TokenAutomaton | None:
    """Compile a pattern that repeats a record; return None if it does not, or if its copies have to be compiled all together.

    Args:
        tree: The pattern.
        vocabulary: The tokens.
        limits: Bounds on the result.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    if not isinstance(tree, Repeat) or tree.maximum is None or tree.maximum < MANY_COPIES:
        return None
    record = repeated_record(tree, limits)
    if record is None or may_have_dead_ends(record, vocabulary.trie.single_bytes()):
        return None
    # The first byte of a token may end a record. Each later one that ends in it takes as many bytes as the shortest record.
    longest = vocabulary.trie.depth - 1
    copies = 2 + (longest - 1) // _shortest(record, longest)
    if copies >= tree.maximum:
        return None
    limits.check_states((len(record.step) - FIRST_STATE - 1) * tree.maximum + FIRST_STATE + 1)
    dfa = _copied(record, copies)
    classes = token_classes(dfa, vocabulary.trie, limits)
    behaviours = _without_defaults(classes.behaviours, len(dfa.step))
    eos_ids, pad_id = vocabulary.eos_ids, vocabulary.pad_id
    automaton = TokenAutomaton.of(classes.class_of, behaviours, dfa.accepting, dfa.start, eos_ids, pad_id)
    return _with_more_copies(automaton, copies, tree.minimum, tree.maximum, limits)


def _shortest(record: ByteDfa, most: int) -> int:
    """Return the length of the shortest record in bytes, or `most` if that is less."""
    at = np.array([record.start])
    for length in range(1, most):
        at = np.flatnonzero(np.bincount(record.step[at].ravel()))
        if record.accepting[at].any():
            return length
    return most


def _copied(record: ByteDfa, copies: int) -> ByteDfa:
    """Return the automaton of up to so many records; the end of each record is the start of the next one."""
    inner = np.flatnonzero(~record.accepting)[FIRST_STATE:]
    number = np.zeros(len(record.step), np.int32)
    number[inner] = np.arange(FIRST_STATE, FIRST_STATE + len(inner))
    number[record.accepting] = FIRST_STATE + len(inner)
    step = number[record.step[inner]]
    step = np.where(step == DEAD, DEAD, step + len(inner) * np.arange(copies, dtype=np.int32)[:, None, None])
    nowhere = np.zeros((FIRST_STATE, step.shape[2]), np.int32)
    steps = np.concatenate([nowhere, *step, nowhere[:1]])
    accepting = np.zeros(len(steps), bool)
    accepting[FIRST_STATE :: len(inner)] = True
    return ByteDfa(steps, record.byte_class, accepting, FIRST_STATE)


def _without_defaults(table: Behaviours, states: int) -> Behaviours:
    """List all targets of each behaviour: what most states of a few copies do, most states of many copies do not."""
    sources: list[Ints] = []
    targets: list[Ints] = []
    for number, default in enumerate(table.default.tolist()):
        listed = slice(table.start[number], table.start[number + 1])
        source, target = table.source[listed], table.target[listed]
        if default != DEAD:
            everywhere = np.full(states, default, target.dtype)
            everywhere[:FIRST_STATE] = DEAD
            everywhere[source] = target
            source = np.flatnonzero(everywhere).astype(source.dtype)
            target = everywhere[source]
        sources.append(source)
        targets.append(target)
    start = starts(np.array([*map(len, sources)]))
    return Behaviours(np.zeros_like(table.default), start, np.concatenate(sources), np.concatenate(targets))


def _with_more_copies(few: TokenAutomaton, copies: int, minimum: int, maximum: int, limits: Limits) -> TokenAutomaton:
    """Repeat the rows of the first copy, and let the text end from the minimum on.

    Args:
        few: The automaton of up to `copies` records.
        copies: How many records it has.
        minimum: The fewest records of the result.
        maximum: The most records of the result, more than `copies`.
        limits: Bounds on the result.
    """
    more, size = maximum - copies, (few.states - FIRST_STATE - 1) // copies
    length = np.diff(few.row_start)
    row = int(length[: FIRST_STATE + size].sum())
    limits.spend(size * more + (row * more + len(few.row_class)) // ENTRIES_A_STEP)
    shift = size * np.arange(more + 1, dtype=np.int32)[:, None]
    target = few.row_target.astype(np.int32)
    lives = target >= FIRST_STATE
    first = target[:row] + shift[:-1] * lives[:row]
    row_target = np.concatenate([first.ravel(), target + shift[-1] * lives])
    row_class = np.concatenate([np.tile(few.row_class[:row], more), few.row_class])
    inner = length[FIRST_STATE:]
    length = np.concatenate([length[:FIRST_STATE], np.tile(inner[:size], more), inner])
    accepting = np.zeros(len(length), bool)
    accepting[FIRST_STATE::size] = True
    # The class of EOS is the last one of a row.
    early = FIRST_STATE + size * np.arange(minimum)
    ends = np.cumsum(length)[early] - 1
    accepting[early] = False
    length[early] -= 1
    narrow = np.int16 if len(length) < 2**15 else np.int32
    return replace(
        few,
        row_start=starts(length),
        row_class=np.delete(row_class, ends),
        row_target=np.delete(row_target, ends).astype(narrow, copy=False),
        accepting=accepting,
    )
