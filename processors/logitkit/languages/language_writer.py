r"""Writes a language as a nested grammar for a vocabulary: its tree, the schemas that it calls, and special tokens as symbols.

The language `sequence(special("<tool_call>"), json_schema(S))` becomes a tree that reads two symbols: one stands for the special
token, one for a call of the object that `S` describes. Everything regular is one tree, so that a text that may go on in several
ways is followed in all of them, as in a regular expression. The objects and arrays of schemas are called, so each schema is
compiled by itself, once, however many languages it stands in.

A language with a grammar in it becomes the rules of one grammar: its tree, the rules of each grammar, and the schemas.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from logitkit.compiler.bytes.limit_signs import is_limit
from logitkit.compiler.bytes.special_tokens import OTHERS, WHOLE
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.grammars.rules import Rules, check_trees
from logitkit.compiler.nested_grammars.nested_grammar import (
    NestedGrammar,
    NestedRule,
    RenumberedRule,
    Strings,
    TextFragment,
    renumbered,
)
from logitkit.compiler.nested_grammars.remembered_arrays import is_label, with_number
from logitkit.errors import ConfigurationError
from logitkit.grammars.checks import check_names_of_tokens
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.json_schema.compile import Compiled
from logitkit.json_schema.layout import AS_A_PART
from logitkit.languages.language_symbols import LanguageSymbols, spelled_out
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Call, Characters, Node
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["LanguageWriter", "SchemaOptions"]

# The first characters of what is called. A word begins with none of them, as a state reads it by its first byte.
OPENINGS = '"{[,'


class SchemaOptions(NamedTuple):
    """How schemas are written.

    Args:
        fragments: Whether their strings are called, unless they are few.
        longest: The most characters of a token, if the characters of strings may be counted and many items called in blocks; 0 if
            they may not.
        called: Whether the object or array that a schema describes is called.
        closing: Whether a text that has begun must be completed within a number of tokens.
        forgets: Where it is that a row cannot remember the items of arrays; see `json_schema.layout.Layout`.
    """

    fragments: bool = True
    longest: int = 0
    called: bool = True
    closing: bool = False
    forgets: str | None = AS_A_PART


class LanguageWriter(LanguageSymbols):
    """Knows which number stands for what, and collects the rules.

    Args:
        vocabulary: The tokens.
        special: The special tokens that the language names, by name or id.
        texts: The fixed texts of the language.
        options: How schemas are written.
        limits: Bounds on the cost of compiling.
        has_words: Whether texts with which many options begin may be words. They stand alone then; see `NestedGrammar`.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        special: Iterable[str | int],
        texts: Iterable[str],
        options: SchemaOptions,
        limits: Limits,
        has_words: bool = True,
    ) -> None:
        super().__init__(vocabulary, special, texts)
        self.has_words = has_words and options.fragments
        self.options, self.limits = options, limits
        # Notes about the schemas: keywords that are left out, formats that are annotations.
        self.dropped: list[str] = []
        self.ignored: list[str] = []
        self._rules: list[NestedRule | RenumberedRule | Strings | TextFragment | GrammarRule] = []
        self._places: dict[Hashable, int] = {}
        self._words: dict[bytes, int] = {}
        self._unmixed: set[int] = set()
        self._labels: dict[tuple[Hashable, bytes], bytes] = {}

    def value(self, key: Hashable, compiled: Compiled) -> Node:
        """Return the tree of a schema, which calls its objects and arrays.

        Args:
            key: Equal for equal schemas only.
            compiled: Its nested grammar.
        """
        nested_grammar = compiled.nested_grammar
        self.dropped.extend(compiled.dropped)
        self.ignored.extend(compiled.ignored)
        words = tuple([self._word(key, text) for text in nested_grammar.words])
        fresh: list[tuple[int, int]] = []
        calls: list[int] = []
        for number, rule in enumerate(nested_grammar.rules):
            place = _place(rule, key, number)
            known = self._places.get(place)
            if known is None:
                known = self._places[place] = len(self._rules)
                self._rules.append(rule)
                fresh.append((number, known))
            calls.append(known)
        numbers = tuple(calls)
        for number, place_here in fresh:
            rule = nested_grammar.rules[number]
            if isinstance(rule, NestedRule):
                name, called = rule.known_as, numbers
                if name is None:
                    name = key, number
                else:
                    called = tuple(numbers[call] for call in rule.calls)
                self._rules[place_here] = RenumberedRule(rule, name, called, words, numbers)
        return renumbered(nested_grammar.main, numbers, words)

    def _word(self, key: Hashable, text: bytes) -> int:
        """Return the number of a word of a schema. Each schema numbers its labels from 1, so they get other numbers here."""
        if is_label(text):
            text = self._labels.setdefault((key, text), with_number(text, len(self._labels)))
        return self._words.setdefault(text, len(self._words))

    def words(self, texts: Sequence[str]) -> tuple[Node, list[Node]] | None:
        """Return trees of some texts that read what differs in one step.

        Returns:
            The tree of the characters with which all texts begin, and a tree of the rest of each. Or None if the rests cannot be
            words: in a grammar; or if one begins another one, a special token stands in a text, or one begins like something that
            is called, or outside of ASCII, where different characters may have the same first byte.
        """
        ordered = sorted(texts)
        pairs = enumerate(zip(ordered[0], ordered[-1], strict=False))
        begin = next((place for place, (one, other) in pairs if one != other), len(ordered[0]))
        if (
            not self.has_words
            or any(not "" < text[begin : begin + 1] < "\x80" or text[begin] in OPENINGS for text in ordered)
            or any(after.startswith(before) for before, after in pairwise(ordered))
            or any(map(self._names.search, ordered))
        ):
            return None
        rests = [text[begin:].encode() for text in texts]
        numbers = [self._words.setdefault(rest, len(self._words)) for rest in rests]
        self._unmixed.update(numbers)
        return self.text(ordered[0][:begin]), [Characters(CharSet.single(Symbol.word(number))) for number in numbers]

    def rule(self, opening: str, body: Node) -> Node:
        """Return the tree of texts that are called, and do not call themselves.

        Args:
            opening: Their first character.
            body: The texts after it. No text of them continues after its end.
        """
        self._rules.append(NestedRule(opening, body, recurs=False))
        return Call(len(self._rules) - 1)

    def text_fragment(self, text: TextFragment) -> Node:
        """Return the tree of texts that call nothing, with the byte before them."""
        place = text.fragment.key, text.opening
        if place not in self._places:
            self._places[place] = len(self._rules)
            self._rules.append(text)
        return Call(self._places[place])

    def grammar(self, key: Hashable, grammar: RuleSet) -> Node:
        """Return the tree of a grammar, which calls its start.

        Args:
            key: Equal for equal grammars only, and for no schema.
            grammar: Its rules.

        Raises:
            PatternTooLarge: A rule is nested too deeply.
            GrammarError: It names a token in two ways, and has `!<...>`.
            VocabularyError: The vocabulary lacks a special token that the grammar names.
        """
        if key not in self._places:
            bodies = tuple([rule.body for rule in grammar.rules])
            check_trees(Rules(bodies, grammar.start), self.limits)
            first = self._places[key] = len(self._rules)
            calls = range(first, first + len(bodies))
            special_tokens = [Symbol.number(self._symbol(token)) for token in grammar.tokens]
            check_names_of_tokens(grammar.tokens, special_tokens)
            self._rules += [replace(r, body=renumbered(r.body, calls, (), special_tokens)) for r in grammar.rules]
            self.ignored.extend(grammar.warnings)
        return Call(self._places[key] + grammar.start)

    def _symbol(self, token: str | int) -> int:
        """Return the symbol of a special token of a grammar."""
        if isinstance(token, int) and (token == WHOLE or is_limit(token)):
            return self._sign(token)
        return self._number[OTHERS if token == OTHERS else self.token(token)]

    def rules(self, main: Node) -> Rules:
        """Return the whole language as the rules of a grammar, given its tree. Schemas are written without leaves and words.

        Raises:
            ConfigurationError: Text with a limit of tokens stands beside a grammar.
        """
        if self._limits:
            raise ConfigurationError(
                "any_text(max_tokens=...) stands in one language with a grammar, which only counts the tokens of its own rules; "
                "write the text as a rule with max_tokens in Lark's syntax, or leave out max_tokens"
            )
        assert not self._words
        bodies = []
        for rule in self._rules:
            # Characters are not counted in grammars.
            assert not isinstance(rule, TextFragment)
            opening = [] if isinstance(rule, GrammarRule) else spelled_out(rule.opening)
            bodies.append(concatenate([*opening, rule.body]))
        return Rules((*bodies, main), len(bodies), tuple(self._special_tokens))

    def nested_grammar(self, main: Node) -> NestedGrammar:
        """Return the whole nested grammar, given the tree of a language without grammars."""
        rules = [rule for rule in self._rules if not isinstance(rule, GrammarRule)]
        words, unmixed = tuple(self._words), frozenset(self._unmixed)
        return NestedGrammar(main, tuple(rules), words, unmixed, tuple(self._special_tokens), tuple(self._limits))


def _place(rule: object, key: Hashable, number: int) -> Hashable:
    """Return what equal rules have in common, whatever schemas they stand in."""
    if isinstance(rule, Strings):
        return rule.fragment.key, rule.excluded
    assert isinstance(rule, NestedRule)
    return (key, number) if rule.known_as is None else (rule.known_as, rule.opening)
