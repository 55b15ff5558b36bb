"""Which texts begin a text of a grammar, by Earley's algorithm over bytes: slow, and plain enough to be believed.

An item is (production, place in it, where it began). After every byte the set of items is not empty exactly if the bytes read so
far begin a text of the grammar, because productions that derive no text at all are dropped before.

Characters up to U+007F and those of two bytes that begin with C3 are known. Ask about no other bytes.

Source: Earley, An Efficient Context-Free Parsing Algorithm (1970).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from logitkit.grammars.rule_set import RuleSet
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Alternate, Call, Characters, Concat, Empty, Node, Repeat

__all__ = ["PrefixRecogniser"]

LEAD = 0xC3

Symbol: TypeAlias = "int | frozenset[int]"  # a name, or a set of bytes
Item: TypeAlias = tuple[int, tuple[Symbol, ...], int, int]


@dataclass
class PrefixRecogniser:
    """Reads texts from their beginning.

    Args:
        grammar: The rules; names are numbered from 0 on, the rules first.
    """

    grammar: RuleSet
    productions: dict[int, list[tuple[Symbol, ...]]] = field(default_factory=dict)
    _columns: dict[bytes, set[Item]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in range(len(self.grammar.rules)):
            self.productions[number] = []
        for number, rule in enumerate(self.grammar.rules):
            self.productions[number].append(self._symbols(rule.body))
        self._drop_unproductive()

    def begins(self, text: bytes) -> bool:
        """Whether some text of the grammar begins with these bytes."""
        return bool(self._column(text))

    def accepts(self, text: bytes) -> bool:
        """Whether these bytes are a text of the grammar."""
        return any(
            name == self.grammar.start and dot == len(body) and origin == 0
            for name, body, dot, origin in self._column(text)
        )

    def _column(self, text: bytes) -> set[Item]:
        if text not in self._columns:
            if text:
                moved = {
                    (name, body, dot + 1, origin)
                    for name, body, dot, origin in self._column(text[:-1])
                    if dot < len(body) and isinstance(read := body[dot], frozenset) and text[-1] in read
                }
            else:
                moved = {(self.grammar.start, body, 0, 0) for body in self.productions[self.grammar.start]}
            self._columns[text] = self._closed(moved, text)
        return self._columns[text]

    def _closed(self, items: set[Item], text: bytes) -> set[Item]:
        # Repeated until nothing is new, so that names of the empty text need no special treatment.
        while True:
            new: set[Item] = set()
            for name, body, dot, origin in items:
                if dot == len(body):
                    column = items if origin == len(text) else self._columns[text[:origin]]
                    new |= {(n, b, d + 1, o) for n, b, d, o in column if d < len(b) and b[d] == name}
                elif isinstance(called := body[dot], int):
                    new |= {(called, option, 0, len(text)) for option in self.productions[called]}
            if new <= items:
                return items
            items = items | new

    def _named(self, *options: tuple[Symbol, ...]) -> int:
        name = len(self.productions)
        self.productions[name] = list(options)
        return name

    def _symbols(self, node: Node) -> tuple[Symbol, ...]:
        match node:
            case Empty():
                return ()
            case Characters(charset):
                return (self._named(*_in_bytes(charset)),)
            case Call(number):
                return (number,)
            case Concat(parts):
                return tuple(symbol for part in parts for symbol in self._symbols(part))
            case Alternate(options):
                return (self._named(*map(self._symbols, options)),)
            case Repeat(inner, minimum, None):
                once = self._symbols(inner)
                again = self._named(())
                self.productions[again].append((*once, again))
                return (*(once * minimum), again)
            case Repeat(inner, minimum, int(maximum)):
                once = self._symbols(inner)
                return (self._named(*(once * count for count in range(minimum, maximum + 1))),)
            case _:
                raise AssertionError(f"no grammar of these tests has a {type(node).__name__}")

    def _drop_unproductive(self) -> None:
        productive: set[int] = set()
        while True:
            found = {
                name for name, options in self.productions.items() if any(_derives(o, productive) for o in options)
            }
            if found == productive:
                break
            productive = found
        for name, options in self.productions.items():
            self.productions[name] = [option for option in options if _derives(option, productive)]


def _derives(body: tuple[Symbol, ...], productive: set[int]) -> bool:
    return all(symbol in productive if isinstance(symbol, int) else bool(symbol) for symbol in body)


def _in_bytes(charset: CharSet) -> list[tuple[Symbol, ...]]:
    contained = [code for code in (*range(0x80), *range(0xC0, 0x100)) if code in charset]
    ascii_only = frozenset(code for code in contained if code < 0x80)
    trails = frozenset(chr(code).encode()[1] for code in contained if code >= 0x80)
    return [(ascii_only,), (frozenset({LEAD}), trails)]
