"""A record that is repeated up to many times, such as a line: the tokens are read in one copy, whose rows are repeated.

A token does in each copy what it does in the copy before it, one copy further on, unless the copies end before the token does.
"""

from __future__ import annotations

import numpy as np

from logitkit.budget import took
from logitkit.compiler.bytes.behaviours import Moves
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.language import repeated_record
from logitkit.compiler.tokens.behaviour_store import BehaviourStore
from logitkit.compiler.tokens.dead_ends import may_have_dead_ends
from logitkit.compiler.tokens.repetition import Repetition
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.token_classes import IDS_A_STEP, classes_by_level
from logitkit.limits import Limits
from logitkit.patterns.syntax import Node, Repeat
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["record_automaton"]

# Fewer copies are compiled as quickly all together.
MANY_COPIES = 4

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
    copies = min(2 + (longest - 1) // _shortest(record, longest), tree.maximum)
    size = len(record.step) - FIRST_STATE - 1
    limits.check_states(size * tree.maximum + FIRST_STATE + 1)
    dfa = _copied(record, copies)
    work = dfa.step.size // 4
    limits.check_work(2 * work)
    store = BehaviourStore(Moves.of(dfa), limits, work, sources=FIRST_STATE + size)
    classes = classes_by_level(store, dfa.byte_class, vocabulary.trie)
    took(store.work + len(classes.class_of) // IDS_A_STEP)
    accepting = np.zeros(FIRST_STATE + size, bool)
    accepting[FIRST_STATE] = True
    eos_ids, pad_id = vocabulary.eos_ids, vocabulary.pad_id
    first = TokenAutomaton.of(classes.class_of, classes.behaviours, accepting, FIRST_STATE, eos_ids, pad_id)
    row = len(first.row_class)
    limits.spend(size * tree.maximum + row * tree.maximum // ENTRIES_A_STEP)
    return Repetition(first, copies, tree.minimum, tree.maximum).automaton()


def _shortest(record: ByteDfa, most: int) -> int:
    """Return the length of the shortest record in bytes, or `most` if that is less."""
    fresh = np.ones(len(record.step), bool)
    fresh[[DEAD, record.start]] = False
    at = np.array([record.start])
    for length in range(1, most):
        reached = np.zeros(len(fresh), bool)
        reached[record.step[at]] = True
        # Each state once: at its distance from the start.
        reached &= fresh
        fresh ^= reached
        if (reached & record.accepting).any():
            return length
        at = reached.nonzero()[0]
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
    return ByteDfa(steps, record.byte_class, np.zeros(len(steps), bool), FIRST_STATE)
