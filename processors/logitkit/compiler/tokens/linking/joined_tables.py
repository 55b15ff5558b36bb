"""The tables of two automata over tokens one after another: of the text up to a marker, and of the text after it.

Neither part is compiled again. The states before the marker come first, and those after it keep their order. Tokens get one
class for each pair of their classes in the two parts. There are few such pairs, because most tokens do the same before the
marker. A token that ends the marker leads to the start of the second automaton, or to the state to which its suffix leads from
there.

By hand, for any text until `</think>`, with 10 states, and then an automaton with 30 states and start 2: its states 2 to 29
become 10 to 37. The token `>` ends the marker and leads to state 10. If `{` leads from 2 to 5 in the second automaton, then
`>{` leads to 13.

Invariants: the default of each class is dead. Class 0 is dead in both parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.bytes.sorting import stable_order, which_of
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.compiler.tokens.effects.common_classes import Side, listed
from logitkit.compiler.tokens.effects.distinct_sets import PairSets, digest_of_pairs, distinct_sets
from logitkit.compiler.tokens.markers.before_marker import BeforeMarker
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton, commonest_end
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["Ends", "joined"]

# This many entries of a table take as long as one other step.
ENTRIES_A_STEP = 4


class Ends(NamedTuple):
    """The targets of tokens that end the marker.

    Args:
        of: [R] for each suffix, the index of its target, -1 if it is dead.
        target: The targets, in the second automaton.
    """

    of: NDArray[np.int64]
    target: NDArray[np.int64]


class _Rows(NamedTuple):
    """The rows of some states, one after another.

    Args:
        lengths: [S] how many entries each row has.
        symbol: The classes of each row, ascending.
        target: Their targets.
    """

    lengths: NDArray[np.int64]
    symbol: Ints
    target: Ints


class _Classes(NamedTuple):
    """The classes of both parts together.

    Args:
        of_token: [V] the class of each token.
        first: [C] the class in the first part, as `_Merged` numbers it.
        second: [C] the class in the second part.
    """

    of_token: Ints
    first: Ints
    second: Ints

    @classmethod
    def of(cls, first: Ints, second: Ints) -> _Classes:
        """Number the pairs of classes that occur, ascending; the pair of zeros is always the first."""
        width = int(second.max()) + 1
        met, number = which_of(np.append(first.astype(np.int64) * width + second, 0))
        return cls(number[:-1], *np.divmod(met, width))


class _Merged(NamedTuple):
    """The classes before the marker, after merging those whose suffixes do the same.

    Args:
        number: [C] the new number of each class. Numbers ascend by group.
        example: An old class for each new number.
    """

    number: Ints
    example: Ints


class _Finishing(NamedTuple):
    """The classes of EOS ids, after all other classes: one for each id that differs from most ids, and then one for most ids.

    Args:
        classes: The number of these classes.
        state: [N] a state in which one of them is legal.
        which: [N] the class that is legal there.
        of_token: The class of each id. An id that is legal nowhere keeps the class that it had.
    """

    classes: int
    state: Ints
    which: Ints
    of_token: dict[int, int]

    @classmethod
    def of(cls, automaton: TokenAutomaton) -> _Finishing:
        """Return the classes of EOS ids of an automaton."""
        commonest, others = commonest_end(automaton.ends)
        apart = {end: legal for end, legal in others.items() if legal.any()}
        state, which = np.nonzero(np.stack([*apart.values(), commonest], axis=1))
        of_token = {end: which for which, end in enumerate(apart)}
        of_token |= {end: len(apart) for end in automaton.eos_ids if end not in others}
        return cls(1 + len(apart), state, which, of_token)


def joined(
    before: BeforeMarker, second: TokenAutomaton, ends: Ends, suffixes: NDArray[np.int64], limits: Limits
) -> tuple[TokenAutomaton, int]:
    """Put the part before a marker and the part after it into one table.

    Args:
        before: The part before the marker, and the marker.
        second: The part after the marker.
        ends: The targets of tokens that end the marker.
        suffixes: The classes of suffixes of the second part, which no token has.
        limits: Bounds on the result.

    Returns:
        The automaton, without actions on the stack, and the class of the first suffix; the others follow.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    shift = before.states - FIRST_STATE
    limits.check_states(second.states + shift)
    merged = _merged(before, ends)
    classes = _Classes.of(merged.number.take(before.class_of), second.class_of)
    finishing, first_eos = _Finishing.of(second), len(classes.first) + len(suffixes)
    last = first_eos + finishing.classes - 1
    rows_before = _rows_before(before, Ends(ends.of, ends.target + shift), merged, classes.first, limits)
    side = Side(second, np.append(classes.second, suffixes))
    rows_after = _rows_after(side, finishing, first_eos, shift, limits)
    narrow = np.uint8 if last < 2**8 else np.int16 if last + 1 < 2**15 else np.int32
    class_of: NDArray[np.integer] = classes.of_token.astype(narrow)
    class_of[[*finishing.of_token]] = [first_eos + which for which in finishing.of_token.values()]
    lengths, symbol, target = (np.append(a, b) for a, b in zip(rows_before, rows_after, strict=True))
    highest = max(second.states + shift, int(target.max(initial=0)))
    automaton = TokenAutomaton(
        class_of=class_of,
        default=np.zeros(last + 1, np.int32),
        row_start=starts(lengths),
        row_class=symbol.astype(narrow),
        row_target=target.astype(np.int16 if highest < 2**15 else np.int32),
        accepting=np.append(np.zeros(before.states, bool), second.accepting[FIRST_STATE:]),
        start=before.start,
        eos_ids=second.eos_ids,
        pad_id=second.pad_id,
        fallback=_fallback(before, second),
    )
    return automaton, len(classes.first)


