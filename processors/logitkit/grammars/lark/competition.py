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

from typing import NamedTuple

from logitkit.grammars.lark.draft import Draft
from logitkit.limits import Limits
from logitkit.patterns.syntax import Alternate, Call, Concat, Node, Repeat

__all__ = ["Competition"]


# What a node of a tree costs on a walk, which works on long masks.
_NODE_STEPS = 10

# How long a mask of the size of a step is.
_BITS_A_STEP = 400


class _Ends(NamedTuple):
    """Whether a tree may be empty, and its first and last terminals, as masks of their numbers."""

    empty: bool
    first: int
    last: int


class Competition:
    """The terminals of a draft that the start reaches, and which of them compete.

    Args:
        draft: The definitions.
        start: The number of the rule of the whole text.
        limits: Bounds on the work.
    """

    def __init__(self, draft: Draft, start: int, limits: Limits) -> None:
        self.draft = draft
        self.limits = limits
        self.follow: dict[int, int] | None = None
        self.ends: dict[int, _Ends] = {}
        reached = {start: None}
        order = [start]
        for number in order:
            if self._is_rule(number):
                fresh = [n for n, _ in draft.definitions[number].references if n not in reached]
                order.extend(dict.fromkeys(fresh))
                reached.update(dict.fromkeys(fresh))
        self.terminals = [number for number in order if not self._is_rule(number)]
        rules = [number for number in reversed(order) if self._is_rule(number)]
        self._find_ends(rules)
        self.follow = {}
        for rule in rules:
            self._walk(self._body(rule))
        self._groups = {self._call(start).first, *self.follow.values()}

    def rivals(self, number: int) -> int:
        """Return the terminals that compete with one, as a mask."""
        found = 0
        self.limits.spend(len(self._groups) * (1 + number // 256))
        for group in self._groups:
            if group >> number & 1:
                found |= group
        return found

    def _is_rule(self, number: int) -> bool:
        return self.draft.definitions[number].kind == "rule"

    def _body(self, rule: int) -> Node:
        body = self.draft.definitions[rule].body
        assert body is not None
        return body

    def _find_ends(self, rules: list[int]) -> None:
        """Compute the ends of the rules, as a least fixed point."""
        changed = True
        while changed:
            changed = False
            for rule in rules:
                ends = self._walk(self._body(rule))
                changed |= self.ends.get(rule) != ends
                self.ends[rule] = ends

    def _call(self, number: int) -> _Ends:
        if self._is_rule(number):
            return self.ends.get(number, _Ends(False, 0, 0))
        # The mask is kept, and is as long as there are definitions.
        self.limits.spend(number // _BITS_A_STEP)
        return _Ends(False, 1 << number, 1 << number)

    def _walk(self, tree: Node) -> _Ends:
        """Return the ends of a tree, and note which terminals follow each other in it, once the rules' ends are known."""
        self.limits.spend(_NODE_STEPS)
        match tree:
            case Call(number):
                return self._call(number)
            case Concat(parts):
                whole = _Ends(True, 0, 0)
                for part in parts:
                    whole = self._joined(whole, self._walk(part))
                return whole
            case Alternate(options):
                ends = list(map(self._walk, options))
                first = last = 0
                for end in ends:
                    first, last = first | end.first, last | end.last
                return _Ends(any(end.empty for end in ends), first, last)
            case Repeat(node, minimum, maximum):
                one = self._walk(node)
                if maximum is None or maximum > 1:
                    self._joined(one, one)
                return _Ends(one.empty or minimum == 0, one.first, one.last)
            case _:
                return _Ends(True, 0, 0)

    def _joined(self, a: _Ends, b: _Ends) -> _Ends:
        if self.follow is not None and b.first:
            last = a.last
            while last:
                number = last.bit_length() - 1
                self.limits.spend(1)
                self.follow[number] = self.follow.get(number, 0) | b.first
                last ^= 1 << number
        first = a.first | (b.first if a.empty else 0)
        return _Ends(a.empty and b.empty, first, b.last | (a.last if b.empty else 0))
