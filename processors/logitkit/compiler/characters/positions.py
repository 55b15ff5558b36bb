"""The position automaton of a syntax tree: one state for each occurrence of a character, no empty moves.

By hand: `a*ab` has three positions. A text begins with either `a`. After the first `a`, either `a` may come; after the second
one, only the `b`. The text ends after the `b`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from operator import lt
from typing import NamedTuple

from logitkit.budget import spent, took
from logitkit.compiler.characters.components import reached
from logitkit.compiler.characters.factoring import factor
from logitkit.compiler.characters.symbols import Symbol
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Empty, Graph, Machine, Node, Repeat

# The cost of putting two parts together, in steps, in addition to that of the positions that are joined.
JOIN_STEPS = 10
# This many positions are put before others in one step. It takes less time than that, but the longer list stays in memory.
POSITIONS_A_STEP = 4


@dataclass(frozen=True, eq=False, slots=True)
class Positions:
    """A nondeterministic automaton whose state is the character read last.

    Args:
        charsets: The characters that each position reads.
        follow: Positions that may come after each position, sorted.
        first: Positions that may come first, sorted.
        final: Whether the text may end after each position.
        nullable: Whether the empty text matches.
    """

    charsets: list[CharSet]
    follow: list[tuple[int, ...]]
    first: tuple[int, ...]
    final: list[bool]
    nullable: bool


class Part(NamedTuple):
    """The facts of one part that the rest of the pattern needs."""

    nullable: bool
    first: tuple[int, ...]
    last: tuple[int, ...]


EMPTY = Part(True, (), ())


def positions_of(tree: Node, limits: Limits, builder: PositionBuilder | None = None) -> Positions:
    """Build the position automaton of a tree without anchors, lookarounds and atomic groups.

    Args:
        tree: The tree.
        limits: Bounds on the positions.
        builder: Numbers the positions, if some nodes have another meaning than usual; it has numbered none so far.

    Raises:
        PatternTooLarge: The pattern, with its counts written out, has more characters than the limit of states.
    """
    limits.check_states(count_positions(tree))
    builder = builder or PositionBuilder(limits)
    try:
        whole = builder.part(tree)
    finally:
        took(builder.work)
    final = [False] * len(builder.charsets)
    for position in whole.last:
        final[position] = True
    follow = [_union(chunks) for chunks in builder.follow]
    limits.spend(2 * sum(map(len, follow)))
    return Positions(builder.charsets, follow, tuple(sorted(whole.first)), final, whole.nullable)


def count_positions(tree: Node) -> int:
    """Count the characters of a tree with all counted repetitions written out; what stands in it many times is counted once."""
    return _count(tree, {})


def _count(tree: Node, known: dict[int, int]) -> int:
    found = known.get(id(tree))
    if found is None:
        found = known[id(tree)] = _count_of(tree, known)
    return found


def _count_of(tree: Node, known: dict[int, int]) -> int:
    match tree:
        case Characters() | Call():
            return 1
        case Concat(parts) | Alternate(parts):
            return sum([1 if type(part) is Characters else _count(part, known) for part in parts])
        case Repeat(node, minimum, maximum):
            return _count(node, known) * _copies(minimum, maximum)
        case Graph(moves):
            return sum([_count(node, known) for row in moves for node, _ in row])
        case Machine(moves):
            return sum(map(len, moves))
        case _:
            return 0


def _copies(minimum: int, maximum: int | None) -> int:
    return max(minimum, 1) if maximum is None else maximum


def _union(chunks: list[tuple[int, ...]]) -> tuple[int, ...]:
    if len(chunks) == 1:
        (chunk,) = chunks
        if len(chunk) == 1:
            return chunk
        # Most are in order: a new tuple for each would set off the garbage collection.
        return chunk if all(map(lt, chunk, islice(chunk, 1, None))) else tuple(sorted(chunk))
    return tuple(sorted(set().union(*chunks)))


class PositionBuilder:
    """Numbers the positions and collects what follows each, as chunks that are shared and joined once at the end."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        # The work that may still be done: nothing else is counted until this is.
        self.left = limits.work - spent()
        self.work = 0
        self.charsets: list[CharSet] = []
        self.follow: list[list[tuple[int, ...]]] = []

    def part(self, tree: Node) -> Part:
        """Number the positions of a tree."""
        # Most nodes are characters.
        if type(tree) is Characters:
            return self.character(tree.charset)
        match tree:
            case Empty():
                return EMPTY
            case Call(rule):
                return self.character(CharSet.single(Symbol.call(rule)))
            case Concat(parts):
                return self.concat(parts)
            case Alternate(options):
                return self.alternate(factor(options))
            case Repeat(node, minimum, maximum):
                return self.repeat(node, minimum, maximum)
            case Graph(moves, accepting):
                return self.graph(moves, accepting)
            case Machine(moves, accepting):
                return self.machine(moves, accepting)
            case _:
                raise AssertionError(f"{type(tree).__name__} is not a part of a plain regular expression")

    def character(self, charset: CharSet) -> Part:
        """Number the position of a character."""
        position = len(self.charsets)
        self.charsets.append(charset)
        self.follow.append([])
        return Part(False, (position,), (position,))

    def did(self, steps: int) -> None:
        """Count steps."""
        self.work += steps
        if self.work > self.left:
            self.limits.check_work(self.work)

    def join(self, last: tuple[int, ...], first: tuple[int, ...]) -> None:
        """Let some positions follow others."""
        # Each chunk is joined to what follows a position once, later.
        self.did(JOIN_STEPS + len(last) * (len(first) + 1))
        for position in last:
            self.follow[position].append(first)

    def concat(self, parts: tuple[Node, ...]) -> Part:
        """Number the positions of parts in sequence."""
        nullable, first, last = EMPTY
        for tree in parts:
            part = self.part(tree)
            self.join(last, part.first)
            first = first + part.first if nullable else first
            last = last + part.last if part.nullable else part.last
            nullable = nullable and part.nullable
        return Part(nullable, first, last)

    def alternate(self, options: list[Node]) -> Part:
        """Number the positions of options."""
        parts = [self.part(tree) for tree in options]
        return Part(
            any(p.nullable for p in parts),
            tuple(q for p in parts for q in p.first),
            tuple(q for p in parts for q in p.last),
        )

    def repeat(self, node: Node, minimum: int, maximum: int | None) -> Part:
        """Write the copies out, each optional one only after the one before it: x{1,3} is x(x(x)?)?.

        A body that may be empty needs no minimum, and counts as not empty in its copies: the language is the same and no
        position follows more than one other copy.
        """
        copies = _copies(minimum, maximum)
        if copies == 0:
            return EMPTY
        if isinstance(node, Characters):
            return self.run(node.charset, minimum, maximum, copies)
        body = self.part(node)
        if body.nullable:
            minimum = 0
            copies = 1 if maximum is None else copies
        first, last = body.first, list(body.last if minimum <= 1 else ())
        for copy in range(2, copies + 1):
            following = self.part(node)
            self.join(body.last, following.first)
            body = following
            if copy >= minimum:
                last.extend(body.last)
        if maximum is None:
            self.join(body.last, body.first)
        return Part(minimum == 0, first, tuple(last))

    def run(self, charset: CharSet, minimum: int, maximum: int | None, copies: int) -> Part:
        """Write out the copies of a single character, as most counted patterns have, all at once."""
        begin = len(self.charsets)
        each = [(position,) for position in range(begin, begin + copies)]
        self.charsets.extend([charset] * copies)
        self.follow.extend([[following] for following in each[1:]])
        self.follow.append([])
        self.did(2 * copies)
        if maximum is None:
            self.join(each[-1], each[-1])
        return Part(minimum == 0, each[0], tuple(range(begin + max(minimum, 1) - 1, begin + copies)))

    def graph(self, moves: tuple[tuple[tuple[Node, int], ...], ...], accepting: tuple[bool, ...]) -> Part:
        """Number the positions of the nodes of a graph."""
        parts = [[(self.part(node), target) for node, target in row] for row in moves]
        own = [tuple([p for part, _ in row for p in part.first]) for row in parts]
        first, ends = self.beginnings(own, [[t for part, t in row if part.nullable] for row in parts], accepting)
        last: list[int] = []
        for part, target in (edge for row in parts for edge in row):
            self.join(part.last, first[target])
            if ends[target]:
                last.extend(part.last)
        return Part(ends[0], first[0], tuple(last))

    def beginnings(
        self, own: list[tuple[int, ...]], empty: list[list[int]], accepting: tuple[bool, ...]
    ) -> tuple[list[tuple[int, ...]], list[bool]]:
        """Return what may be read first from each state of a graph, and whether the text may end there.

        Args:
            own: The positions that each state reads itself.
            empty: The states that each one leads to without reading.
            accepting: Which states accept.
        """
        first, ends = own[:], [*accepting]
        # States from which one way leads to a state that reads, and for which what is read first is known.
        simple = [not targets for targets in empty]
        for begin in range(len(own)):
            # Where members may be left out, each state leads to the next one, so the last one is known first.
            chain, state = [begin], begin
            while not simple[state] and len(empty[state]) == 1 and len(chain) <= len(own):
                (state,) = empty[state]
                chain.append(state)
            if simple[state]:
                for before, target in zip(chain[-2::-1], chain[:0:-1], strict=True):
                    first[before], ends[before] = own[before] + first[target], ends[before] or ends[target]
                    simple[before] = True
                    self.did(1 + len(first[before]) // POSITIONS_A_STEP)
                continue
            after = reached(begin, empty.__getitem__)
            self.did(6 * len(after))
            first[begin] = tuple(dict.fromkeys([p for state in after for p in own[state]]))
            ends[begin] = any(accepting[state] for state in after)
        return first, ends

    def machine(self, moves: tuple[tuple[tuple[CharSet, int], ...], ...], accepting: tuple[bool, ...]) -> Part:
        """Make each move a position; those into one state share what follows them."""
        edges = [edge for row in moves for edge in row]
        begin = len(self.charsets)
        bounds = [begin]
        for row in moves:
            bounds.append(bounds[-1] + len(row))
        after = [tuple(range(a, b)) for a, b in pairwise(bounds)]
        self.charsets.extend([charset for charset, _ in edges])
        self.follow.extend([[after[target]] if after[target] else [] for _, target in edges])
        self.did(len(edges))
        last = tuple([begin + i for i, (_, target) in enumerate(edges) if accepting[target]])
        return Part(accepting[0], after[0], last)
