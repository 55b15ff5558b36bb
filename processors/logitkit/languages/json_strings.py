"""The language of JSON strings whose value is a text of a grammar, such as the argument of a tool."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

from logitkit.errors import GrammarError
from logitkit.languages.grammars import GrammarText
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.inner_trees import with_inside
from logitkit.patterns.syntax import Alternate, Characters, Concat, Graph, Look, Machine, Node

__all__ = ["JsonStringOf"]

QUOTE, BACKSLASH = CharSet.from_string('"'), CharSet.from_string("\\")
# What a JSON string writes as an escape.
ESCAPED = QUOTE | BACKSLASH | CharSet(((0, 0x1F),))


@dataclass(frozen=True)
class JsonStringOf(Language):
    r"""A JSON string whose value is a text of a grammar. Each value has one spelling, that of `json.dumps`.

    Args:
        grammar: The grammar. It names no special tokens.

    Raises:
        GrammarError: It does.

    Example:
        >>> from logitkit.languages import grammar
        >>> JsonStringOf(grammar('root ::= "a" | "\\"" root "\\""')).grammar.syntax
        'gbnf'
    """

    is_grammar: ClassVar[bool] = True

    grammar: GrammarText

    def __post_init__(self) -> None:
        if self.grammar.rules.tokens:
            raise GrammarError(
                f"the grammar names the special token {self.grammar.rules.tokens[0]!r}, which cannot stand in a JSON string; "
                "leave it out"
            )

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            GrammarError: What must not follow a terminal are some of the characters that are escaped, and not others.
        """
        rules, escaping = self.grammar.rules, _Escaping()
        bodies = [replace(rule, body=escaping.of(rule.body)) for rule in rules.rules]
        quote = Characters(QUOTE)
        return concatenate([quote, writer.grammar(self, replace(rules, rules=tuple(bodies))), quote])


class _Escaping:
    """Writes the characters of trees as they stand in a JSON string."""

    def __init__(self) -> None:
        # By identity: a node may stand in a tree many times.
        self._done: dict[int, Node] = {}

    def of(self, tree: Node) -> Node:
        if id(tree) not in self._done:
            self._done[id(tree)] = self._of(tree)
        return self._done[id(tree)]

    def _of(self, tree: Node) -> Node:
        match tree:
            case Characters(charset):
                return _escaped(charset)
            case Look(Characters(charset)):
                return replace(tree, node=Characters(_first(charset)))
            case Machine(moves, accepting):
                return Graph(tuple([tuple([(_escaped(chars), to) for chars, to in row]) for row in moves]), accepting)
            case _:
                return with_inside(tree, self.of)


def _escaped(charset: CharSet) -> Node:
    found: list[Node] = [Characters(charset - ESCAPED)]
    for code_point in charset & ESCAPED:
        spelling = json.dumps(chr(code_point))[1:-1]
        found.append(Concat(tuple([Characters(CharSet.single(ord(character))) for character in spelling])))
    return Alternate(tuple(found)) if len(found) > 1 else found[0]


def _first(charset: CharSet) -> CharSet:
    """Return what the characters begin with in a string, if none of the others begin so."""
    if not charset & ESCAPED:
        return charset
    if ESCAPED - charset:
        raise GrammarError(
            "a terminal of the grammar may be followed by some of quotes, backslashes and control characters, but not by others, "
            "which cannot be told apart in a JSON string; use lexer='dynamic', or a format of tool calls whose arguments are XML"
        )
    return charset - ESCAPED | BACKSLASH
