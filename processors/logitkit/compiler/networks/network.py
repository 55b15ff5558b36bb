"""Languages with nesting: syntax trees that call each other inside brackets."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Literal

from logitkit.compiler.bytes.leaf import Leaf
from logitkit.compiler.characters.positions import CALLS
from logitkit.patterns.syntax import Node

__all__ = ["WORDS", "Definition", "Network", "Strings"]

# Words come after all that stands for calls, and for their ends.
WORDS = CALLS + 2**21


@dataclass(frozen=True, slots=True)
class Definition:
    """The texts `opening` + a text of `body`.

    Args:
        opening: The bracket that a text of the definition begins with, and that begins nothing else where it is called.
        body: What follows it, up to and with the closing bracket that belongs to it. No text of the body goes on behind that.
        known_as: A name that it has in all networks in which it stands, so that it is worked out once; None: it has none.
        calls: The definitions that it calls, in an order that belongs to that name.
    """

    opening: Literal["{", "["]
    body: Node
    known_as: Hashable = None
    calls: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Strings:
    """Texts that begin with a quote and call nothing. Other texts may begin so beside them, if none of these is among them.

    Args:
        leaf: What follows the quote, and some texts besides.
        excluded: These texts, without the closing quote.
        tree: Returns what follows the quote as a tree, which is needed where one of several sets of strings may begin.
    """

    leaf: Leaf
    excluded: tuple[bytes, ...]
    tree: Callable[[], Node]

    @property
    def opening(self) -> Literal['"']:
        """What the texts begin with."""
        return '"'

    @property
    def body(self) -> Node:
        """What follows that."""
        return self.tree()


@dataclass(frozen=True, slots=True)
class Network:
    """A main tree and the definitions that it and they call, by `Call(index)`: recursion is what a finite automaton lacks.

    Args:
        main: The language of the whole text.
        definitions: What is called, by index.
        words: Texts of which none begins another one. The character `WORDS + i` stands for the whole of text `i`, so that long
            names are one step of what is worked out over characters.
    """

    main: Node
    definitions: tuple[Definition | Strings, ...] = ()
    words: tuple[bytes, ...] = ()
