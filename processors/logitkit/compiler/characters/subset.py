"""Make the position automaton deterministic, by the subset construction.

A state is the set of positions that may be read next, and whether the text may end. By hand, for `a*ab`: the start is the set of
both `a`; after an `a`, the `b` is in the set too; after the `b`, the set is empty, and the text may end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from logitkit.budget import spent, took
from logitkit.compiler.characters.positions import Positions
from logitkit.compiler.characters.runs import Runs
from logitkit.compiler.characters.symbols import Blocks, are_disjoint, shared_symbols, split
from logitkit.limits import Limits

# A move that leads one position further in a run: the symbols, what else the state that it leads to holds, whether that accepts,
# and the number of that state for each position.
Shift: TypeAlias = tuple[int, tuple[int, ...], bool, dict[int, int]]

# Looks at the positions of a state, and may raise an error.
Check: TypeAlias = Callable[[tuple[int, ...]], None]

# Loops at the end of a pattern are looked at if neither the loops nor the moves are more than these, and if so few passes over
# the moves settle where the loops lead: more cost more than they save.
MOST_LOOPS = 8
MOST_PASSES = 4
MOST_MOVES = 100_000

# The work that a state takes by itself.
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


def determinise(positions: Positions, masks: list[int], limits: Limits, checks: Sequence[Check] = ()) -> SymbolDfa:
    """Run the subset construction.

    A state is what may come next (a set of positions) and whether the text may end, rather than what was read last: two
    positions with the same future are one state from the start.

    Args:
        positions: The position automaton.
        masks: The symbols that each position reads, as a bit mask.
        limits: Bounds on the construction.
        checks: Called with the positions of each state after the first, as soon as it is met.

    Raises:
        PatternTooLarge: There are too many states, or the construction takes too many steps.
    """
    construction = _Construction(positions, masks, limits, checks)
    try:
        return construction.dfa()
    finally:
        took(construction.steps)


class _Construction:
    """The states that have been met, and what is known of their moves."""

    def __init__(
        self,
        positions: Positions,
        masks: list[int],
        limits: Limits,
        checks: Sequence[Check] = (),
    ) -> None:
        self.checks = checks
        self.follow, self.final, self.masks, self.limits = positions.follow, positions.final, masks, limits
        self.number: dict[tuple[tuple[int, ...], bool], int] = {(positions.first, positions.nullable): 0}
        self.futures: list[tuple[int, ...]] = [positions.first]
        self.accepting = [positions.nullable]
        self.after_position: list[int] = [-1] * len(self.follow)
        self.known: dict[tuple[int, ...], int] = {}
        self.cuts: dict[tuple[int, ...], Blocks] = {}
        self.ends = {p for p, may_end in enumerate(self.final) if may_end}
        self.absorbing = _absorbing(positions, masks)
        self.runs = Runs.of(positions, masks)
        self.shifts: dict[tuple[tuple[int, ...], int], tuple[dict[int, int], list[Shift]]] = {}
        self.shifted: dict[tuple[tuple[int, ...], bool, int], dict[int, int]] = defaultdict(dict)
        self.work = 0
        # To find out what is absorbing, and the runs.
        self.setup = len(self.follow) + sum(map(len, self.follow)) // 2
        # The things looked at in passing: four of these count as one step.
        self.seen = 0

    @property
    def steps(self) -> int:
        """How many steps it took so far."""
        return self.setup + 5 * self.work // 2 + self.seen // 4

    def dfa(self) -> SymbolDfa:
        """Return the automaton."""
        # Nothing else is counted meanwhile.
        left = self.limits.work - spent()
        moves: list[dict[int, int]] = []
        # The list grows under the loop.
        for future in self.futures:
            row = self.moves_of(future)
            self.work += STATE_STEPS + len(row)
            if self.setup + 5 * self.work // 2 + self.seen // 4 > left:
                self.limits.check_work(self.steps)
            moves.append(row)
        return SymbolDfa(moves, self.accepting)

    def moves_of(self, future: tuple[int, ...]) -> dict[int, int]:
        """Return the moves of a state: the symbols that lead to each other state."""
        row: dict[int, int] = {}
        masks = self.masks
        if len(future) == 1:
            if masks[future[0]]:
                row[self.after(future[0])] = masks[future[0]]
            return row
        self.work += len(future)
        if are_disjoint(future, masks):
            # As where each position reads a name of its own.
            for position in future:
                if masks[position]:
                    target = self.after(position)
                    row[target] = row.get(target, 0) | masks[position]
            return row
        in_run = self.runs.only_one(future) if self.runs.first else None
        return self.moves_by_block(future) if in_run is None else self.moves_in_run(future, in_run)

    def moves_by_block(self, future: tuple[int, ...]) -> dict[int, int]:
        """Cut the symbols of a state to blocks, so that the positions that read one symbol of a block read all of it."""
        row: dict[int, int] = {}
        by_mask: dict[int, list[int]] = defaultdict(list)
        for position in future:
            by_mask[self.masks[position]].append(position)
        distinct = tuple(by_mask)
        blocks = self.cuts.get(distinct)
        if blocks is None:
            self.seen += len(distinct) * shared_symbols(distinct).bit_count()
            self.work += 2 * len(distinct)
            self.limits.check_work(self.steps)
            blocks = self.cuts[distinct] = split(distinct)
        for block, members in blocks:
            read = by_mask[distinct[members[0]]]
            if len(members) > 1:
                read = [p for m in members for p in by_mask[distinct[m]]]
                self.seen += len(read)
            target = self.after(read[0]) if len(read) == 1 else self.after_several(tuple(read))
            row[target] = row.get(target, 0) | block
        return row

    def moves_in_run(self, future: tuple[int, ...], position: int) -> dict[int, int]:
        """Return the moves of a state with one position of a run; those for other positions of the run are shifted.

        By hand, in `[ab]{1,256}a`: where position 5 of the run and the last `a` are next, `b` leads to where position 6 and that
        `a` are next, and so does `a`, but the text may end there. The same holds one position further on, and so forth.
        """
        run, following = self.runs.first[position], position + 1
        others = tuple([p for p in future if p != position])
        if (others, run) in self.shifts:
            fixed, further = self.shifts[others, run]
            row = fixed.copy()
            for block, rest, accepts, at in further:
                if following not in at:
                    at[following] = self.numbered(tuple(sorted((*rest, following))), accepts)
                row[at[following]] = block
            return row
        row, fixed, further = self.moves_by_block(future), {}, []
        for target, block in row.items():
            if following in self.futures[target]:
                rest, accepts = tuple([p for p in self.futures[target] if p != following]), self.accepting[target]
                further.append((block, rest, accepts, self.shifted[rest, accepts, run]))
            else:
                fixed[target] = block
        self.shifts[others, run] = fixed, further
        return row

    def after(self, position: int) -> int:
        """Return the state after one position."""
        found = self.after_position[position]
        if found < 0:
            found = self.after_position[position] = self.state(self.follow[position], self.final[position])
        return found

    def after_several(self, read: tuple[int, ...]) -> int:
        """Return the state after several positions that read the same symbol."""
        # Many states differ only in positions that read something else.
        found = self.known.get(read)
        if found is None:
            follows = [self.follow[p] for p in read]
            self.work += len(read) + sum(map(len, follows))
            self.limits.check_work(self.steps)
            future = tuple(sorted(set().union(*follows)))
            found = self.known[read] = self.state(future, not self.ends.isdisjoint(read))
        return found

    def state(self, future: tuple[int, ...], accepts: bool) -> int:
        """Return the number of a state, without the positions in it that are superfluous."""
        if self.absorbing and not self.absorbing.keys().isdisjoint(future):
            future = _without_absorbed(future, self.absorbing)
        if self.runs.first and len(future) > 1:
            future = self.runs.earliest(future)
        return self.numbered(future, accepts)

    def numbered(self, future: tuple[int, ...], accepts: bool) -> int:
        """Return the number of a state."""
        found = self.number.setdefault((future, accepts), len(self.futures))
        if found == len(self.futures):
            self.limits.check_states(found)
            for check in self.checks:
                check(future)
            self.futures.append(future)
            self.accepting.append(accepts)
        return found


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
