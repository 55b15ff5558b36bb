"""Where a condition on the next character contradicts what must follow: no text goes on there, and a row would be stuck.

By hand: `s ::= "a" t "e" | "b"`, where nothing but an `f` may follow a `t`, which is `"d"`. In the node after `ad`, the `e` is
illegal, so nothing goes on. The `d` is removed after `a`, and then the `a` at the start: the language is `b`.

An exit (see `pushdown_views`) pops a frame. It is *sure* if a text goes on after it, whichever frame that is. If all nodes with
exits have a sure one, those without exits are dead, and the symbols that lead there are removed.

Otherwise, the stack decides whether a node is dead. Then a node has a *copy* for each set of exits that go on with the stacks on
which the node is met. The frames that lie below an exit say whether it goes on, so a frame has copies too: one for each set of
exits that go on below it. A symbol is removed from a copy if the node after it has no exit that goes on there.

The *key* of a copy has the exits of all views of its node, not only those that pop after any symbol: an exit is a node and the
symbols that are looked at, and after a pop, fewer are looked at. The key also has the exits that come later on the same stack.

By hand: `s ::= "(" t ")" | "[" t "f]"`, with the same `t`. Frame F stands after the first call, and G after the second one. The
exit of the node after `d` goes on after G only, so `t` has two copies, and in the one on F, the `d` is removed.

Source: Bouajjani, Esparza and Maler, Reachability analysis of pushdown automata (1997): the stacks with which a state comes to
the end are a regular language. The copies are the states of its automaton, which reads a stack from the bottom.
"""

from __future__ import annotations

from typing import NamedTuple

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.compiler.bytes.pushdown_views import Rows, Views, bits
from logitkit.compiler.grammars.lr_states import LrStates
from logitkit.errors import GrammarError
from logitkit.limits import Limits

__all__ = ["PushdownNodes", "without_contradictions"]

# The costs of a copy of a node, and of a step that it takes or a frame that it is met with, in steps; and the number of exits in
# a mask of the size of a step.
COPY_STEPS, MOVE_STEPS, EXITS_A_STEP = 12, 5, 400


class PushdownNodes(NamedTuple):
    """A pushdown automaton over bytes. The fields are those of `LrStates`, and its views, which know the needs."""

    rows: Rows
    pushed: list[tuple[int, ...]]
    target: list[int]
    frames: int
    return_state: dict[tuple[int, int], int]
    start: int
    views: Views


def without_contradictions(nodes: LrStates, limits: Limits) -> PushdownNodes:
    """Remove the symbols after which no text goes on.

    Raises:
        GrammarError: Nothing is left.
        PatternTooLarge: A limit is exceeded.
    """
    rows, pushed, target, return_state = nodes.rows, nodes.pushed, nodes.target, nodes.return_state
    views = Views(rows, pushed, target, return_state, limits, may_contradict=True)
    if not views.exits[nodes.start] & ~views.unsure:
        raise GrammarError(
            "no text belongs to the grammar: conditions on the next character contradict the text that must follow"
        )
    if not views.is_sure:
        return _Copies(nodes, views, limits).nodes_of_copies()

    def goes_on(does: int) -> bool:
        after = does if PushdownStep.is_state(does) else target[PushdownStep.move(does)]
        return does in (DEAD, FINISHED, POP) or views.live[after]

    rows = [[(mask, does) for mask, does in row if goes_on(does)] for row in rows]
    views.settle()
    return PushdownNodes(rows, pushed, target, len(nodes.frames), return_state, nodes.start, views)


