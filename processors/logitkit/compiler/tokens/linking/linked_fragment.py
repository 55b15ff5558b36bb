"""A fragment in all its instances: where its ends lead, and which classes of tokens do alike in all instances.

A vocabulary has hundreds of tokens that end a string and go on. After the instance in `{"a": <string>, "b": 1}` only few of them
lead anywhere, as `","` and `",`; all others are of one class with the tokens that are dead in the whole fragment.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.compiler.tokens.effects.counted_links import counted_ends, counted_moves
from logitkit.compiler.tokens.effects.distinct_sets import PairSets, digest_of_pairs, distinct_sets
from logitkit.compiler.tokens.effects.suffix_actions import SuffixActions
from logitkit.compiler.tokens.effects.text_suffixes import TextSuffixActions
from logitkit.compiler.tokens.fragments.fragment_tokens import FragmentTokens
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["ENTRIES_A_STEP", "LinkedFragment", "linked_fragment"]

# This many entries of a table take as long as one other step.
ENTRIES_A_STEP = 3


@dataclass(eq=False, slots=True)
class LinkedFragment:
    """The classes of tokens in one fragment, and where they lead in each of its instances.

    Args:
        instances: The instances.
        known: The columns of tokens in the fragment.
        merged: For each class of tokens there, the class of those that do alike in all instances; 0 is dead.
        source: The state of each entry, ascending.
        symbol: Its class.
        target: [instances, N] its target in each instance.
    """

    instances: Ints
    known: FragmentTokens
    merged: Ints
    source: Ints
    symbol: Ints
    target: Ints

    def classes_of(self, tokens: Ints) -> Ints:
        """Return the class of each of some tokens."""
        return self.merged[self.known.class_of[tokens]]


def linked_fragment(
    number: int,
    instances: FragmentInstances,
    known: FragmentTokens,
    suffix_actions: SuffixActions | TextSuffixActions,
    limits: Limits,
) -> LinkedFragment:
    """Find where the ends of a fragment lead in each instance, and merge the classes that do alike in all.

    Args:
        number: The number of the fragment.
        instances: The instances of all fragments.
        known: The columns of tokens in the fragment.
        suffix_actions: The actions of suffixes after it.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: There is too much to do.
    """
    mine = np.flatnonzero(instances.fragment == number)
    fragment, first = instances.fragments[number], instances.first[mine]
    exits = np.array([instances.exits[instance] for instance in mine.tolist()], np.int64)
    length, mark = known.characters, known.mark
    limits.spend(1 + len(mine) * len(mark) // ENTRIES_A_STEP)
    state = exits[:, mark]
    leads = from_quote = suffix_actions.of(state.ravel(), np.tile(known.rest, len(mine))).reshape(state.shape)
    if fragment.counted is not None:
        least, most = np.array(fragment.counted.ends)[mark].T
        from_quote = np.where((least <= length) & (length <= most), leads, DEAD)
        leads = counted_ends(leads, length, mark, fragment.counted, suffix_actions.actions)
    # Ends that lead to the same in all instances are of one column. Most are dead in all of them.
    live_end = np.logical_or.reduce(leads)
    column = digest_of_pairs(leads, np.arange(len(mine))[:, None]).sum(axis=0, dtype=np.uint64)
    by_end = PairSets(len(mine) * np.arange(len(column) + 1), leads.T.ravel(), np.zeros(leads.size, np.int8))
    _, column_set = distinct_sets(column, np.zeros(len(column), np.int8), by_end)
    alive = np.flatnonzero(live_end[known.end_index])
    owner, end = known.ended_by()[alive], known.end_index[alive]
    digest = known.inner_digest[known.group]
    np.add.at(digest, owner, digest_of_pairs(known.outer_digest[alive], column[end]))
    ends = PairSets.collected(owner, len(digest), known.outer_set[alive], column_set[end])
    # Class 0, which is dead, comes first: the digest of no entries is 0.
    example, merged = distinct_sets(digest, known.inner_set[known.group], ends)
    # The entries of one class of each kind; that of the first kind, the dead one, has none.
    group = known.group[example]
    count = known.table.start[group + 1] - known.table.start[group]
    count[0] = 0
    place, symbol = expand(known.table.start[group], count)
    # Strings of thousands of characters have millions of entries: in 32 bits, from here on.
    source, target = known.table.source[place].astype(np.int32), known.table.target[place].astype(np.int32)
    symbol = symbol.astype(np.int32)
    outside = known.targets.is_end(target)
    if outside.any():
        ended = known.end_index[known.find_ended(example[symbol[outside]], target[outside])]
        live = ~outside
        live[outside] = live_end[ended]
        source, symbol, target, outside, ended = (
            source[live],
            symbol[live],
            target[live],
            outside[live],
            ended[live_end[ended]],
        )
    # A stable sort of 16-bit numbers is linear.
    order = np.argsort(source.astype(np.uint16) if known.states < 2**16 else source, kind="stable")
    does = np.empty((len(mine), len(target)), np.int32)
    if fragment.counted is None:
        np.add(target, (first - FIRST_STATE)[:, None], out=does, casting="unsafe")
    else:
        inside = np.flatnonzero(~outside)
        moves = source[inside], *known.targets.reached(target[inside].astype(np.int64))
        does[:, inside] = counted_moves(moves, first, fragment, suffix_actions.actions)
    if outside.any():
        does[:, outside] = np.where(source[outside] == known.states, from_quote[:, ended], leads[:, ended])
    limits.spend(does.size // ENTRIES_A_STEP)
    return LinkedFragment(mine, known, merged.astype(np.int32), source[order], symbol[order], does[:, order])
