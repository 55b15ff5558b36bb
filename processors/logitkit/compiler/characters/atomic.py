"""Atomic groups, written out as lookaheads.

An atomic group keeps the first match that a backtracking search finds and gives nothing back. "First" is a matter of
choices: an option is taken only if the ones before it cannot match. So `(?>a|ab)c` is `(?:a|(?!a)ab)c`, and a greedy
repetition stops only where one more copy cannot be matched: `(?>x*)y` is `x*(?!x)y`. A match that is unique anyway (a fixed
number of characters) needs no lookahead.
"""

from __future__ import annotations

from logitkit.budget import took
from logitkit.errors import PatternSyntaxError
from logitkit.limits import Limits
from logitkit.patterns.construction import with_inside
from logitkit.patterns.syntax import (
    Alternate,
    Anchor,
    Atomic,
    Call,
    Characters,
    Concat,
    Empty,
    Graph,
    Look,
    Machine,
    Node,
    Repeat,
)

# Optional copies that are nested into each other when they are written out one by one.
MOST_NESTED = 64
# The cost of writing a node, in steps.
NODE_STEPS = 40


def without_atomic_groups(tree: Node, pattern: str, limits: Limits) -> Node:
    """Return a tree of the same language in which no atomic group is left.

    Args:
        tree: Any tree.
        pattern: Its pattern, for the error.
        limits: Bound on the size of the result.

    Raises:
        PatternSyntaxError: A group repeats something that matches in several lengths, which has no such form.
        PatternTooLarge: Writing it out takes too much room.
    """
    rewriter = _Rewriter(pattern, limits)
    try:
        return rewriter.whole(tree)
    finally:
        took(NODE_STEPS * rewriter.made)


