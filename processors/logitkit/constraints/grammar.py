"""Grammar: the output is a text of a context-free grammar."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from logitkit.budget import one_budget
from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.special_tokens import WHOLE
from logitkit.compiler.collection import gc_paused
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules, check_trees
from logitkit.compiler.nested_grammars.nested_grammar import renumbered
from logitkit.compiler.tokens.grammar_tokens import finite_dfa, grammar_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.constraints.grammar_report import GrammarReport, report_of
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge
from logitkit.grammars.captures import CapturingParser, captured_texts
from logitkit.grammars.checks import check_names_of_tokens
from logitkit.grammars.named import NamedGrammar, named_grammars
from logitkit.grammars.output_text import output_text
from logitkit.grammars.read import GrammarSyntax, LarkLexer, read_grammar
from logitkit.grammars.rule_set import RuleSet
from logitkit.lazy import lazy
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.parameters import Boolean, Either, GrammarsForm, Integer, Null, Text, Word
from logitkit.patterns.syntax import Node
from logitkit.protocol.kind import Kind
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Grammar", "GrammarReport"]

CLOSING = "the maximum number of new tokens; True: up to Context.max_length; False: no limit"


@dataclass(frozen=True)
class Grammar(Constraint):
    r"""Allow only texts of a context-free grammar, in GBNF or in Lark's syntax.

    The text begins after the prompt, and EOS is allowed when it is complete. The grammar is compiled once, to a pushdown
    automaton: a step is a table look-up, and each row has a stack of limited depth. A regular grammar needs no stack.

    If the grammar does not become deterministic, a row has up to `configurations` stacks at once. If it would need more, it keeps
    those with the fewest open rules, and is *narrowed*: its text belongs to the grammar and can always be completed, but some
    texts of the grammar are refused, which may include a draft.

    Args:
        text: The grammar.
        vocabulary: The tokens. Each byte that the grammar may need must be a token of its own.
        syntax: `"gbnf"`, as in llama.cpp, or `"lark"`.
        start: The rule of the whole text. None: `root` in GBNF, `start` in Lark.
        lexer: How terminals of Lark split a text. `"longest"`: as a lexer, each as long as possible and keywords before names.
            `"contextual"`: as Lark's contextual lexer. `"dynamic"`: in any way. None: `"longest"`, with a warning where Lark's
            contextual lexer reads a text in another way.
        grammars: Grammars in Lark's syntax (str) and JSON Schemas (dict or bool) by name, for `@name` in rules of Lark's syntax.
        max_depth: The maximum number of open rules on a stack. A text that nests deeper is not allowed.
        configurations: The maximum number of stacks of a row, if the grammar is not deterministic. 1: refuse such a grammar.
        closing: Whether the text must be complete before generation is cut off. True: within `Context.max_length`. An integer:
            within this many new tokens, not counting EOS. If a grammar nests, a text may have to end a few tokens earlier than
            necessary. Grammars that are not deterministic are refused.
        limits: Bounds on the cost of compiling.

    Raises:
        GrammarError: The grammar is not valid; the message shows where.
        PatternTooLarge: The automaton would exceed a limit.
        VocabularyError: The vocabulary has no EOS id.
        ConfigurationError: An argument is not allowed, the tokens cannot spell the grammar, or no text nests so little.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"1", b"+", b"(", b")", b"1)", None], eos_ids=[5])
        >>> grammar = lk.Grammar('root ::= item ("+" item)*\nitem ::= "1" | "(" root ")"', vocabulary)
        >>> context = lk.Context.of([[1]], vocabulary_size=6)
        >>> state = grammar.advance(grammar.init_state(context), torch.tensor([2]))
        >>> grammar.process_logits(state, torch.zeros(1, 6), context)[1]
        tensor([[0., -inf, 0., -inf, 0., -inf]])

    Source: Knuth, On the translation of languages from left to right (1965), for deterministic context-free languages.
    """

    kind = Kind(
        "grammar",
        {
            "text": Text(0, raw=False),
            "syntax": Word(("gbnf", "lark")),
            "start": Either((Text(raw=False), Null())),
            "lexer": Either((Word(("longest", "contextual", "dynamic")), Null())),
            "grammars": GrammarsForm(),
            "max_depth": Integer(1, 1024),
            "configurations": Integer(1, 64),
            "closing": Either((Integer(1, note=CLOSING), Boolean())),
        },
        main="text",
        order=110,
    )

    text: str
    vocabulary: Vocabulary
    syntax: GrammarSyntax = field(default="gbnf", kw_only=True)
    start: str | None = field(default=None, kw_only=True)
    lexer: LarkLexer | None = field(default=None, kw_only=True)
    grammars: Mapping[str, Any] | None = field(default=None, kw_only=True, compare=False)
    max_depth: int = field(default=64, kw_only=True)
    configurations: int = field(default=16, kw_only=True)
    closing: bool | int = field(default=False, kw_only=True)
    limits: Limits = field(default=DEFAULT_LIMITS, kw_only=True)
    named: tuple[NamedGrammar, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_limits(self.limits)
        super().__post_init__()
        object.__setattr__(self, "named", named_grammars(self.grammars))
        with self._one_budget():
            splits = self.configurations > 1
            key = (
                self.text,
                self.syntax,
                self.start,
                self.lexer,
                self.named,
                self.max_depth,
                splits,
                bool(self.closing),
            )
            self._compile_once(Grammar, *key)
        self._check_closing(self.closing, "the grammar", "may take" if self.automaton.nesting.frames else "takes")
        for warning in self.automaton.ignored:
            warnings.warn(f"Grammar: {warning}", stacklevel=3)

    @property
    def report(self) -> GrammarReport:
        """The size and kind of the compiled grammar. If it is not deterministic, random texts are written to see what they need.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b"(", b")", None], eos_ids=[2])
            >>> lk.Grammar('root ::= ("(" root ")")*', vocabulary).report.frames > 0
            True
        """
        return report_of(self.automaton, self.configurations)

    @property
    def may_nest(self) -> bool:
        """Whether its rows can share a batch with those of constraints that nest: those of all grammars can."""
        return True

    def byte_dfa(self) -> ByteDfa:
        """Return the automaton over bytes of a regular grammar.

        Raises:
            ConfigurationError: The grammar nests without limit, has a token whatever its text is, or a rule with `max_tokens`.
        """
        with self._one_budget():
            rules = self.rule_set()
            if rules.limits_tokens:
                raise ConfigurationError(
                    "this Grammar has a rule with max_tokens, so it cannot be combined with other text by its bytes; write the "
                    "other text into the grammar, or leave out max_tokens"
                )
            dfa = self._pushdown_dfa(rules)
        if dfa.pushed or len(dfa.further):
            raise ConfigurationError(
                "the texts of this Grammar nest without limit, so nothing can follow them; put it last"
            )
        if WHOLE in dfa.special_tokens:
            raise ConfigurationError(
                "this Grammar has a token whatever its text is (!<...>), so it is not one over text alone; repeat it with * or "
                "+, or put the grammar last"
            )
        return finite_dfa(dfa)

    def own_ids(self) -> tuple[int, ...]:
        """Return the token ids of the special tokens that the grammar names."""
        return tuple(token for token in self._special_tokens(self.rule_set()) if token >= 0)

    def rule_set(self) -> RuleSet:
        """Read the grammar and return its rules."""
        return read_grammar(self.text, self.syntax, self.start, self.lexer, self.limits, self.named)

    def captures(self, output: Sequence[int] | str) -> dict[str, list[str]]:
        r"""Return the texts of the rules that the grammar captures, as in `name[capture]: ...` of Lark's syntax.

        Ignored text around a rule is not part of its text. The marker of `suffix="..."` is not part of the text of its own rule,
        and that of `stop="..."` of none. If the output can be read in several ways, one of them is taken, always the same one:
        from left to right, each part of a rule is as long as possible. `max_depth` does not limit it.

        Args:
            output: A complete output, without the prompt: its token ids, with or without EOS and padding, or its text, in which
                the name of a special token of the grammar stands for that token.

        Returns:
            The texts of each capture by name, in the order in which they end. A capture that the output lacks has an empty list.

        Raises:
            ConfigurationError: The output is neither a text nor token ids.
            OutputError: The output is not a complete text of the grammar.
            PatternTooLarge: The output can be read in too many ways, or a limit is exceeded.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b"a", b"b", b"=", b";", None], eos_ids=[4])
            >>> text = 'start: (key "=" value)+\nkey[capture]: NAME\nvalue[capture, suffix=";"]: /.+/\nNAME: /[a-z]+/'
            >>> grammar = lk.Grammar(text, vocabulary, syntax="lark")
            >>> grammar.captures("a=ab;b=a;")
            {'key': ['a', 'b'], 'value': ['ab', 'a']}

        Source:
            LLGuidance's `get_captures`, which also has the texts of rules that only began to match.
        """
        with self._one_budget():
            parser, special_tokens = self._capturing
            return captured_texts(parser, output_text(output, self.vocabulary, special_tokens))

    @lazy
    def _capturing(self) -> tuple[CapturingParser, dict[int, int]]:
        """The parser of complete outputs, and the number of each special token."""
        rules = self.rule_set().without_limits()
        bodies, special_tokens = self._bodies(rules)
        same = tuple([replace(rule, body=body) for rule, body in zip(rules.rules, bodies, strict=True)])
        number = {token: i for i, token in enumerate(special_tokens)}
        return CapturingParser(replace(rules, rules=same), self.limits), number

    def _special_tokens(self, rules: RuleSet) -> tuple[int, ...]:
        return tuple([self._token(special) for special in rules.tokens])

    def _token(self, special: str | int) -> int:
        """Return the id of a special token that the grammar names."""
        if isinstance(special, int):
            if special < self.vocabulary.size:
                return special
            found = re.search(rf"<\[(?:[0-9,-]*[,-])?0*{special}[],-]", self.text)
            reason = f"there is no token {special}; allowed are ids from 0 to {self.vocabulary.size - 1}"
            raise GrammarError(reason, self.text, found and found.start())
        token = self.vocabulary.special.get(special)
        if token is None:
            known = ", ".join(map(repr, list(self.vocabulary.special)[:20])) or "none"
            position = self.text.find(special)
            raise GrammarError(
                f"the vocabulary has no special token {special!r}; its special tokens are: {known}",
                self.text,
                None if position < 0 else position,
            )
        return token

    def _bodies(self, rules: RuleSet) -> tuple[tuple[Node, ...], tuple[int, ...]]:
        """Return the trees of the rules, in which a special token has one number, and the ids of the special tokens."""
        bodies, special_tokens = tuple([rule.body for rule in rules.rules]), self._special_tokens(rules)
        number = {token: i for i, token in enumerate(special_tokens)}
        if len(number) < len(special_tokens):
            # A token that is named in two ways, such as <think> and <[10]>, is one special token.
            check_names_of_tokens(rules.tokens, special_tokens, self.text)
            check_trees(Rules(bodies, rules.start), self.limits)
            same = [number[token] for token in special_tokens]
            bodies = tuple([renumbered(body, range(len(bodies)), (), same) for body in bodies])
        return bodies, special_tokens

    def _pushdown_dfa(self, rules: RuleSet) -> PushdownDfa:
        bodies, special_tokens = self._bodies(rules)
        return pushdown_dfa(Rules(bodies, rules.start, special_tokens), self.limits, self.configurations > 1)

    def _compile(self) -> TokenAutomaton:
        rules = self.rule_set()
        dfa = self._pushdown_dfa(rules)
        made = grammar_automaton(
            dfa,
            self.vocabulary,
            self.limits,
            "the grammar",
            max_depth=self.max_depth,
            complete_within=bool(self.closing),
            splits=self.configurations > 1,
        )
        return replace(made, ignored=rules.warnings)

    @contextmanager
    def _one_budget(self) -> Iterator[None]:
        """Count all work on a grammar together, and report an excess as one of the grammar."""
        try:
            with one_budget(self.limits.work), gc_paused():
                yield
        except PatternTooLarge as error:
            raise PatternTooLarge(str(error).replace("pattern", "grammar")) from None
