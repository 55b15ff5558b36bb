"""A fragment in all its instances: where its ends lead, and which tokens do the same in all instances.

A vocabulary has hundreds of tokens that end a string and continue after it. Their effect depends on the instance.

By hand, for the string in `{"a": <string>, "b": 1}`: of the tokens `x",`, `x","` and `x"}`, the first two are legal, because a
comma and a quote follow the string. `x"}` is dead, so it joins the class of tokens that are dead in the whole fragment. If there
is a second instance, in which `"b"` is a string and the object may end, `x"}` keeps its own class.

Invariants: tokens of one class here do the same in all states of all instances. Class 0 is dead in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.string_fragment import StringFragment
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
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
        merged: For each class of `known`, the merged class: that of all tokens that do the same in all instances; 0 is dead.
        source: [N] the state of each entry, ascending.
        symbol: [N] its merged class.
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
    """Find where the ends of a fragment lead in each instance, and merge the classes that do the same in all instances.

    Args:
        number: The number of the fragment.
        instances: The instances of all fragments.
        known: The columns of tokens in the fragment.
        suffix_actions: The actions of suffixes after it.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    mine = np.flatnonzero(instances.fragment == number)
    fragment, first = instances.fragments[number], instances.first[mine]
    limits.spend(1 + len(mine) * len(known.mark) // ENTRIES_A_STEP)
    exits = np.array([instances.exits[instance] for instance in mine.tolist()], np.int64)
    ends = _ends(exits, fragment, known, suffix_actions)
    example, merged = _merged(known, ends)
    entries = _entries(known, example, ends.live)
    target = _targets(entries, ends, first, fragment, known, suffix_actions.actions)
    limits.spend(target.size // ENTRIES_A_STEP)
    # A stable sort of 16-bit numbers is linear.
    source = entries.source
    order = np.argsort(source.astype(np.uint16) if known.states < 2**16 else source, kind="stable")
    return LinkedFragment(mine, known, merged.astype(np.int32), source[order], entries.symbol[order], target[:, order])


class _Ends(NamedTuple):
    """The actions of tokens that end a fragment.

    Args:
        leads: [instances, E] the action of each end of `FragmentTokens` in each instance.
        from_quote: [instances, E] the action if the token begins with the opening quote: then nothing was counted before.
        live: [E] bool, which ends lead anywhere in some instance.
    """

    leads: Ints
    from_quote: Ints
    live: NDArray[np.bool_]


def _ends(
    exits: Ints, fragment: StringFragment, known: FragmentTokens, suffix_actions: SuffixActions | TextSuffixActions
) -> _Ends:
    """Find the actions of tokens that end a fragment, given [instances, marks] the exits of its instances."""
    length, mark = known.characters, known.mark
    state = exits[:, mark]
    leads = from_quote = suffix_actions.of(state.ravel(), np.tile(known.rest, len(exits))).reshape(state.shape)
    if fragment.counted is not None:
        least, most = np.array(fragment.counted.ends)[mark].T
        from_quote = np.where((least <= length) & (length <= most), leads, DEAD)
        leads = counted_ends(leads, length, mark, fragment.counted, suffix_actions.actions)
    return _Ends(leads, from_quote, np.logical_or.reduce(leads))


def _merged(known: FragmentTokens, ends: _Ends) -> tuple[Ints, Ints]:
    """Merge the classes of tokens that do the same in all instances.

    Returns:
        An example of each new class, and the new class of each old one. Class 0 is dead.
    """
    # Most ends are dead in all instances. Those that lead to the same actions in all instances are one.
    instances, count = ends.leads.shape
    column = digest_of_pairs(ends.leads, np.arange(instances)[:, None]).sum(axis=0, dtype=np.uint64)
    by_end = PairSets(instances * np.arange(count + 1), ends.leads.T.ravel(), np.zeros(ends.leads.size, np.int8))
    _, column_set = distinct_sets(column, np.zeros(count, np.int8), by_end)
    live = np.flatnonzero(ends.live[known.end_index])
    owner, end = known.ended_by()[live], known.end_index[live]
    digest = known.inner_digest[known.group]
    np.add.at(digest, owner, digest_of_pairs(known.outer_digest[live], column[end]))
    outer = PairSets.collected(owner, len(digest), known.outer_set[live], column_set[end])
    # The dead class comes first, because the digest of no entries is 0.
    return distinct_sets(digest, known.inner_set[known.group], outer)


class _Entries(NamedTuple):
    """The entries of merged classes.

    Args:
        source: [N] the state of each.
        symbol: [N] its class.
        target: [N] its target, as in `FragmentTokens`.
        ends: [N] bool, whether the target is an end.
        end: For each of these ends, its place in `_Ends`.
    """

    source: Ints
    symbol: Ints
    target: Ints
    ends: NDArray[np.bool_]
    end: Ints


def _entries(known: FragmentTokens, example: Ints, live_end: NDArray[np.bool_]) -> _Entries:
    """Return the entries of classes, given an example of each, without ends that lead nowhere."""
    group = known.group[example]
    count = known.table.start[group + 1] - known.table.start[group]
    # The dead class has none.
    count[0] = 0
    place, symbol = expand(known.table.start[group], count)
    # Strings of thousands of characters have millions of entries: in 32 bits, from here on.
    source, target = known.table.source[place].astype(np.int32), known.table.target[place].astype(np.int32)
    symbol = symbol.astype(np.int32)
    ends = known.targets.is_end(target)
    if not ends.any():
        return _Entries(source, symbol, target, ends, np.zeros(0, np.int64))
    end = known.end_index[known.find_ended(example[symbol[ends]], target[ends])]
    live = ~ends
    live[ends] = live_end[end]
    return _Entries(source[live], symbol[live], target[live], ends[live], end[live_end[end]])


def _targets(
    entries: _Entries,
    ends: _Ends,
    first: Ints,
    fragment: StringFragment,
    known: FragmentTokens,
    actions: ActionNumbering,
) -> Ints:
    """Return [instances, N] the target of each entry in each instance, given the first states of instances."""
    found = np.empty((len(first), len(entries.target)), np.int32)
    if fragment.counted is None:
        np.add(entries.target, (first - FIRST_STATE)[:, None], out=found, casting="unsafe")
    else:
        inside = np.flatnonzero(~entries.ends)
        moves = entries.source[inside], *known.targets.reached(entries.target[inside].astype(np.int64))
        found[:, inside] = counted_moves(moves, first, fragment, actions)
    if len(entries.end):
        quoted = entries.source[entries.ends] == known.states
        found[:, entries.ends] = np.where(quoted, ends.from_quote[:, entries.end], ends.leads[:, entries.end])
    return found