class _Rewriter:
    def __init__(self, pattern: str, limits: Limits) -> None:
        self.pattern = pattern
        self.limits = limits
        self.position = 0
        self.made = 0

    def whole(self, tree: Node) -> Node:
        """Rewrite the atomic groups anywhere inside."""
        self.made += 1
        self.limits.check_work(NODE_STEPS * self.made)
        if isinstance(tree, Atomic):
            self.position = tree.position
            return self.first([tree.node])
        return with_inside(tree, self.whole)

    def first(self, parts: list[Node]) -> Node:
        """Return a tree that matches the concatenation of some parts, but only its first match."""
        if not parts:
            return Empty()
        head, rest = parts[0], parts[1:]
        if isinstance(head, Atomic):
            return _join(self.whole(head), self.first(rest))
        if width_of(head) is not None:
            return _join(self.whole(head), self.first(rest))
        match head:
            case Concat(inner):
                return self.first([*inner, *rest])
            case Alternate(options):
                return Alternate(
                    tuple(
                        _join(*(self.cannot([o, *rest]) for o in options[:i]), self.first([option, *rest]))
                        for i, option in enumerate(options)
                    )
                )
            case Repeat(node, minimum, maximum, kind):
                if minimum:
                    must = Repeat(node, minimum, minimum)
                    left = None if maximum is None else maximum - minimum
                    copies = [must] if width_of(node) is not None else [node] * minimum
                    optional: list[Node] = [] if left == 0 else [Repeat(node, 0, left, kind)]
                    return self.first([*copies, *optional, *rest])
                if kind == "lazy" and not rest:
                    return Empty()
                if maximum is None:
                    return self.loop(node, kind == "lazy", rest)
                return self.optional(node, maximum, kind == "lazy", rest)
            case _:
                raise self.refused(
                    "an atomic group has a part in it whose options have no order, such as one with & or ~"
                )

    def loop(self, node: Node, lazy: bool, rest: list[Node]) -> Node:
        """Return the first match of `node` repeated without bound, then `rest`."""
        after: list[Node] = [Repeat(node, 0, None, "lazy" if lazy else "greedy"), *rest] if rest else []
        options = self.options_of(node)
        body = self.choose(options, [_join(option) for option in options], after)
        stop = self.first(rest)
        if lazy:
            return _join(Repeat(_join(self.cannot(rest), body), 0, None), stop)
        return _join(Repeat(body, 0, None), *(self.cannot([o, *after]) for o in options), stop)

    def optional(self, node: Node, most: int, lazy: bool, rest: list[Node]) -> Node:
        """Return the first match of at most `most` copies of `node`, then `rest`."""
        options = self.options_of(node)
        if len(options) == 1 and not rest:
            copy = self.whole(options[0])
            stopped = _join(Repeat(copy, 0, most - 1), self.cannot([options[0]]))
            return Alternate((Repeat(copy, most, most), stopped))
        if most > MOST_NESTED:
            raise self.refused(
                f"an atomic group repeats a choice up to {most} times; at most {MOST_NESTED} can be written out"
            )
        result = self.first(rest)
        for copies in range(1, most + 1):
            after = [Repeat(node, 0, copies - 1, "lazy" if lazy else "greedy"), *rest] if rest else []
            more = self.choose(options, [_join(option, result) for option in options], after)
            if lazy:
                result = Alternate((self.first(rest), _join(self.cannot(rest), more)))
            else:
                stop = _join(*(self.cannot([o, *after]) for o in options), self.first(rest))
                result = Alternate((more, stop))
        return result

    def choose(self, options: list[Node], taken: list[Node], after: list[Node]) -> Node:
        """Return the choice of the first option that lets what comes after match; `taken` says what each then matches."""
        branches = []
        for i, option in enumerate(options):
            before = [self.cannot([o, *after]) for o in options[:i]]
            possible = [Look(self.whole(_join(option, *after)), False, False, self.position)] if after else []
            branches.append(_join(*before, *possible, self.whole(taken[i])))
        return Alternate(tuple(branches)) if len(branches) > 1 else branches[0]

    def options_of(self, node: Node) -> list[Node]:
        """Return a repeated body as options that each match in one length only."""
        options: list[Node] = list(node.options) if isinstance(node, Alternate) else [node]
        for option in options:
            if may_be_empty(option):
                raise self.refused(
                    "an atomic group or possessive quantifier repeats something that may be empty; leave the empty option out"
                )
            if not isinstance(option, Atomic) and width_of(option) is None:
                raise self.refused(
                    "an atomic group or possessive quantifier repeats something that matches in several lengths; make the "
                    "inner part atomic too, as in (?>(?>...)*), or write it without the atomic group"
                )
        return options

    def cannot(self, parts: list[Node]) -> Node:
        """Return the condition that some parts cannot match here."""
        return Look(self.whole(_join(*parts)), False, True, self.position)

    def refused(self, reason: str) -> PatternSyntaxError:
        return PatternSyntaxError(reason, self.pattern, self.position)


def width_of(tree: Node) -> int | None:
    """Return the number of characters that a tree matches, or None if it varies."""
    match tree:
        case Characters():
            return 1
        case Empty() | Look() | Anchor():
            return 0
        case Concat(parts):
            widths = [width_of(p) for p in parts]
            return None if None in widths else sum(w for w in widths if w is not None)
        case Alternate(options):
            first = width_of(options[0])
            return first if all(width_of(o) == first for o in options[1:]) else None
        case Repeat(node, minimum, maximum):
            width = width_of(node)
            return width * minimum if width is not None and (minimum == maximum or width == 0) else None
        case Atomic(node):
            return width_of(node)
        case Call() | Machine() | Graph():
            return None


def may_be_empty(tree: Node) -> bool:
    """Whether a tree may match without a character."""
    match tree:
        case Characters() | Call():
            return False
        case Machine(_, accepting) | Graph(_, accepting):
            return accepting[0]
        case Concat(parts):
            return all(map(may_be_empty, parts))
        case Alternate(options):
            return any(map(may_be_empty, options))
        case Repeat(node, minimum):
            return minimum == 0 or may_be_empty(node)
        case Atomic(node):
            return may_be_empty(node)
        case _:
            return True


def _join(*parts: Node) -> Node:
    flat = [q for p in parts for q in (p.parts if isinstance(p, Concat) else () if isinstance(p, Empty) else (p,))]
    return Empty() if not flat else flat[0] if len(flat) == 1 else Concat(tuple(flat))
