r"""Which terminals may stand in the same place.

In `stat: "if" NAME "then" stat | NAME "=" NAME`, a statement begins with `"if"` or with `NAME`, so the two compete there. Only
`"then"` or `"="` may follow a `NAME`, so `"then"` and `NAME` do not compete after it.

A parser knows more than the last terminal: after `"("`, it depends on the rule which terminals may come. A *state* is the set
of places in the rules in which the parser may be after a symbol, as in an LR(0) parser. Two terminals compete if both may
follow some state. Where a rule ends in a state, everything may follow that may follow the rule anywhere, as in an SLR parser.
So every pair that Lark's parser expects in one place competes, and a few more.

By hand, for the rule above: at the start, `"if"` and `NAME` may come. After `"if"`, the state is the place after it, where `NAME`
follows. After the first `NAME` of the second option, the state is the place after that, where only `"="` follows.

If there are too many states, those after the same symbol count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from logitkit.compiler.characters.positions import EMPTY, Part, PositionBuilder
from logitkit.compiler.grammars.rules import deriving
from logitkit.grammars.lark.draft import Draft
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Call, Characters, Empty, Node

__all__ = ["Competition"]

# The costs of a place, and of a call, which works on long masks; and how long a mask of the size of a step is.
_PLACE_STEPS, _CALL_STEPS, _BITS_A_STEP = 3, 10, 400

# In more states with their places than these, a state is a symbol.
_MOST_PLACES = 40_000

# Places that may come next. Equal ones are one tuple, so that they are known by their identity.
_Places: TypeAlias = tuple[int, ...]


class Competition:
    """The terminals of a draft that the start reaches, and which of them compete.

    Args:
        draft: The definitions.
        start: The number of the rule of the whole text.
        same: Literals that are terminals with a name, with the numbers of these.
        may_be_empty: Whether a terminal has the empty text.
        limits: Bounds on the work.

    Attributes:
        terminals: The terminals, in the order in which they are reached.
        end: The number that stands for the end of the text.
        first: Those that may come first, as a mask.
        after: For each terminal, those that may follow it, and perhaps the end.
    """

    def __init__(
        self,
        draft: Draft,
        start: int,
        same: dict[int, int],
        may_be_empty: Callable[[int], bool],
        limits: Limits,
    ) -> None:
        self.limits = limits
        rules: list[int] = []
        terminals: dict[int, None] = {}
        bodies: list[Node] = [Characters(CharSet()) for _ in draft.definitions]
        order = {start: None}
        # The list grows under the loop.
        todo = [start]
        for number in todo:
            definition = draft.definitions[number]
            if definition.kind == "rule":
                assert definition.body is not None
                rules.append(number)
                bodies[number] = definition.body
                fresh = dict.fromkeys(n for n, _ in definition.references if n not in order)
                order.update(fresh)
                todo.extend(fresh)
            else:
                terminals[same.get(number, number)] = None
                if may_be_empty(number):
                    bodies[number] = Empty()
        self.terminals = list(terminals)
        empty = deriving(bodies, lambda leaf: isinstance(leaf, Empty), limits)
        self._places = _PlaceBuilder({n for n, is_empty in enumerate(empty) if is_empty}, same, limits)
        self._first: dict[int, _Places] = {}
        self._rule_of: list[int] = []
        self._ends: set[int] = set()
        for number in rules:
            part = self._places.part(bodies[number])
            self._first[number] = part.first
            self._rule_of += [number] * (len(self._places.called) - len(self._rule_of))
            self._ends.update(part.last)
        limits.spend(_PLACE_STEPS * len(self._rule_of))
        called = self._places.called
        self._first_of = self._terminals_of({n: {called[p] for p in first} for n, first in self._first.items()})
        self._masks: dict[int, int] = {}
        self.end = len(draft.definitions)
        self._follow = self._after_rules(rules, start)
        self.first = self._first_of[start]
        self.after = dict.fromkeys(self.terminals, 0)
        groups = {self.first: None}
        for symbol, places in self._states(start):
            if symbol in self.after:
                group = 0
                for place in places:
                    group |= self._may_follow(place)
                self.after[symbol] |= group
                groups[group] = None
        self._groups = list(groups)
        self._by_terminal = list(dict.fromkeys([self.first, *self.after.values()]))

    def rivals(self, number: int) -> int:
        """Return the terminals that compete with one, as a mask."""
        return self._beside(number, self._groups)

    def neighbours(self, number: int) -> int:
        """Return the terminals that may follow the same terminal as one anywhere, or that may begin the text too, as a mask."""
        return self._beside(number, self._by_terminal)

    def _beside(self, number: int, groups: list[int]) -> int:
        found = 0
        self.limits.spend(len(groups) * (1 + number // 256))
        for group in groups:
            if group >> number & 1:
                found |= group
        return found

    def _terminals_of(self, edges: dict[int, set[int]]) -> dict[int, int]:
        """Return the terminals that rules lead to, however many others are between, as masks; a terminal leads to itself."""
        # The masks are kept, and are as long as there are definitions.
        self.limits.spend(sum(self.terminals) // _BITS_A_STEP)
        return self._closed({number: 1 << number for number in self.terminals} | dict.fromkeys(edges, 0), edges)

    def _closed(self, found: dict[int, int], edges: dict[int, set[int]]) -> dict[int, int]:
        """Add to the mask of each rule those of what it leads to. The last ones are taken first."""
        users: dict[int, list[int]] = {}
        for rule, called in edges.items():
            for number in called:
                users.setdefault(number, []).append(rule)
        todo = dict.fromkeys(edges)
        while todo:
            rule, _ = todo.popitem()
            mask = found[rule]
            for number in edges[rule]:
                mask |= found[number]
            self.limits.spend(_CALL_STEPS * (1 + len(edges[rule])))
            if mask != found[rule]:
                found[rule] = mask
                todo.update(dict.fromkeys(users.get(rule, ())))
        return found

    def _after_rules(self, rules: Sequence[int], start: int) -> dict[int, int]:
        """Return the terminals that may follow each rule anywhere, and perhaps the end, as masks."""
        found = dict.fromkeys(rules, 0) | {start: 1 << self.end}
        # Most rules come after their callers.
        callers: dict[int, set[int]] = {rule: set() for rule in reversed(rules)}
        for place, called in enumerate(self._places.called):
            if called in found:
                found[called] |= self._next(place)
                if place in self._ends:
                    callers[called].add(self._rule_of[place])
        return self._closed(found, callers)

    def _next(self, place: int) -> int:
        """Return the terminals that may follow a place within its rule."""
        found = 0
        for chunk in self._places.follow[place]:
            if id(chunk) not in self._masks:
                mask = 0
                for following in chunk:
                    mask |= self._first_of[self._places.called[following]]
                self.limits.spend(len(chunk))
                self._masks[id(chunk)] = mask
            found |= self._masks[id(chunk)]
        return found

    def _may_follow(self, place: int) -> int:
        return self._next(place) | (self._follow[self._rule_of[place]] if place in self._ends else 0)

    def _states(self, start: int) -> list[tuple[int, _Places]]:
        """Return the symbols that lead to states, with their places."""
        called, follow = self._places.called, self._places.follow
        found: dict[_Places, None] = {}
        known: set[frozenset[int]] = set()
        todo: list[list[_Places]] = [[self._first[start]]]
        places = 0
        while todo:
            chunks = todo.pop()
            # Most states that go on alike have the same chunks.
            key = frozenset(map(id, chunks))
            if key in known:
                continue
            known.add(key)
            rows: dict[int, dict[int, None]] = {}
            rules: set[int] = set()
            for chunk in chunks:
                places += len(chunk)
                for place in chunk:
                    symbol = called[place]
                    rows.setdefault(symbol, {})[place] = None
                    if symbol in self._first and symbol not in rules:
                        rules.add(symbol)
                        chunks.append(self._first[symbol])
            if places > _MOST_PLACES:
                by_symbol: dict[int, list[int]] = {}
                for place, symbol in enumerate(called):
                    by_symbol.setdefault(symbol, []).append(place)
                found = dict.fromkeys(map(tuple, by_symbol.values()))
                break
            for row in rows.values():
                state = tuple(row) if len(row) == 1 else tuple(sorted(row))
                if state not in found:
                    found[state] = None
                    todo.append([*{id(chunk): chunk for place in state for chunk in follow[place]}.values()])
        self.limits.spend(_PLACE_STEPS * places)
        return [(called[state[0]], state) for state in found]


class _PlaceBuilder(PositionBuilder):
    """Numbers the calls of rules as places, each once.

    Args:
        nullable: The rules and terminals that have the empty text.
        same: Literals that are terminals with a name, with the numbers of these.
        limits: Bounds on the work.

    Attributes:
        called: The number of what stands in each place.
    """

    def __init__(self, nullable: set[int], same: dict[int, int], limits: Limits) -> None:
        super().__init__(limits)
        self.nullable, self.same = nullable, same
        self.called: list[int] = []

    def part(self, tree: Node) -> Part:
        """Number the places of a tree."""
        if isinstance(tree, Call):
            self.called.append(self.same.get(tree.rule, tree.rule))
            self.follow.append([])
            place = (len(self.called) - 1,)
            return Part(tree.rule in self.nullable, place, place)
        return super().part(tree)

    def join(self, last: _Places, first: _Places) -> None:
        """Let some places follow others."""
        self.limits.spend(len(last))
        for place in last:
            self.follow[place].append(first)

    def repeat(self, node: Node, minimum: int, maximum: int | None) -> Part:
        """Number the places of a repetition once, however many copies there are."""
        if maximum == 0:
            return EMPTY
        body = self.part(node)
        if maximum != 1:
            self.join(body.last, body.first)
        return Part(minimum == 0 or body.nullable, body.first, body.last)
