"""Which rules of a grammar may go on after a text, found by an Earley parser that runs only for explanations."""

from __future__ import annotations

from collections.abc import Iterator

from logitkit.compiler.characters.positions import CALLS, EMPTY, Part, PositionBuilder
from logitkit.compiler.networks.symbols import LETTERS
from logitkit.explaining.findings import Source
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Call, Look, Node

__all__ = ["rule_sources"]

# A text is not followed any further after so many items have been looked at, which takes about a second.
_MOST_ITEMS = 300_000
_LIMITS = Limits(states=50_000, work=2_000_000)

# A rule, the position that was read last in it (or `_BEGIN`), and the index in the text at which the rule began.
_Item = tuple[int, int, int]
_BEGIN = -1


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
    try:
        places = _Parser(grammar).waiting(written, expected)
    except _TooManyItems:
        return ()
    latest = sorted(places, key=lambda rule: -places[rule])
    return tuple(dict.fromkeys(_source(grammar.rules[rule], text) for rule in latest))


def _source(rule: GrammarRule, text: str) -> Source:
    # A long rule is shown by its first line.
    shown = text[rule.begin : rule.end].strip().partition("\n")[0].rstrip()
    begin = text.index(shown, rule.begin)
    return Source("rule", shown, span=(begin, begin + len(shown)), definition=text)


class _TooManyItems(Exception):
    pass


class _RulePositions(PositionBuilder):
    """The positions of one rule, with calls as positions and without conditions on the next character."""

    def __init__(self, body: Node, nullable: set[int]) -> None:
        super().__init__(_LIMITS)
        self.nullable = nullable
        self.whole = self.part(body)
        self.last = set(self.whole.last)

    def part(self, tree: Node) -> Part:
        match tree:
            case Look():
                return EMPTY
            case Call(rule):
                return super().part(tree)._replace(nullable=rule in self.nullable)
        return super().part(tree)

    def after(self, position: int) -> Iterator[int]:
        """Yield the positions that may follow one."""
        if position == _BEGIN:
            yield from self.whole.first
        else:
            for chunk in self.follow[position]:
                yield from chunk

    def may_end(self, position: int) -> bool:
        """Whether the rule may end after a position."""
        return self.whole.nullable if position == _BEGIN else position in self.last


class _Parser:
    def __init__(self, grammar: RuleSet) -> None:
        self.start = grammar.start
        nullable: set[int] = set()
        while True:
            self.rules = [_RulePositions(rule.body, nullable) for rule in grammar.rules]
            found = {i for i, rule in enumerate(self.rules) if rule.whole.nullable}
            if found == nullable:
                break
            nullable = found
        self.items = 0

    def waiting(self, written: str, expected: CharSet) -> dict[int, int]:
        """Return the rules in which an expected character may come next, each with the index at which it began last."""
        sets: list[dict[_Item, None]] = [{(self.start, _BEGIN, 0): None}]
        for character in map(ord, written):
            self._close(sets)
            sets.append(dict(self._read(sets[-1], character)))
        self._close(sets)
        found: dict[int, int] = {}
        for rule, position, begin in sets[-1]:
            charsets = self.rules[rule].charsets
            if any(charsets[p] & expected for p in self.rules[rule].after(position)):
                found[rule] = max(found.get(rule, 0), begin)
        return found

    def _read(self, items: dict[_Item, None], character: int) -> Iterator[tuple[_Item, None]]:
        for rule, position, begin in items:
            for p in self.rules[rule].after(position):
                if character in self.rules[rule].charsets[p]:
                    yield (rule, p, begin), None

    def _close(self, sets: list[dict[_Item, None]]) -> None:
        """Add what follows from the items of the last set: the rules that they call, and the callers of rules that have ended."""
        here, now = sets[-1], len(sets) - 1
        todo = list(here)
        while todo:
            self.items += 1
            if self.items > _MOST_ITEMS:
                raise _TooManyItems
            rule, position, begin = todo.pop()
            fresh = [
                (called, _BEGIN, now)
                for p in self.rules[rule].after(position)
                if (called := _called(self.rules[rule].charsets[p])) is not None
            ]
            if position != _BEGIN and self.rules[rule].may_end(position):
                self.items += len(sets[begin])
                fresh += [(r, p, b) for r, p, b in self._callers(sets[begin], rule)]
            todo.extend(item for item in fresh if item not in here)
            here.update(dict.fromkeys(fresh))

    def _callers(self, items: dict[_Item, None], ended: int) -> list[_Item]:
        return [
            (rule, p, begin)
            for rule, position, begin in items
            for p in self.rules[rule].after(position)
            if _called(self.rules[rule].charsets[p]) == ended
        ]


def _called(charset: CharSet) -> int | None:
    """Return the rule that a position calls, or None if it reads a character or a special token."""
    first = charset.ranges[0][0] if charset else 0
    return first - CALLS if CALLS <= first < LETTERS else None
