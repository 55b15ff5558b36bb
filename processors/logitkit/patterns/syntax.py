"""The syntax tree of a pattern: the output of the parser and the input of the compiler; and the flags of a pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from logitkit.patterns.charset import CharSet

# Plain integers, because the parser tests flags per character, and arithmetic on enum members takes a microsecond each.
ASCII = 1
IGNORECASE = 2
MULTILINE = 4
DOTALL = 8
VERBOSE = 16

LETTERS = {"a": ASCII, "i": IGNORECASE, "m": MULTILINE, "s": DOTALL, "x": VERBOSE, "u": 0}
"""The inline letter of each flag. Unicode is the absence of `ASCII`, so `u` sets nothing."""


@dataclass(frozen=True, slots=True)
class Empty:
    """The empty text."""


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set; an empty set matches nothing."""

    charset: CharSet


@dataclass(frozen=True, slots=True)
class Concat:
    """The parts in sequence (at least two)."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """One of the options (at least two), in the order of the pattern."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`minimum` to `maximum` copies (None = no maximum).

    `kind` is the order in which counts are tried. It matters only inside an atomic group, which keeps the first match. The
    parser represents possessive repetition as `Atomic(Repeat(Atomic(node)))`, which is equivalent.
    """

    node: Node
    minimum: int
    maximum: int | None
    kind: Literal["greedy", "lazy"] = "greedy"


@dataclass(frozen=True, slots=True)
class Atomic:
    """`(?>...)`: only the first match of the inside, in the order of a backtracking search, is used."""

    node: Node
    position: int


@dataclass(frozen=True, slots=True)
class Look:
    """A lookahead or lookbehind."""

    node: Node
    behind: bool
    negative: bool
    position: int


@dataclass(frozen=True, slots=True)
class Anchor:
    r"""A position in the text, of zero width.

    Kinds: `text_start` (`\A`, `^`), `text_end` (`\Z`), `final` (`$`: the end, or before a newline at the end), `line_start` and
        `line_end` (`^`, `$` under `(?m)`), `boundary` and `not_boundary` (`\b`, `\B`, with `word` as the set of word
        characters; as in Python before 3.14, neither matches in the empty text, although `\B` should).
    """

    kind: Literal["text_start", "text_end", "final", "line_start", "line_end", "boundary", "not_boundary"]
    position: int
    word: CharSet | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A text of one rule in the nested grammar that contains the tree; patterns never contain it."""

    rule: int


@dataclass(frozen=True, eq=False, slots=True)
class Machine:
    """The texts of a finite automaton over characters, as a node; patterns never contain it.

    Machines are compared by identity: they may have tens of thousands of transitions.

    Args:
        moves: For each state, sets of characters and the state that they lead to. State 0 is the start.
        accepting: Whether each state accepts.
    """

    moves: tuple[tuple[tuple[CharSet, int], ...], ...]
    accepting: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """The texts along the paths of a graph, as a node; patterns never contain it.

    Args:
        moves: For each state, nodes and the state that they lead to. State 0 is the start.
        accepting: Whether each state accepts.
    """

    moves: tuple[tuple[tuple[Node, int], ...], ...]
    accepting: tuple[bool, ...]


Node: TypeAlias = Empty | Characters | Concat | Alternate | Repeat | Atomic | Look | Anchor | Call | Machine | Graph
