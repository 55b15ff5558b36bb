"""Where texts leave each node of a pushdown automaton, and how many further frames they need for that.

A *view* is a node and the symbols that may be looked at there: all of them after a symbol was read, or those that a pop looks at
again. An *exit* of a view is a node and symbols that pop there the frame that was innermost in the view, or the end of the text.
The exits that can be reached while at most `m` further frames are open at once are computed for `m` = 0, 1, and so on, as least
fixed points.

By hand, for `sum ::= item ("+" item)*` and `item ::= "1" | "(" sum ")"` as in `bytes.pushdown_dfa`: the only exits are `item
read` with `)`, and the end of the text. They can be reached from everywhere without a further frame.

A view *needs* the least number of further frames with which an exit is reached. When a frame is popped, there must be room for
the need of the view that follows, whichever the exit is. So a frame is pushed only if there is room for the most that may be
needed after it.

Invariants: the view of a node with all symbols has the number of the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TypeAlias

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.bytes.pushdown_dfa import NEVER
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.limits import Limits

__all__ = ["Rows", "Views", "bits"]

# For each node, sets of symbols as masks, each with its step: a `PushdownStep`, in which nodes are the states.
Rows: TypeAlias = list[list[tuple[int, int]]]

# More than this many bits are found together, with numpy.
FEW_BITS = 15

# The cost of finding once more which exits a view or a move has, and of passing its exits on to others, in steps.
LEVEL_STEPS, TELLING_STEPS = 4, 4

# The cost of a level on which nothing changes, in steps, without one for each move. There are as many levels as a frame needs:
# with conditions on the next character, each round of `settle` may find a larger need, without an end.
LEAST_STEPS = 8

# The end of the text, as an exit.
FINISH = 0


def bits(mask: int) -> Iterable[int]:
    """Return the numbers of the bits of a mask."""
    if mask.bit_count() > FEW_BITS:
        spread = np.unpackbits(
            np.frombuffer(mask.to_bytes(mask.bit_length() // 8 + 1, "little"), np.uint8), bitorder="little"
        )
        found: list[int] = np.flatnonzero(spread).tolist()
        return found
    found = []
    while mask:
        found.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return found


class Views:
    """The views of an automaton, and their exits and needs.

    Args:
        rows: The effect of symbols in each node.
        pushed: For each move, the frames that it pushes, the outermost first.
        target: The node that each move leads to.
        return_state: The node after each node and popped frame.
        limits: Bound on the work.
        may_contradict: Whether no text may go on after some exit, because of conditions on the next character. Then `settle` must
            be called for the needs.

    Attributes:
        exit_of: For each view, the number of the exit in its own node, or -1.
        after: For each exit, the view after each frame that it may pop.
        exits: For each view, the exits that can be reached with any number of further frames, as a mask. `settle` leaves some of
            them out, but never all.
        live: Whether each view has an exit.
        unsure: The exits after which no text may go on, as a mask.
        is_sure: Whether all nodes to which a symbol leads have another exit, if they have any. Then the needs are those of the
            other exits alone: an unsure exit is taken only with a symbol that is read after it.
        need: For each view, how many further frames it needs; `NEVER` if it has no exit.
        frame_need: For each frame, the most further frames that are needed after it.
    """

    def __init__(
        self,
        rows: Rows,
        pushed: list[tuple[int, ...]],
        target: list[int],
        return_state: dict[tuple[int, int], int],
        limits: Limits,
        may_contradict: bool = False,
    ) -> None:
        self.rows, self.pushed, self.target, self.limits = rows, pushed, target, limits
        self.popping = [reduce(or_, (mask for mask, does in row if does == POP), 0) for row in rows]
        self.number: dict[tuple[int, int], int] = {}
        self.views: list[tuple[int, int]] = []
        self.exit_of: list[int] = []
        self.exit_number: dict[tuple[int, int], int] = {}
        self.after: list[dict[int, int]] = [{}]
        self._find_views(return_state)
        # The views after some exits, a mask, pop a frame.
        self.popped: dict[tuple[int, int], list[int]] = {}
        self.own = [1 << exit_ if exit_ >= 0 else 0 for exit_ in self.exit_of]
        self.does: list[list[int]] = []
        for view, (node, mask) in enumerate(self.views):
            found = {does for symbols, does in rows[node] if symbols & mask and does not in (DEAD, POP)}
            if FINISHED in found:
                self.own[view] |= 1 << FINISH
            self.does.append(sorted(found - {FINISHED}))
        self.moves = sorted(
            {PushdownStep.move(does) for found in self.does for does in found if PushdownStep.is_push(does)}
        )
        self.before = self._before()
        limits.spend(sum(map(len, self.before)))
        self.frame_need = [0] * (1 + max([f for move in pushed for f in move], default=-1))
        self.unsure, self.is_sure = 0, True
        if may_contradict:
            self.exits, self.need = self._levels(every_exit=True)
            self.unsure = self._find_unsure()
            reached = [view for does in self.does for view in does if PushdownStep.is_state(view)] + target
            self.is_sure = all(not self.exits[view] or self.exits[view] & ~self.unsure for view in reached)
        else:
            self.settle()
        self.live = [exits != 0 for exits in self.exits]

    def _find_views(self, return_state: dict[tuple[int, int], int]) -> None:
        """Number the views of all nodes, and those after each exit."""
        for node in range(len(self.rows)):
            self._view(node, -1)
        frames: list[list[tuple[int, int]]] = [[] for _ in self.rows]
        for (node, frame), to in return_state.items():
            frames[node].append((frame, to))
        done = 0
        while done < len(self.views):
            node, mask = self.views[done]
            looked_at = mask & self.popping[node]
            if looked_at and (node, looked_at) not in self.exit_number:
                self.exit_number[node, looked_at] = len(self.after)
                self.after.append({})
                self.after[-1].update((frame, self._view(to, looked_at)) for frame, to in frames[node])
                self.limits.spend(3 * len(frames[node]))
            self.exit_of.append(self.exit_number[node, looked_at] if looked_at else -1)
            done += 1

    def _before(self) -> list[list[int]]:
        """Return for each view, and then for each move, the views that lead to it."""
        before: list[list[int]] = [[] for _ in range(len(self.views) + len(self.target))]
        for view, ways in enumerate(self.does):
            for does in ways:
                place = len(self.views) + PushdownStep.move(does) if PushdownStep.is_push(does) else does
                before[place].append(view)
        return before

    def _find_unsure(self) -> int:
        """Return the exits after which no text may go on, because of conditions on the next character.

        The others are a greatest fixed point: after each frame that one of them may pop, another one can be reached. Each exit
        pops a frame, so that every way from one exit to the next comes nearer to the bottom of the stack.
        """
        leading: dict[int, list[int]] = {}
        for exit_, after in enumerate(self.after):
            for view in after.values():
                leading.setdefault(view, []).append(exit_)
        # For each exit, the views that have it, and for each view, how many of its exits are sure.
        having: list[list[int]] = [[] for _ in self.after]
        left = {view: self.exits[view].bit_count() for view in leading}
        for view, leaders in leading.items():
            self.limits.spend(len(leaders) + left[view])
            for exit_ in bits(self.exits[view]):
                having[exit_].append(view)
        found = dict[int, None]()
        todo = [view for view, count in left.items() if not count]
        while todo:
            for exit_ in leading[todo.pop()]:
                if exit_ not in found:
                    found[exit_] = None
                    for view in having[exit_]:
                        left[view] -= 1
                        if not left[view]:
                            todo.append(view)
        return sum([1 << exit_ for exit_ in found])

    def settle(self) -> None:
        """Work out the needs, without the unsure exits if all nodes have others."""
        if self.unsure and self.is_sure:
            self.own = [own & ~self.unsure for own in self.own]
            self.after = [{} if self.unsure >> exit_ & 1 else after for exit_, after in enumerate(self.after)]
            self.popped = {}
        while True:
            self.exits, self.need = self._levels()
            self.limits.spend(len(self.frame_need) + sum(map(len, self.after)))
            most = self.frame_need[:]
            for after in self.after:
                for frame, view in after.items():
                    if self.exits[view]:
                        most[frame] = max(most[frame], self.need[view])
            if most == self.frame_need:
                return
            self.frame_need = most

    def _view(self, node: int, mask: int) -> int:
        """Return the number of a view."""
        found = self.number.setdefault((node, mask), len(self.views))
        if found == len(self.views):
            self.views.append((node, mask))
        return found

    def _levels(self, every_exit: bool = False) -> tuple[list[int], list[int]]:
        """Return exits and the need of each view, given the needs of frames as far as they are known.

        Args:
            every_exit: Whether to go on after each view has an exit or is known to have none.
        """
        count = len(self.views)
        need = [NEVER] * count
        # For each number of further frames, the exits of each view, and then of each move.
        history: list[list[int]] = []
        moved: dict[int, list[int]] = {}
        # A level depends on the `longest` levels before it, and every move is possible from some level on. After that many levels
        # without a change, nothing changes any more.
        longest = max(map(len, self.pushed), default=0)
        room = [
            max(len(self.pushed[m]), *(i + self.frame_need[f] for i, f in enumerate(self.pushed[m])))
            for m in self.moves
        ]
        same, last = 0, max(room, default=0)
        # For each move, the views after its frames.
        ends: dict[int, list[int]] = {}
        while True:
            level, before = len(history), moved
            is_new = self._add_ends(ends, history, room, same) or not history
            if is_new:
                moved = {}
                for move, views in ends.items():
                    for end in views:
                        moved.setdefault(end, []).append(count + move)
                self.limits.spend(LEVEL_STEPS * count + sum(map(len, moved.values())))
            if not history:
                reached = self._reached(self.own + [0] * len(self.target), moved, range(count))
            elif is_new:
                same = 0
                reached = self._reached(history[-1], moved, [end for end in moved if moved[end] != before.get(end)])
            else:
                same, reached = same + 1, history[-1]
            for view in range(count) if is_new else ():
                if reached[view] and need[view] == NEVER:
                    need[view] = level
            history.append(reached)
            settled = same >= longest and len(history) > last
            if settled or not (every_exit or NEVER in need[FINISHED + 1 :]):
                return reached[:count], need

    def _add_ends(self, ends: dict[int, list[int]], history: list[list[int]], room: list[int], same: int) -> bool:
        """Find the views after the frames of moves on another level, and return whether some are new.

        Args:
            ends: Those of the levels before, by move.
            history: The levels before.
            room: The level on which each move is possible.
            same: How many levels ago the last one was new.
        """
        self.limits.spend(LEAST_STEPS + len(self.moves))
        level, tried, is_new = len(history), 0, False
        for move, least in zip(self.moves, room, strict=True):
            # Nothing is new if the levels that it depends on are those that it depended on one level before.
            if least == level or (least < level and same < len(self.pushed[move])):
                tried += 1
                found = self._after_call(history, move)
                if found != ends.get(move, []):
                    ends[move], is_new = found, True
        self.limits.spend(LEVEL_STEPS * tried)
        return is_new

    def _reached(self, exits: list[int], moved: dict[int, list[int]], fresh: Iterable[int]) -> list[int]:
        """Return the exits of views and moves that are reached through further symbols.

        Args:
            exits: The exits that are known.
            moved: For each view, the moves after whose frames it comes.
            fresh: The views and moves whose exits have not been passed on to all others.
        """
        found = exits[:]
        todo = [*fresh]
        told = 0
        while todo:
            place = todo.pop()
            mask = found[place]
            told += 1
            for source in (*self.before[place], *moved.get(place, ())):
                if mask & ~found[source]:
                    found[source] |= mask
                    todo.append(source)
        self.limits.spend(TELLING_STEPS * told)
        return found

    def _after_call(self, history: list[list[int]], move: int) -> list[int]:
        """Return the views after all frames of a move are popped again, with as many further frames as the level allows."""
        frames, here = self.pushed[move], [self.target[move]]
        for frame, reached in zip(reversed(frames), history[len(history) - len(frames) :], strict=True):
            ends = 0
            for view in here:
                ends |= reached[view]
            here = self._popped(ends, frame)
        return here

    def _popped(self, ends: int, frame: int) -> list[int]:
        """Return the views after a frame is popped at some exits, a mask."""
        found = self.popped.get((ends, frame))
        if found is None:
            views = [self.after[end].get(frame) for end in bits(ends)]
            found = self.popped[ends, frame] = [*dict.fromkeys([view for view in views if view is not None])]
            self.limits.spend(len(views) // 2)
        return found
