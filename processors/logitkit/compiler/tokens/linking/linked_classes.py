"""The classes of all tokens in an automaton with instances of fragments, put together without following all tokens.

By hand, for the schema `{"name": <string>, "id": <integer>}`, which has an instance of the fragment for strings and few other
states:

1. In the instance, the actions of tokens follow from the fragment (`fragment_tokens`) and from the actions of suffixes after it
   (`suffix_actions`). The fragment has 300 classes of tokens. Most of those that end a string are dead here, as no `},` may
   follow.
2. In the other states, the few tokens that are legal there are followed (`trie_walk`): those that begin with `{"na`, and so on.
3. In an override state, tokens do what they do in its base state, but for a few tokens that a walk finds (`literal_overrides`).

Two tokens are of one class if they are of one class in each fragment, and if the walks found the same actions for both. No walk
has met most tokens, so their actions follow from fragments alone.

Invariants: class 0 is dead everywhere. Override states list only what differs from their base states, if `falls_back` allows
it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.sorting import distinct, examples, pair_numbers, stable_order
from logitkit.compiler.bytes.string_fragment import QUOTE
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.distinct_sets import PairSets, digest_of_pairs, distinct_sets, sums_by_run
from logitkit.compiler.tokens.effects.suffix_actions import SuffixActions
from logitkit.compiler.tokens.effects.text_suffixes import TextSuffixActions
from logitkit.compiler.tokens.effects.token_classes import TokenClasses
from logitkit.compiler.tokens.effects.trie_walk import TrieWalk
from logitkit.compiler.tokens.effects.walked_prefixes import Found, WalkStarts
from logitkit.compiler.tokens.fragments.fragment_partition import fragment_partition
from logitkit.compiler.tokens.fragments.fragment_tokens import FragmentTokens, fragment_tokens
from logitkit.compiler.tokens.linking.linked_fragment import ENTRIES_A_STEP, LinkedFragment, linked_fragment
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.token_suffixes import ENDS_OF_BLOCKS
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["linked_classes"]

# From this many classes on, the number of a class takes 32 bits.
MANY_CLASSES = 2**14

# The cost of an automaton however small it is, in steps.
LINKING_STEPS = 2000


def linked_classes(
    dfa: NestedDfa,
    instances: FragmentInstances,
    vocabulary: Vocabulary,
    actions: ActionNumbering,
    limits: Limits,
    falls_back: bool,
) -> TokenClasses:
    """Compute the classes of all tokens.

    Args:
        dfa: The automaton.
        instances: The instances of fragments in it.
        vocabulary: The tokens.
        actions: Gives numbers to the actions of tokens.
        limits: Bounds on the work.
        falls_back: Whether override states list only what differs from their base states.

    Returns:
        The class of every token, and the column of every class. Class 0 is dead from every state.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    return _Link(dfa, instances, vocabulary, actions, limits, falls_back).classes()


