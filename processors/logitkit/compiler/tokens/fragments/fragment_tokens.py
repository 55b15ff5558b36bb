"""The columns of the tokens of a vocabulary in a fragment, whatever follows the fragment: found once, and kept.

A token may end the fragment and continue after it. Only the automaton that contains the fragment knows what the rest of the
token, its *token suffix*, does there. So here, a token leads to an end of the fragment, and its suffix has a number.

By hand, for strings: of the token `x", "`, the first two bytes belong to the string, and the suffix is `, "`. The token `yz",
"` leads to the same end and leaves the same suffix, so both are of one class. `x", '` leaves three bytes too, so it is of the
same *group*, but it leaves another suffix, so it has another class.

The classes of tokens are found as those of any automaton (`token_classes`). For this, an end is a chain of states that counts the
bytes after it: if a token leads to the third of them, its last three bytes are the suffix. So this first finds groups, and then
divides them by suffixes.

If the fragment counts characters, targets include the count (`fragment_stores`). So the result is the same for strings of up to
100 characters and of up to 10,000.

Invariants: tokens of one class do the same in every automaton that contains the fragment, as far as the fragment decides. Class
0 is dead in all states of the fragment and before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import one_budget, outside_budget, spend_once
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.sorting import stable_order, which_of
from logitkit.compiler.bytes.string_fragment import QUOTE, StringFragment
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.effects.distinct_sets import PairSets, digest_of_pairs, distinct_sets, sums_by_run
from logitkit.compiler.tokens.effects.text_suffixes import TextSuffixes
from logitkit.compiler.tokens.effects.token_classes import IDS_A_STEP, TokenClasses, classes_by_level
from logitkit.compiler.tokens.fragments.fragment_stores import CountingStore, FragmentTargets, fragment_store
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["FragmentTokens", "fragment_tokens"]

# The most bytes that are kept for one vocabulary.
REMEMBERED_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False, slots=True)
class FragmentTokens:
    """The target of each class of tokens in each state of a fragment, and in the state before its opening quote.

    Tokens with equal columns are of one *group*: they do the same in the fragment, and leave the same number of bytes. Tokens
    of a group that leave the same suffix are of one class. There are G groups and C classes. The table has a column for each
    group, since a group of a fragment with 1,000 states may have thousands of entries, and a hundred classes.

    Then there is an entry for each class and each end that it leads to, [M], and a description of each different end, [E].

    Args:
        class_of: [V] the class of each token; class 0 is dead everywhere.
        group: [C] the group of each class.
        table: The column of each group.
        inner_digest: [G] uint64, a digest of the entries of each group that stay in the fragment.
        inner_set: [G] the number of the set of these entries; equal sets have equal numbers.
        class_ends: [M] a class and an end that it leads to, as one number, ascending; see `ended_by` and `find_ended`.
        outer_digest: [M] uint64, a digest of the states in which the class leads to this end.
        outer_set: [M] the number of the set of these states.
        end_index: [M] the index of the end in the next three arrays.
        mark: [E] the number of the end in the fragment.
        characters: [E] the number of characters before the end.
        rest: [E] the number of the suffix after the end.
        targets: The numbers of states and ends in `table`.
        work: The steps that it took.
        token_suffixes: The suffixes, if the fragment is free text; None: those of the vocabulary.
    """

    class_of: Ints
    group: NDArray[np.int64]
    table: TransitionColumns
    inner_digest: NDArray[np.uint64]
    inner_set: NDArray[np.int64]
    class_ends: NDArray[np.int64]
    outer_digest: NDArray[np.uint64]
    outer_set: NDArray[np.int64]
    end_index: NDArray[np.int64]
    mark: NDArray[np.int64]
    characters: NDArray[np.int64]
    rest: NDArray[np.int64]
    targets: FragmentTargets
    work: int
    token_suffixes: TextSuffixes | None = None

    @property
    def states(self) -> int:
        """The number of states of the fragment. The state with this number is the one before the quote."""
        return self.targets.states

    def ended_by(self) -> Ints:
        """Return the class of each entry of `class_ends`."""
        found: Ints = self.class_ends // self.targets.size
        return found

    def find_ended(self, classes: Ints, targets: Ints) -> Ints:
        """Return the places in `class_ends` of some classes and ends."""
        found: Ints = np.searchsorted(self.class_ends, classes * np.int64(self.targets.size) + targets)
        return found

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        table = self.table
        arrays = (self.class_of, self.inner_digest, self.inner_set, table.start, table.source, table.target)
        return (
            sum(array.nbytes for array in arrays)
            + 40 * (len(self.group) + len(self.class_ends))
            + self.outer_set.nbytes
        )


_known: WeakKeyDictionary[Vocabulary, BoundedCache[bytes, FragmentTokens]] = WeakKeyDictionary()
_lock = Lock()


def fragment_tokens(fragment: StringFragment, vocabulary: Vocabulary, limits: Limits) -> FragmentTokens:
    """Return the effects of the tokens of a vocabulary in a fragment. A kept result counts against limits as if it were made now.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    with _lock:
        known = _known.setdefault(vocabulary, BoundedCache(REMEMBERED_BYTES))
        found = known.get(fragment.uncounted_key)
    if found is None:
        with outside_budget(), one_budget(limits.work):
            found = _made(fragment, vocabulary, limits)
        with _lock:
            known.keep(fragment.uncounted_key, found, found.nbytes)
    spend_once((FragmentTokens, fragment.uncounted_key), found.work)
    return found


