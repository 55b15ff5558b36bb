"""The parts of a network as deterministic automata over characters, in which calls are told apart by their bracket alone.

Where one bracket may begin calls of several definitions, what is called is all of them at once, each marked at its end: which of
them the text belongs to is known there, and with it which states of the caller are possible.

Source: Alur and Madhusudan, Visibly pushdown languages (2004), for why that is always possible.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from logitkit.budget import spent, took
from logitkit.compiler.bytes.texts_beside import CountsOverlap
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import CALLS, positions_of
from logitkit.compiler.characters.subset import SymbolDfa, determinise
from logitkit.compiler.characters.symbol_blocks import shared_symbols, split
from logitkit.compiler.networks.endless_calls import endless_calls
from logitkit.compiler.networks.known_parts import KnownParts
from logitkit.compiler.networks.network import CountedText, Definition, Network, PlacedDefinition, Strings
from logitkit.compiler.networks.part import Bracket, Called, Part
from logitkit.compiler.networks.symbols import LETTERS, MARKS, WORDS
from logitkit.errors import PatternTooLarge
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Node, Repeat

# What a set of states costs, in steps: by itself, and for each state in it.
SET_STEPS, MEMBER_STEPS = 40, 2

# A bracket may lead a caller to so many different places; the states for all their combinations are made.
MOST_MARKS = 4

_known_parts = KnownParts()


def parts_of(network: Network, limits: Limits) -> dict[Called, Part]:
    """Return the main part, as `()`, and all that it and they call; strings only where several sets of them may begin.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    return _Finder(network, limits).all()


class _Finder:
    """Finds the parts of a network, one after another."""

    def __init__(self, network: Network, limits: Limits) -> None:
        self.network, self.limits = network, limits
        self.endless = endless_calls(network)
        self.parts: dict[Called, Part] = {}
        self.known: dict[Called, Part] = {}

    def all(self) -> dict[Called, Part]:
        """Return the main part and all that it calls."""
        todo: list[Called] = [()]
        states = 0
        while todo:
            called = todo.pop()
            if called in self.parts or is_leaf(called, self.network):
                continue
            part = self.parts[called] = self._part(called)
            states += len(part.ends)
            self.limits.check_states(states)
            todo.extend(bracket.called for row in part.brackets for bracket in row.values())
        return self.parts

    def marks_of(self, called: Called) -> set[int]:
        """Return the sets of marks that are met at the ends of what does not recur: strings and blocks of items."""
        return {1} if is_leaf(called, self.network) else {marks for marks in self._part(called).ends if marks}

    def _part(self, called: Called) -> Part:
        if called not in self.known:
            self.known[called] = self._worked_out(called)
        return self.known[called]

    def _worked_out(self, called: Called) -> Part:
        definition = self.network.definitions[called[0][0]] if len(called) == 1 else None
        if (
            isinstance(definition, Definition | PlacedDefinition)
            and definition.known_as is not None
            and not called[0][1]
        ):
            return _known_parts.part(definition, partial(self._made, called), self.limits)
        return self._made(called)

    def _made(self, called: Called) -> Part:
        return _part(_tree(called, self.network), self.network, self.endless, self.limits, self.marks_of)


def is_leaf(called: Called, network: Network) -> bool:
    """Whether what is called is one set of strings or other texts, whose automaton is known."""
    return len(called) == 1 and isinstance(network.definitions[called[0][0]], Strings | CountedText)


def has_calls(tree: Node) -> bool:
    """Whether a tree calls anything; what stands in it many times is looked at once."""
    return _has_calls(tree, set())


def _has_calls(tree: Node, seen: set[int]) -> bool:
    if id(tree) in seen:
        return False
    seen.add(id(tree))
    match tree:
        case Call():
            return True
        case Concat(inside) | Alternate(inside):
            return any(_has_calls(node, seen) for node in inside if type(node) is not Characters)
        case Repeat(node):
            return _has_calls(node, seen)
        case _:
            return hasattr(tree, "moves") and any(
                _has_calls(label, seen) for row in tree.moves for label, _ in row if not isinstance(label, CharSet)
            )


def _tree(called: Called, network: Network) -> Node:
    if not called:
        return network.main
    marked: list[Node] = []
    for d, mark in called:
        definition = network.definitions[d]
        # Such a text is never a part: its automaton is known.
        assert not isinstance(definition, CountedText)
        marked.append(Concat((definition.body, Characters(CharSet.single(MARKS + mark)))))
    return Alternate(tuple(marked)) if len(marked) > 1 else marked[0]


def _part(
    tree: Node,
    network: Network,
    endless: frozenset[int],
    limits: Limits,
    marks_of: Callable[[Called], set[int]],
) -> Part:
    positions = positions_of(tree, limits)
    special: dict[CharSet, int] = {}
    for charset in positions.charsets:
        if charset.ranges and charset.ranges[0][0] >= CALLS:
            special.setdefault(charset, len(special))
    alphabet = Alphabet.of(c for c in positions.charsets if c not in special)
    mask_of = {**alphabet.members, **{c: 1 << (alphabet.size + i) for c, i in special.items()}}
    mask_of |= {c: 0 for c in special if c.ranges[0][0] - CALLS in endless}
    dfa = minimise(determinise(positions, [mask_of[c] for c in positions.charsets], limits), limits)
    if dfa is None:
        return Part(None, alphabet)
    return _Resolver(dfa, alphabet, [c.ranges[0][0] for c in special], network, limits, marks_of).part()


