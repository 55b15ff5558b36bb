"""Where a condition on the next character contradicts what must follow: no text goes on there, and a row would be stuck.

By hand: `s ::= "a" t "e" | "b"`, where nothing but an `f` may follow a `t`, which is `"d"`. In the node after `ad`, the `e` is
illegal, so nothing goes on. The `d` is removed after `a`, and then the `a` at the start: the language is `b`.

A node is looked at with what may be innermost on the stack (contexts of `LrStates`). It is *safe* there if, whatever may lie
below, one of its exits leads to where it is safe again; it is *dead* if, whatever lies below, none does. Symbols that lead to a
dead node are removed. If something is neither safe nor dead, a rule would have to know the whole stack: that is refused.
"""

from __future__ import annotations

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.compiler.bytes.pushdown_views import FINISH, Rows, Views, bits
from logitkit.compiler.grammars.lr_states import BOTTOM, LrStates
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.limits import Limits

__all__ = ["without_contradictions"]

# The number of frames that are looked at in the time of one step, and the cost of a view that a frame leads to, in steps.
FRAMES_A_STEP, VIEW_STEPS = 2, 3


def without_contradictions(nodes: LrStates, limits: Limits) -> tuple[Rows, Views]:
    """Remove the symbols after which no text goes on.

    Raises:
        GrammarError: Nothing is left.
        PatternTooLarge: Whether a text goes on depends on more of the stack than is known, or a limit is exceeded.
    """
    rows = nodes.rows
    while True:
        views = Views(rows, nodes.pushed, nodes.target, nodes.return_state, limits, every_exit=True)
        places = _Places(nodes, views, limits)
        safe = places.safe()
        # Safe places are live.
        live = safe if places.all_in(safe) else places.live()
        if not live[nodes.start] >> BOTTOM & 1:
            raise GrammarError(
                "no text belongs to the grammar: conditions on the next character contradict the text that must follow"
            )
        unclear = False
        left: Rows = []
        for node, row in enumerate(rows):
            kept = []
            for mask, does in row:
                if does not in (DEAD, FINISHED, POP):
                    after, contexts = places.after(node, does)
                    if contexts & ~safe[after]:
                        if not contexts & live[after]:
                            continue
                        unclear = True
                kept.append((mask, does))
            left.append(kept)
        if left == rows:
            if unclear or not safe[nodes.start] >> BOTTOM & 1:
                raise PatternTooLarge(
                    "a condition on the next character contradicts the text that must follow, but only inside of some rules; "
                    "write those rules so that the condition is met wherever they are used"
                )
            return rows, views
        rows = left


class _Places:
    """The places that may be met: for each view the contexts that may be innermost there, as a mask.

    Args:
        nodes: The automaton.
        views: Its views.
        limits: Bound on the work.
    """

    def __init__(self, nodes: LrStates, views: Views, limits: Limits) -> None:
        self.nodes, self.views, self.limits = nodes, views, limits
        self.met = [0] * len(views.views)
        # The contexts of each frame, and what may lie below any of them, as masks.
        self.contexts: dict[int, int] = {}
        self.below: dict[int, int] = {}
        for context, frame in enumerate(nodes.context_frame):
            if context != BOTTOM:
                self.contexts[frame] = self.contexts.get(frame, 0) | 1 << context
                self.below[frame] = self.below.get(frame, 0) | nodes.below[context]
        # The views that a pop of each frame leads to, for each view that pops it; and which views lead to each view.
        self.leads: list[dict[int, list[int]]] = [{} for _ in self.met]
        self.before: list[dict[int, None]] = [{} for _ in self.met]
        todo = {node: nodes.tops[node] for node in range(len(nodes.rows))}
        while todo:
            view, contexts = todo.popitem()
            contexts &= ~self.met[view]
            self.met[view] |= contexts
            self.limits.spend(len(self.contexts) // FRAMES_A_STEP)
            for frame, members in self.contexts.items():
                mine = contexts & members
                if not mine:
                    continue
                below = self.below[frame] if mine == members else 0
                for context in bits(mine) if mine != members else ():
                    below |= nodes.below[context]
                popped = self._popped(view, frame)
                self.limits.spend(VIEW_STEPS * (1 + len(popped) + mine.bit_count()))
                for to in popped:
                    if below & ~self.met[to]:
                        todo[to] = todo.get(to, 0) | below

    def _popped(self, view: int, frame: int) -> list[int]:
        """Return the views that a pop of a frame leads to."""
        found = self.leads[view].get(frame)
        if found is None:
            after = self.views.after
            exits = [*bits(self.views.exits[view])]
            found = [*dict.fromkeys([to for e in exits if (to := after[e].get(frame)) is not None])]
            self.leads[view][frame] = found
            for to in found:
                self.before[to][view] = None
            self.limits.spend(VIEW_STEPS * (len(exits) + len(found)))
        return found

    def after(self, node: int, does: int) -> tuple[int, int]:
        """Return the node after reading a symbol, and the contexts that may be innermost there."""
        if PushdownStep.is_state(does):
            return does, self.nodes.tops[node]
        move = PushdownStep.move(does)
        return self.nodes.target[move], 1 << self.nodes.followed[move][1]

    def all_in(self, some: list[int]) -> bool:
        """Whether all places are among some."""
        return all(not met & ~held for met, held in zip(self.met, some, strict=True))

    def safe(self) -> list[int]:
        """Return the places from which a text goes on, whatever lies below: a greatest fixed point.

        Each exit pops a frame, so that every way from one place to the next comes nearer to the bottom of the stack.
        """
        return self._fixed_point([*self.met], whatever=True)

    def live(self) -> list[int]:
        """Return the places from which a text goes on if the right contexts lie below: a least fixed point."""
        return self._fixed_point([0] * len(self.met), whatever=False)

    def _fixed_point(self, found: list[int], whatever: bool) -> list[int]:
        """Work out in which contexts each view leads to where that holds again, for all contexts below or for one of them."""
        todo = dict.fromkeys(range(len(found)))
        while todo:
            view, _ = todo.popitem()
            self.limits.spend(len(self.contexts) // FRAMES_A_STEP)
            holds = self.met[view] >> BOTTOM & self.views.exits[view] >> FINISH & 1
            for frame, members in self.contexts.items():
                met = self.met[view] & members
                if not met:
                    continue
                reached = 0
                for to in self.leads[view].get(frame, ()):
                    reached |= found[to]
                self.limits.spend(VIEW_STEPS + len(self.leads[view].get(frame, ())))
                if whatever and not self.below[frame] & ~reached:
                    holds |= met
                    continue
                self.limits.spend(met.bit_count())
                for context in bits(met):
                    below = self.nodes.below[context]
                    if not below & ~reached if whatever else below & reached:
                        holds |= 1 << context
            if holds != found[view]:
                found[view] = holds
                todo.update(self.before[view])
        return found
