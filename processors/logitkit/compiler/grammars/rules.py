"""The rules of a context-free grammar, as syntax trees that call each other."""

from __future__ import annotations

from dataclasses import dataclass

from logitkit.patterns.syntax import Node

__all__ = ["Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """A context-free grammar.

    A tree may contain `Call(i)`, a text of rule `i`, in any place and any number, so rules may be ambiguous, nullable, and left-
    or right-recursive. The symbol `Symbol.special_token(i)` stands for special token `i` of `special_tokens`.
    A negative `Look` ahead for one character may stand anywhere: the text after this place must not begin with such a
    character. Readers use it for the longest match of a lexer. There are no other assertions and no atomic groups: a reader
    compiles patterns that have them to a `Machine`.

    Args:
        bodies: The tree of each rule.
        start: The rule of the whole text.
        special_tokens: The ids of special tokens, which stand for themselves and not for their texts. `OTHERS` stands for all ids
            without text that are not listed.
    """

    bodies: tuple[Node, ...]
    start: int = 0
    special_tokens: tuple[int, ...] = ()
