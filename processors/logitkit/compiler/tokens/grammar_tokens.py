"""Compile a pushdown automaton over bytes that looks ahead into an automaton over the tokens of a vocabulary.

The effect of a token is a stack action (`effects.action_numbering`). A token may pop frames before its first byte is read. The
end of the text is a symbol too: EOS may pop frames before it finishes, so it has a class of its own with actions.

Under a grammar that is not deterministic, a token may have several actions in one state. A column lists the state once for each
of them. A table lists each state once, so the automaton gets further *layers*: the first layer has the first action of each
token and state, the second layer the second one, and so on.

By hand, for palindromes over `a` and `b` such as `abba`: after `a`, the token `a` either opens another pair, so it pushes a
frame, or closes the pair, so it pops one. The automaton has two layers, and layer 1 has the second of these actions.

Invariants: a row never gets stuck. Each byte that some state reads must be a token by itself, so every text can be spelled byte
by byte. An action is legal only if there is room for all frames that must be opened later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import took
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, ByteDfa
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.pushdown_dfa import NEVER, PushdownDfa
from logitkit.compiler.bytes.pushdown_step import PushdownStep
from logitkit.compiler.bytes.special_tokens import OTHERS, WHOLE
from logitkit.compiler.bytes.stack_moves import StackMoves
from logitkit.compiler.bytes.transition_columns import TransitionColumns, starts
from logitkit.compiler.tokens.compile import pushdown_automaton
from logitkit.compiler.tokens.completion.grammar_min_tokens import grammar_min_tokens
from logitkit.compiler.tokens.completion.rule_progress import rules_without_progress
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.action_table import ActionTable
from logitkit.compiler.tokens.effects.suffix_columns import SuffixColumns
from logitkit.compiler.tokens.effects.token_classes import IDS_A_STEP, classes_by_suffix
from logitkit.compiler.tokens.effects.whole_tokens import ENTRIES_A_STEP, whole_tokens
from logitkit.compiler.tokens.limited_rules import in_rule_layers, with_rule_limits
from logitkit.compiler.tokens.tables.stack_actions import FLAT, StackActions
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.limits import Limits
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["also_whole", "finite_dfa", "grammar_automaton", "layers_of"]

# How many actions a token may have in one state.
MOST_LAYERS = 32


def also_whole(
    transitions: TransitionColumns, whole: int, classes: NDArray[np.int32], limits: Limits
) -> TransitionColumns:
    """Add the effects of `WHOLE` to some classes. A class with two effects in a state lists that state twice.

    Args:
        transitions: The column of each class.
        whole: The class of `WHOLE`.
        classes: The classes of the tokens that `WHOLE` stands for.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: There are too many classes and states.
    """
    one = transitions.take(np.array([whole]))
    limits.spend(len(classes) * len(one.source) // ENTRIES_A_STEP)
    owner = np.repeat(np.arange(len(transitions)), np.diff(transitions.start))
    owner = np.append(owner, np.repeat(classes, len(one.source)))
    source = np.append(transitions.source, np.tile(one.source, len(classes)))
    target = np.append(transitions.target, np.tile(one.target, len(classes)))
    owner, source, target = np.unique(np.stack([owner, source, target]), axis=1)
    return TransitionColumns(
        transitions.default, starts(np.bincount(owner, minlength=len(transitions))), source, target
    )


def layers_of(transitions: TransitionColumns) -> list[TransitionColumns]:
    """Split columns that list a state several times into layers, which list each state once.

    Raises:
        PatternTooLarge: There would be too many layers.
    """
    owner = np.repeat(np.arange(len(transitions)), np.diff(transitions.start))
    where = np.arange(len(owner))
    same = (owner[1:] == owner[:-1]) & (transitions.source[1:] == transitions.source[:-1])
    # For each entry, how many entries of the same column and state stand before it.
    rank = where - np.maximum.accumulate(np.where(np.append(False, same)[: len(owner)], 0, where))
    found = []
    for layer in range(1 + int(rank.max(initial=0))):
        kept = rank == layer
        start = np.searchsorted(owner[kept], np.arange(len(transitions) + 1))
        found.append(TransitionColumns(transitions.default, start, transitions.source[kept], transitions.target[kept]))
    if len(found) > MOST_LAYERS:
        raise PatternTooLarge(
            f"the grammar is ambiguous: a token has {len(found)} outcomes at once, more than {MOST_LAYERS}; simplify its rules"
        )
    return found


def grammar_automaton(
    dfa: PushdownDfa,
    vocabulary: Vocabulary,
    limits: Limits,
    name: str,
    *,
    max_depth: int = 64,
    complete_within: bool = False,
    splits: bool = False,
) -> TokenAutomaton:
    """Compile a pushdown automaton for a vocabulary.

    Args:
        dfa: The language.
        vocabulary: The tokens.
        limits: Bounds on the work.
        name: The name of the language in an error.
        max_depth: The most frames on a stack; a token that needs more is illegal.
        complete_within: Whether to find how many tokens each state needs to the end; see `grammar_min_tokens`.
        splits: Whether a token may have several actions.

    Raises:
        ConfigurationError: The language is empty, no text nests at most `max_depth` deep, the vocabulary cannot spell a symbol,
            `complete_within` is not possible, or a token has several actions without `splits`.
        PatternTooLarge: A limit is exceeded.
    """
    _check_fits(dfa, max_depth, name)
    dfa, rule_limits = with_rule_limits(dfa, limits)
    if rule_limits and complete_within:
        raise ConfigurationError(
            f"closing cannot count the tokens of the rules with max_tokens in {name}; leave out one of them"
        )
    if not rule_limits and not (dfa.pushed or len(dfa.further) or _reads_beside_wholes(dfa)):
        return pushdown_automaton(
            NestedDfa.of(finite_dfa(dfa)), vocabulary, limits, name, complete_within=complete_within
        )
    _check_spelled(dfa, vocabulary, name)
    found = _classes(dfa, vocabulary, limits)
    if rule_limits:
        found = found._replace(transitions=in_rule_layers(found.transitions, rule_limits, dfa.states, limits))
        hopeless = rules_without_progress(dfa, found.transitions, rule_limits, found.actions, limits)
    layers = layers_of(found.transitions)
    if len(layers) > 1 and complete_within:
        raise ConfigurationError(
            f"closing needs a deterministic grammar, and {name} is not deterministic; leave out 'closing'"
        )
    if len(layers) > 1 and not splits:
        raise ConfigurationError(
            f"{name} is not deterministic: a token may stand for itself, whatever its text is, where other text begins too; put "
            "a special token between them"
        )
    finished = dfa.step[:, dfa.end] == FINISHED
    made: list[TokenAutomaton] = []
    for layer in layers:
        table = ActionTable.of(found.outline, found.actions, layer, max_depth, dfa.frame_need)
        if rule_limits:
            table = table.without(hopeless)
        nesting = StackActions(
            dfa.frames,
            max_depth,
            table.state,
            table.pushed,
            table.rest,
            table.height,
            min(table.pops, max_depth),
            grammar_min_tokens(dfa, table, limits, name) if complete_within else None,
        )
        ends = finished if len(layers) == 1 and not rule_limits else _finishing(layer, found.end_class, dfa.states)
        made.append(
            TokenAutomaton.of(
                found.class_of,
                table.transitions,
                np.append(ends, np.zeros(dfa.frames, bool)),
                dfa.start,
                vocabulary.eos_ids,
                vocabulary.pad_id,
                nesting=nesting if dfa.frames or len(layers) > 1 else FLAT,
                end_class=found.end_class,
            )
        )
    return replace(made[0], layers=tuple(made[1:])) if made[1:] else made[0]


class _Classes(NamedTuple):
    """The classes of all tokens under a grammar.

    Args:
        class_of: [V] the class of each token.
        transitions: The column of each class; a state may be listed several times.
        end_class: The class of the end of the text.
        actions: The actions that targets stand for.
        outline: An automaton with only what numbering actions needs: states, ends, and how many frames each state needs.
    """

    class_of: NDArray[np.int32]
    transitions: TransitionColumns
    end_class: int
    actions: ActionNumbering
    outline: NestedDfa


def _classes(dfa: PushdownDfa, vocabulary: Vocabulary, limits: Limits) -> _Classes:
    moves = StackMoves.of_pushdown(dfa)
    store = SuffixColumns(moves, limits)
    classes = classes_by_suffix(store, dfa.byte_class, vocabulary)
    # Special tokens and the end of the text have one class each, after those of other tokens.
    numbers = store.of_bytes()[-1 - len(dfa.special_tokens) :]
    took(store.work + len(classes.class_of) // IDS_A_STEP)
    class_of = classes.class_of.astype(np.int32)
    first = len(classes.transitions)
    # `OTHERS`, which stands for many ids, comes first, so that special tokens with an id of their own overwrite it.
    special_tokens = dict(sorted(zip(dfa.special_tokens, range(first, first + len(dfa.special_tokens)), strict=True)))
    whole = special_tokens.pop(WHOLE, None)
    for special_token, number in special_tokens.items():
        class_of[vocabulary.without_text if special_token == OTHERS else special_token] = number
    transitions = TransitionColumns.joined([classes.transitions, store.table.take(numbers)])
    if whole is not None:
        transitions = also_whole(
            transitions, whole, np.unique(class_of[whole_tokens(special_tokens, vocabulary)]), limits
        )
    finished, none = dfa.step[:, dfa.end] == FINISHED, np.zeros(0, np.int64)
    outline = NestedDfa(
        np.zeros((dfa.states, 0), np.int32), dfa.byte_class, finished, dfa.start, none, none, moves.after_end, dfa.need
    )
    return _Classes(class_of, transitions, first + len(dfa.special_tokens), store.actions, outline)


def _finishing(layer: TransitionColumns, end_class: int, states: int) -> NDArray[np.bool_]:
    """Return [S] the states in which the end of the text finishes, in one layer."""
    ends, found = layer.take(np.array([end_class])), np.zeros(states, bool)
    found[ends.source[ends.target == FINISHED]] = True
    return found


def _check_fits(dfa: PushdownDfa, max_depth: int, name: str) -> None:
    """Raise `ConfigurationError` if no text fits on a stack of depth `max_depth`."""
    if dfa.start == DEAD or dfa.need[dfa.start] >= NEVER:
        raise ConfigurationError(f"{name} matches no text at all, so nothing could be generated")
    if dfa.need[dfa.start] > max_depth:
        raise ConfigurationError(
            f"{name} matches no text that nests at most {max_depth} deep, as it takes {dfa.need[dfa.start]}; raise max_depth"
        )


def _reads_beside_wholes(dfa: PushdownDfa) -> bool:
    """Whether some state reads a byte, and also any token as a whole."""
    bytes_, at = int(dfa.byte_class.max()) + 1, dfa.special_tokens.index(WHOLE) if WHOLE in dfa.special_tokens else None
    return at is not None and bool(dfa.step[dfa.step[:, bytes_ + at] != DEAD, :bytes_].any())


def finite_dfa(dfa: PushdownDfa) -> ByteDfa:
    """Return an automaton that pushes no frames as a finite automaton."""
    step = np.where(PushdownStep.is_state(dfa.step), dfa.step, DEAD)
    first = int(dfa.byte_class.max()) + 1
    special_tokens = {
        special_token: step[:, first + i].astype(np.int64) for i, special_token in enumerate(dfa.special_tokens)
    }
    return ByteDfa(
        np.ascontiguousarray(step[:, :first]),
        dfa.byte_class,
        step[:, dfa.end] == FINISHED,
        dfa.start,
        special_tokens=special_tokens,
    )


def _check_spelled(dfa: PushdownDfa, vocabulary: Vocabulary, name: str) -> None:
    """Raise `ConfigurationError` if a symbol that some state reads is not a token by itself, or ends the sequence."""
    for special_token in dfa.special_tokens:
        if special_token in vocabulary.eos_ids:
            raise ConfigurationError(
                f"{name} names the token {special_token}, which ends the sequence; leave it out: EOS may follow any complete text"
            )
    spelled: NDArray[np.bool_] = ~dfa.step.any(axis=0)  # type: ignore[assignment]
    single = vocabulary.trie.single_bytes({*dfa.special_tokens, *vocabulary.eos_ids})
    spelled[dfa.byte_class[single]] = True
    missing = np.flatnonzero(~spelled[dfa.byte_class])
    if len(missing):
        shown = ", ".join(repr(bytes([byte])) for byte in missing[:8].tolist())
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        raise ConfigurationError(
            f"{name} may need the bytes {shown}{more}, which are not single tokens of the vocabulary; use a vocabulary "
            "that has them, or a grammar without them"
        )