def _fallback(before: BeforeMarker, second: TokenAutomaton) -> NDArray[np.int64] | None:
    if before.fallback is None and second.fallback is None:
        return None
    below = np.arange(before.states) if before.fallback is None else before.fallback
    return_state = np.arange(second.states) if second.fallback is None else second.fallback
    return np.append(below, return_state[FIRST_STATE:] + before.states - FIRST_STATE)


def _rows_after(side: Side, finishing: _Finishing, first_eos: int, shift: int, limits: Limits) -> _Rows:
    """Return the rows of the states after the marker.

    Args:
        side: The second part, read by the classes of both parts together.
        finishing: The classes of EOS ids.
        first_eos: The first of these classes.
        shift: How much is added to the numbers of states of the second part.
        limits: Bounds on the result.
    """
    source, symbol, target = listed(side, limits)
    source = np.append(source, finishing.state)
    symbol = np.append(symbol, first_eos + finishing.which)
    target = np.append(np.where(target == DEAD, DEAD, target + shift), np.full(len(finishing.state), FINISHED))
    order = stable_order(source * np.int64(first_eos + finishing.classes) + symbol)
    lengths = np.bincount(source, minlength=side.automaton.states)[FIRST_STATE:]
    return _Rows(lengths, symbol[order], target[order])


def _merged(before: BeforeMarker, ends: Ends) -> _Merged:
    """Merge the classes of a group whose suffixes lead to the same targets. Most suffixes are dead in the second part."""
    symbol, left, rest = before.class_suffixes
    alive = ends.of[rest] >= 0
    symbol, left, end = symbol[alive], left[alive], ends.of[rest[alive]]
    digest = np.zeros(len(before.group), np.uint64)
    np.add.at(digest, symbol, digest_of_pairs(left, end))
    sets = PairSets.collected(symbol, len(digest), left, end)
    example, which = distinct_sets(digest + digest_of_pairs(before.group, before.group), before.group, sets)
    order = np.lexsort((digest[example], before.group[example]))
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return _Merged(number[which], example[order])


def _rows_before(before: BeforeMarker, ends: Ends, merged: _Merged, own: Ints, limits: Limits) -> _Rows:
    """Return the rows of the states before the marker.

    Args:
        before: The part before the marker, and the marker.
        ends: The targets of tokens that end the marker, in the joined automaton.
        merged: The classes before the marker.
        own: For each class of the joined automaton, its class before the marker.
        limits: Bounds on the result.
    """
    symbol, entry, row_start = _spread(before, before.group[merged.example[own]], limits)
    target = before.row_target.take(entry)
    ended = np.flatnonzero(before.targets.is_ended(target))
    leads = ends.of[_remainders(before, merged, own[symbol[ended]], before.targets.left(target[ended]))]
    target[ended] = ends.target[leads]
    dead = ended[leads < 0]
    if len(dead):
        symbol, target = np.delete(symbol, dead), np.delete(target, dead)
        row_start = row_start - np.searchsorted(dead, row_start)
    return _Rows(np.diff(row_start), symbol, target)


def _spread(before: BeforeMarker, group: Ints, limits: Limits) -> tuple[Ints, Ints, Ints]:
    """Copy the entries of groups for all classes of these groups, given the group of each class, ascending.

    Returns:
        The class of each new entry, the entry that it copies, and where the row of each state begins.
    """
    first = np.searchsorted(group, np.arange(int(before.group.max()) + 2))
    count = (first[1:] - first[:-1]).take(before.row_group)
    limits.check_work(int(count.sum()) // ENTRIES_A_STEP)
    symbol, entry = expand(first.take(before.row_group), count)
    return symbol, entry, starts(count)[before.row_start]


def _remainders(before: BeforeMarker, merged: _Merged, numbers: Ints, left: Ints) -> NDArray[np.int64]:
    """Return the suffixes that tokens leave, given their merged classes and how many bytes each leaves."""
    found = np.zeros(len(left), np.int64)
    some = np.flatnonzero(left)
    if len(some):
        symbol, bytes_left, rest = before.class_suffixes
        width = int(bytes_left.max()) + 1
        # All classes that were merged leave suffixes with the same targets, so any of them may be found.
        keys = merged.number[symbol] * np.int64(width) + bytes_left
        order = np.argsort(keys)
        wanted = numbers[some] * width + left[some]
        found[some] = rest[order[np.searchsorted(keys, wanted, sorter=order)]]
    return found
