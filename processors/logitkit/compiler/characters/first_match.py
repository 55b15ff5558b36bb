"""The texts that a backtracking search finds: those of which the first match is the whole text.

A search tries the options of a choice in order, and most quantifiers take many copies before few. At the beginning of `ab`, the
pattern `a|ab` matches `a`: the second option is never tried. So it finds one text only. In the same way, `".*?"` finds what
stands between one quote and the next.

The construction follows all ways at once, as threads in the order in which a search tries them. A thread that has come to the end
is a match, and what comes after it in the order is dropped, because the search would not come so far. A text is found if a thread
is at the end after its last character.

By hand, for `a|ab`: at first there are the threads 1 (reads `a`) and 2 (reads `a`, then `b`). After `a`, thread 1 is at the end,
and thread 2 is dropped. Nothing reads the `b`.

Invariant: a state is the threads in their order, the end last if it is among them. If a text is found, and a longer one that
begins with it too, the search takes the longer one.

Source: Cox, Regular Expression Matching: the Virtual Machine Approach (2009), for threads in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.lengths import widths
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import count_positions
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.characters.symbols import split
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import with_inside
from logitkit.patterns.syntax import (
    Alternate,
    Anchor,
    Atomic,
    Characters,
    Concat,
    Empty,
    Look,
    Machine,
    Node,
    Repeat,
)

__all__ = ["finds_all", "first_match_dfa", "is_unambiguous"]

# The cost of a node of the tree, of a thread of a state, and of a block of symbols, in steps.
_NODE_STEPS, _THREAD_STEPS, _BLOCK_STEPS = 6, 3, 5

# The node after the whole text.
_END = 0


def finds_all(tree: Node) -> bool:
    r"""Whether a search finds all texts of a tree, as far as its form shows it.

    It does if it tries longer texts before shorter ones, or if each character decides what comes next.

    Example:
        >>> from logitkit.patterns.parser import parse
        >>> finds_all(parse(r"[0-9]+(\.[0-9]+)?")), finds_all(parse("ab|a")), finds_all(parse("a|ab"))
        (True, True, False)
    """
    if isinstance(tree, Machine) or _tries_longer_first(tree) or _decided(tree) is not None:
        return True
    if not isinstance(tree, Alternate) or not all(map(finds_all, tree.options)):
        return False
    options = [(widths(option), _decided(option)) for option in tree.options]
    return all(
        least >= most or (first and second and not first[0] and not first[1] & second[1])
        for i, ((least, _), first) in enumerate(options)
        for (_, most), second in options[i + 1 :]
    )


def _tries_longer_first(tree: Node) -> bool:
    """Whether the number of copies in one greedy repetition alone decides how long a text is."""
    parts = tree.parts if isinstance(tree, Concat) else (tree,)
    varied = [part for part in parts if len({*widths(part)}) > 1]
    if not varied:
        return True
    match varied:
        case [Repeat(node, _, _, "greedy")]:
            return len({*widths(node)}) == 1
        case _:
            return False


# See `_decided`.
_Decided = tuple[bool, CharSet, CharSet]


def _decided(tree: Node) -> _Decided | None:
    """Return the characters that decide what comes next, or None if some do not decide it.

    Returns:
        Whether the tree has the empty text, the characters with which others begin, and those that may follow one of its texts
        in a longer one.
    """
    match tree:
        case Characters(charset):
            return False, charset, CharSet()
        case Empty():
            return True, CharSet(), CharSet()
        case Concat(parts):
            return _decided_sequence(parts)
        case Alternate(options):
            return _decided_choice(options)
        case Repeat(node, minimum, maximum, "greedy"):
            found = _decided(node)
            if found is None or found[0] or (maximum != 1 and found[1] & found[2]):
                return None
            return minimum == 0, found[1], found[2] if minimum == maximum else found[1] | found[2]
        case _:
            return None


def _decided_sequence(parts: tuple[Node, ...]) -> _Decided | None:
    nullable, first, after = True, CharSet(), CharSet()
    for part in parts:
        found = _decided(part)
        if found is None or found[1] & after or (nullable and found[1] & first):
            return None
        first = first | found[1] if nullable else first
        after = found[2] | (after | found[1] if found[0] else CharSet())
        nullable = nullable and found[0]
    return nullable, first, after


def _decided_choice(options: tuple[Node, ...]) -> _Decided | None:
    nullable, first, after = False, CharSet(), CharSet()
    for option in options:
        found = _decided(option)
        # The empty text comes last, or nothing after it is tried.
        if found is None or nullable or found[1] & first:
            return None
        nullable, first, after = found[0], first | found[1], after | found[2]
    return nullable, first, after


def first_match_dfa(tree: Node, limits: Limits) -> tuple[SymbolDfa | None, Alphabet]:
    """Compile the texts that a search finds to a minimal automaton, None if there are none, and its alphabet.

    Args:
        tree: A tree without anchors, lookarounds and atomic groups.
        limits: Bounds on the construction.

    Raises:
        PatternTooLarge: A limit is exceeded.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> from logitkit.patterns.parser import parse
        >>> dfa, _ = first_match_dfa(parse("a|ab"), DEFAULT_LIMITS)
        >>> dfa.accepting
        [False, True]
    """
    search = _Search(tree, limits)
    search.run()
    dfa = SymbolDfa(search.moves, [_END in state for state in search.states])
    return minimise(dfa, limits), search.alphabet


def is_unambiguous(tree: Node, limits: Limits) -> bool:
    """Whether there is one way at most to find any text, so that it does not matter what is tried first.

    Args:
        tree: A tree. Anchors and lookarounds are taken for met, and atomic groups for ordinary ones.
        limits: Bounds on the construction.

    Raises:
        PatternTooLarge: A limit is exceeded.

    Example:
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> from logitkit.patterns.parser import parse
        >>> is_unambiguous(parse(r"(?!if)[a-z]+"), DEFAULT_LIMITS), is_unambiguous(parse(r"a|ab"), DEFAULT_LIMITS)
        (True, False)
    """
    search = _Search(_without_conditions(tree), limits)
    search.run()
    return search.is_unambiguous


def _without_conditions(tree: Node) -> Node:
    match tree:
        case Look() | Anchor():
            return Empty()
        case Atomic(node):
            return _without_conditions(node)
        case _:
            return with_inside(tree, _without_conditions)


class _Search:
    """The states of a search.

    Args:
        tree: A tree without anchors, lookarounds and atomic groups.
        limits: Bounds on the construction.

    Attributes:
        alphabet: The alphabet.
        states: The threads of each state, the start first.
        moves: The symbols that lead to each other state.
        is_unambiguous: Whether each symbol had one thread, and no thread came after the end.
    """

    def __init__(self, tree: Node, limits: Limits) -> None:
        limits.check_states(count_positions(tree))
        self.limits = limits
        self.threads = _Threads(limits)
        first = self.threads.write(tree, _END)
        self.alphabet = Alphabet.of([charset for charset in self.threads.reads if charset is not None])
        self.states = [self.threads.state([first])]
        self.moves: list[dict[int, int]] = []
        self.is_unambiguous = True

    def run(self) -> None:
        """Follow all threads."""
        threads, states, limits = self.threads, self.states, self.limits
        masks = [0 if charset is None else self.alphabet.members[charset] for charset in threads.reads]
        number = {states[0]: 0}
        # The list grows under the loop.
        for state in states:
            reading = [node for node in state if node != _END]
            row: dict[int, int] = {}
            blocks = split(tuple([masks[node] for node in reading]))
            limits.spend(_BLOCK_STEPS * len(blocks) + _THREAD_STEPS * sum([len(members) for _, members in blocks]))
            for block, members in blocks:
                self.is_unambiguous &= len(members) == 1
                after = threads.state([threads.after[reading[member]][0] for member in members])
                target = number.setdefault(after, len(states))
                if target == len(states):
                    limits.check_states(target)
                    states.append(after)
                row[target] = row.get(target, 0) | block
            self.moves.append(row)
        self.is_unambiguous &= not threads.dropped


class _Threads:
    """The nodes of a tree as places of a search.

    Args:
        limits: Bounds on the work.

    Attributes:
        reads: The characters that each place reads; None if it reads nothing.
        after: Where it goes on, the first choice first.
        dropped: Whether a thread came after the end.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.reads: list[CharSet | None] = [None]
        self.after: list[list[int]] = [[]]
        self.dropped = False
        self._from_one: dict[int, tuple[int, ...]] = {}

    def add(self, reads: CharSet | None, after: Iterable[int]) -> int:
        """Add a place."""
        self.limits.spend(_NODE_STEPS)
        self.reads.append(reads)
        self.after.append([*after])
        return len(self.reads) - 1

    def write(self, tree: Node, end: int) -> int:
        """Write a tree before a place, and return where it begins."""
        match tree:
            case Empty():
                return end
            case Characters(charset):
                return self.add(charset, [end])
            case Concat(parts):
                for part in reversed(parts):
                    end = self.write(part, end)
                return end
            case Alternate(options):
                return self.add(None, [self.write(option, end) for option in options])
            case Repeat(node, minimum, maximum, kind):
                return self.repeat(node, minimum, maximum, kind == "lazy", end)
            case Machine(moves, accepting):
                states = [self.add(None, []) for _ in moves]
                for state, row, accepts in zip(states, moves, accepting, strict=True):
                    self.after[state] += [self.add(charset, [states[target]]) for charset, target in row]
                    self.after[state] += [end] * accepts
                return states[0]
            case _:
                raise AssertionError(f"{type(tree).__name__} has no threads")

    def repeat(self, node: Node, minimum: int, maximum: int | None, lazy: bool, end: int) -> int:
        """Write the copies of a repeated tree."""
        if maximum is None:
            loop = self.add(None, [])
            # A copy without a character ends the loop.
            again = self.write(node, self.add(None, [loop, end]))
            self.after[loop] += [end, again] if lazy else [again, end]
            begin = loop
        else:
            begin = end
            for _ in range(maximum - minimum):
                more = self.write(node, begin)
                begin = self.add(None, [end, more] if lazy else [more, end])
        for _ in range(minimum):
            begin = self.write(node, begin)
        return begin

    def state(self, places: list[int]) -> tuple[int, ...]:
        """Return the threads from some places on: those that read, in order, as far as the first one at the end."""
        if len(places) > 1:
            return self._silently(places)
        found = self._from_one.get(places[0])
        if found is None:
            found = self._from_one[places[0]] = self._silently(places)
        return found

    def _silently(self, places: list[int]) -> tuple[int, ...]:
        threads: list[int] = []
        seen = set[int]()
        # Depth first, in order.
        todo = places[::-1]
        while todo and _END not in seen:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            if at == _END or self.reads[at] is not None:
                threads.append(at)
            else:
                todo.extend(reversed(self.after[at]))
        self.dropped |= not seen.issuperset(todo)
        self.limits.spend(_THREAD_STEPS * len(seen))
        return tuple(threads)
