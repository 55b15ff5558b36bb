r"""The syntax tree of a pattern: what the parser makes and the automaton builder reads.

Characters are sets of code points with case-insensitivity and the Unicode or ASCII meaning of classes already
applied, so that nothing below the parser knows about flags. Groups leave no trace; only what changes the
language is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from logitkit.patterns.charset import CharSet


@dataclass(frozen=True, slots=True)
class Empty:
    """The empty text."""


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set; an empty set matches nothing."""

    charset: CharSet


@dataclass(frozen=True, slots=True)
class Concat:
    """The parts, one after another (at least two)."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """One of the options (at least two), in the order of the pattern."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`minimum` to `maximum` copies (None = without bound).

    `kind` tells which count is tried first and matters only inside an atomic group, for whichever match is
    the first. The parser writes possessive repetition as `Atomic(Repeat(Atomic(node)))`, which is what it
    means.
    """

    node: Node
    minimum: int
    maximum: int | None
    kind: Literal["greedy", "lazy"] = "greedy"


@dataclass(frozen=True, slots=True)
class Atomic:
    """`(?>...)`: only the first match of the inside, in the order of a backtracking search, is tried."""

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
    r"""A position without width.

    Kinds: `text_start` (`\A`, `^`), `text_end` (`\Z`), `final` (`$`: the end, or before a newline that ends
    the text), `line_start` and `line_end` (`^`, `$` under `(?m)`), `boundary` and `not_boundary` (`\b`, `\B`,
    with `word` as the set of word characters; before Python 3.14 neither holds in the empty text, where `\B`
    would).
    """

    kind: Literal["text_start", "text_end", "final", "line_start", "line_end", "boundary", "not_boundary"]
    position: int
    word: CharSet | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One text of a definition of the network that the tree is part of (`automata.network`); no pattern has it."""

    definition: int


@dataclass(frozen=True, eq=False, slots=True)
class Machine:
    """The texts of a finite automaton over characters, as one part of a tree; no pattern has it.

    Machines are compared by identity: they may have ten thousands of moves.

    Args:
        moves: For each state, the sets of characters that lead on, and to which state. State 0 is the start.
        accepting: Whether each state accepts.
    """

    moves: tuple[tuple[tuple[CharSet, int], ...], ...]
    accepting: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """The texts along the paths of a graph, as one part of a tree; no pattern has it.

    Args:
        moves: For each state, what is read on the way to another one, and which. State 0 is the start.
        accepting: Whether each state accepts.
    """

    moves: tuple[tuple[tuple[Node, int], ...], ...]
    accepting: tuple[bool, ...]


Node: TypeAlias = Empty | Characters | Concat | Alternate | Repeat | Atomic | Look | Anchor | Call | Machine | Graph
