"""Make the position automaton deterministic."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TypeAlias

from logitkit.budget import spent, took
from logitkit.compiler.characters.positions import Positions
from logitkit.compiler.characters.runs import Runs
from logitkit.limits import Limits

# Disjoint sets of symbols, each with the indices of the sets that hold it.
Blocks: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]

# A move that leads one position further in a run: the symbols, what else the state that it leads to holds, whether that accepts,
# and the number of that state for each position.
Shift: TypeAlias = tuple[int, tuple[int, ...], bool, dict[int, int]]

# Loops at the end of a pattern are looked at if there are at most so many of them, and if what they lead to is settled in so many
# passes over so many moves: more cost more than they save.
MOST_LOOPS = 8
MOST_PASSES = 4
MOST_MOVES = 100_000

# What a state costs by itself.
STATE_STEPS = 1


@dataclass(frozen=True, eq=False, slots=True)
class SymbolDfa:
    """A deterministic automaton over the symbols of an alphabet.

    Args:
        moves: For each state, the symbols (a bit mask) that lead to each target; those of no target are dead.
        accepting: Whether each state accepts. State 0 is the start.
    """

    moves: list[dict[int, int]]
    accepting: list[bool]


def determinise(positions: Positions, masks: list[int], limits: Limits) -> SymbolDfa:
    """Run the subset construction.

    A state is what may come next (a set of positions) and whether the text may end, rather than what was read last: two
    positions with the same future are one state from the start.

    Args:
        positions: The position automaton.
        masks: The symbols that each position reads, as a bit mask.
        limits: Bounds on the construction.

    Raises:
        PatternTooLarge: There are too many states, or the construction takes too many steps.
    """
    follow, final = positions.follow, positions.final
    number: dict[tuple[tuple[int, ...], bool], int] = {(positions.first, positions.nullable): 0}
    futures: list[tuple[int, ...]] = [positions.first]
    accepting = [positions.nullable]
    moves: list[dict[int, int]] = []
    after_position: list[int] = [-1] * len(follow)
    known: dict[tuple[int, ...], int] = {}
    cuts: dict[tuple[int, ...], Blocks] = {}
    ends = {p for p, may_end in enumerate(final) if may_end}
    work = 0
    # What is looked at in passing: sixteen of these take as long as one other step.
    seen = 0
    # Nothing else is counted meanwhile.
    left = limits.work - spent()

    absorbing = _absorbing(positions, masks)
    runs = Runs.of(positions, masks)
    shifts: dict[tuple[tuple[int, ...], int], tuple[dict[int, int], list[Shift]]] = {}
    shifted: dict[tuple[tuple[int, ...], bool, int], dict[int, int]] = defaultdict(dict)

    def state(future: tuple[int, ...], accepts: bool) -> int:
        if absorbing and not absorbing.keys().isdisjoint(future):
            future = _without_absorbed(future, absorbing)
        if runs.first and len(future) > 1:
            future = runs.earliest(future)
        return numbered(future, accepts)

    def numbered(future: tuple[int, ...], accepts: bool) -> int:
        found = number.setdefault((future, accepts), len(futures))
        if found == len(futures):
            limits.check_states(found)
            futures.append(future)
            accepting.append(accepts)
        return found

    def after(position: int) -> int:
        if after_position[position] < 0:
            after_position[position] = state(follow[position], final[position])
        return after_position[position]

    def after_several(read: tuple[int, ...]) -> int:
        # Many states differ only in positions that read something else.
        nonlocal work
        found = known.get(read)
        if found is None:
            follows = [follow[p] for p in read]
            work += len(read) + sum(map(len, follows))
            limits.check_work(4 * work)
            future = tuple(sorted(set().union(*follows)))
            found = known[read] = state(future, not ends.isdisjoint(read))
        return found

    def moves_of(future: tuple[int, ...]) -> dict[int, int]:
        nonlocal work
        row: dict[int, int] = {}
        if len(future) == 1:
            if masks[future[0]]:
                row[after(future[0])] = masks[future[0]]
            return row
        work += len(future)
        if _disjoint(future, masks):
            # As where each position reads a name of its own.
            for position in future:
                if masks[position]:
                    target = after(position)
                    row[target] = row.get(target, 0) | masks[position]
            return row
        in_run = runs.only_one(future) if runs.first else None
        return moves_by_block(future) if in_run is None else moves_in_run(future, in_run)

    def moves_by_block(future: tuple[int, ...]) -> dict[int, int]:
        nonlocal work, seen
        row: dict[int, int] = {}
        by_mask: dict[int, list[int]] = defaultdict(list)
        for position in future:
            by_mask[masks[position]].append(position)
        distinct = tuple(by_mask)
        blocks = cuts.get(distinct)
        if blocks is None:
            seen += len(distinct) * shared_symbols(distinct).bit_count()
            work += 2 * len(distinct)
            limits.check_work(4 * work + seen // 4)
            blocks = cuts[distinct] = split(distinct)
        for block, members in blocks:
            read = by_mask[distinct[members[0]]]
            if len(members) > 1:
                read = [p for m in members for p in by_mask[distinct[m]]]
                seen += len(read)
            target = after(read[0]) if len(read) == 1 else after_several(tuple(read))
            row[target] = row.get(target, 0) | block
        return row

    def moves_in_run(future: tuple[int, ...], position: int) -> dict[int, int]:
        # By hand, in `[ab]{1,256}a`: where position 5 of the run and the last `a` are next, `b` leads to where position 6 and
        # that `a` are next, and so does `a`, but the text may end there. The same holds one position further on, and so forth.
        run, following = runs.first[position], position + 1
        others = tuple([p for p in future if p != position])
        if (others, run) in shifts:
            fixed, further = shifts[others, run]
            row = fixed.copy()
            for block, rest, accepts, at in further:
                if following not in at:
                    at[following] = numbered(tuple(sorted((*rest, following))), accepts)
                row[at[following]] = block
            return row
        row, fixed, further = moves_by_block(future), {}, []
        for target, block in row.items():
            if following in futures[target]:
                rest, accepts = tuple([p for p in futures[target] if p != following]), accepting[target]
                further.append((block, rest, accepts, shifted[rest, accepts, run]))
            else:
                fixed[target] = block
        shifts[others, run] = fixed, further
        return row

    try:
        while len(moves) < len(futures):
            future = futures[len(moves)]
            row = moves_of(future)
            work += STATE_STEPS + len(row)
            if 4 * work + seen // 4 > left:
                limits.check_work(4 * work + seen // 4)
            moves.append(row)
    finally:
        took(4 * work + seen // 4)
    return SymbolDfa(moves, accepting)


def _absorbing(positions: Positions, masks: list[int]) -> dict[int, frozenset[int]]:
    """Find the positions that read all that comes, as in a tail of `.*`, and which other positions each makes superfluous.

    A position that may follow itself and end the text matches every text over its symbols; so it does in place of one from which
    only some of these symbols can be read.
    """
    follow, final = positions.follow, positions.final
    loops = [p for p, may_end in enumerate(final) if may_end and p in follow[p]]
    if not loops or len(loops) > MOST_LOOPS or sum(map(len, follow)) > MOST_MOVES:
        return {}
    # The symbols that can be read from each position on. Backwards, most are known before they are asked for.
    ahead = masks[:]
    for _ in range(MOST_PASSES):
        changed = False
        for p in range(len(follow) - 1, -1, -1):
            reached = ahead[p]
            for q in follow[p]:
                reached |= ahead[q]
            changed |= reached != ahead[p]
            ahead[p] = reached
        if not changed:
            return {p: frozenset(q for q, mask in enumerate(ahead) if q != p and not mask & ~masks[p]) for p in loops}
    return {}


def _without_absorbed(future: tuple[int, ...], absorbing: dict[int, frozenset[int]]) -> tuple[int, ...]:
    for p in future:
        if p in absorbing and p in future:
            future = tuple(q for q in future if q not in absorbing[p])
    return future


def _disjoint(future: tuple[int, ...], masks: list[int]) -> bool:
    """Whether no two of some positions read the same symbol."""
    union = 0
    for position in future:
        if union & masks[position]:
            return False
        union |= masks[position]
    return True


def shared_symbols(masks: tuple[int, ...]) -> int:
    """Return the symbols that several sets hold."""
    union = 0
    shared = 0
    for mask in masks:
        shared |= union & mask
        union |= mask
    return shared


def split(masks: tuple[int, ...]) -> Blocks:
    """Cut overlapping sets of symbols into disjoint blocks, each with the indices of the sets that hold it.

    Example:
        >>> split((0b011, 0b110))
        ((1, (0,)), (2, (0, 1)), (4, (1,)))
    """
    overlap = shared_symbols(masks)
    blocks: dict[tuple[int, ...], int] = {}
    for index, mask in enumerate(masks):
        alone = mask & ~overlap
        if alone:
            blocks[(index,)] = alone
    while overlap:
        symbol = overlap & -overlap
        overlap ^= symbol
        members = tuple(i for i, m in enumerate(masks) if m & symbol)
        blocks[members] = blocks.get(members, 0) | symbol
    return tuple((block, members) for members, block in sorted(blocks.items()))