def _made(fragment: StringFragment, vocabulary: Vocabulary, limits: Limits) -> FragmentTokens:
    token_suffixes = vocabulary.token_suffixes
    chain = vocabulary.trie.depth if fragment.is_text else token_suffixes.longest + 1
    targets = FragmentTargets(
        fragment.states, len(fragment.marks), chain, 1 if fragment.counted is None else vocabulary.trie.depth
    )
    # One class of bytes for the quote alone, if it has none yet.
    fragment = fragment.with_class_of(QUOTE)
    byte_class, own = fragment.byte_class, fragment.step
    before = np.zeros((1, own.shape[1]), np.int32)
    before[0, byte_class[QUOTE]] = DEAD if fragment.is_text else FIRST_STATE
    if fragment.counted is None:
        store = fragment_store(np.concatenate([own, before]), byte_class, targets, limits)
    else:
        store = CountingStore(fragment, np.concatenate([own, before]), targets, limits)
    classes = classes_by_level(store, byte_class, vocabulary.trie)
    # In long strings, each state does the same with a token, so half of the steps count.
    work = store.work // 2 + len(classes.class_of) // IDS_A_STEP
    return _by_suffix(classes, fragment, targets, vocabulary, work)


def _by_suffix(
    classes: TokenClasses, fragment: StringFragment, targets: FragmentTargets, vocabulary: Vocabulary, work: int
) -> FragmentTokens:
    """Divide groups of tokens into classes whose tokens leave the same suffixes.

    Args:
        classes: The groups, as classes.
        fragment: The fragment.
        targets: The numbers of its states and ends.
        vocabulary: The tokens.
        work: The steps that were counted before.
    """
    table, of_vocabulary = classes.transitions, vocabulary.token_suffixes
    owner = np.repeat(np.arange(len(table)), np.diff(table.start))
    is_end = targets.is_end(table.target)
    outside = np.flatnonzero(is_end)
    inner_digest, inner_set = _inside(table, ~is_end)
    # The ends that each group leads to: few kinds, in thousands of states perhaps, so that sorting would be slow.
    ended = table.target[outside].astype(np.int64)
    met = np.bincount(ended) > 0
    present, choices = np.flatnonzero(met), max(int(np.count_nonzero(met)), 1)
    key = owner[outside] * choices + (np.cumsum(met) - 1)[ended]
    done, which = which_of(key)
    source = table.source[outside[stable_order(which)]]
    start = starts(np.bincount(which, minlength=len(done)))
    # In digests, one number that is not a target stands for all ends.
    any_end = 1 + max(int(table.target.max(initial=0)), targets.states)
    outer_digest = sums_by_run(digest_of_pairs(source, np.full(len(source), any_end)), start)
    _, outer_set = distinct_sets(outer_digest, np.zeros_like(done), PairSets(start, source, np.zeros_like(source)))
    group, choice = np.divmod(done, choices)
    target = present[choice]
    ending, unread = targets.ended(target)
    longest = np.zeros(len(table), np.int64)
    np.maximum.at(longest, group, unread)
    tokens = np.flatnonzero((longest > 0).take(classes.class_of))
    mine = classes.class_of[tokens].astype(np.int64)
    bounds = np.searchsorted(group, np.arange(len(table) + 1))
    token_suffixes = None
    if fragment.is_text:
        item, owner = expand(bounds[mine], bounds[mine + 1] - bounds[mine])
        token_suffixes = TextSuffixes.of(vocabulary, tokens[owner], unread[item])
    find = of_vocabulary.of_token.find if token_suffixes is None else token_suffixes.find
    token_suffix = find(tokens, longest[mine])
    count = len(of_vocabulary) if token_suffixes is None else len(token_suffixes)
    _, first, inverse = np.unique(mine * count + token_suffix, return_index=True, return_inverse=True)
    # Those without suffixes, and then the new ones, in place of all others.
    kept = np.flatnonzero(longest == 0)
    number = np.zeros(len(table), np.int32)
    number[kept] = np.arange(len(kept))
    class_of = number.take(classes.class_of)
    class_of[tokens] = len(kept) + inverse.ravel()
    groups = np.concatenate([kept, mine[first]])
    example = np.concatenate([np.zeros(len(kept), np.int64), tokens[first]])
    item, owner = expand(bounds[groups], bounds[groups + 1] - bounds[groups])
    ends, which = which_of(ending[item] * np.int64(count) + find(example[owner], unread[item]))
    ending, rest = np.divmod(ends, count)
    narrow = np.int16 if len(groups) < 2**15 else np.int32
    return FragmentTokens(
        class_of.astype(narrow),
        groups,
        table,
        inner_digest,
        inner_set,
        owner * np.int64(targets.size) + target[item],
        outer_digest[item],
        outer_set[item],
        which,
        *targets.ending(ending),
        rest,
        targets,
        work,
        token_suffixes,
    )


def _inside(table: TransitionColumns, inside: NDArray[np.bool_]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return a digest of the entries of each group that stay in the fragment, and the number of their set."""
    start = np.append(0, np.cumsum(inside))[table.start]
    sets = PairSets(start, table.source[inside], table.target[inside])
    digest = sums_by_run(digest_of_pairs(sets.first, sets.second), start)
    return digest, distinct_sets(digest, np.zeros(len(digest), np.int64), sets)[1]
