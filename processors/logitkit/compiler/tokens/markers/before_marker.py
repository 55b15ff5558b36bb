"""Where tokens lead in the text before a marker, and which tokens end the marker.

By hand, for any text until `</think>`: most tokens stay in the text. The token `</` leads into the marker, and `>` ends it. The
token `>{"a` also ends it, and its *token suffix* `{"a` belongs to the text after the marker. Only the automaton after the
marker knows where this suffix leads. So the table here names the suffix, and `joined_tables` looks it up.

All else is the same whatever follows the marker. So the table is found once for each vocabulary and marker, and kept.

A marker may also be a token id. Then only this token ends the text, and it has no suffix.

Invariants: tokens with equal targets (`MarkerTargets`) form a *group*, and those of a group with equal suffixes form a class.
Each state has a way to the end of the marker.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import one_budget, outside_budget, spend_once
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.concatenation import until_marker
from logitkit.compiler.bytes.nested_concatenation import only_the_empty_text
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.sorting import stable_order
from logitkit.compiler.bytes.special_tokens import free_states, with_special_tokens
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.completion.dead_ends import without_dead_ends
from logitkit.compiler.tokens.effects.common_classes import Side, listed
from logitkit.compiler.tokens.effects.token_classes import IDS_A_STEP, classes_by_level
from logitkit.compiler.tokens.fragments.fragment_stores import FragmentTargets, fragment_store
from logitkit.compiler.tokens.markers.marker_targets import MarkerTargets
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits
from logitkit.vocabulary.text_with_names import TextWithNames
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["BeforeMarker", "before_text", "before_token"]

# The most bytes that are kept for one vocabulary.
REMEMBERED_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False, slots=True)
class BeforeMarker:
    """The states of the text before a marker and of the marker itself, and the effects of tokens in them.

    Args:
        class_of: [V] the class of each token. Class 0 is dead everywhere, and EOS ids are of this class.
        group: [C] the group of each class. Group 0 is that of class 0.
        row_start: [states + 1] where the row of each state begins.
        row_group: The groups that rows list, ascending within a row. All other groups are dead, or do what they do in the state
            that this one falls back to.
        row_target: Their targets; see `targets`.
        class_suffixes: Three columns: a class, how many bytes its tokens leave, and the number of the suffix in these bytes.
        token_suffixes: The suffixes by number; number 0 is the empty one.
        start: The start state.
        states: The number of states.
        fallback: [states] the state that each state falls back to, as in `TokenAutomaton`.
        work: The steps that it took.
    """

    class_of: Ints
    group: NDArray[np.int64]
    row_start: NDArray[np.int64]
    row_group: Ints
    row_target: Ints
    class_suffixes: NDArray[np.int64]
    token_suffixes: tuple[bytes, ...]
    start: int
    states: int
    fallback: NDArray[np.int64] | None = None
    work: int = 0

    @property
    def targets(self) -> MarkerTargets:
        """The numbers of states and ends of the marker."""
        return MarkerTargets(self.states)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        arrays = (self.class_of, self.group, self.row_start, self.row_group, self.row_target, self.class_suffixes)
        return sum(array.nbytes for array in arrays) + sum(50 + len(text) for text in self.token_suffixes)


def before_token(first: TokenAutomaton, marker: int, limits: Limits, falls_back: bool = True) -> BeforeMarker | None:
    """Return the table of the sequences of tokens that an automaton accepts, with a token as marker after them.

    Args:
        first: The automaton. The marker is legal only where it accepts.
        marker: The id of the marker.
        limits: Bounds on the work.
        falls_back: Whether states may fall back to others.

    Returns:
        The table, or None if no sequence of tokens is left.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    # Class 0 is dead, the marker has the last class, and all others are those of the automaton.
    last = first.classes + 1
    class_of = first.class_of.astype(np.int32) + 1
    class_of[marker] = last
    class_of[[*first.eos_ids]] = 0
    side = Side(first, np.arange(first.classes))
    falls_back = falls_back and first.fallback is not None
    source, symbol, target = listed(side, limits, falls_back)
    # The class that the marker had may have no tokens left. Then its moves must not count as ways to the end.
    kept = np.bincount(class_of, minlength=last)[symbol + 1] > 0
    accepting, states = np.flatnonzero(first.accepting), first.states
    source = np.concatenate([source[kept], accepting])
    symbol = np.concatenate([symbol[kept] + 1, np.full(len(accepting), last)])
    target = np.concatenate([target[kept], np.full(len(accepting), MarkerTargets(states).ended(0))])
    order = np.argsort(symbol * np.int64(states) + source)
    begin = starts(np.bincount(symbol, minlength=last + 1))
    table = TransitionColumns(np.zeros(last + 1, np.int64), begin, source[order], target[order])
    # To find dead ends, the end of the marker is one more state.
    fallback = np.append(side.below, states) if falls_back else None
    table, alive = without_dead_ends(table, np.arange(states + 1) == states, fallback)
    if not alive[first.start]:
        return None
    fallback = None if fallback is None else fallback[:-1]
    nothing = np.zeros((3, 0), np.int64)
    rows = _by_state(table, states)
    return BeforeMarker(class_of, np.arange(last + 1), *rows, nothing, (b"",), first.start, states, fallback)


def _by_state(table: TransitionColumns, states: int) -> tuple[NDArray[np.int64], Ints, Ints]:
    """Turn columns into rows: return where the row of each state begins, the groups that rows list, and their targets."""
    order = stable_order(table.source)
    group = np.repeat(np.arange(len(table), dtype=np.int32), np.diff(table.start))
    return starts(np.bincount(table.source, minlength=states)), group[order], table.target[order].astype(np.int32)