class _Link:
    def __init__(
        self,
        dfa: NestedDfa,
        instances: FragmentInstances,
        vocabulary: Vocabulary,
        actions: ActionNumbering,
        limits: Limits,
        falls_back: bool,
    ) -> None:
        self.falls_back = falls_back
        self.dfa, self.instances, self.vocabulary, self.limits = dfa, instances, vocabulary, limits
        limits.spend(LINKING_STEPS)
        self.actions = actions
        self.owner = instances.of_states()
        self.walk = TrieWalk(dfa, instances, actions, limits)
        is_text = [instances.fragments[fragment].is_text for fragment in instances.fragment.tolist()]
        ends = zip(instances.exits, is_text, strict=True)
        exits = np.array(sorted({leads for row, text in ends for leads in row if not text}), np.int64)
        self.token_suffixes = vocabulary.token_suffixes
        if dfa.open_blocks:
            are_blocks = {*dfa.end_bytes} <= {*ENDS_OF_BLOCKS}
            self.token_suffixes = (
                vocabulary.token_suffixes_of_blocks if are_blocks else vocabulary.token_suffixes_of_calls
            )
        self.suffix_actions = SuffixActions(dfa, exits, self.token_suffixes, self.walk, actions)
        self.found = self._walked(self.owner >= 0)
        numbers = distinct(instances.fragment).tolist()
        self.known = [
            (instances.fragments[n], fragment_tokens(instances.fragments[n], vocabulary, limits)) for n in numbers
        ]
        self.fragments = [
            linked_fragment(number, instances, tokens, self._suffix_actions(number, tokens), limits)
            for number, (_, tokens) in zip(numbers, self.known, strict=True)
        ]

    def _suffix_actions(self, fragment: int, known: FragmentTokens) -> SuffixActions | TextSuffixActions:
        """Return the actions of token suffixes after a fragment."""
        if known.token_suffixes is None:
            return self.suffix_actions
        instances = np.flatnonzero(self.instances.fragment == fragment).tolist()
        exits = np.array([leads for instance in instances for leads in self.instances.exits[instance]], np.int64)
        return TextSuffixActions(known.token_suffixes, exits, self.walk, self.actions)

    def _walked(self, inside: NDArray[np.bool_]) -> Found:
        """Follow tokens from all states outside of instances."""
        trie, instances = self.vocabulary.trie, self.instances
        plain = np.flatnonzero(~inside & (instances.base_state == 0))
        plain = plain[plain >= FIRST_STATE]
        opening = np.zeros(self.dfa.states, bool)
        opening[instances.opening] = True
        override_states = np.flatnonzero(instances.base_state)
        # Tokens that begin with the quote of an instance are not followed: the fragment knows their actions.
        starts = [
            WalkStarts.at_root(plain, unquoted=opening[plain]),
            WalkStarts.at_root(override_states, instances.base_state[override_states]),
        ]
        first = instances.first[instances.opened]
        apart = np.flatnonzero(instances.entered != first)
        quote = trie.path(bytes([QUOTE]))
        if len(apart) and quote:
            node, never = np.full(len(apart), quote[0]), np.zeros(len(apart), bool)
            starts.append(WalkStarts(instances.opening[apart], node, instances.entered[apart], first[apart], never))
        found, popped = self.walk.follow(trie, WalkStarts(*map(np.concatenate, zip(*starts, strict=True))))
        columns = [found]
        for block in popped.blocks(trie):
            source, token, end, rest, height = self.suffix_actions.expanded(trie, block, self.token_suffixes)
            action = self.suffix_actions.pops(end, rest, height)
            # A dead action is kept where the base state, or the instance after a quote, may have a live one.
            alive = (action != DEAD) | (instances.base_state[source] > 0) | opening[source]
            columns.append(Found(source[alive], token[alive], action[alive]))
        return Found(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def classes(self) -> TokenClasses:
        """Return the classes of all tokens together."""
        partition = fragment_partition(self.known, self.vocabulary)
        common = np.zeros(len(partition.example), np.int32)
        for fragment, (of, _) in zip(self.fragments, self.known, strict=True):
            common = pair_numbers(common, fragment.merged[partition.of_fragment[of.uncounted_key]])
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
        # Tokens that no walk has met do the same if they are of one class in all fragments. Class 0 is dead everywhere.
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
        # In 16 bits if these classes, and those of EOS ids and special tokens, fit.
        narrow = np.int16 if len(kept) < MANY_CLASSES else np.int32
        number: Ints = (np.cumsum(kept) - 1).astype(narrow)
        # Only here, all tokens of the vocabulary are looked at.
        class_of = number[common].take(partition.class_of)
        class_of[met] = number[count + which]
        return TokenClasses(class_of, self._transitions(class_of, examples[kept]))

    def _transitions(self, class_of: Ints, examples: Ints) -> TransitionColumns:
        """Return the column of each class, which is that of its example."""
        source, token, action = self.found
        symbol = class_of[token]
        mine = np.flatnonzero(examples[symbol] == token)
        source, symbol, action = source[mine], symbol[mine], action[mine]
        entries = self._of_fragments(examples, _Overridden(len(examples), source, symbol))
        # A dead action is listed in an override state, because its base state may have a live one.
        alive = (action != DEAD) | (self.falls_back & (self.instances.base_state[source] > 0))
        entries.append(_Entries(symbol[alive], source[alive], action[alive]))
        symbol, source, target = (
            np.concatenate([part.astype(np.int32, copy=False) for part in column])
            for column in zip(*entries, strict=True)
        )
        self.limits.spend(len(symbol) // ENTRIES_A_STEP)
        order = np.argsort(symbol.astype(np.uint16) if len(examples) < 2**16 else symbol, kind="stable")
        count = np.bincount(symbol, minlength=len(examples))
        nothing = np.zeros(len(examples), np.int32)
        return TransitionColumns(nothing, starts(count), source[order], target[order])

    def _of_fragments(self, examples: Ints, overridden: _Overridden) -> list[_Entries]:
        """Return the entries that follow from fragments, except those that walks override."""
        entries: list[_Entries] = []
        real = examples >= 0
        for fragment in self.fragments:
            # For each class of the fragment, the classes of the automaton whose tokens are of this class.
            own = np.where(real, fragment.classes_of(np.where(real, examples, 0)), 0)
            order = stable_order(own).astype(np.int32)
            first = np.searchsorted(own[order], np.arange(int(fragment.merged.max()) + 2))
            place, entry = expand(first[fragment.symbol], first[fragment.symbol + 1] - first[fragment.symbol])
            start = np.searchsorted(fragment.source[entry], np.arange(fragment.known.states + 2))
            spread = _Spread(order[place], entry, start)
            self.limits.spend(len(fragment.instances) * len(entry) // ENTRIES_A_STEP)
            entries += [self._inside(fragment, spread), self._around(fragment, spread, overridden)]
        return entries

    def _inside(self, fragment: LinkedFragment, spread: _Spread) -> _Entries:
        """Return the entries of the states of all instances of a fragment."""
        inner = slice(0, spread.start[-2])
        entry = spread.entry[inner]
        target = fragment.target[:, entry]
        begin = (self.instances.first[fragment.instances] - FIRST_STATE).astype(np.int32)
        columns = np.broadcast_to(spread.symbol[inner], target.shape), fragment.source[entry] + begin[:, None], target
        live = target != DEAD
        return _Entries(*(part.ravel() if live.all() else part[live] for part in columns))

    def _around(self, fragment: LinkedFragment, spread: _Spread, overridden: _Overridden) -> _Entries:
        """Return the entries of override states, unless these fall back, and of states in which a quote enters an instance."""
        instances = self.instances
        index_of = np.full(len(instances.fragment), -1)
        index_of[fragment.instances] = np.arange(len(fragment.instances))
        near = np.flatnonzero(instances.base_state)[: 0 if self.falls_back else None]
        near = near[index_of[self.owner[instances.base_state[near]]] >= 0]
        opens = np.flatnonzero(index_of[instances.opened] >= 0)
        # For each state: the instance, and the state of the fragment that does the same, the one before the quote included.
        instance = np.concatenate([self.owner[instances.base_state[near]], instances.opened[opens]])
        local = instances.base_state[near] - instances.first[instance[: len(near)]] + FIRST_STATE
        local = np.append(local, np.full(len(opens), fragment.known.states))
        at, owner = expand(spread.start[local], spread.start[local + 1] - spread.start[local])
        symbol, target = spread.symbol[at], fragment.target[index_of[instance[owner]], spread.entry[at]]
        frame = np.concatenate([np.full(len(near), -1), instances.frame[opens]])[owner]
        calls = np.flatnonzero((frame >= 0) & (target != DEAD))
        if len(calls):
            target[calls] = self._called(frame[calls], target[calls])
        state = np.concatenate([near, instances.opening[opens]])[owner]
        live = np.flatnonzero((target != DEAD) & ~overridden.holds(state, symbol))
        return _Entries(symbol[live], state[live], target[live])

    def _called(self, frame: Ints, inside: Ints) -> Ints:
        """Return the actions of quotes that push frames, given the actions after the quotes."""
        example, which = examples(frame * np.int64(2**32) + inside)
        made = [
            self.actions.called(*pair) for pair in zip(frame[example].tolist(), inside[example].tolist(), strict=True)
        ]
        return np.array(made, np.int64)[which]


class _Entries(NamedTuple):
    """Entries of columns: [N] each."""

    symbol: Ints
    state: Ints
    action: Ints


class _Spread(NamedTuple):
    """The entries of a fragment, copied for all classes of the automaton.

    Args:
        symbol: [N] the class of the automaton.
        entry: [N] the entry of the `LinkedFragment`.
        start: Where those of each state of the fragment begin. The last state is the one before the quote.
    """

    symbol: Ints
    entry: Ints
    start: Ints


class _Overridden:
    """The pairs of a state and a class whose actions walks have found."""

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
