"""Compile an automaton over bytes, with or without brackets, into one over the tokens of a vocabulary.

1. Find the class of each token, and the transition column of each class: by the text of tokens.
2. Add the ids without text and the special tokens, which have no text that an automaton over bytes could read.
3. Leave out tokens after which the text cannot be completed, if there may be any.
4. Build the rows of states from the columns of classes (`TokenAutomaton.of`).

By hand, for the pattern `ab?` and the tokens `a`, `b`, `ab` and EOS: state 2 is the start, state 3 comes after `a`, and state 4
after `ab`. The classes are `a`, `b`, `ab` and EOS. Row 2 lists `a` with 3 and `ab` with 4, row 3 lists `b` with 4 and EOS with
`FINISHED`, and row 4 lists EOS.

Invariants: from each live state, some tokens lead to the end. Until special tokens are added, class 0 is dead everywhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import one_budget, took
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.special_tokens import with_special_tokens, without_ends
from logitkit.compiler.bytes.stack_moves import StackMoves
from logitkit.compiler.bytes.transition_columns import TransitionColumns
from logitkit.compiler.tokens.completion.dead_ends import NothingSpelled, may_have_dead_ends, without_dead_ends
from logitkit.compiler.tokens.completion.min_tokens_to_finish import UNREACHABLE, counting_tokens, min_tokens_to_finish
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.action_table import ActionTable
from logitkit.compiler.tokens.effects.suffix_columns import SuffixColumns
from logitkit.compiler.tokens.effects.token_classes import IDS_A_STEP, classes_by_suffix, token_classes
from logitkit.compiler.tokens.effects.whole_tokens import with_wholes
from logitkit.compiler.tokens.linking.linked_classes import linked_classes
from logitkit.compiler.tokens.tables.layers import in_layers
from logitkit.compiler.tokens.tables.stack_actions import FLAT, StackActions
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton, complete_with
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["pushdown_automaton"]


def token_automaton(
    dfa: ByteDfa, vocabulary: Vocabulary, limits: Limits, name: str, prune: bool = True
) -> TokenAutomaton:
    """Compile a byte automaton for a vocabulary.

    Args:
        dfa: The language.
        vocabulary: The tokens.
        limits: Bounds on the work.
        name: The name of the language in an error.
        prune: Whether to forbid tokens after which the text cannot be completed.

    Raises:
        ConfigurationError: The language is empty, or the tokens spell none of its texts.
        PatternTooLarge: A limit is exceeded.
    """
    if not np.any(dfa.accepting):
        raise ConfigurationError(f"{name} matches no text at all, so nothing could be generated")
    classes = token_classes(dfa, vocabulary, limits)
    class_of, transitions = classes.class_of, classes.transitions
    if dfa.free is not None:
        # One more class: all ids without text (EOS ids get theirs later).
        class_of = np.where(vocabulary.without_text, np.int32(len(transitions)), class_of)
        transitions = TransitionColumns.joined([transitions, staying(dfa.free)])
    special_tokens, ends = without_ends(dfa.special_tokens, dfa.accepting, dfa.free, vocabulary.eos_ids)
    transitions, special_tokens = with_wholes(class_of, transitions, special_tokens, vocabulary, limits)
    class_of, transitions = with_special_tokens(class_of, transitions, special_tokens, vocabulary.trie.node_of_id)
    fallback = None if dfa.fallback is None else dfa.fallback.state
    if prune and may_have_dead_ends(dfa, vocabulary):
        # A ban may forbid every EOS id somewhere.
        complete = complete_with(dfa.accepting, ends, vocabulary.eos_ids)
        transitions, alive = without_dead_ends(transitions, complete, fallback)
        if not alive[dfa.start]:
            raise NothingSpelled(f"the tokens of the vocabulary spell no text that {name} matches")
    return TokenAutomaton.of(
        class_of,
        transitions,
        dfa.accepting,
        dfa.start,
        vocabulary.eos_ids,
        vocabulary.pad_id,
        fallback,
        ends,
    )


def staying(free: NDArray[np.bool_]) -> TransitionColumns:
    """Return one column, which stays in the free states and is dead in all others."""
    strict = FIRST_STATE + np.flatnonzero(~free[FIRST_STATE:])
    where = FIRST_STATE + np.flatnonzero(free[FIRST_STATE:])
    # List the smaller group of states. If all states are free, none is listed, so the default also holds for states that fall
    # back.
    if len(strict) <= len(where):
        default, source, target = STAY, strict, np.full(len(strict), DEAD)
    else:
        default, source, target = DEAD, where, where
    return TransitionColumns(np.array([default]), np.array([0, len(source)]), source, target)


def pushdown_automaton(
    dfa: NestedDfa,
    vocabulary: Vocabulary,
    limits: Limits,
    name: str,
    *,
    max_depth: int = 32,
    complete_within: bool = False,
) -> TokenAutomaton:
    """Compile a byte automaton that nests for a vocabulary.

    Args:
        dfa: The language.
        vocabulary: The tokens.
        limits: Bounds on the work.
        name: The name of the language in an error.
        max_depth: The most calls that may be open at once; a deeper bracket is illegal.
        complete_within: Whether to find how many tokens each state needs to the end.

    Raises:
        ConfigurationError: The language is empty, all its texts nest deeper than `max_depth`, the tokens spell none of them, or
            with `complete_within`, the number of tokens to the end has no limit.
        PatternTooLarge: A limit is exceeded.
    """
    made = _pushdown_automaton(dfa, vocabulary, limits, name, max_depth, complete_within)
    if dfa.remembers is None:
        return made
    return replace(made, remembers=np.pad(dfa.remembers, (0, made.states - dfa.states)))


def _pushdown_automaton(
    dfa: NestedDfa, vocabulary: Vocabulary, limits: Limits, name: str, max_depth: int, complete_within: bool
) -> TokenAutomaton:
    if not dfa.accepting.any():
        raise ConfigurationError(f"{name} matches no text at all, so nothing could be generated")
    if dfa.need[dfa.start] > max_depth:
        raise ConfigurationError(
            f"{name} matches no text that nests at most {max_depth} deep, as it takes {dfa.need[dfa.start]}; raise max_depth"
        )
    if dfa.instances is None and not dfa.frames:
        return _finite(dfa, vocabulary, limits, name, complete_within)
    fallback = None
    # With a limit of tokens, too few tokens may be left to spell a marker.
    dead_ends = bool(dfa.token_limits) or may_have_dead_ends(dfa, vocabulary)
    if dfa.instances is not None:
        uncounted = frozenset(np.flatnonzero(dfa.uncounted).tolist())
        actions = ActionNumbering(Targets(dfa.states + dfa.frames, dfa.frames), limits, uncounted)
        # Costs are computed from rows, so each row must list all that its state does.
        falls_back = not complete_within and not dead_ends
        with one_budget(limits.work):
            classes = linked_classes(dfa, dfa.instances, vocabulary, actions, limits, falls_back)
        if falls_back and dfa.instances.base_state.any():
            fallback = np.arange(dfa.states + dfa.frames)
            override_states = np.flatnonzero(dfa.instances.base_state)
            fallback[override_states] = dfa.instances.base_state[override_states]
    else:
        store = SuffixColumns(StackMoves.of_nested(dfa), limits)
        classes = classes_by_suffix(store, dfa.byte_class, vocabulary)
        actions = store.actions
        took(store.work + len(classes.class_of) // IDS_A_STEP)
    class_of, transitions = classes.class_of, classes.transitions
    if dfa.free is not None:
        # One more class: all ids without text.
        class_of = np.where(vocabulary.without_text, np.int32(len(transitions)), class_of)
        free = np.flatnonzero(dfa.free)
        transitions = TransitionColumns.joined(
            [transitions, TransitionColumns(np.zeros(1, np.int64), np.array([0, len(free)]), free, free)]
        )
    special_tokens, ends = without_ends(dfa.special_tokens, dfa.accepting, dfa.free, vocabulary.eos_ids)
    transitions, special_tokens = with_wholes(class_of, transitions, special_tokens, vocabulary, limits)
    class_of, transitions = with_special_tokens(class_of, transitions, special_tokens, vocabulary.trie.node_of_id)
    transitions = in_layers(transitions, dfa.token_limits, dfa.states, limits)
    table = ActionTable.of(dfa, actions, transitions)
    cost = None
    if complete_within or dead_ends:
        complete = replace(dfa, accepting=complete_with(dfa.accepting, ends, vocabulary.eos_ids))
        moves = table.transitions.source, table.transitions.target
        cost = min_tokens_to_finish(complete, *moves, table, limits, whatever_count=complete_within)
        if complete_within and not dead_ends and (cost[dfa.states :] == UNREACHABLE).any():
            # Each text can be completed, but how many tokens this takes is not known yet when the bracket opens.
            raise ConfigurationError(
                f"the number of tokens that {name} needs to end has no limit where only the end of a nested value decides "
                "what may follow, as in an array that 'contains' an object; leave out 'closing'"
            )
        if cost[dfa.start] == UNREACHABLE:
            raise NothingSpelled(f"the tokens of the vocabulary spell no text that {name} matches")
        table = table.without(cost == UNREACHABLE)
    strings = 0 if dfa.instances is None else int(np.count_nonzero(dfa.instances.strings))
    depth = max_depth if strings + dfa.blocks < dfa.frames else 0
    depth += dfa.open_blocks + (strings + dfa.blocks > 0)
    nesting = StackActions(
        dfa.frames,
        # Rows that count characters or tokens have a stack with room for at least one frame.
        max(depth, int(table.counting is not None or complete_within)),
        table.state,
        table.pushed,
        table.rest,
        table.height,
        table.pops,
        cost if complete_within else None,
        strings,
        table.counting,
        dfa.blocks,
        dfa.open_blocks,
    )
    nowhere = np.zeros(dfa.frames, bool)
    return TokenAutomaton.of(
        class_of,
        table.transitions,
        np.concatenate([dfa.accepting, nowhere]),
        dfa.start,
        vocabulary.eos_ids,
        vocabulary.pad_id,
        fallback=fallback,
        ends={end: np.concatenate([found, nowhere]) for end, found in ends.items()},
        nesting=nesting if nesting.max_depth else FLAT,
    )


def _finite(dfa: NestedDfa, vocabulary: Vocabulary, limits: Limits, name: str, complete_within: bool) -> TokenAutomaton:
    plain = ByteDfa(
        dfa.step, dfa.byte_class, dfa.accepting, dfa.start, free=dfa.free, special_tokens=dfa.special_tokens
    )
    made = token_automaton(plain, vocabulary, limits, name)
    return counting_tokens(made, limits) if complete_within else made