_known: WeakKeyDictionary[Vocabulary, BoundedCache[bytes, BeforeMarker]] = WeakKeyDictionary()
_lock = Lock()


def before_text(first: ByteDfa, marker: TextWithNames, vocabulary: Vocabulary, limits: Limits) -> BeforeMarker:
    """Return the table of the texts of an automaton, with a text as marker after them.

    A kept result counts against limits as if it were made now.

    Args:
        first: The automaton.
        marker: The text, which is not empty and is given as bytes. Its first occurrence is the marker.
        vocabulary: The tokens. Every byte is a token, so that each state has a way to the end.
        limits: Bounds on the work.

    Raises:
        ConfigurationError: No text is left.
        PatternTooLarge: A limit is exceeded.
    """
    key = _key(first, marker)
    with _lock:
        known = _known.setdefault(vocabulary, BoundedCache(REMEMBERED_BYTES))
        found = known.get(key)
    if found is None:
        with outside_budget(), one_budget(limits.work):
            whole = until_marker(first, marker, only_the_empty_text(), limits)
            if not whole.accepting.any():
                raise ConfigurationError(f"no text satisfies the constraint before the marker {marker.text!r}")
            found = _before_text(whole, vocabulary, limits)
        with _lock:
            known.keep(key, found, found.nbytes)
    limits.check_states(found.states)
    spend_once((BeforeMarker, key), found.work)
    return found


def _key(first: ByteDfa, marker: TextWithNames) -> bytes:
    tokens = sorted(first.special_tokens)
    digest = hashlib.sha256(repr((first.step.shape, first.start, marker, tokens)).encode())
    special_tokens = (first.special_tokens[special_token] for special_token in tokens)
    for array in (first.step, first.byte_class, first.accepting, free_states(first), *special_tokens):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def _before_text(whole: ByteDfa, vocabulary: Vocabulary, limits: Limits) -> BeforeMarker:
    trie = vocabulary.trie
    # The end of the marker is not a state of this table. A chain of states stands for it and counts the bytes after it.
    kept = np.flatnonzero(~whole.accepting)
    states = len(kept)
    number = np.full(len(whole.step), states)
    number[kept] = np.arange(states)
    # `fragment_store` expects one more row, for the state before the opening quote of a string. Here, this row is dead.
    step = np.zeros((states + 1, whole.step.shape[1]), np.int32)
    step[:states] = number[whole.step[kept]]
    step[step == states] = NestedStep.end(0)
    in_store, targets = FragmentTargets(states, 1, trie.depth), MarkerTargets(states)
    store = fragment_store(step, whole.byte_class, in_store, limits)
    classes = classes_by_level(store, whole.byte_class, trie)
    work = store.work + len(classes.class_of) // IDS_A_STEP
    table, class_of = classes.transitions, classes.class_of.astype(np.int32)
    target = table.target.astype(np.int64)
    target = np.where(in_store.is_end(target), targets.ended(in_store.ended(target)[1]), target)
    table = TransitionColumns(table.default, table.start, table.source, target)
    free = np.flatnonzero(free_states(whole)[kept])
    if len(free):
        # One more class: all ids without text.
        class_of[vocabulary.without_text] = len(table)
        bounds = np.array([0, len(free)])
        table = TransitionColumns.joined([table, TransitionColumns(np.zeros(1, np.int64), bounds, free, free)])
    special_tokens = {t: number[leads[kept]] for t, leads in whole.special_tokens.items()}
    class_of, table = with_special_tokens(class_of, table, special_tokens, vocabulary.trie.node_of_id)
    class_of[[*vocabulary.eos_ids]] = 0
    class_of, group, ended, token_suffixes = _by_suffix(class_of, table, targets, vocabulary)
    rows, start = _by_state(table, states), int(number[whole.start])
    return BeforeMarker(class_of, group, *rows, ended, token_suffixes, start, states, work=work)


def _by_suffix(
    class_of: Ints, table: TransitionColumns, targets: MarkerTargets, vocabulary: Vocabulary
) -> tuple[Ints, NDArray[np.int64], NDArray[np.int64], tuple[bytes, ...]]:
    """Divide groups into classes whose tokens leave the same suffixes.

    Returns:
        [V] the class of each token, [C] the group of each class, `class_suffixes`, and `token_suffixes`.
    """
    owner = np.repeat(np.arange(len(table)), np.diff(table.start))
    outside = np.flatnonzero(table.target > targets.ended(0))
    left: dict[int, list[int]] = {}
    for group, count in np.unique(np.stack([owner[outside], targets.left(table.target[outside])]), axis=1).T.tolist():
        left.setdefault(group, []).append(count)
    group_of = [*range(len(table))]
    classes: dict[tuple[int, bytes], int] = {}
    token_suffixes = {b"": 0}
    ended: list[tuple[int, int, int]] = []
    cut = np.zeros(len(table), bool)
    cut[[*left]] = True
    tokens = np.flatnonzero(cut.take(class_of))
    new = class_of[tokens].tolist()
    for place, (token, group) in enumerate(zip(tokens.tolist(), new, strict=True)):
        text = vocabulary.tokens[token] or b""
        key = group, text[-left[group][-1] :]
        number = classes.get(key)
        if number is None:
            # The first class of a group keeps its number.
            fresh = cut[group]
            cut[group] = False
            number = classes[key] = group if fresh else len(group_of)
            if not fresh:
                group_of.append(group)
            ended += [(number, n, token_suffixes.setdefault(text[-n:], len(token_suffixes))) for n in left[group]]
        new[place] = number
    class_of[tokens] = new
    columns = np.array(ended, np.int64).reshape(-1, 3).T
    return class_of, np.array(group_of, np.int64), columns, tuple(token_suffixes)
