"""Where a condition on the next character contradicts what must follow: no text goes on there, and a row would be stuck.

By hand: `s ::= "a" t "e" | "b"`, where nothing but an `f` may follow a `t`, which is `"d"`. In the node after `ad`, the `e` is
illegal, so nothing goes on. The `d` is removed after `a`, and then the `a` at the start: the language is `b`.

A node is looked at with what may be innermost on the stack (contexts of `SetNodes`). It is *safe* there if, whatever may lie
below, one of its exits leads to where it is safe again; it is *dead* if, whatever lies below, none does. Symbols that lead to a
dead node are removed. If something is neither safe nor dead, a rule would have to know the whole stack: that is refused.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.bytes.pushdown_dfa import POP
from logitkit.compiler.grammars.set_nodes import BOTTOM, SetNodes
from logitkit.compiler.grammars.views import FINISH, Rows, Views, bits
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.limits import Limits

__all__ = ["without_contradictions"]

# A view and the innermost context.
Place = tuple[int, int]


def without_contradictions(nodes: SetNodes, limits: Limits) -> tuple[Rows, Views]:
    """Remove what no text goes on after.

    Raises:
        GrammarError: Nothing is left.
        PatternTooLarge: Whether a text goes on depends on more of the stack than is known, or a limit is exceeded.
    """
    rows = nodes.rows
    while True:
        views = Views(rows, nodes.pushed, nodes.target, nodes.behind, limits, every_exit=True)
        places = _Places(nodes, views, limits)
        safe, live = places.safe(), places.live()
        if (nodes.start, BOTTOM) not in live:
            raise GrammarError(
                "no text belongs to the grammar: conditions on the next character contradict what must follow"
            )
        unclear = False
        left: Rows = []
        for node, row in enumerate(rows):
            kept = []
            for mask, does in row:
                if does not in (DEAD, FINISHED, POP):
                    after = places.after(node, does)
                    if not all(place in safe for place in after):
                        if not any(place in live for place in after):
                            continue
                        unclear = True
                kept.append((mask, does))
            left.append(kept)
        if left == rows:
            if unclear or (nodes.start, BOTTOM) not in safe:
                raise PatternTooLarge(
                    "a condition on the next character contradicts what must follow, but only inside of some rules; write those "
                    "rules so that the condition is met wherever they are called"
                )
            return rows, views
        rows = left


@dataclass(frozen=True, eq=False, slots=True)
class _Places:
    """The places that may be met, and for each of them: for each context that may lie below it, where its exits lead to."""

    nodes: SetNodes
    views: Views
    limits: Limits
    leads: dict[Place, list[list[Place]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        todo = [(node, context) for node in range(len(self.nodes.rows)) for context in bits(self.nodes.tops[node])]
        while todo:
            place = todo.pop()
            if place in self.leads:
                continue
            view, context = place
            exits = [*bits(self.views.exits[view])]
            if context == BOTTOM:
                self.leads[place] = [[(FINISHED, BOTTOM)] if FINISH in exits else []]
                continue
            frame = self.nodes.context_frame[context]
            found = dict.fromkeys([to for e in exits if (to := self.views.after[e].get(frame)) is not None])
            below = [*bits(self.nodes.below[context])]
            self.leads[place] = [[(to, under) for to in found] for under in below]
            self.limits.spend(4 * (len(exits) + len(found) * len(below)))
            todo += [following for ways in self.leads[place] for following in ways]
        self.leads[FINISHED, BOTTOM] = [[(FINISHED, BOTTOM)]]

    def after(self, node: int, does: int) -> list[Place]:
        """Return where reading a symbol leads to."""
        if does >= 0:
            return [(does, context) for context in bits(self.nodes.tops[node])]
        frames, target = self.nodes.pushed[-2 - does], self.nodes.target[-2 - does]
        return [(target, self.nodes.contexts[target, frames])]

    def safe(self) -> set[Place]:
        """Return the places from which a text goes on, whatever lies below: a greatest fixed point.

        Each exit pops a frame, so that every way from one place to the next comes nearer to the bottom of the stack.
        """
        safe = set(self.leads)
        before: dict[Place, set[Place]] = defaultdict(set)
        for place, ways in self.leads.items():
            for way in ways:
                for following in way:
                    before[following].add(place)
        todo = [*self.leads]
        while todo:
            place = todo.pop()
            self.limits.spend(2)
            if place in safe and not all(any(following in safe for following in way) for way in self.leads[place]):
                safe.discard(place)
                todo.extend(before[place])
        return safe

    def live(self) -> set[Place]:
        """Return the places from which a text goes on if the right contexts lie below: a least fixed point."""
        before: dict[Place, set[Place]] = defaultdict(set)
        for place, ways in self.leads.items():
            for way in ways:
                for following in way:
                    before[following].add(place)
        live = {(FINISHED, BOTTOM)}
        todo = [*live]
        while todo:
            fresh = before[todo.pop()] - live
            self.limits.spend(2 + len(fresh))
            live |= fresh
            todo.extend(fresh)
        return live
