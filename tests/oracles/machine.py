"""The semantics of compiled constraints, as `docs/machine.md` defines it: plain, slow, and without any table.

A language is a tree of `nodes`. A configuration is what is yet to be written, the next node first: the first node is the state,
with its count, and the brackets among the others are the frames of the stack. A row is a set of configurations, because a text
may be read in several ways. A byte takes each configuration to those that it leads to; a token is its bytes in turn, or a symbol
of its own. A configuration that no tokens complete is dropped, and a row without configurations is dead.

This module shares nothing with the compiler and the runtime, so it can judge both.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import heappop, heappush
from itertools import product
from math import inf
from typing import TypeAlias

from tests.oracles.nodes import (
    Alt,
    Both,
    Bracket,
    Call,
    Chars,
    Configuration,
    Frame,
    Free,
    Node,
    OneToken,
    Repeat,
    Seq,
    Special,
    Symbol,
    Text,
)

Row: TypeAlias = frozenset[Configuration]


class TooMany(Exception):
    """A configuration leads to more others than are searched."""


@dataclass(eq=False)
class Machine:
    """Runs a language over the tokens of a vocabulary.

    Args:
        language: The language.
        tokens: The bytes of each token that is looked at; None for those without text.
        eos_ids: The tokens that end a complete text.
        rules: The rules that the language calls, by name.
        named: Tokens with text that are read as one symbol.
        max_depth: The most frames on a stack.
        most: How many configurations are searched for a complete text.
    """

    language: Node
    tokens: Mapping[int, bytes | None]
    eos_ids: Sequence[int]
    rules: Mapping[str, Node] = field(default_factory=dict)
    named: frozenset[int] = frozenset()
    max_depth: float = inf
    most: int = 500

    def __post_init__(self) -> None:
        self.ends = frozenset(self.eos_ids)
        self.known_live: dict[Configuration, bool] = {(): True}
        for method in ("read", "read_token", "completes"):
            setattr(self, method, cache(getattr(self, method)))
        self.least_of_rule = dict.fromkeys(self.rules, inf)
        for _ in self.rules:
            self.least_of_rule = {name: self.least(node) for name, node in self.rules.items()}

    def start(self) -> Row:
        """Return the row of the empty text."""
        return self.alive(self.opened((self.language,)))

    def after(self, row: Row, token: int) -> Row:
        """Return the row after one more token, which is not EOS; it is dead if it has no configurations."""
        return self.alive({after for one in row for after in self.read_token(one, token)})

    def legal(self, row: Row, left: int | None = None) -> set[int]:
        """Return the tokens that may follow.

        Args:
            row: The configurations; a dead row allows EOS only.
            left: How many tokens may still be written, with those after them, until the text is complete; None: any number.
        """
        if not row:
            return {*self.ends}
        found = {token for token in self.tokens if self.is_legal(row, token, left)}
        return found | (self.ends if self.is_complete(row) else set())

    def is_legal(self, row: Row, token: int, left: int | None) -> bool:
        """Whether a token may follow; see `legal`."""
        following = {after for one in row for after in self.read_token(one, token)}
        return self.possible(following, None if left is None else left - 1)

    def possible(self, found: Iterable[Configuration], left: int | None) -> bool:
        """Whether some further tokens complete one of some configurations: at most `left`, or any number."""
        return any(self.is_live(one) if left is None else self.completes(one, left) for one in found)

    def is_complete(self, row: Iterable[Configuration]) -> bool:
        """Whether the text may end."""
        return () in row

    def completes(self, one: Configuration, tokens: int) -> bool:
        """Whether some tokens, no more than given, complete a configuration."""
        return tokens >= 0 and (not one or any(self.completes(after, tokens - 1) for after in self.moves(one)))

    def alive(self, found: Iterable[Configuration]) -> Row:
        """Return the configurations that some tokens complete."""
        return frozenset(one for one in found if self.is_live(one))

    def is_live(self, begin: Configuration) -> bool:
        """Whether some tokens complete a configuration. Those with the shortest rest are searched first."""
        if begin in self.known_live:
            return self.known_live[begin]
        came_from: dict[Configuration, Configuration | None] = {begin: None}
        todo = [(self.least_of(begin), 0, begin)]
        while todo:
            one = heappop(todo)[-1]
            for after in self.moves(one):
                if after in came_from:
                    continue
                came_from[after] = one
                if self.known_live.get(after):
                    way: Configuration | None = after
                    while way is not None:
                        self.known_live[way], way = True, came_from[way]
                    return True
                heappush(todo, (self.least_of(after), len(came_from), after))
            if len(came_from) > self.most:
                raise TooMany
        self.known_live.update(dict.fromkeys(came_from, False))
        return False

    def moves(self, one: Configuration) -> Iterator[Configuration]:
        """Return the configurations after one more token, but for those that no text of any length completes."""
        for token in self.tokens:
            yield from (after for after in self.read_token(one, token) if self.least_of(after) < inf)

    def read_token(self, one: Configuration, token: int) -> set[Configuration]:
        """Return the configurations after a token: it is read as a whole, as a symbol, or byte by byte."""
        text, whole = self.tokens[token], set[Configuration]()
        if token in self.ends:
            return whole
        if one and isinstance(one[0], OneToken) and token in one[0].ids:
            whole = self.opened(one[1:])
        if text is None or token in self.named:
            return whole | self.read(one, Special(token))
        found = {one}
        for byte in text:
            found = {after for before in found for after in self.read(before, byte)}
        return whole | found

    def read(self, one: Configuration, symbol: Symbol) -> set[Configuration]:
        """Return the configurations after a byte, or a token as a symbol."""
        return {opened for after in self.step(one, symbol) for opened in self.opened(after)}

    def step(self, one: Configuration, symbol: Symbol) -> Iterator[Configuration]:
        """Return what is yet to be written after a symbol."""
        first, rest = (one[0], one[1:]) if one else (None, ())
        match first:
            case Text(symbols) if symbols[0] == symbol:
                yield (Text(symbols[1:]), *rest)
            case Chars(of, negated, begun) if isinstance(symbol, int):
                character = decoded(begun + bytes([symbol]))
                if character:
                    yield from [rest] if (character in of) != negated else []
                elif character == "" and (negated or any(c.encode().startswith(begun + bytes([symbol])) for c in of)):
                    yield (Chars(of, negated, begun + bytes([symbol])), *rest)
            case Free(until):
                after = self.searched(first, symbol)
                if after is not None:
                    follows = [then for marker, then in until if after.tail[-len(marker) :] == marker]
                    yield from ((then, *rest) for then in follows or [after])
            case Both(parts):
                for after_each in product(*(self.read(part, symbol) for part in parts)):
                    yield (Both(after_each), *rest)

    def searched(self, free: Free, symbol: Symbol) -> Free | None:
        """Return free text after one more symbol; None where it must not occur."""
        markers, begun = (*(marker for marker, _ in free.until), *free.exclude), b""
        if isinstance(symbol, int):
            character = decoded(free.begun + bytes([symbol])) if free.utf8 else "any"
            if character is None:
                return None
            begun = b"" if character else free.begun + bytes([symbol])
        elif free.begun:
            return None
        elif not any(symbol in marker for marker in markers):
            return free  # a token that no marker has does not count
        tail = (*free.tail, symbol)
        while tail and not any(marker[: len(tail)] == tail for marker in markers):
            tail = tail[1:]
        if any(tail[-len(marker) :] == marker for marker in free.exclude):
            return None
        return replace(free, tail=tail, begun=begun)

    def opened(self, begin: Configuration) -> set[Configuration]:
        """Return the configurations that begin with something to read, or are complete, in place of any other one."""
        found, met, todo = set[Configuration](), {begin}, [begin]
        while todo:
            one = todo.pop()
            if not one or self.reads(one[0]):
                found.add(one)
            fresh = set(self.expanded(one[0], one[1:])) - met if one else set()
            met |= fresh
            todo.extend(fresh)
        return found

    def reads(self, node: Node) -> bool:
        """Whether a node reads a symbol as it is."""
        match node:
            case Text(symbols):
                return bool(symbols)
            case Both(parts):
                return all(part and self.reads(part[0]) for part in parts)
        return isinstance(node, Chars | OneToken | Free)

    def expanded(self, node: Node, rest: Configuration) -> Iterator[Configuration]:
        """Return the ways to go on without a symbol."""
        match node:
            case Text(()) | Frame() | Free((), begun=b""):
                yield rest
            case Seq(parts):
                yield (*parts, *rest)
            case Alt(options):
                yield from ((option, *rest) for option in options)
            case Repeat(item, least, most):
                if not least:
                    yield rest
                if most != 0:
                    yield (item, Repeat(item, max(least - 1, 0), None if most is None else most - 1), *rest)
            case Call(rule):
                yield (self.rules[rule], *rest)
            case Bracket(inside) if sum(isinstance(other, Frame) for other in rest) < self.max_depth:
                yield (inside, Frame(), *rest)
            case Both(parts) if not any(parts):
                yield rest
            case Both(parts):
                yield from ((Both(each), *rest) for each in product(*map(self.opened, parts)) if each != parts)

    def least(self, node: Node) -> float:
        """Return the fewest symbols that a node may take, or fewer."""
        match node:
            case Text(symbols):
                return len(symbols)
            case Seq(parts):
                return sum(map(self.least, parts))
            case Alt(options):
                return min(map(self.least, options), default=inf)
            case Repeat(item, least):
                return least * self.least(item) if least else 0
            case Call(rule):
                return self.least_of_rule[rule]
            case Bracket(inside):
                return self.least(inside)
            case Both(parts):
                return max(map(self.least_of, parts))
        return 0 if isinstance(node, Frame) or (isinstance(node, Free) and not node.until) else 1

    def least_of(self, one: Configuration) -> float:
        """Return the fewest symbols that complete a configuration, or fewer."""
        return sum(map(self.least, one))


def decoded(text: bytes) -> str | None:
    """Return the character that bytes are, the empty text if they only begin one, or None if they are not UTF-8."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return None