class _Copies:
    """The copies of nodes and frames that are met, with the exits that go on there.

    Sets of exits are masks of the unsure ones. Copies of a node or a frame differ in the exits of its key only.

    Args:
        nodes: The automaton.
        views: Its views.
        limits: Bounds on the copies and the work.
    """

    def __init__(self, nodes: LrStates, views: Views, limits: Limits) -> None:
        self.nodes, self.limits, self.exits = nodes, limits, views.exits
        self.unsure = views.unsure
        self.mask_steps = len(views.after) // EXITS_A_STEP
        self.sure = (1 << len(views.after)) - 1 & ~self.unsure
        # For each frame: each unsure exit, with those after it.
        self.after: dict[int, list[tuple[int, int]]] = {}
        for exit_ in bits(self.unsure):
            for frame, view in views.after[exit_].items():
                self.after.setdefault(frame, []).append((1 << exit_, views.exits[view]))
        self.frames_of: dict[int, list[tuple[int, int]]] = {}
        self.nodes_of: dict[int, list[tuple[int, int]]] = {}
        for (node, frame), to in nodes.return_state.items():
            self.frames_of.setdefault(node, []).append((frame, to))
            self.nodes_of.setdefault(frame, []).append((node, to))
        # For each node and frame: the exits of which a copy knows whether they go on.
        self.keyed, self.below = self._keys(views)
        # The copies, and the numbers of those of each node and frame, by the exits that go on.
        self.copies: list[tuple[int, int]] = [(DEAD, 0), (FINISHED, 0)]
        self.of_node: dict[int, dict[int, int]] = {}
        self.of_frame: dict[int, dict[int, int]] = {}
        self.frames = 0
        self.known: dict[tuple[int, int], int] = {}
        self.rows: Rows = [[], []]
        self.moves: dict[tuple[tuple[int, ...], int], int] = {}
        self.return_state: dict[tuple[int, int], int] = {}

    def _keys(self, views: Views) -> tuple[list[int], list[int]]:
        """Return the unsure exits that the keys of each node and frame have.

        A least fixed point: a node has those of its views, of the nodes after symbols, and of the outermost frames that it
        pushes. A frame has those of the nodes after it.
        """
        nodes, count = self.nodes, len(self.nodes.rows)
        keyed = [0] * (count + len(nodes.frames))
        # For each node, and then for each frame, the nodes and frames whose keys have its exits too.
        having: list[list[int]] = [[] for _ in keyed]
        self.limits.spend(len(nodes.return_state) + (1 + self.mask_steps) * len(self.exits))
        for (node, _), exits in zip(views.views, views.exits, strict=True):
            keyed[node] |= exits & self.unsure
        for node, row in enumerate(nodes.rows):
            self.limits.spend(len(row))
            for does in {does for _, does in row if does not in (DEAD, FINISHED, POP)}:
                is_push = PushdownStep.is_push(does)
                having[count + nodes.pushed[PushdownStep.move(does)][0] if is_push else does].append(node)
        for (_, frame), to in nodes.return_state.items():
            having[to].append(count + frame)
        todo = [place for place, key in enumerate(keyed) if key]
        while todo:
            place = todo.pop()
            self.limits.spend((1 + self.mask_steps) * (1 + len(having[place])))
            for other in having[place]:
                if keyed[place] & ~keyed[other]:
                    keyed[other] |= keyed[place]
                    todo.append(other)
        return keyed[:count], keyed[count:]

    def nodes_of_copies(self) -> PushdownNodes:
        """Return the automaton of the copies."""
        start = self.copy(self.nodes.start, 0)
        # The list grows while it is read.
        for number, (node, going_on) in enumerate(self.copies):
            for frame, to in self.frames_of.get(node, ()):
                for below, frame_copy in self.of_frame.get(frame, {}).items():
                    self.meet(number, frame, frame_copy, below, to)
            for mask, does in self.nodes.rows[node]:
                after = does if does in (DEAD, FINISHED, POP) else self.step(going_on, does)
                if after is not None:
                    self.rows[number].append((mask, after))
            self.limits.spend(COPY_STEPS + (MOVE_STEPS + self.mask_steps) * len(self.nodes.rows[node]))
        pushed, target = [frames for frames, _ in self.moves], [to for _, to in self.moves]
        views = Views(self.rows, pushed, target, self.return_state, self.limits, may_contradict=True)
        assert views.is_sure
        views.settle()
        return PushdownNodes(self.rows, pushed, target, self.frames, self.return_state, start, views)

    def step(self, going_on: int, does: int) -> int | None:
        """Return what reading a symbol does in a copy, or None if no text goes on after it."""
        if PushdownStep.is_state(does):
            return self.copy(does, going_on) if self.goes_on(does, going_on) else None
        move = PushdownStep.move(does)
        target, frames = self.nodes.target[move], list[tuple[int, int]]()
        for frame in self.nodes.pushed[move]:
            frames.append((frame, going_on))
            going_on = self.on_frame(frame, going_on)
        if not self.goes_on(target, going_on):
            return None
        made = tuple([self.frame(*one) for one in frames]), self.copy(target, going_on)
        return PushdownStep.push(self.moves.setdefault(made, len(self.moves)))

    def goes_on(self, node: int, going_on: int) -> bool:
        """Whether a text goes on from a node."""
        return bool(self.exits[node] & (self.sure | going_on))

    def on_frame(self, frame: int, going_on: int) -> int:
        """Return the exits that go on on a frame, given those that go on below it."""
        key = frame, going_on & self.below[frame]
        found = self.known.get(key)
        if found is None:
            after = self.after.get(frame, ())
            self.limits.spend((MOVE_STEPS + self.mask_steps) * (1 + len(after)))
            goes_on = self.sure | key[1]
            found = self.known[key] = sum([exit_ for exit_, exits in after if exits & goes_on])
        return found

    def copy(self, node: int, going_on: int) -> int:
        """Return the copy of a node."""
        copies = self.of_node.setdefault(node, {})
        key = going_on & self.keyed[node]
        number = copies.setdefault(key, len(self.copies))
        if number == len(self.copies):
            self.limits.check_states(number)
            self.limits.spend(self.mask_steps)
            self.copies.append((node, key))
            self.rows.append([])
        return number

    def frame(self, frame: int, going_on: int) -> int:
        """Return the copy of a frame, given the exits that go on below it."""
        going_on &= self.below[frame]
        copies = self.of_frame.setdefault(frame, {})
        number = copies.setdefault(going_on, self.frames)
        if number == self.frames:
            self.frames += 1
            for node, to in self.nodes_of.get(frame, ()):
                for node_copy in [*self.of_node.get(node, {}).values()]:
                    self.meet(node_copy, frame, number, going_on, to)
        return number

    def meet(self, node_copy: int, frame: int, frame_copy: int, below: int, to: int) -> None:
        """Say which copy comes after a pop, if the copy of the node may stand on that of the frame."""
        node, going_on = self.copies[node_copy]
        self.limits.spend(MOVE_STEPS)
        if going_on == self.on_frame(frame, below) & self.keyed[node]:
            self.return_state[node_copy, frame_copy] = self.copy(to, below)
