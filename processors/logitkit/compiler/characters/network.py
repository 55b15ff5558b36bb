"""Languages with nesting: syntax trees that call each other inside brackets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from logitkit.patterns.syntax import Node

__all__ = ["Definition", "Network"]


@dataclass(frozen=True, slots=True)
class Definition:
    """The texts `opening` + a text of `body`.

    Args:
        opening: The bracket that a text of the definition begins with, and that begins nothing else where it is called.
        body: What follows it, up to and with the closing bracket that belongs to it. No text of the body goes on behind that.
    """

    opening: Literal["{", "["]
    body: Node


@dataclass(frozen=True, slots=True)
class Network:
    """A main tree and the definitions that it and they call, by `Call(index)`: recursion is what a finite automaton lacks.

    Args:
        main: The language of the whole text.
        definitions: What is called, by index.
    """

    main: Node
    definitions: tuple[Definition, ...] = ()
