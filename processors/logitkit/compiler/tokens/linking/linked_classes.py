"""The classes of all tokens in an automaton that is put together from copies of leaves, without a look at the vocabulary.

A schema `{"name": <string>, "id": <integer>}` has a copy of the leaf for strings, and few other states. The actions of tokens
are known:

1. in the copy, from the leaf (`leaf_tokens`), and from the actions of remainders after it (`rests`): of 300 classes of tokens
   most do alike here, as the remainder `},` is dead after this copy;
2. in the other states, by following the few tokens that are alive there (`trie_walk`): those that begin with `{"na`, and so on;
3. in states beside a copy, as in the leaf, but for the few tokens that a walk finds (`literal_overrides`).

Two tokens are of one class if they are of one class in each leaf, and the walks found the same for both. A class of tokens
that no walk has met has only what leaves say of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.behaviours import Behaviours, Ints, starts
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.leaf import QUOTE, Copies
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.sorting import distinct, examples, pair_numbers, stable_order
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.distinct_sets import PairSets, digest_of_pairs, distinct_sets, sums_by_run
from logitkit.compiler.tokens.effects.rests import Rests
from logitkit.compiler.tokens.effects.text_remainders import TextRests
from logitkit.compiler.tokens.effects.token_classes import TokenClasses
from logitkit.compiler.tokens.effects.trie_walk import TrieWalk
from logitkit.compiler.tokens.effects.walked_prefixes import Found, Starts
from logitkit.compiler.tokens.fragments.leaf_partition import leaf_partition
from logitkit.compiler.tokens.fragments.leaf_tokens import LeafTokens, leaf_tokens
from logitkit.compiler.tokens.linking.linked_leaf import ENTRIES_A_STEP, linked_leaf
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["linked_classes"]

# From this many classes on, the number of a class takes 32 bits.
MANY_CLASSES = 2**14

# The cost of any automaton, however small, in steps.
LINKING_STEPS = 2000


def linked_classes(
    dfa: NestedDfa, copies: Copies, vocabulary: Vocabulary, actions: ActionNumbering, limits: Limits, falls_back: bool
) -> TokenClasses:
    """Compute the classes of all tokens.

    Args:
        dfa: The automaton.
        copies: The copies of leaves in it.
        vocabulary: The tokens.
        actions: Numbers what tokens do.
        limits: Bounds on the work.
        falls_back: Whether states beside copies list only what they do otherwise than the states that they are like.

    Returns:
        The class of every token, and the behaviour of every class. Class 0 is dead from every state.

    Raises:
        PatternTooLarge: There is too much to do.
    """
    return _Link(dfa, copies, vocabulary, actions, limits, falls_back).classes()


class _Link:
    def __init__(
        self,
        dfa: NestedDfa,
        copies: Copies,
        vocabulary: Vocabulary,
        actions: ActionNumbering,
        limits: Limits,
        falls_back: bool,
    ) -> None:
        self.falls_back = falls_back
        self.dfa, self.copies, self.vocabulary, self.limits = dfa, copies, vocabulary, limits
        limits.spend(LINKING_STEPS)
        self.actions = actions
        self.owner = copies.of_states()
        self.walk = TrieWalk(dfa, copies, actions, limits)
        is_text = [copies.leaves[leaf].is_text for leaf in copies.leaf.tolist()]
        ends = zip(copies.exits, is_text, strict=True)
        exits = np.array(sorted({leads for row, text in ends for leads in row if not text}), np.int64)
        self.remainders = vocabulary.remainders_of_blocks if dfa.open_blocks else vocabulary.remainders
        self.rests = Rests(dfa, exits, self.remainders, self.walk, actions)
        self.found = self._walked(self.owner >= 0)
        numbers = distinct(copies.leaf).tolist()
        self.known = [(copies.leaves[n], leaf_tokens(copies.leaves[n], vocabulary, limits)) for n in numbers]
        self.leaves = [
            linked_leaf(number, copies, tokens, self._rests(number, tokens), limits)
            for number, (_, tokens) in zip(numbers, self.known, strict=True)
        ]

    def _rests(self, leaf: int, known: LeafTokens) -> Rests | TextRests:
        """Return what the remainders of tokens do after a leaf."""
        if known.remainders is None:
            return self.rests
        copies = np.flatnonzero(self.copies.leaf == leaf).tolist()
        exits = np.array([leads for copy in copies for leads in self.copies.exits[copy]], np.int64)
        return TextRests(known.remainders, exits, self.walk, self.actions)

    def _walked(self, inside: NDArray[np.bool_]) -> Found:
        """Follow tokens from all states that are in no copy."""
        trie, copies = self.vocabulary.trie, self.copies
        plain = np.flatnonzero(~inside & (copies.like == 0))
        plain = plain[plain >= FIRST_STATE]
        opening = np.zeros(self.dfa.states, bool)
        opening[copies.opening] = True
        beside = np.flatnonzero(copies.like)
        # Where a quote enters a copy, the leaf says what tokens do that begin with it.
        starts = [Starts.at_root(plain, unquoted=opening[plain]), Starts.at_root(beside, copies.like[beside])]
        first = copies.first[copies.opened]
        apart = np.flatnonzero(copies.entered != first)
        quote = trie.path(bytes([QUOTE]))
        if len(apart) and quote:
            node, never = np.full(len(apart), quote[0]), np.zeros(len(apart), bool)
            starts.append(Starts(copies.opening[apart], node, copies.entered[apart], first[apart], never))
        found, popped = self.walk.follow(trie, Starts(*map(np.concatenate, zip(*starts, strict=True))))
        columns = [found]
        for block in popped.blocks(trie):
            source, token, end, rest, height = self.rests.expanded(trie, block, self.remainders)
            action = self.rests.pops(end, rest, height)
            # A copy may lead on where this is dead.
            alive = (action != DEAD) | (copies.like[source] > 0) | opening[source]
            columns.append(Found(source[alive], token[alive], action[alive]))
        return Found(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def classes(self) -> TokenClasses:
        """Return the classes of all tokens together."""
        partition = leaf_partition(self.known, self.vocabulary)
        common = np.zeros(len(partition.example), np.int32)
        for leaf, (of, _) in zip(self.leaves, self.known, strict=True):
            common = pair_numbers(common, leaf.merged[partition.of_leaf[of.uncounted_key]])
        source, token, action = self.found
        order = stable_order(token * np.int64(self.dfa.states) + source)
        source, token, action = self.found = Found(source[order], token[order], action[order])
        fresh = np.append(True, token[1:] != token[:-1])[: len(token)]
        met = token[fresh]
        class_of_met = common[partition.class_of[met]]
        sets = PairSets(np.append(np.flatnonzero(fresh), len(token)), source, action)
        digest = sums_by_run(digest_of_pairs(source, action), sets.start)
        digest += digest_of_pairs(class_of_met, class_of_met)
        example, which = distinct_sets(digest, class_of_met, sets)
        # The other tokens do alike if they are of one class. Class 0 is dead everywhere.
        count = int(common.max()) + 1
        left = np.bincount(common, partition.size, count) - np.bincount(class_of_met, minlength=count)
        examples = np.full(count + len(example), -1)
        examples[common] = partition.example
        examples[:count][left == 0] = -1
        examples[0] = -1
        examples[count:] = met[example]
        # Classes without a token are left out.
        kept = examples >= 0
        kept[0] = True
        # In as few bytes as do for these classes and for those of ends and letters.
        narrow = np.int16 if len(kept) < MANY_CLASSES else np.int32
        number: Ints = (np.cumsum(kept) - 1).astype(narrow)
        # All tokens are looked at here only.
        class_of = number[common].take(partition.class_of)
        class_of[met] = number[count + which]
        return TokenClasses(class_of, self._behaviours(class_of, examples[kept]))

    def _behaviours(self, class_of: Ints, examples: Ints) -> Behaviours:
        """Return what each class does: what its example does."""
        source, token, action = self.found
        symbol = class_of[token]
        mine = np.flatnonzero(examples[symbol] == token)
        source, symbol, action = source[mine], symbol[mine], action[mine]
        columns = self._of_leaves(examples, _Overridden(len(examples), source, symbol))
        # A dead action is listed where it may not be dead in the state that is fallen back to.
        alive = (action != DEAD) | (self.falls_back & (self.copies.like[source] > 0))
        columns.append((symbol[alive], source[alive], action[alive]))
        symbol, source, target = (
            np.concatenate([part.astype(np.int32, copy=False) for part in column])
            for column in zip(*columns, strict=True)
        )
        self.limits.spend(len(symbol) // ENTRIES_A_STEP)
        order = np.argsort(symbol.astype(np.uint16) if len(examples) < 2**16 else symbol, kind="stable")
        count = np.bincount(symbol, minlength=len(examples))
        nothing = np.zeros(len(examples), np.int32)
        return Behaviours(nothing, starts(count), source[order], target[order])

    def _of_leaves(self, examples: Ints, overridden: _Overridden) -> list[tuple[Ints, ...]]:
        """Return the entries of leaves, except those that walks override, as columns of classes, states and actions."""
        copies = self.copies
        columns: list[tuple[Ints, ...]] = []
        beside = np.flatnonzero(copies.like)[: 0 if self.falls_back else None]
        real = examples >= 0
        for leaf in self.leaves:
            # For each class of the leaf, the classes of all tokens that are among it.
            own = np.where(real, leaf.classes_of(np.where(real, examples, 0)), 0)
            order = stable_order(own).astype(np.int32)
            first = np.searchsorted(own[order], np.arange(int(leaf.merged.max()) + 2))
            place, entry = expand(first[leaf.symbol], first[leaf.symbol + 1] - first[leaf.symbol])
            symbol = order[place]
            self.limits.spend(len(leaf.copies) * len(symbol) // ENTRIES_A_STEP)
            bounds = np.searchsorted(leaf.source[entry], np.arange(leaf.known.states + 2))
            index_of = np.full(len(copies.leaf), -1)
            index_of[leaf.copies] = np.arange(len(leaf.copies))
            # The states of all copies.
            inner = slice(0, bounds[-2])
            target = leaf.target[:, entry[inner]]
            states = leaf.source[entry[inner]] + (copies.first[leaf.copies] - FIRST_STATE).astype(np.int32)[:, None]
            column = np.broadcast_to(symbol[inner], target.shape), states, target
            live = target != DEAD
            columns.append(tuple(part.ravel() if live.all() else part[live] for part in column))
            # The states beside copies, and those in which a quote enters one.
            near = beside[index_of[self.owner[copies.like[beside]]] >= 0]
            copy = self.owner[copies.like[near]]
            local = copies.like[near] - copies.first[copy] + FIRST_STATE
            opens = np.flatnonzero(index_of[copies.opened] >= 0)
            state = np.concatenate([near, copies.opening[opens]])
            copy = np.concatenate([copy, copies.opened[opens]])
            local = np.concatenate([local, np.full(len(opens), leaf.known.states)])
            at, owner = expand(bounds[local], bounds[local + 1] - bounds[local])
            target = leaf.target[index_of[copy[owner]], entry[at]]
            frame = np.concatenate([np.full(len(near), -1), copies.frame[opens]])[owner]
            calls = np.flatnonzero((frame >= 0) & (target != DEAD))
            if len(calls):
                target[calls] = self._called(frame[calls], target[calls])
            live = np.flatnonzero((target != DEAD) & ~overridden.holds(state[owner], symbol[at]))
            columns.append((symbol[at[live]], state[owner[live]], target[live]))
        return columns

    def _called(self, frame: Ints, inside: Ints) -> Ints:
        """Return the actions of quotes that push frames, given the action after each."""
        example, which = examples(frame * np.int64(2**32) + inside)
        made = [
            self.actions.called(*pair) for pair in zip(frame[example].tolist(), inside[example].tolist(), strict=True)
        ]
        return np.array(made, np.int64)[which]


class _Overridden:
    """The pairs of a state and a class of which a walk says what happens."""

    def __init__(self, classes: int, state: Ints, symbol: Ints) -> None:
        self._classes = np.int64(classes)
        self._keys = distinct(state * self._classes + symbol)

    def holds(self, state: Ints, symbol: Ints) -> NDArray[np.bool_]:
        """Return whether some pairs are among them."""
        if not len(self._keys):
            return np.zeros(len(state), bool)
        keys = state * self._classes + symbol
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found: NDArray[np.bool_] = self._keys[place] == keys
        return found
