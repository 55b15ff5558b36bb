"""Token automata after one another: a text or tokens up to a marker, and what follows the marker.

Neither part is compiled again. The states before the marker come first; those after it keep their order. Tokens get one class
for each pair of their classes in the two parts; these are few, as most tokens do the same before the marker. A token that ends
the marker leads to the start of the second automaton, or to where the rest of its bytes lead from there.
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
from logitkit.compiler.tokens.markers.before_marker import BeforeMarker, before_token
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton, commonest_end
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["Ends", "joined", "until_token"]

# This many entries of a table take as long as one other step.
ENTRIES_A_STEP = 4


class Ends(NamedTuple):
    """Where the marker leads.

    Args:
        of: [R] the index of the target that each suffix leads to, -1 if it is dead.
        target: The targets, in the second automaton.
    """

    of: NDArray[np.int64]
    target: NDArray[np.int64]


def until_token(first: TokenAutomaton, marker: int, second: TokenAutomaton, limits: Limits) -> TokenAutomaton | None:
    """Build the automaton of a sequence of `first`, a token, and a sequence of `second`; the token is where it occurs first.

    Args:
        first: The part before the token. Where it accepts, the token leads on.
        marker: The id of the token.
        second: The part after it, over the same vocabulary.
        limits: Bounds on the result.

    Returns:
        The automaton, or None if no sequence of tokens is left.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    assert not first.has_stacks
    assert not second.has_stacks
    before = before_token(first, marker, limits)
    if before is None:
        return None
    nothing_left = Ends(np.zeros(1, np.int64), np.array([second.start]))
    return joined(before, second, nothing_left, np.zeros(0, np.int64), limits)[0]


def joined(
    before: BeforeMarker, second: TokenAutomaton, ends: Ends, suffix_classes: NDArray[np.int64], limits: Limits
) -> tuple[TokenAutomaton, int]:
    """Put what comes before a marker and what follows it into one table.

    Args:
        before: The part before the marker, and the marker.
        second: The part after it.
        ends: Where the marker leads.
        suffix_classes: Classes of the second part that have no tokens, to be kept.
        limits: Bounds on the result.

    Returns:
        The automaton without what tokens do to a stack, and the class of the first of the suffixes; the others follow.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    shift = before.states - FIRST_STATE
    states = second.states + shift
    limits.check_states(states)
    which, example = _merged(before, ends)
    class_of, own, others = _pairs(which.take(before.class_of), second.class_of)
    classes = len(own)
    ends = Ends(ends.of, ends.target + shift)
    row_start, row_class, row_target = _rows_before(before, ends, which, example, own, limits)
    source, symbol, target = listed(Side(second, np.append(others, suffix_classes)), limits)
    # EOS has the last class of all; before it come those EOS ids that are not legal where the others are.
    commonest, others_of = commonest_end(second.ends)
    ends_apart = {end: legal for end, legal in others_of.items() if legal.any()}
    finished, number = np.nonzero(np.stack([*ends_apart.values(), commonest], axis=1))
    last = classes + len(suffix_classes) + len(ends_apart)
    source = np.concatenate([source, finished]) + shift
    symbol = np.concatenate([symbol, classes + len(suffix_classes) + number])
    target = np.concatenate([np.where(target == DEAD, DEAD, target + shift), np.full(len(finished), FINISHED)])
    order = stable_order(source * np.int64(last + 1) + symbol)
    count = np.bincount(source, minlength=states)
    count[: before.states] = np.diff(row_start)
    narrow = np.uint8 if last < 2**8 else np.int16 if last + 1 < 2**15 else np.int32
    class_of = class_of.astype(narrow)
    class_of[list(ends_apart)] = np.arange(classes + len(suffix_classes), last)
    class_of[[end for end in second.eos_ids if end not in others_of]] = last
    fallback = None
    if before.fallback is not None or second.fallback is not None:
        below = np.arange(before.states) if before.fallback is None else before.fallback
        of_second = np.arange(second.states) if second.fallback is None else second.fallback
        fallback = np.append(below, of_second[FIRST_STATE:] + shift)
    highest = max(states, int(row_target.max(initial=0)), int(target.max(initial=0)))
    automaton = TokenAutomaton(
        class_of=class_of,
        default=np.zeros(last + 1, np.int32),
        row_start=starts(count),
        row_class=np.append(row_class, symbol[order]).astype(narrow),
        row_target=np.append(row_target, target[order]).astype(np.int16 if highest < 2**15 else np.int32),
        accepting=np.append(np.zeros(before.states, bool), second.accepting[FIRST_STATE:]),
        start=before.start,
        eos_ids=second.eos_ids,
        pad_id=second.pad_id,
        fallback=fallback,
    )
    return automaton, classes


def _merged(before: BeforeMarker, ends: Ends) -> tuple[Ints, Ints]:
    """Make classes of a group one if their suffixes lead to the same: most are dead after any one marker.

    Returns:
        [C] the number from now on of each class, ascending by group, and an example of each.
    """
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
    return number[which], example[order]


def _pairs(first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
    """Return [V] the number of each pair of classes, ascending, that of zeros first; and both classes of each pair."""
    width = int(second.max()) + 1
    met, number = which_of(np.append(first.astype(np.int64) * width + second, 0))
    return number[:-1], *np.divmod(met, width)


def _rows_before(
    before: BeforeMarker, ends: Ends, which: Ints, example: Ints, own: Ints, limits: Limits
) -> tuple[NDArray[np.int64], Ints, Ints]:
    """Return the rows of the states before the marker: where each begins, its classes, and its targets.

    Args:
        before: The part before the marker, and the marker.
        ends: Where the marker leads, in the joined automaton.
        which: [C] the number of each class from now on.
        example: A class of each number.
        own: These numbers, of each class of the joined automaton.
        limits: Bounds on the result.
    """
    # The classes of both parts are ordered by group, so those of one group follow each other.
    group = before.group[example[own]]
    first = np.searchsorted(group, np.arange(int(before.group.max()) + 2))
    count = (first[1:] - first[:-1]).take(before.row_group)
    limits.check_work(int(count.sum()) // ENTRIES_A_STEP)
    symbol, entry = expand(first.take(before.row_group), count)
    target = before.row_target.take(entry)
    row_start = starts(count)[before.row_start]
    ended = np.flatnonzero(before.targets.is_ended(target))
    bytes_left = before.targets.left(target[ended])
    # The suffix that these bytes are; the first one is empty.
    token_suffix = np.zeros(len(ended), np.int64)
    some = np.flatnonzero(bytes_left)
    if len(some):
        met, left, rest = before.class_suffixes
        width = int(left.max()) + 1
        # All classes that were made one say the same.
        keys = which[met] * np.int64(width) + left
        order = np.argsort(keys)
        wanted = own[symbol[ended[some]]] * width + bytes_left[some]
        token_suffix[some] = rest[order[np.searchsorted(keys, wanted, sorter=order)]]
    leads = ends.of[token_suffix]
    target[ended] = ends.target[leads]
    dead = ended[leads < 0]
    if len(dead):
        symbol, target = np.delete(symbol, dead), np.delete(target, dead)
        row_start = row_start - np.searchsorted(dead, row_start)
    return row_start, symbol, target
