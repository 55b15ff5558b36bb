"""The constraint that a language becomes for the tokens of one vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from logitkit.budget import one_budget, spent, took
from logitkit.compiler.bytes.limit_signs import is_limit
from logitkit.compiler.bytes.literal_overrides import BracketsOverlap
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.special_tokens import WHOLE
from logitkit.compiler.characters.components import reached
from logitkit.compiler.collection import gc_paused
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.nested_grammars.dfa import nested_grammar_dfa
from logitkit.compiler.nested_grammars.remembered_arrays import MixedArrays, can_remember
from logitkit.compiler.nested_grammars.unfolding import WordsMixed
from logitkit.compiler.tokens.compile import pushdown_automaton
from logitkit.compiler.tokens.completion.dead_ends import NothingSpelled, may_have_dead_ends
from logitkit.compiler.tokens.grammar_tokens import finite_dfa, grammar_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError, GrammarError, PatternTooLarge
from logitkit.json_schema.layout import AS_A_PART, TOGETHER, WITHOUT_BYTES
from logitkit.languages.language_writer import LanguageWriter, SchemaOptions
from logitkit.languages.size import check_size
from logitkit.limits import Limits, check_limits
from logitkit.parameters.scalars import as_integer
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["AmbiguousBracket", "LanguageConstraint", "parts_of_language"]


# As for schemas: a stack per row is kept.
MOST_DEPTH = 1024
MOST_TOKENS = 2**31 - 1
# With one small schema for this many states, the default limit of work is spent as well, but only after some seconds.
STATES_A_SCHEMA = 150

AMBIGUOUS_BRACKET = (
    "in one place of the language a bracket may begin a JSON value that nests without limit, and other text as well, so that no "
    "automaton with one stack can follow both; put a marker before the value, as in tag('<json>', json_schema(S), '</json>'), "
    "or exclude the bracket from the other text"
)


class AmbiguousBracket(ConfigurationError):
    """A bracket may begin a JSON value that nests without limit, and other text as well."""


@dataclass(frozen=True)
class LanguageConstraint(Constraint):
    """Allow only the texts of a language; create it with `Language.constraint`.

    Args:
        language: The language.
        vocabulary: The tokens.
        max_depth: The maximum number of open brackets in recursive parts of a schema, the outermost one not counted.
        closing: Whether the text must be complete before generation is cut off, as in `JsonSchema`.
        limits: Bounds on the cost of compiling.
    """

    language: Any
    vocabulary: Vocabulary
    max_depth: int = field(default=32, kw_only=True)
    closing: bool | int = field(default=False, kw_only=True)
    limits: Limits = field(kw_only=True)

    def __post_init__(self) -> None:
        self._check()
        try:
            with self._one_budget():
                self._compile_once(LanguageConstraint, self.language, self.max_depth, bool(self.closing))
        except PatternTooLarge as error:
            raise PatternTooLarge(str(error).replace("the pattern", "the language")) from None
        except NothingSpelled as error:
            raise self._problem() or error from None
        self._check_closing(self.closing, "this language")

    def _check(self) -> None:
        check_limits(self.limits)
        max_depth, closing = as_integer(self.max_depth), as_integer(self.closing)
        if max_depth is None or not 1 <= max_depth <= MOST_DEPTH:
            raise ConfigurationError(f"max_depth is {self.max_depth!r}; allowed are integers from 1 to {MOST_DEPTH}")
        if not isinstance(self.closing, bool) and (closing is None or not 1 <= closing <= MOST_TOKENS):
            raise ConfigurationError(
                f"closing is {self.closing!r}; allowed are a maximum number of tokens from 1 to {MOST_TOKENS}, True for the "
                "token limit of the context, and False"
            )
        check_size(self.language)

    def _problem(self) -> ConfigurationError | None:
        """Return why the tokens spell no text of the language, if one of its parts can tell."""
        writer = self._writer(SchemaOptions())
        with suppress(PatternTooLarge), self._one_budget():
            return next((found for part in parts_of_language(self.language) if (found := part.problem(writer))), None)
        return None

    @property
    def may_nest(self) -> bool:
        """Whether its rows can share a batch with those of constraints that nest: those of all languages can."""
        return True

    def own_ids(self) -> tuple[int, ...]:
        """Return the token ids that mean themselves in the language, not their text."""
        return self._writer(SchemaOptions()).own_ids

    def nested_dfa(self) -> NestedDfa:
        """Compile and return the automaton over bytes.

        Raises:
            ConfigurationError: The language has a grammar in it and nests without limit, or has whole tokens in it.
        """
        if not self._has_grammar:
            found = self._nested_dfa(counted=False)[0]
        else:
            dfa = self._grammar_dfa()[0]
            if any(map(is_limit, dfa.special_tokens)):
                raise ConfigurationError(
                    "this language has a grammar with max_tokens in it, so it cannot be combined with other text by its bytes; "
                    "put the other text into the language, as in sequence(grammar(...), ...)"
                )
            if dfa.pushed:
                raise ConfigurationError(
                    "this language has a grammar in it and nests without limit, so nothing can follow it; put it last, or put "
                    "what follows into the language, as in sequence(grammar(...), ...)"
                )
            found = NestedDfa.of(finite_dfa(dfa))
        if WHOLE in found.special_tokens:
            raise ConfigurationError(
                "this language has any_token() in it, so it is not one over text alone; put other text into the language, as "
                "in sequence(any_token(), ...)"
            )
        return found

    @property
    def _has_grammar(self) -> bool:
        return any(part.is_grammar for part in parts_of_language(self.language))

    def _grammar_dfa(self) -> tuple[PushdownDfa, LanguageWriter]:
        """Compile the language as one grammar."""
        with self._one_budget():
            writer = self._writer(SchemaOptions(fragments=False))
            rules = writer.rules(self.language.tree(writer))
            try:
                return pushdown_dfa(rules, self.limits), writer
            except GrammarError as error:
                raise ConfigurationError(f"the language with a grammar in it cannot be compiled: {error}") from None

    def _nested_dfa(self, counted: bool, forgets: str | None = AS_A_PART) -> tuple[NestedDfa, LanguageWriter]:
        """Compile the automaton over bytes.

        Args:
            counted: Whether characters of strings may be counted, and strings called.
            forgets: Where it is that a row cannot remember the items of arrays; see `json_schema.layout.Layout`.
        """
        with self._one_budget():
            longest = self.vocabulary.trie.depth - 1 if counted else 0
            try:
                return self._joined(longest, forgets)
            except MixedArrays:
                # It is known which keyword asks for that where no items are remembered.
                return self._nested_dfa(counted, TOGETHER)
            except PatternTooLarge:
                if not longest or spent() > self.limits.work:
                    raise
                # Without counts it is known which keyword of a schema asks for too many states.
                return self._joined(0, forgets)

    def _joined(self, longest: int, forgets: str | None) -> tuple[NestedDfa, LanguageWriter]:
        """Compile the automaton over bytes: with words if they can stand alone, else without.

        Args:
            longest: The most characters of a token if they may be counted, else 0.
            forgets: See `SchemaOptions`.
        """
        before = spent()
        with suppress(WordsMixed):
            return self._written(longest, forgets, has_words=True)
        # The attempt is not counted, its schemas included, so that no language is refused because of words.
        took(before - spent())
        return self._written(longest, forgets, has_words=False)

    def _written(self, longest: int, forgets: str | None, has_words: bool) -> tuple[NestedDfa, LanguageWriter]:
        """Compile the automaton over bytes, as `_joined` does.

        Raises:
            WordsMixed: There are words, and they cannot stand alone, or the language is refused with them.
        """
        closing = bool(self.closing)
        writer = self._writer(SchemaOptions(longest=longest, closing=closing, forgets=forgets), has_words)
        nested_grammar = writer.nested_grammar(self.language.tree(writer))
        # With closing, it must be known what follows a string, so strings are not called.
        spelled = self.vocabulary.trie.single_bytes(nested_grammar.special_tokens)
        try:
            return nested_grammar_dfa(nested_grammar, self.limits, longest > 0 and not closing, spelled), writer
        except (ConfigurationError, PatternTooLarge) as error:
            if nested_grammar.unmixed:
                # Without words, it may be another error, or none.
                raise WordsMixed from None
            if isinstance(error, BracketsOverlap):
                raise AmbiguousBracket(AMBIGUOUS_BRACKET) from None
            raise

    def _writer(self, options: SchemaOptions, has_words: bool = True) -> LanguageWriter:
        met = list(parts_of_language(self.language))
        self._check_schemas(sum(part.is_schema for part in met))
        special = (token for part in met for token in part.special_tokens)
        texts = (text for part in met for text in part.texts)
        return LanguageWriter(self.vocabulary, special, texts, options, self.limits, has_words)

    def _check_schemas(self, count: int) -> None:
        """Refuse at once what would be refused after all of its schemas have been compiled."""
        most = max(1, self.limits.states // STATES_A_SCHEMA)
        if count > most:
            raise PatternTooLarge(
                f"there are {count:,} different schemas in the language; allowed are {most:,}, or more with a larger "
                f"limits=Limits(states=...), which allows one for every {STATES_A_SCHEMA} states"
            )

    def _compile(self) -> TokenAutomaton:
        if self._has_grammar:
            pushdown, writer = self._grammar_dfa()
            made = grammar_automaton(
                pushdown,
                self.vocabulary,
                self.limits,
                "the language",
                max_depth=self.max_depth,
                complete_within=bool(self.closing),
            )
            return replace(made, dropped=tuple(writer.dropped), ignored=tuple(writer.ignored))
        dfa, writer = self._nested_dfa(counted=True, forgets=None)
        spelled = self.vocabulary.trie.single_bytes(dfa.special_tokens)
        if dfa.remembers is not None and not can_remember(dfa, spelled):
            dfa, writer = self._nested_dfa(counted=True, forgets=WITHOUT_BYTES)
        if dfa.shares and may_have_dead_ends(dfa, self.vocabulary):
            # Blocks, or raw text that is counted, or EOS inside of the language: see `spelled` of `nested_grammar_dfa`.
            dfa, writer = self._nested_dfa(counted=False)
        made = pushdown_automaton(
            dfa,
            self.vocabulary,
            self.limits,
            "the language",
            # The object that a schema describes is called, and counts as a bracket.
            max_depth=self.max_depth + 1,
            complete_within=bool(self.closing),
        )
        return replace(made, dropped=tuple(writer.dropped), ignored=tuple(writer.ignored))

    @contextmanager
    def _one_budget(self) -> Iterator[None]:
        with one_budget(self.limits.work), gc_paused():
            yield


def parts_of_language(language: Any) -> Iterator[Any]:
    """Return a language and all that it is built from; equal ones once."""
    return iter(reached(language, lambda part: part.parts))
