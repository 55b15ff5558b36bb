"""The columns of the tokens of a vocabulary in a fragment, whatever follows the fragment: found once, and kept.

A token may end the fragment and continue after it. Only the automaton that contains the fragment knows what the rest of the
token, its *token suffix*, does there. So here, a token leads to an end of the fragment, and its suffix has a number.

By hand, for strings: of the token `x", "`, the first two bytes belong to the string, and the suffix is `, "`. The token
`yz", "` leads to the same end and leaves the same suffix, so both are of one class. `x", '` leaves three bytes too, so it is of
the same *group*, but it leaves another suffix, so it has another class.

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
from typing import NamedTuple
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
    table = classes.transitions
    is_end = targets.is_end(table.target)
    inner_digest, inner_set = _inside(table, ~is_end)
    ends = _GroupEnds.of(table, is_end, targets)
    ending, left = targets.ended(ends.target)
    most_left = np.zeros(len(table), np.int64)
    np.maximum.at(most_left, ends.group, left)
    # The tokens that leave bytes, and their groups.
    tokens = np.flatnonzero((most_left > 0).take(classes.class_of))
    group_of = classes.class_of[tokens].astype(np.int64)
    of_text = None
    if fragment.is_text:
        item, owner = ends.of_groups(group_of)
        of_text = TextSuffixes.of(vocabulary, tokens[owner], left[item])
    find = vocabulary.token_suffixes.of_token.find if of_text is None else of_text.find
    count = len(vocabulary.token_suffixes if of_text is None else of_text)
    # A group may have several ends. The longest suffix of a token contains its shorter ones, so it decides.
    divided = _Divided.of(classes, most_left, tokens, group_of * count + find(tokens, most_left[group_of]))
    item, owner = ends.of_groups(divided.group)
    different, end_index = which_of(ending[item] * np.int64(count) + find(divided.example[owner], left[item]))
    mark, characters = targets.ending(different // count)
    return FragmentTokens(
        class_of=divided.class_of,
        group=divided.group,
        table=table,
        inner_digest=inner_digest,
        inner_set=inner_set,
        class_ends=owner * np.int64(targets.size) + ends.target[item],
        outer_digest=ends.digest[item],
        outer_set=ends.set[item],
        end_index=end_index,
        mark=mark,
        characters=characters,
        rest=different % count,
        targets=targets,
        work=work,
        token_suffixes=of_text,
    )


class _GroupEnds(NamedTuple):
    """The ends that groups lead to: [P] each, ascending by group and target.

    Args:
        start: [G + 1] where those of each group begin.
        group: The group.
        target: The end, as a target.
        digest: A digest of the states in which the group leads to this end.
        set: The number of the set of these states; equal sets have equal numbers.
    """

    start: Ints
    group: Ints
    target: Ints
    digest: NDArray[np.uint64]
    set: Ints

    @classmethod
    def of(cls, table: TransitionColumns, is_end: NDArray[np.bool_], targets: FragmentTargets) -> _GroupEnds:
        """Find them in the columns of groups, given which entries are ends."""
        places = np.flatnonzero(is_end)
        owner = np.repeat(np.arange(len(table)), np.diff(table.start))[places]
        # There are few different ends, but perhaps in thousands of states, so all of them are not sorted.
        different, which = which_of(table.target[places].astype(np.int64))
        width = max(len(different), 1)
        pairs, pair_of = which_of(owner * width + which)
        group, choice = np.divmod(pairs, width)
        source = table.source[places[stable_order(pair_of)]]
        start = starts(np.bincount(pair_of, minlength=len(pairs)))
        # In digests, one number that is not a target stands for all ends.
        any_end = 1 + max(int(table.target.max(initial=0)), targets.states)
        digest = sums_by_run(digest_of_pairs(source, np.full(len(source), any_end)), start)
        _, set_of = distinct_sets(digest, np.zeros_like(pairs), PairSets(start, source, np.zeros_like(source)))
        return cls(np.searchsorted(group, np.arange(len(table) + 1)), group, different[choice], digest, set_of)

    def of_groups(self, groups: Ints) -> tuple[Ints, Ints]:
        """Return the places of all ends of some groups, and for each the index of its group."""
        return expand(self.start[groups], self.start[groups + 1] - self.start[groups])


class _Divided(NamedTuple):
    """The classes into which groups are divided.

    Args:
        class_of: [V] the class of each token.
        group: [C] the group of each class.
        example: [C] a token of each class, if tokens of its group leave bytes; else 0.
    """

    class_of: Ints
    group: Ints
    example: Ints

    @classmethod
    def of(cls, classes: TokenClasses, most_left: Ints, tokens: Ints, kind: Ints) -> _Divided:
        """Divide groups.

        Args:
            classes: The groups, as classes.
            most_left: [G] the most bytes that the tokens of each group leave.
            tokens: The tokens of groups that leave bytes.
            kind: For each of them, a number that stands for its group and suffix.
        """
        _, first, which = np.unique(kind, return_index=True, return_inverse=True)
        # Groups that leave nothing are classes as they are, and come first.
        kept = np.flatnonzero(most_left == 0)
        number = np.zeros(len(most_left), np.int32)
        number[kept] = np.arange(len(kept))
        class_of = number.take(classes.class_of)
        class_of[tokens] = len(kept) + which.ravel()
        group = np.concatenate([kept, classes.class_of[tokens[first]].astype(np.int64)])
        example = np.concatenate([np.zeros(len(kept), np.int64), tokens[first]])
        return cls(class_of.astype(np.int16 if len(group) < 2**15 else np.int32), group, example)


def _inside(table: TransitionColumns, inside: NDArray[np.bool_]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return a digest of the entries of each group that stay in the fragment, and the number of their set."""
    start = np.append(0, np.cumsum(inside))[table.start]
    sets = PairSets(start, table.source[inside], table.target[inside])
    digest = sums_by_run(digest_of_pairs(sets.first, sets.second), start)
    return digest, distinct_sets(digest, np.zeros(len(digest), np.int64), sets)[1]
