"""A record that is repeated many times, such as a line, and the text after the last record: tokens are followed in one copy only.

The classes of tokens are found as those of any automaton (`token_classes`), but only for the states of the first copy. In each
copy, a token does what it does in the copy before, one copy further on, unless the records end before the token does. The text
after the records, the *rest*, follows each copy, so that the target of a token shows how many records end in it.

By hand, for `([a-z]+,){0,900}` and the token `a,b,`: it may end two records. So three copies are compiled instead of 900. From
copy 0 it leads to copy 2. So from copy 898 it leads to the end of the records, and from copy 899 it is dead.

Invariants: a record and the rest never begin with the same byte. Both can be completed from each of their states.
"""

from __future__ import annotations

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.characters.assertions import has_assertions
from logitkit.compiler.language import byte_dfa_of, repeated_record
from logitkit.compiler.tokens.completion.dead_ends import may_have_dead_ends
from logitkit.compiler.tokens.effects.token_classes import token_classes
from logitkit.compiler.tokens.records.record_states import RecordStates
from logitkit.compiler.tokens.records.repetition import Repetition
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import Limits
from logitkit.patterns.syntax import Alternate, Characters, Concat, Empty, Node, Repeat
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["record_automaton"]

# Patterns with fewer copies are compiled as fast by other ways.
MANY_COPIES = 4

# If a rest follows, so are records that name fewer characters than this, and patterns with a rest that is longer than this share.
LONG_RECORD = 64
SHORT_REST = 1 / 2

# The empty text.
NOTHING = ByteDfa(
    np.zeros((FIRST_STATE + 1, 1), np.int32), np.zeros(256, np.int64), np.arange(3) == FIRST_STATE, FIRST_STATE
)

# This many entries of the table take as long as one other step.
ENTRIES_A_STEP = 4


def record_automaton(tree: Node, vocabulary: Vocabulary, limits: Limits) -> TokenAutomaton | None:
    """Compile a pattern that repeats a record; return None if it does not, or if it has to be compiled in another way.

    Args:
        tree: The pattern.
        vocabulary: The tokens.
        limits: Bounds on the result.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    records, rest_tree = _parts(tree)
    if records is None or records.maximum is None:
        return None
    record = repeated_record(records, limits)
    if record is None:
        return None
    rest = NOTHING if isinstance(rest_tree, Empty) else byte_dfa_of(rest_tree, limits)
    if any(may_have_dead_ends(part, vocabulary) for part in (record, rest)):
        return None
    # The first byte of a token may end a record. Each later record in the token takes at least the bytes of the shortest record.
    longest = vocabulary.trie.depth - 1
    copies = min(2 + (longest - 1) // _shortest(record, longest), records.maximum)
    size, after = len(record.step) - FIRST_STATE - 1, len(rest.step) - FIRST_STATE
    limits.check_states(size * records.maximum + FIRST_STATE + after)
    states = RecordStates(size, after, copies)
    dfa = _copied(record, rest, states)
    if dfa is None:
        return None
    first_block = FIRST_STATE + states.block
    classes = token_classes(dfa, vocabulary, limits, sources=first_block)
    accepting = dfa.accepting[:first_block]
    eos_ids, pad_id = vocabulary.eos_ids, vocabulary.pad_id
    first = TokenAutomaton.of(classes.class_of, classes.transitions, accepting, FIRST_STATE, eos_ids, pad_id)
    row = len(first.row_class)
    limits.spend(size * records.maximum + row * records.maximum // ENTRIES_A_STEP)
    return Repetition(first, size, copies, records.minimum, records.maximum).automaton()


def _parts(tree: Node) -> tuple[Repeat | None, Node]:
    """Return the repeated record of a pattern and the rest after it; None and the pattern if another way is as fast."""
    if isinstance(tree, Repeat):
        return (tree if _is_long(tree) else None), Empty()
    if isinstance(tree, Concat) and isinstance(tree.parts[0], Repeat) and _is_long(tree.parts[0]):
        records, rest = tree.parts[0], Concat(tree.parts[1:])
        characters = _characters(records.node)
        if characters >= LONG_RECORD and _characters(rest) <= SHORT_REST * characters and not has_assertions(rest):
            return records, rest
    return None, tree


def _is_long(tree: Repeat) -> bool:
    return tree.maximum is not None and tree.maximum >= MANY_COPIES


def _characters(tree: Node) -> float:
    """Estimate the length of a pattern in characters, with all repetitions written out."""
    if isinstance(tree, Concat | Alternate):
        return sum(map(_characters, tree.parts if isinstance(tree, Concat) else tree.options))
    if isinstance(tree, Repeat):
        return _characters(tree.node) * (tree.minimum + 1 if tree.maximum is None else tree.maximum)
    return 1 if isinstance(tree, Characters) else 0 if isinstance(tree, Empty) else float("inf")


def _shortest(record: ByteDfa, most: int) -> int:
    """Return the length of the shortest record in bytes, or `most` if that is less."""
    fresh = np.ones(len(record.step), bool)
    fresh[[DEAD, record.start]] = False
    at = np.array([record.start])
    for length in range(1, most):
        reached = np.zeros(len(fresh), bool)
        reached[record.step[at]] = True
        # Each state is visited once, at its distance from the start.
        reached &= fresh
        fresh ^= reached
        if (reached & record.accepting).any():
            return length
        at = reached.nonzero()[0]
    return most


def _copied(record: ByteDfa, rest: ByteDfa, states: RecordStates) -> ByteDfa | None:
    """Return the automaton of up to `states.copies` records, and the rest after any number of them.

    Returns:
        The automaton, or None if a record and the rest may begin with the same byte.
    """
    inner = np.flatnonzero(~record.accepting)[FIRST_STATE:]
    number = np.zeros(len(record.step), np.int32)
    number[inner] = states.in_copy(0, np.arange(states.size))
    number[record.accepting] = states.in_copy(1, np.zeros(1, np.int64))
    # Class 0 is kept for bytes that no state reads, even if there are none.
    pairs, byte_class = np.unique(
        np.append(0, record.byte_class * rest.step.shape[1] + rest.byte_class), return_inverse=True
    )
    of_record, of_rest = np.divmod(pairs, rest.step.shape[1])
    in_record = number[record.step[inner]][:, of_record]
    in_rest = rest.step[FIRST_STATE:][:, of_rest]
    last = np.where(in_rest == DEAD, DEAD, states.in_rest(states.copies, in_rest - FIRST_STATE))
    in_rest = np.where(in_rest == DEAD, DEAD, states.in_rest(0, in_rest - FIRST_STATE))
    if ((in_record[0] != DEAD) & (in_rest[0] != DEAD)).any():
        return None
    in_record[0] += in_rest[0]
    step = np.concatenate([in_record, in_rest])
    # Filled in place, because the table of all copies is large.
    steps = np.zeros((states.count, step.shape[1]), np.int32)
    of_copies = steps[FIRST_STATE : len(steps) - states.rest].reshape(states.copies, *step.shape)
    shift = states.block * np.arange(states.copies, dtype=np.int32)
    np.multiply(step != DEAD, shift[:, None, None], out=of_copies)
    of_copies += step
    steps[len(steps) - states.rest :] = last
    ends = rest.accepting[FIRST_STATE:]
    copied = np.zeros(states.block, bool)
    copied[0], copied[states.size :] = ends[0], ends
    accepting = np.concatenate([np.zeros(FIRST_STATE, bool), *[copied] * states.copies, ends])
    return ByteDfa(steps, byte_class[1:], accepting, FIRST_STATE)
