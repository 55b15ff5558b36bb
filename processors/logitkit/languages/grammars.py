"""The language of a context-free grammar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from logitkit.compiler.bytes.limit_signs import is_limit
from logitkit.compiler.bytes.special_tokens import OTHERS, WHOLE
from logitkit.grammars.named import NamedGrammar, named_grammars
from logitkit.grammars.read import GrammarSyntax, LarkLexer, read_grammar
from logitkit.grammars.rule_set import RuleSet
from logitkit.languages.language import LANGUAGE_LIMITS, Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.patterns.syntax import Node

__all__ = ["GrammarText", "grammar"]


@dataclass(frozen=True)
class GrammarText(Language):
    """The texts of a grammar; see `grammar`."""

    is_grammar: ClassVar[bool] = True

    text: str
    syntax: GrammarSyntax = "gbnf"
    start: str | None = None
    lexer: LarkLexer | None = None
    named: tuple[NamedGrammar, ...] = ()
    rules: RuleSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = read_grammar(self.text, self.syntax, self.start, self.lexer, LANGUAGE_LIMITS, self.named)
        object.__setattr__(self, "rules", rules)

    @property
    def special_tokens(self) -> Iterator[str | int]:
        """The special tokens that the grammar names."""
        return (token for token in self.rules.tokens if token not in (OTHERS, WHOLE) and not is_limit(token))

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        return writer.grammar(self, self.rules)


def grammar(
    text: str,
    syntax: GrammarSyntax = "gbnf",
    start: str | None = None,
    lexer: LarkLexer | None = None,
    grammars: Mapping[str, Any] | None = None,
) -> GrammarText:
    r"""Return the language of a context-free grammar.

    A language with a grammar in it is compiled as one grammar, to a deterministic pushdown automaton. If it does not become
    deterministic within the limits, it is refused. So is `any_text(max_tokens=...)` in it. If it nests without limit, an
    EOS id named by the language is refused, and each byte that a text may need must be a token of its own. `max_depth`
    is the maximum number of open rules on the stack.

    Strings of the grammar are spelled in ordinary tokens, even if they are names of special tokens. In GBNF, `!<x>` is not a
    token that the rest of the language names. A terminal of Lark at the end of the grammar must not go on with the text that
    follows, and an assertion at its end must hold there.

    Args:
        text: The grammar.
        syntax: `"gbnf"`, as in llama.cpp, or `"lark"`.
        start: The rule of the whole text. None: `root` in GBNF, `start` in Lark.
        lexer: How terminals of Lark split a text, as in `Grammar`.
        grammars: Grammars that `@name` refers to, as in `Grammar`.

    Raises:
        ConfigurationError: An argument is not allowed.
        GrammarError: The grammar is not valid; the message shows where.
        PatternTooLarge: Reading the grammar exceeds a limit.

    Example:
        >>> from logitkit.languages import tag
        >>> sums = grammar('root ::= item ("+" item)*\nitem ::= "1" | "(" root ")"')
        >>> len(tag("<sum>", sums, "</sum>").parts)
        3
    """
    return GrammarText(text, syntax, start, lexer, named_grammars(grammars))
