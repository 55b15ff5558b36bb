r"""Which terminals may stand in the same place.

In `stat: "if" NAME "then" stat | NAME "=" NAME`, a statement begins with `"if"` or with `NAME`, so the two compete there. Only
`"then"` or `"="` may follow a `NAME`, so `"then"` and `NAME` do not compete after it.

Two terminals compete if both may begin the text, or if both may follow the same terminal. The rest of what was read is left out
of account. So every pair that a contextual lexer must decide between competes, and some other pairs compete without need.

By hand, for the rule above: the first terminals of `stat` are `"if"` and `NAME`; after `"if"` and `"="` stands `NAME`; after
`NAME` stand `"then"` and `"="`; after `"then"` stand those that begin `stat`.

Terminals are not empty, as Lark demands.
"""

from __future__ import annotations

from logitkit.compiler.bytes.pushdown_views import bits
from logitkit.compiler.characters.positions import CALLS
from logitkit.compiler.grammars.rule_automata import rule_positions
from logitkit.compiler.grammars.rule_trees import deriving
from logitkit.grammars.lark.draft import Draft
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Characters, Empty

__all__ = ["Competition"]

# What a call costs, which works on long masks; and how long a mask of the size of a step is.
_CALL_STEPS, _BITS_A_STEP = 10, 400


class Competition:
    """The terminals of a draft that the start reaches, and which of them compete.

    Args:
        draft: The definitions.
        start: The number of the rule of the whole text.
        limits: Bounds on the work.
    """

    def __init__(self, draft: Draft, start: int, limits: Limits) -> None:
        self.limits = limits
        bodies = [d.body if d.body and d.kind == "rule" else Characters(CharSet()) for d in draft.definitions]
        empty = deriving(bodies, lambda leaf: isinstance(leaf, Empty), limits)
        nullable = {number for number, is_empty in enumerate(empty) if is_empty}
        # What each rule may begin and end with, and what may follow what: rules and terminals.
        first: dict[int, set[int]] = {}
        last: dict[int, set[int]] = {}
        follow: dict[int, set[int]] = {}
        reached = {start: None}
        self.terminals: list[int] = []
        # The list grows under the loop.
        order = [start]
        for number in order:
            if draft.definitions[number].kind != "rule":
                self.terminals.append(number)
                continue
            fresh = dict.fromkeys(n for n, _ in draft.definitions[number].references if n not in reached)
            reached.update(fresh)
            order.extend(fresh)
            found = rule_positions(bodies[number], nullable, {}, limits)
            called = [charset.ranges[0][0] - CALLS for charset in found.charsets]
            first[number] = {called[p] for p in found.first}
            last[number] = {c for c, is_final in zip(called, found.final, strict=True) if is_final}
            for c, after in zip(called, found.follow, strict=True):
                follow.setdefault(c, set()).update([called[p] for p in after])
        first_of, last_of = self._terminals_of(first), self._terminals_of(last)
        groups = dict.fromkeys(self.terminals, 0)
        for c, after_c in follow.items():
            group = 0
            for other in after_c:
                group |= first_of[other]
            limits.spend(len(after_c) + last_of[c].bit_count())
            for terminal in bits(last_of[c]):
                groups[terminal] |= group
        self._groups = {first_of[start], *groups.values()}

    def rivals(self, number: int) -> int:
        """Return the terminals that compete with one, as a mask."""
        found = 0
        self.limits.spend(len(self._groups) * (1 + number // 256))
        for group in self._groups:
            if group >> number & 1:
                found |= group
        return found

    def _terminals_of(self, edges: dict[int, set[int]]) -> dict[int, int]:
        """Return the terminals that rules lead to, however many others are between, as masks; a terminal leads to itself."""
        # The masks are kept, and are as long as there are definitions.
        self.limits.spend(sum(self.terminals) // _BITS_A_STEP)
        found = {number: 1 << number for number in self.terminals} | dict.fromkeys(edges, 0)
        changed = True
        while changed:
            changed = False
            # Rules that are called come after their callers, so most calls are known already.
            for rule, called in reversed(edges.items()):
                mask = found[rule]
                for number in called:
                    mask |= found[number]
                self.limits.spend(_CALL_STEPS * (1 + len(called)))
                changed |= mask != found[rule]
                found[rule] = mask
        return found
