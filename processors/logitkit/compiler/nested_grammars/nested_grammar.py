"""Languages with nesting, such as that of a recursive JSON Schema: syntax trees that call each other inside brackets.

A tree of one grammar as part of a larger one, in which calls, words and special tokens have other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from logitkit.compiler.bytes.string_fragment import StringFragment
from logitkit.compiler.characters.symbols import Symbol
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import with_inside
from logitkit.patterns.syntax import Alternate, Call, Characters, Node

__all__ = ["NestedGrammar", "NestedRule", "RenumberedRule", "Strings", "TextFragment", "renumbered"]


@dataclass(frozen=True, slots=True)
class NestedRule:
    """The texts `opening` + a text of `body`. There are some, or a bracket could be followed by what leads nowhere.

    Args:
        opening: The bracket that a text of the rule begins with, and that begins nothing else where it is called; or the
            comma before a block of items.
        body: The rest, up to and with the closing bracket that belongs to it, or the comma after the block. No text of the
            body goes on after that.
        known_as: A name that it has in all grammars in which it stands, so that it is worked out once; None: it has none.
        calls: The rules that it calls, in an order that belongs to that name.
        recurs: Whether it may be called inside of itself, as far as is known. If not, its calls do not count as nesting.
        block: Equal for blocks of the same number of the same items, which may be called together: they end at once.
    """

    opening: Literal["{", "[", ","]
    body: Node
    known_as: Hashable = None
    calls: tuple[int, ...] = ()
    recurs: bool = True
    block: Hashable = None

    @property
    def words(self) -> tuple[int, ...]:
        """The words that it reads, in an order that belongs to its name; they have the same numbers in all grammars."""
        return ()


@dataclass(frozen=True, eq=False, slots=True)
class RenumberedRule:
    """A rule of one grammar that stands in a larger one, where what it calls and reads has other numbers.

    Args:
        inner: The rule in its own grammar. Some text belongs to it.
        known_as: Its name, as in `NestedRule`.
        calls: The rules that it calls, in an order that belongs to that name.
        words: The number here of each word of its own grammar.
        numbers: The number here of each rule of its own grammar.
    """

    inner: NestedRule
    known_as: Hashable
    calls: tuple[int, ...]
    words: tuple[int, ...]
    numbers: tuple[int, ...]

    @property
    def opening(self) -> Literal["{", "[", ","]:
        """The bracket that it begins with."""
        return self.inner.opening

    @property
    def recurs(self) -> bool:
        """Whether it may be called inside of itself."""
        return self.inner.recurs

    @property
    def block(self) -> Hashable:
        """Equal for blocks that may be called together."""
        return None if self.inner.block is None else (self.numbers, self.inner.block)

    @property
    def body(self) -> Node:
        """The texts after that, with the numbers that are used here."""
        return renumbered(self.inner.body, self.numbers, self.words)


@dataclass(frozen=True, eq=False, slots=True)
class Strings:
    """Texts that begin with a quote and call nothing. Other texts may begin so beside them, if none of these is among them.

    Args:
        fragment: The texts after the quote, and some texts besides.
        excluded: These texts, without the closing quote.
        tree: Returns what follows the quote as a tree, which is needed where one of several sets of strings may begin.
        uncounted: Returns a fragment of the same texts that does not count characters, for places where words stand beside them.
    """

    fragment: StringFragment
    excluded: tuple[bytes, ...]
    tree: Callable[[], Node]
    uncounted: Callable[[], StringFragment]

    @property
    def opening(self) -> Literal['"']:
        """The quote that the texts begin with."""
        return '"'

    @property
    def body(self) -> Node:
        """The texts after that."""
        return self.tree()

    def holds(self, text: bytes) -> bool:
        """Whether a text is one of them, with its quotes."""
        return text[:1] == b'"' and text[1:-1] not in self.excluded and self.fragment.holds(text[1:])


@dataclass(frozen=True, eq=False, slots=True)
class TextFragment:
    """Texts that call nothing, as between two tags; their characters may be counted.

    Args:
        opening: A byte that comes before the texts, and belongs to the rule; neither a quote nor a bracket.
        fragment: The texts after it, up to a byte after which none of them goes on.
        tree: Returns what follows the opening as a tree, which is needed where other text begins in the same place.
    """

    opening: str
    fragment: StringFragment
    tree: Callable[[], Node]

    @property
    def body(self) -> Node:
        """The texts after the opening."""
        return self.tree()


@dataclass(frozen=True, slots=True)
class NestedGrammar:
    """A main tree and the rules that it and they call, by `Call(index)`: recursion is what a finite automaton lacks.

    Args:
        main: The language of the whole text.
        rules: The rules that are called, by index.
        words: Texts of which none begins another one. `Symbol.word(i)` stands for the whole of text `i`, so that long names are
            one step of what is worked out over characters.
        special_tokens: The ids of special tokens. `Symbol.special_token(i)` stands for token `i` of them; only `main` has such
            ones. The id `OTHERS` stands for all ids without text that are not listed, `WHOLE` for all ids with text that are not.
            Ids below these stand for limits of tokens.
        token_limits: The limits: the ids for the text and for its end, and the greatest number of tokens.
    """

    main: Node
    rules: tuple[NestedRule | RenumberedRule | Strings | TextFragment, ...] = ()
    words: tuple[bytes, ...] = ()
    special_tokens: tuple[int, ...] = ()
    token_limits: tuple[tuple[int, int, int], ...] = ()


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