class _Resolver:
    """Follows sets of states: single ones, but behind brackets of which several calls are possible."""

    def __init__(
        self,
        dfa: SymbolDfa,
        alphabet: Alphabet,
        special: list[int],
        network: Network,
        limits: Limits,
        marks_of: Callable[[Called], set[int]],
    ) -> None:
        self.marks_of = marks_of
        self.dfa, self.alphabet, self.special, self.network, self.limits = dfa, alphabet, special, network, limits
        self.number: dict[frozenset[int], int] = {frozenset([0]): 0}
        self.work, self.left = 0, limits.work - spent()
        self.sets = [frozenset([0])]
        self.single = {0: 0}

    def state(self, members: frozenset[int] | set[int]) -> int:
        if len(members) == 1:
            (member,) = members
            found = self.single.get(member)
            if found is None:
                found = self.single[member] = self.several(frozenset(members))
            return found
        return self.several(frozenset(members))

    def several(self, members: frozenset[int]) -> int:
        found = self.number.setdefault(members, len(self.sets))
        if found == len(self.sets):
            self.limits.check_states(found)
            self.charge(SET_STEPS + MEMBER_STEPS * len(members))
            self.sets.append(members)
        return found

    def charge(self, steps: int) -> None:
        self.work += steps
        # What is called meanwhile counts its own work.
        if self.work > self.left:
            self.limits.check_work(self.work)

    def part(self) -> Part:
        moves: list[dict[int, int]] = []
        brackets: list[dict[str, Bracket]] = []
        words: list[dict[int, int]] = []
        letters: list[dict[int, int]] = []
        ends: list[int] = []
        try:
            for members in self.sets:
                text, calls, read, tokens, marks = self.row(members)
                moves.append(self.merged(text, members))
                brackets.append(self.brackets(calls) if calls else {})
                words.append({word: self.state(targets) for word, targets in read.items()} if read else {})
                letters.append({letter: self.state(targets) for letter, targets in tokens.items()} if tokens else {})
                ends.append(marks)
        finally:
            took(self.work)
        accepting = [any(self.dfa.accepting[s] for s in members) for members in self.sets]
        return Part(SymbolDfa(moves, accepting), self.alphabet, brackets, words, letters, ends)

    def row(
        self, members: frozenset[int]
    ) -> tuple[list[tuple[int, int]], dict[int, set[int]], dict[int, set[int]], dict[int, set[int]], int]:
        """Return the moves of some states by characters, calls, words and special tokens, and the marks of what ends there."""
        size = self.alphabet.size
        characters = (1 << size) - 1
        text: list[tuple[int, int]] = []
        calls: dict[int, set[int]] = {}
        words: dict[int, set[int]] = {}
        letters: dict[int, set[int]] = {}
        marks = 0
        for member in sorted(members):
            for target, mask in self.dfa.moves[member].items():
                if mask <= characters:
                    text.append((target, mask))
                    continue
                above = mask >> size
                if mask & characters:
                    text.append((target, mask & characters))
                while above:
                    symbol = self.special[(above & -above).bit_length() - 1]
                    above &= above - 1
                    if symbol >= LETTERS:
                        letters.setdefault(symbol - LETTERS, set()).add(target)
                    elif symbol >= WORDS:
                        words.setdefault(symbol - WORDS, set()).add(target)
                    elif symbol >= MARKS:
                        marks |= 1 << (symbol - MARKS)
                    else:
                        calls.setdefault(symbol - CALLS, set()).add(target)
        return text, calls, words, letters, marks

    def merged(self, text: list[tuple[int, int]], members: frozenset[int]) -> dict[int, int]:
        row: dict[int, int] = {}
        if len(members) == 1:
            # One state leads to one other with each character.
            self.charge(len(text))
            for target, mask in text:
                found = self.single.get(target)
                row[self.state({target}) if found is None else found] = mask
            return row
        masks = tuple(mask for _, mask in text)
        self.charge(len(masks) * (1 + shared_symbols(masks).bit_count() // 2))
        for block, which in split(masks):
            target = self.state(frozenset(text[i][0] for i in which))
            row[target] = row.get(target, 0) | block
        return row

    def brackets(self, calls: dict[int, set[int]]) -> dict[str, Bracket]:
        found: dict[str, Bracket] = {}
        by_opening: dict[str, list[int]] = {}
        for d in sorted(calls):
            by_opening.setdefault(self.network.definitions[d].opening, []).append(d)
        for opening, possible in sorted(by_opening.items()):
            places: dict[frozenset[int], int] = {}
            called = tuple([(d, places.setdefault(frozenset(calls[d]), len(places))) for d in possible])
            if len(places) > MOST_MARKS and opening in "[{":
                raise PatternTooLarge(
                    f"in one place a {opening!r} may begin calls that go on in {len(places)} different ways, of which "
                    f"{MOST_MARKS} can be distinguished only when they end"
                )
            if len(possible) > 1 and any(isinstance(self.network.definitions[d], CountedText) for d in possible):
                raise CountsOverlap("texts whose characters are counted begin in the same place")
            # What nests is not known yet; but some sets of strings have no text in common.
            met = range(1, 1 << len(places)) if opening in "[{" else sorted(self.marks_of(called))
            behind = [
                (marks, self.state({s for place, mark in places.items() if marks >> mark & 1 for s in place}))
                for marks in met
            ]
            found[opening] = Bracket(called, tuple(behind))
        return found
