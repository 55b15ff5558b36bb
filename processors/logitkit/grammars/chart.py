"""Which rules of a grammar read which part of a text: an Earley parser, for explanations and captures, not for generation.

An item says that a rule began at some place of the text, and which of its positions was read last. For each place of the text
there is a column of items. A position reads a character, calls a rule, or is a condition on the text that follows.

By hand, for `root ::= "(" root ")" | "x"` and the text `(x)`: column 0 has the root at its beginning, and waits for `(` or `x`.
Column 1 has the outer root after `(`, which calls another root that begins at 1. In column 2, this one has read `x` and ends, so
the outer one goes on and waits for `)`.

Source:
    Earley, An Efficient Context-Free Parsing Algorithm (1970).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from logitkit.grammars.rule_positions import BEGIN, RulePositions
from logitkit.patterns.syntax import Characters, Machine

__all__ = ["Chart", "Item", "TooManyItems", "ends_in"]

MOST_ITEMS = 300_000
"""A text is not followed any further after this many items have been looked at, which takes about a second."""

# A rule, the position that was read last in it (or `BEGIN`), and the index in the text at which the rule began.
Item: TypeAlias = tuple[int, int, int]


class TooManyItems(Exception):
    """A text can be read in too many ways."""


@dataclass(eq=False, slots=True)
class _Column:
    """A place of the text.

    Args:
        items: The items.
        callers: For each rule that may begin here, the items after a text of it.
        reads: The items after one more character. The character has not been compared yet.
        empty: The rules that have the empty text here.
    """

    items: dict[Item, None]
    callers: dict[int, dict[Item, None]] = field(default_factory=dict)
    reads: dict[Item, None] = field(default_factory=dict)
    empty: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Chart:
    """The rules that read each part of a text.

    Args:
        rules: The positions of each rule.
        start: The rule of the whole text.
        symbols: The text, as code points and `Symbol.special_token(i)`.
        most_items: The maximum number of items.

    Raises:
        TooManyItems: The text can be read in too many ways.

    Attributes:
        columns: A column for each place of the text up to the first one without items.
        ends: Where a rule that began at a place may end. The numbers say in which order this was found: all parts of a rule
            were found before it.
    """

    rules: Sequence[RulePositions]
    start: int
    symbols: Sequence[int]
    most_items: int = MOST_ITEMS
    columns: list[_Column] = field(default_factory=list)
    ends: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    work: int = 0
    _found: int = 0
    _known: dict[tuple[int, int], bool] = field(default_factory=dict)
    _whole_parts: dict[tuple[int, int, int], set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns.append(_Column({(self.start, BEGIN, 0): None}))
        self._close()
        rules = self.rules
        for symbol in self.symbols:
            read = [item for item in self.columns[-1].reads if symbol in rules[item[0]].charsets[item[1]]]
            self.columns.append(_Column(dict.fromkeys(read)))
            if not read:
                break
            self._close()

    def holds(self, condition: Characters | Machine, at: int) -> bool:
        """Whether no text of a condition stands at a place."""
        if isinstance(condition, Characters):
            return at == len(self.symbols) or self.symbols[at] not in condition.charset
        key = id(condition), at
        if key not in self._known:
            self._known[key] = next(iter(ends_in(condition, self.symbols, at)), None) is None
        return self._known[key]

    def is_inside(self, rule: int, other: int, begin: int, end: int) -> bool:
        """Whether a rule may be read inside of another one that has the same text."""
        seen = {other}
        todo = [other]
        while todo:
            found = self._alone(todo.pop(), begin, end) - seen
            seen |= found
            todo += found
        return rule in seen

    def _alone(self, rule: int, begin: int, end: int) -> set[int]:
        """Return the rules whose text may be the whole text of a rule."""
        key = rule, begin, end
        if key not in self._whole_parts:
            positions = self.rules[rule]
            first = self._after_empty(rule, {BEGIN}, begin)
            called = {
                p: other
                for position in first
                for p in positions.after(position)
                if (other := positions.called[p]) is not None and end in self.ends.get((other, begin), ())
            }
            ending = [p for p in called if any(map(positions.may_end, self._after_empty(rule, {p}, end)))]
            self._whole_parts[key] = {called[p] for p in ending}
        return self._whole_parts[key]

    def _after_empty(self, rule: int, given: set[int], at: int) -> set[int]:
        """Return some positions of a rule, and those after them if what they read is empty at a place."""
        positions, found = self.rules[rule], set(given)
        todo = list(given)
        while todo:
            for p in positions.after(todo.pop()):
                called = positions.called[p]
                is_empty = (
                    called is not None and at in self.ends.get((called, at), ())
                    if p not in positions.conditions
                    else self.holds(positions.conditions[p], at)
                )
                if is_empty and p not in found:
                    found.add(p)
                    todo.append(p)
        return found

    def _close(self) -> None:
        """Add what follows from the items of the last column: the rules that they call, and the callers of rules that ended."""
        now, column, rules = len(self.columns) - 1, self.columns[-1], self.rules
        todo = list(column.items)
        while todo:
            self.work += 1
            if self.work > self.most_items:
                raise TooManyItems
            rule, position, begin = todo.pop()
            positions, fresh = rules[rule], list[Item]()
            if positions.may_end(position):
                fresh += self._ended(rule, begin)
            for p in positions.after(position):
                item, called = (rule, p, begin), positions.called[p]
                if called is not None:
                    column.callers.setdefault(called, {})[item] = None
                    fresh.append((called, BEGIN, now))
                    if called in column.empty:
                        fresh.append(item)
                elif p not in positions.conditions:
                    column.reads[item] = None
                elif self.holds(positions.conditions[p], now):
                    fresh.append(item)
            todo.extend([item for item in dict.fromkeys(fresh) if item not in column.items])
            column.items.update(dict.fromkeys(fresh))

    def _ended(self, rule: int, begin: int) -> Iterable[Item]:
        """Note that a rule ended in the last column, and return the items of its callers."""
        now, ends = len(self.columns) - 1, self.ends.setdefault((rule, begin), {})
        if now in ends:
            return ()
        ends[now] = self._found
        self._found += 1
        if begin == now:
            self.columns[-1].empty.add(rule)
        callers = self.columns[begin].callers.get(rule, {})
        self.work += len(callers)
        return callers


def ends_in(machine: Machine, symbols: Sequence[int], at: int) -> Iterable[int]:
    """Yield where a text of a machine that begins at a place may end, the shortest first.

    Example:
        >>> from logitkit.patterns.charset import CharSet
        >>> a = CharSet.from_string("a")
        >>> list(ends_in(Machine((((a, 1),), ((a, 1),)), (False, True)), [*map(ord, "baa")], 1))
        [2, 3]
    """
    states = {0}
    while True:
        if any(machine.accepting[state] for state in states):
            yield at
        if at == len(symbols) or not states:
            return
        states = {target for state in states for charset, target in machine.moves[state] if symbols[at] in charset}
        at += 1
