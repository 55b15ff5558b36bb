"""Which rules of a grammar may go on after a text: an Earley parser that runs only for explanations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

from logitkit.compiler.characters.positions import EMPTY, Part, PositionBuilder
from logitkit.compiler.characters.symbols import Symbol
from logitkit.errors import LogitkitError
from logitkit.explaining.findings import Source
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.spans import PlacedCharacters
from logitkit.patterns.syntax import Alternate, Anchor, Atomic, Call, Characters, Look

__all__ = ["RuleParser", "TooManyItems", "rule_sources"]

# A text is not followed any further after this many items have been looked at, which takes about a second.
_MOST_ITEMS = 300_000
# With more work, a counted part is taken for one that repeats without limit.
_LIMITS = Limits(work=200_000)

# A rule, the position that was read last in it (or `_BEGIN`), and the index in the text at which the rule began.
_Item = tuple[int, int, int]
_BEGIN = -1


class TooManyItems(Exception):
    """A text can be read in too many ways."""


class RulePositions(PositionBuilder):
    """The positions of one rule: characters, with their spans if these are known, and calls.

    Args:
        body: The tree of the rule.
        nullable: The rules that have the empty text.
        limits: Bounds on the cost.
        uncounted: Whether counted parts repeat without limit.
    """

    def __init__(self, body: Any, nullable: AbstractSet[int], limits: Limits, uncounted: bool = False) -> None:
        super().__init__(limits)
        self.nullable, self.uncounted = nullable, uncounted
        self.spans: dict[int, tuple[int, int]] = {}
        self.whole = self.part(body)
        self.last = set(self.whole.last)
        self.called = list(map(_called, self.charsets))

    @classmethod
    def of(cls, body: Any, nullable: AbstractSet[int]) -> RulePositions:
        """Return the positions of a rule, without its counts if these take too much work."""
        try:
            return cls(body, nullable, _LIMITS)
        except LogitkitError:
            return cls(body, nullable, Limits(), uncounted=True)

    def part(self, tree: Any) -> Part:
        """Number the positions of a tree."""
        match tree:
            case PlacedCharacters(charset, span):
                self.spans[len(self.charsets)] = span
                return super().part(Characters(charset))
            case Look() | Anchor():
                return EMPTY
            case Atomic(node):
                return self.part(node)
            case Alternate(options):
                # Not factored, since parts with different spans are not equal.
                return self.alternate(list(options))
            case Call(rule):
                return super().part(tree)._replace(nullable=rule in self.nullable)
        return super().part(tree)

    def repeat(self, node: Any, minimum: int, maximum: int | None) -> Part:
        """Number the positions of a repetition."""
        if self.uncounted and (minimum > 1 or (maximum or 0) > 1):
            minimum, maximum = min(minimum, 1), None
        return super().repeat(node, minimum, maximum)

    def after(self, position: int) -> Iterable[int]:
        """Return the positions that may follow one."""
        return self.whole.first if position == _BEGIN else chain.from_iterable(self.follow[position])

    def may_end(self, position: int) -> bool:
        """Whether the rule may end after a position."""
        return self.whole.nullable if position == _BEGIN else position in self.last


class RuleParser:
    """Follows texts through rules.

    Args:
        bodies: The trees of the rules.
        start: The rule of the whole text.
    """

    def __init__(self, bodies: Sequence[Any], start: int) -> None:
        self.start, self.items = start, 0
        nullable: set[int] = set()
        while True:
            self.rules = [RulePositions.of(body, nullable) for body in bodies]
            found = {i for i, rule in enumerate(self.rules) if rule.whole.nullable}
            if found == nullable:
                break
            nullable = found
        self.has_calls = any(called is not None for rule in self.rules for called in rule.called)

    def waiting(self, written: str) -> list[_Item]:
        """Return what may come next after a text: a rule, a position in it, and the index at which it began.

        Raises:
            TooManyItems: The text can be read in too many ways.
        """
        sets = [{(self.start, _BEGIN, 0): None}]
        for character in map(ord, written):
            self._close(sets)
            read = (
                (rule, p, begin) for rule, p, begin in self._next(sets[-1]) if character in self.rules[rule].charsets[p]
            )
            sets.append(dict.fromkeys(read))
        self._close(sets)
        return self._next(sets[-1])

    def _next(self, items: Iterable[_Item]) -> list[_Item]:
        """Return the items after one more character or call."""
        return [(rule, p, begin) for rule, position, begin in items for p in self.rules[rule].after(position)]

    def _close(self, sets: list[dict[_Item, None]]) -> None:
        """Add what follows from the items of the last set: the rules that they call, and the callers of rules that have ended."""
        here, now = sets[-1], len(sets) - 1
        todo = list(here) if self.has_calls else []
        while todo:
            self.items += 1
            if self.items > _MOST_ITEMS:
                raise TooManyItems
            rule, position, begin = item = todo.pop()
            calls = (self.rules[rule].called[p] for _, p, _ in self._next([item]))
            fresh = [(called, _BEGIN, now) for called in calls if called is not None]
            if position != _BEGIN and self.rules[rule].may_end(position):
                self.items += len(sets[begin])
                fresh += [(r, p, b) for r, p, b in self._next(sets[begin]) if self.rules[r].called[p] == rule]
            todo.extend(item for item in fresh if item not in here)
            here.update(dict.fromkeys(fresh))


def _called(charset: CharSet) -> int | None:
    """Return the rule that a position calls, or None if it reads a character or a special token."""
    first = charset.ranges[0][0] if charset else 0
    return Symbol.number(first) if Symbol.is_call(first) else None


def rule_sources(grammar: RuleSet, text: str, written: str, expected: CharSet) -> tuple[Source, ...]:
    """Return the rules of a grammar of which a character may come next, those that began last first.

    Conditions on the character after a terminal are left out of account, but `expected` takes account of them.

    Args:
        grammar: The grammar.
        text: Its text.
        written: The beginning of a text that belongs to it.
        expected: The characters that may come next; empty where only the end may.

    Example:
        >>> from logitkit.grammars.gbnf import read_gbnf
        >>> text = 'root ::= "(" digit ")"' + chr(10) + "digit ::= [0-9]"
        >>> rule_sources(read_gbnf(text), text, "(", CharSet.from_string("0123456789"))[0].text
        'digit ::= [0-9]'
    """
    parser = RuleParser([rule.body for rule in grammar.rules], grammar.start)
    begun: dict[int, int] = {}
    try:
        for rule, position, begin in parser.waiting(written):
            if parser.rules[rule].charsets[position] & expected:
                begun[rule] = max(begun.get(rule, 0), begin)
    except TooManyItems:
        return ()
    latest = sorted(begun, key=lambda rule: -begun[rule])
    return tuple(dict.fromkeys(_source(grammar.rules[rule], text) for rule in latest))


def _source(rule: GrammarRule, text: str) -> Source:
    # A long rule is shown by its first line.
    shown = text[rule.begin : rule.end].strip().partition("\n")[0].rstrip()
    begin = text.index(shown, rule.begin)
    return Source("rule", shown, span=(begin, begin + len(shown)), definition=text)
