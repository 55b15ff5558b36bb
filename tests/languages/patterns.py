"""Patterns as trees that a matcher reads itself, and the same patterns as text for `re` and for `regex`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from logitkit.languages import Language, regex

__all__ = ["Any", "Chars", "Choice", "Several", "Tree", "Two", "pattern_of", "tree_of", "written"]


@dataclass(frozen=True)
class Chars:
    """One character, which is one of some, or none of them."""

    of: str
    negated: bool = False

    def has(self, character: str) -> bool:
        return (character in self.of) != self.negated


@dataclass(frozen=True)
class Two:
    """Parts one after another."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True)
class Choice:
    """One of some trees."""

    options: tuple[Tree, ...]


@dataclass(frozen=True)
class Several:
    """A tree several times."""

    inner: Tree
    least: int
    most: int | None


Tree: TypeAlias = Chars | Two | Choice | Several
Any = Chars("", negated=True)

_known: dict[str, Tree] = {}


def written(tree: Tree) -> str:
    """Return the pattern in the syntax of `re`."""
    match tree:
        case Chars("", True):
            return r"[\s\S]"
        case Chars(of, negated):
            return f"[{'^' if negated else ''}{re.escape(of)}]"
        case Two(parts):
            return "".join(f"(?:{written(part)})" for part in parts)
        case Choice(options):
            return "(?:" + "|".join(map(written, options)) + ")"
        case Several(inner, least, most):
            return f"(?:{written(inner)}){{{least},{'' if most is None else most}}}"


def pattern_of(tree: Tree, exclude: tuple[str, ...] = ()) -> Language:
    """Return the language of a tree's texts, and remember which tree its pattern is."""
    pattern = written(tree)
    _known[pattern] = tree
    return regex(pattern, exclude)


def tree_of(pattern: str) -> Tree:
    """Return the tree of a pattern that `pattern_of` wrote."""
    return _known[pattern]
