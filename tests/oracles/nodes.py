"""The parts of a language, as the oracle reads it: a tree, and what is left of it while a text is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Special:
    """A token that is read as one symbol, not by its bytes."""

    token: int


Symbol: TypeAlias = int | Special  # a byte, or a token
Symbols: TypeAlias = tuple[Symbol, ...]


# The nodes of a language. Those with parts are compared by identity, because none of them is made while a text is read.


@dataclass(frozen=True)
class Text:
    """A fixed text, or what is left of it."""

    symbols: Symbols


@dataclass(frozen=True)
class Chars:
    """One character in UTF-8, which is one of some, or none of them. Some of its bytes may have been written."""

    of: str
    negated: bool = False
    begun: bytes = b""


@dataclass(frozen=True, eq=False)
class OneToken:
    """One of some tokens, whatever its text is."""

    ids: frozenset[int]


@dataclass(frozen=True, eq=False)
class Seq:
    """Parts one after another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Alt:
    """One of some options."""

    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """An item several times; `most` may be None. The numbers are the count of a configuration: they fall with each item."""

    item: Node
    least: int
    most: int | None


@dataclass(frozen=True)
class Call:
    """The text of a rule."""

    rule: str


@dataclass(frozen=True, eq=False)
class Bracket:
    """A part that puts a frame on the stack. Only a limited number of frames fit on it."""

    inside: Node


@dataclass(frozen=True)
class Frame:
    """An open bracket in a configuration: its part has ended when the frame is the first node."""


@dataclass(frozen=True)
class Free:
    """Any text up to the first occurrence of a marker, or, without markers, of any length.

    Args:
        until: The markers that end it, each with the node that follows it.
        exclude: The markers that must not occur in it.
        utf8: Whether it consists of whole characters.
        tail: The end of the text so far with which a marker may begin.
        begun: The bytes of an unfinished character.
    """

    until: tuple[tuple[Symbols, Node], ...] = ()
    exclude: tuple[Symbols, ...] = ()
    utf8: bool = True
    tail: Symbols = ()
    begun: bytes = b""


@dataclass(frozen=True)
class Both:
    """A text that belongs to several languages at once: one configuration of each."""

    parts: tuple[Configuration, ...]


Node: TypeAlias = Text | Chars | OneToken | Seq | Alt | Repeat | Call | Bracket | Frame | Free | Both
# The nodes yet to be written, the next one first.
Configuration: TypeAlias = tuple[Node, ...]
