"""A tree of one grammar as part of a larger one, in which calls, words and special tokens have other numbers."""

from __future__ import annotations

from collections.abc import Sequence

from logitkit.compiler.characters.symbols import Symbol
from logitkit.patterns.charset import CharSet
from logitkit.patterns.inner_trees import with_inside
from logitkit.patterns.syntax import Alternate, Call, Characters, Node

__all__ = ["renumbered"]


def renumbered(tree: Node, calls: Sequence[int], words: Sequence[int], special_tokens: Sequence[int] = ()) -> Node:
    """Return a tree with other numbers of calls, words and special tokens; equal nodes stay one node.

    Args:
        tree: The tree.
        calls: The new number of each call.
        words: The new number of each word.
        special_tokens: The new number of each special token. A set of several becomes a choice.

    Example:
        >>> from logitkit.patterns.syntax import Concat
        >>> renumbered(Concat((Call(0), Call(1))), [5, 3], [])
        Concat(parts=(Call(rule=5), Call(rule=3)))
    """
    return _Renumbering(calls, words, special_tokens).of(tree)


class _Renumbering:
    def __init__(self, calls: Sequence[int], words: Sequence[int], special_tokens: Sequence[int]) -> None:
        self.calls, self.words, self.special_tokens = calls, words, special_tokens
        # By identity: a node may stand in a tree many times.
        self._done: dict[int, Node] = {}

    def of(self, tree: Node) -> Node:
        if type(tree) is Characters:
            return self._characters(tree)
        found = self._done.get(id(tree))
        if found is None:
            found = self._done[id(tree)] = self._of(tree)
        return found

    def _of(self, tree: Node) -> Node:
        return Call(self.calls[tree.rule]) if isinstance(tree, Call) else with_inside(tree, self.of)

    def _characters(self, tree: Characters) -> Node:
        first = tree.charset.ranges[0][0] if tree.charset else 0
        if Symbol.is_special_token(first):
            numbers = [self.special_tokens[Symbol.number(symbol)] for symbol in tree.charset]
            tokens = [Characters(CharSet.single(Symbol.special_token(number))) for number in numbers]
            return Alternate(tuple(tokens)) if len(tokens) > 1 else tokens[0]
        if Symbol.is_word(first):
            return Characters(CharSet.single(Symbol.word(self.words[Symbol.number(first)])))
        return tree
