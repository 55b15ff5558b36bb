"""Free text in an automaton, as fragments: nearly every token is legal in it, and does the same in all automata with such text.

In the language of tool calls, the text before `<tool_call>` has a dozen states, one for each number of characters of the marker
that have just been read. From each state every token of the vocabulary leads somewhere, so following all tokens would take most
of a second. But their targets depend on the marker alone. So these states become an instance of a *fragment*
(`compiler.bytes.string_fragment`), and the effects of tokens in it are computed once for each vocabulary and marker.

By hand, for any text up to `<x>`, without the states inside of characters: the region has a state for the text, one after `<`,
and one after `<x`. The `>` that ends the marker leads out of the region: it is the end of the fragment.

Invariants: the states of a region stand next to each other, after all other states. As far as possible, their order depends on
the content of the region alone, so that equal regions become one fragment. A move out of a region leads to a state, not to a
call.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, renumbered_table
from logitkit.compiler.bytes.fragment_instances import FragmentInstances
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.sorting import examples
from logitkit.compiler.bytes.string_fragment import StringFragment

__all__ = ["with_characters", "with_text_regions"]

Ints = NDArray[np.int64]

# A state that reads at least this many different bytes is taken to be in free text.
MANY_BYTES = 48


def with_text_regions(dfa: NestedDfa) -> NestedDfa:
    """Return the same automaton, in which free text consists of instances of fragments."""
    regions = _regions(dfa)
    if not regions:
        # Tables with limits of tokens are put together from instances, of which there may be none.
        return replace(dfa, instances=dfa.instances or _none(dfa.states, dfa.frames)) if dfa.token_limits else dfa
    inside = np.zeros(dfa.states, bool)
    inside[np.concatenate(regions)] = True
    order = np.concatenate([np.flatnonzero(~inside), *regions])
    number = np.zeros(dfa.states, np.int64)
    number[order] = np.arange(dfa.states)
    found = _reordered(dfa, order, number)
    instances = _none(dfa.states, dfa.frames) if found.instances is None else found.instances
    fragments, fragment_of = list(instances.fragments), instances.fragment.tolist()
    known = {fragment.key: place for place, fragment in enumerate(fragments)}
    first, exits = instances.first.tolist(), list(instances.exits)
    for region in regions:
        begin = int(number[region[0]])
        fragment, leads = _fragment(found, begin, begin + len(region))
        place = known.setdefault(fragment.key, len(fragments))
        if place == len(fragments):
            fragments.append(fragment)
        fragment_of.append(place)
        first.append(begin)
        exits.append(leads)
    text = instances._replace(
        fragments=tuple(fragments),
        fragment=np.array(fragment_of, np.int64),
        first=np.array(first, np.int64),
        exits=tuple(exits),
    )
    return replace(found, instances=text)


def _regions(dfa: NestedDfa) -> list[Ints]:
    """Return the states of each region, in their new order."""
    step = dfa.step
    within = _outside_of_brackets(dfa)
    if dfa.instances is not None:
        within &= (dfa.instances.of_states() < 0) & (dfa.instances.base_state == 0)
        within[dfa.instances.opening] = False
    # A move that opens or closes a bracket cannot be part of a fragment.
    states = np.flatnonzero(within)
    rows = step[states]
    plain = NestedStep.is_state(rows).all(axis=1)
    within[states] = plain
    bytes_of = np.bincount(dfa.byte_class, minlength=step.shape[1])
    text = np.zeros(dfa.states, bool)
    text[states[plain & (_bytes_read(rows, bytes_of) >= MANY_BYTES)]] = True
    states = np.flatnonzero(with_characters(dfa, _with_limits(dfa, text, within, bytes_of)) & within)
    if not len(states):
        return []
    within = np.zeros(dfa.states, bool)
    within[states] = True
    row, column = np.nonzero(within[step[states]] & (step[states] != DEAD))
    source, target = states[row], step[states[row], column].astype(np.int64)
    joined = _components(source, target, dfa.states)
    return [_ordered(dfa, states[joined[states] == c]) for c in np.unique(joined[states]).tolist()]


def _bytes_read(step: NDArray[np.int32], bytes_of: Ints) -> Ints:
    """Return how many bytes lead anywhere from each state."""
    # One symbol after another: a product of matrices would take eight bytes for each entry of the table.
    found = np.zeros(len(step), np.int64)
    for symbol, count in enumerate(bytes_of.tolist()):
        found += count * (step[:, symbol] != DEAD)
    return found


def _with_limits(
    dfa: NestedDfa, text: NDArray[np.bool_], eligible: NDArray[np.bool_], bytes_of: Ints
) -> NDArray[np.bool_]:
    """Add to the states of texts the states in which a text has reached its greatest length, as many bytes lead there.

    Little may follow in such a state. If it were outside of the region, nearly every token would leave a suffix there, and most
    of these suffixes are dead.

    Args:
        dfa: The automaton.
        text: [S] bool, the states of texts.
        eligible: [S] bool, the states that may be added.
        bytes_of: [K] how many bytes each class has.

    Returns:
        [S] bool.
    """
    within = text.copy()
    fresh = np.flatnonzero(text)
    while len(fresh):
        rows = dfa.step[fresh].astype(np.int64)
        limits = eligible & ~within
        limits[:FIRST_STATE] = False
        row, column = np.nonzero(limits[rows])
        pairs, which = np.unique(row * dfa.states + rows[row, column], return_inverse=True)
        many = np.bincount(which, bytes_of[column], minlength=len(pairs)) >= MANY_BYTES
        fresh = np.unique(pairs[many] % dfa.states)
        within[fresh] = True
    return within


def _outside_of_brackets(dfa: NestedDfa) -> NDArray[np.bool_]:
    """Return [S] bool, the states of the main part and their copies, in which no bracket is open.

    Text inside of brackets is not a fragment: a suffix after it may close a bracket, and `TextSuffixActions` cannot follow that.
    """
    found = np.zeros(dfa.states, bool)
    # The main part comes first, and calls go on in the first state of another part.
    found[FIRST_STATE : dfa.entry.min(initial=dfa.states)] = True
    for limit in dfa.token_limits:
        found[limit.later[limit.later_of_fresh[found[limit.fresh]]]] = True
    return found


def with_characters(dfa: NestedDfa, text: NDArray[np.bool_], leaving: bool = False) -> NDArray[np.bool_]:
    """Add to some states those inside of characters of several bytes: they are entered from these states, and lead back.

    A state is inside of a character if only the bytes 0x80 to 0xBF follow. A state without moves is not.

    Args:
        dfa: The automaton.
        text: [S] bool, the states.
        leaving: Whether the character may also lead elsewhere, as the last one of a marker does.

    Returns:
        [S] bool.
    """
    within = text.copy()
    begins = np.ones(256, bool)
    begins[0x80:0xC0] = False
    first = np.unique(dfa.byte_class[begins])
    while True:
        led = dfa.by_step(np.zeros(dfa.states, bool))
        led.values[dfa.step[within]] = True
        led.states[:FIRST_STATE] = False
        fresh = np.flatnonzero(led.states & ~within)
        rows = dfa.step[fresh]
        inside = (rows[:, first] == DEAD).all(axis=1) & (rows != DEAD).any(axis=1)
        fresh, rows = fresh[inside], rows[inside]
        # Calls and ends do not lead back to the text.
        leads = dfa.by_step(within).values[rows]
        found = leads.any(axis=1) if leaving else (leads | (rows == DEAD)).all(axis=1)
        if not found.any():
            return within
        within[fresh[found]] = True


def _components(source: Ints, target: Ints, states: int) -> Ints:
    """Return a number for each state, equal for states that are joined by moves."""
    found: Ints = np.arange(states)
    while True:
        before = found.copy()
        least = np.minimum(found[source], found[target])
        np.minimum.at(found, source, least)
        np.minimum.at(found, target, least)
        found = found.take(found)
        if np.array_equal(found, before):
            return found


def _ordered(dfa: NestedDfa, region: Ints) -> Ints:
    """Return the states of a region in breadth-first order, from the state that most moves lead to."""
    step = dfa.step
    inside = np.zeros(dfa.states, bool)
    inside[region] = True
    # Classes in the order of their first bytes, because their numbers depend on the rest of the automaton.
    _, first = np.unique(dfa.byte_class, return_index=True)
    columns = dfa.byte_class[np.sort(first)]
    rows = step[region][:, columns]
    met = np.bincount(rows[inside[rows]].ravel(), minlength=dfa.states)
    order: dict[int, None] = {}
    # States that are not reached from the first root become roots themselves.
    for root in [int(region[np.argmax(met[region])]), *region.tolist()]:
        todo = [root]
        while todo:
            fresh: list[int] = []
            for state in todo:
                if state not in order:
                    order[state] = None
                    fresh.extend(t for t in step[state, columns].tolist() if inside[t] and t not in order)
            todo = fresh
    return np.array([*order], np.int64)


def _fragment(dfa: NestedDfa, begin: int, end: int) -> tuple[StringFragment, tuple[int, ...]]:
    """Return the fragment that some states are an instance of, and where each of its ends leads."""
    rows = dfa.step[begin:end].astype(np.int64)
    # The classes of bytes that the region distinguishes, in the order of their first bytes.
    _, column = np.unique(rows, axis=1, return_inverse=True)
    first, byte_class = examples(column.ravel()[dfa.byte_class])
    rank = np.argsort(np.argsort(first))
    byte_class = rank[byte_class]
    rows = rows[:, dfa.byte_class[np.sort(first)]]
    outside = (rows != DEAD) & ((rows < begin) | (rows >= end))
    leads = list(dict.fromkeys(rows[outside].tolist()))
    number = {state: place for place, state in enumerate(leads)}
    step = np.where(rows == DEAD, DEAD, rows - begin + FIRST_STATE)
    step[outside] = NestedStep.end(np.array([number[s] for s in rows[outside].tolist()], np.int64))
    whole = np.concatenate([np.zeros((FIRST_STATE, step.shape[1]), np.int32), step.astype(np.int32)])
    return StringFragment(whole, byte_class, tuple(range(1, len(leads) + 1)), is_text=True), tuple(leads)


def _reordered(dfa: NestedDfa, order: Ints, number: Ints) -> NestedDfa:
    """Return the automaton with its states in another order: `order` lists them, and `number` has the new number of each."""
    means = dfa.renumbered_steps(number.astype(np.int32))
    instances = (
        None if dfa.instances is None else dfa.instances.renumbered(number, dfa.states, dfa.instances.of_states())
    )
    return replace(
        dfa,
        step=renumbered_table(dfa.step, order, means),
        accepting=dfa.accepting[order],
        start=int(number[dfa.start]),
        entry=number[dfa.entry],
        return_state=number[dfa.return_state],
        need=dfa.need[order],
        special_tokens={token: number[leads[order]] for token, leads in dfa.special_tokens.items()},
        instances=instances,
        returns={int(number[state]): end for state, end in dfa.returns.items()},
        token_limits=tuple(t._replace(fresh=number[t.fresh], later=number[t.later]) for t in dfa.token_limits),
    )


def _none(states: int, frames: int) -> FragmentInstances:
    """Return an empty list of instances for an automaton."""
    nothing = np.zeros(0, np.int64)
    base_state, strings = np.zeros(states, np.int64), np.zeros(frames, bool)
    return FragmentInstances((), nothing, nothing, (), nothing, nothing, nothing, nothing, base_state, strings)
