"""Languages with nesting, such as that of a recursive JSON Schema: syntax trees that call each other inside brackets.

A regular expression cannot say that every `[` has a `]`. So a `NestedGrammar` has rules besides its main tree, and trees call
rules. A call stands for the opening bracket, the texts after it, and the closing bracket.

By hand, for nested brackets such as `[[][]]`: rule 0 has the opening `[`, and its body is `Call(0)` any number of times, and
then `]`. The main tree is `Call(0)`.

A grammar may become part of a larger one, as where a tag holds JSON. There, its rules, words and special tokens have other
numbers: `renumbered` changes them in a tree, and `RenumberedRule` in a rule.

Invariants: a text of a rule begins with the rule's opening, and no longer text of the rule begins with it. No word is a prefix
of another word.
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
    """The texts that consist of `opening` and a text of `body`. At least one text belongs to the body.

    Args:
        opening: The bracket that the texts begin with, the comma before a block of items, or another first character.
        body: The rest, including the closing bracket, or the comma after the block. No text of the body continues after it.
        known_as: A name for the rule in all grammars that contain it, so that it is compiled once; None: it has no name.
        calls: The rules that it calls, in an order that belongs to that name.
        recurs: Whether it may be called inside of itself, as far as is known. If not, its calls do not count as nesting.
        block: Equal for blocks of the same number of the same items. Such blocks may be called together, because they end at
            the same byte.
    """

    opening: str
    body: Node
    known_as: Hashable = None
    calls: tuple[int, ...] = ()
    recurs: bool = True
    block: Hashable = None

    @property
    def words(self) -> tuple[int, ...]:
        """No words: those that the rule reads have the same numbers in all grammars."""
        return ()


@dataclass(frozen=True, eq=False, slots=True)
class RenumberedRule:
    """A rule of one grammar as part of a larger grammar, in which rules and words have other numbers.

    Args:
        inner: The rule in its own grammar. At least one text belongs to it.
        known_as: Its name, as in `NestedRule`.
        calls: The rules that it calls, in an order that belongs to that name.
        words: For each word of its own grammar, the number in the larger one.
        numbers: For each rule of its own grammar, the number in the larger one.
    """

    inner: NestedRule
    known_as: Hashable
    calls: tuple[int, ...]
    words: tuple[int, ...]
    numbers: tuple[int, ...]

    @property
    def opening(self) -> str:
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
        """The texts after the opening, with the numbers of the larger grammar."""
        return renumbered(self.inner.body, self.numbers, self.words)


@dataclass(frozen=True, eq=False, slots=True)
class Strings:
    """Texts that begin with a quote and call nothing, such as any name but `"id"`.

    Words may be read in the same place, such as `"id"`, if they are not among the texts.

    Args:
        fragment: The texts after the quote, and the excluded ones.
        excluded: The excluded texts, without the closing quote.
        tree: Returns the texts after the quote as a tree, for places where one of several sets of strings may begin.
        uncounted: Returns a fragment of the same texts that does not count characters, for places where words may be read.
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
        """The texts after the quote."""
        return self.tree()

    def holds(self, text: bytes) -> bool:
        """Whether a text, with its quotes, is one of them."""
        return text[:1] == b'"' and text[1:-1] not in self.excluded and self.fragment.holds(text[1:])


@dataclass(frozen=True, eq=False, slots=True)
class TextFragment:
    """Texts that call nothing, such as the text between two tags. Their characters may be counted.

    Args:
        opening: The first byte of the texts; neither a quote nor a bracket.
        fragment: The texts after it. No text continues after the byte that ends it.
        tree: Returns the texts after the opening as a tree, for places where other text begins too.
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
    """A main tree, and the rules that trees call by `Call(index)`.

    Args:
        main: The language of the whole text.
        rules: The rules, by index.
        words: Texts such as long names. `Symbol.word(i)` stands for the whole of word `i`, so that an automaton over characters
            reads it in one step.
        unmixed: The numbers of words that must stand alone: where one is read, no other text may begin like it. Compiling raises
            `WordsMixed` if other text does.
        special_tokens: The ids of special tokens. `Symbol.special_token(i)` stands for the special token at place `i`, and
            in rules only if their names say which numbers it has there. The id `OTHERS` stands for all ids without text that
            are not listed, and `WHOLE` for all ids with text that are not. Ids below these stand for limits of tokens.
        token_limits: For each text of a limited number of tokens: the ids that stand for the text and for its end, and the
            greatest number of tokens.
    """

    main: Node
    rules: tuple[NestedRule | RenumberedRule | Strings | TextFragment, ...] = ()
    words: tuple[bytes, ...] = ()
    unmixed: frozenset[int] = frozenset()
    special_tokens: tuple[int, ...] = ()
    token_limits: tuple[tuple[int, int, int], ...] = ()


def renumbered(
    tree: Node, calls: Sequence[int], words: Sequence[int], special_tokens: Sequence[int] | None = None
) -> Node:
    """Return a tree with other numbers of calls, words and special tokens. A node that stands in it many times is copied once.

    Args:
        tree: The tree.
        calls: The new number of each call.
        words: The new number of each word.
        special_tokens: The new number of each special token; None: they keep their numbers. A set of several special tokens
            becomes a choice.

    Example:
        >>> from logitkit.patterns.syntax import Concat
        >>> renumbered(Concat((Call(0), Call(1))), [5, 3], [])
        Concat(parts=(Call(rule=5), Call(rule=3)))
    """
    return _Renumbering(calls, words, special_tokens).of(tree)


class _Renumbering:
    def __init__(self, calls: Sequence[int], words: Sequence[int], special_tokens: Sequence[int] | None) -> None:
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
            if self.special_tokens is None:
                return tree
            numbers = [self.special_tokens[Symbol.number(symbol)] for symbol in tree.charset]
            tokens = [Characters(CharSet.single(Symbol.special_token(number))) for number in numbers]
            return Alternate(tuple(tokens)) if len(tokens) > 1 else tokens[0]
        if Symbol.is_word(first):
            return Characters(CharSet.single(Symbol.word(self.words[Symbol.number(first)])))
        return tree
