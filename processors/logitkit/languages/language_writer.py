r"""Writes a language as a network for one vocabulary: its syntax tree, the schemas that it calls, and special tokens as symbols.

The language `sequence(special("<tool_call>"), json_schema(S))` becomes a tree that reads two symbols: one stands for the special
token, one for a call of the object that `S` describes. Everything regular is one tree, so that a text that may go on in several
ways is followed in all of them, as in a regular expression. The objects and arrays of schemas are called, so each schema is
compiled by itself, once, however many languages it stands in.

A language with a grammar in it becomes the rules of one grammar: its tree, the rules of each grammar, and the schemas.

A special token stands for itself wherever the language names it, and is legal in free text otherwise. Fixed texts may contain
the name of a special token: it may be written as that token, or spelled.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from logitkit.compiler.bytes.letters import OTHERS, WHOLE
from logitkit.compiler.grammars.rule_trees import check_trees
from logitkit.compiler.grammars.rules import Rules
from logitkit.compiler.networks.network import CountedText, Definition, Network, PlacedDefinition, Strings
from logitkit.compiler.networks.renumbered import renumbered
from logitkit.compiler.networks.symbols import LETTERS
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.grammars.rule_set import GrammarRule, RuleSet
from logitkit.json_schema.compile import Compiled
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Alternate, Call, Characters, Empty, Node
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["LanguageWriter", "SchemaOptions", "Symbols"]

# A text with special tokens in it: code points, and numbers from `LETTERS` on.
Symbols = tuple[int, ...]

# A text with more special tokens in it, each written in two ways, is refused.
MOST_NAMES = 8


class SchemaOptions(NamedTuple):
    """How schemas are written.

    Args:
        leaves: Whether their strings are called, unless they are few.
        longest: The most characters of a token, if the characters of strings may be counted; 0 if they may not.
        called: Whether the object or array that a schema describes is called.
    """

    leaves: bool = True
    longest: int = 0
    called: bool = True


class LanguageWriter:
    """Knows which number stands for what.

    Args:
        vocabulary: The tokens.
        special: The special tokens that the language names, by name or id.
        texts: The fixed texts of the language.
        options: How schemas are written.
        limits: Bounds on the cost of compiling.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        special: Iterable[str | int],
        texts: Iterable[str],
        options: SchemaOptions,
        limits: Limits,
    ) -> None:
        self.vocabulary, self.options, self.limits = vocabulary, options, limits
        # What is said about the schemas: keywords that are left out, formats that are annotations.
        self.dropped: list[str] = []
        self.ignored: list[str] = []
        given = {name: self.token(name) for name in special}
        ids = set(given.values())
        # A token that is a symbol is never read by its text, so texts that contain its name have to name the symbol.
        self._named = {n: t for n, t in vocabulary.special.items() if vocabulary.tokens[t] is None or t in ids}
        self._named |= {name: token for name, token in given.items() if isinstance(name, str)}
        # The longest first: one name may begin another.
        names = sorted(self._named, key=len, reverse=True)
        self._names = re.compile("|".join(map(re.escape, names)) or "(?!)")
        ids |= {self._named[name] for text in texts for name in self._names.findall(text)}
        self._letters = [OTHERS, *sorted(ids)]
        self._number = {token: LETTERS + i for i, token in enumerate(self._letters)}
        self._limits: list[tuple[int, int, int]] = []
        self._definitions: list[Definition | PlacedDefinition | Strings | CountedText | GrammarRule] = []
        self._places: dict[Hashable, int] = {}
        self._words: dict[bytes, int] = {}

    def token(self, special: str | int) -> int:
        """Return the id of a special token.

        Raises:
            VocabularyError: The vocabulary has no such token.
        """
        if isinstance(special, int):
            if not 0 <= special < self.vocabulary.size:
                raise VocabularyError(
                    f"there is no token {special}; allowed are ids from 0 to {self.vocabulary.size - 1}"
                )
            return special
        found = self.vocabulary.special.get(special)
        if found is None:
            # A token that is added to a tokenizer without being special has its name as text.
            spelled = self._spelled(special.encode())
            if spelled is None:
                known = ", ".join(map(repr, list(self.vocabulary.special)[:20])) or "none"
                raise VocabularyError(
                    f"the vocabulary has no token {special!r}; its special tokens are: {known}. Use literal({special!r}) if the "
                    "model spells it in ordinary tokens"
                )
            return spelled
        return found

    def _spelled(self, text: bytes) -> int | None:
        found = self.vocabulary.trie.tokens_at(text)
        return next((token for end, token in found if end == len(text)), None)

    def letter(self, special: str | int) -> Node:
        """Return the tree of a special token."""
        return Characters(CharSet.single(self._number[self.token(special)]))

    def any_token(self, exclude: Iterable[str | int]) -> Node:
        """Return the tree of one token, whatever its text is, but for some."""
        excluded = {*map(self.token, exclude), *self.vocabulary.eos_ids}
        without_text = self.vocabulary.trie.node_of_id == 0
        without_text[[*self.own_ids, *self.vocabulary.eos_ids]] = False
        if not without_text.any():
            excluded.add(OTHERS)
        numbers = [number for token, number in self._number.items() if token not in excluded]
        numbers.append(self._whole())
        return Alternate(tuple([Characters(CharSet.single(number)) for number in numbers]))

    def _whole(self) -> int:
        """Return the symbol of any token with text that the language does not name, whatever its text is."""
        if WHOLE not in self._letters:
            self._letters.append(WHOLE)
        return LETTERS + self._letters.index(WHOLE)

    @property
    def own_ids(self) -> tuple[int, ...]:
        """The ids of all special tokens that the language names."""
        return tuple(token for token in self._number if token != OTHERS)

    def token_limit(self, most: int) -> tuple[CharSet, CharSet]:
        """Return the two symbols for a limit of tokens.

        In each state of the text, the first leads to that state, and the second to the end of a text that needs no marker.
        """
        count, end = (WHOLE - 1 - 2 * len(self._limits) - n for n in range(2))
        self._limits.append((count, end, most))
        self._letters += [count, end]
        return CharSet.single(LETTERS + len(self._letters) - 2), CharSet.single(LETTERS + len(self._letters) - 1)

    @property
    def tokens(self) -> Iterator[int]:
        """The symbols that free text may contain: of special tokens, the first for all that the language does not name.

        EOS ids are not among them: free text does not go on after one.
        """
        return (number for token, number in self._number.items() if token not in self.vocabulary.eos_ids)

    def names_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Return where names of special tokens without text stand in a text: where each begins and ends."""
        return (found.span() for found in self._names.finditer(text))

    def symbols(self, given: str | int, only_token: bool = False) -> list[Symbols]:
        """Return all ways to write a text or a special token.

        Args:
            given: A text, in which names of special tokens may stand; or a special token.
            only_token: Whether a special token is meant, and not its spelling.

        Raises:
            ConfigurationError: The text holds too many special tokens.
        """
        if only_token or isinstance(given, int):
            return [(self._number[self.token(given)],)]
        pieces: list[list[Symbols]] = []
        end = 0
        for found in self._names.finditer(given):
            pieces.append([tuple(map(ord, given[end : found.start()]))])
            name = found.group()
            pieces.append([(self._number[self._named[name]],), tuple(map(ord, name))])
            end = found.end()
        pieces.append([tuple(map(ord, given[end:]))])
        if len(pieces) > 2 * MOST_NAMES + 1:
            raise ConfigurationError(
                f"the text {given!r} has more than {MOST_NAMES} special tokens in it; give it in parts"
            )
        return [tuple(s for part in way for s in part) for way in product(*pieces)]

    def text(self, text: str) -> Node:
        """Return the tree of a fixed text; special tokens in it may be written as tokens, or spelled."""
        parts: list[Node] = []
        end = 0
        for found in self._names.finditer(text):
            parts.extend(_plain(text[end : found.start()]))
            name = found.group()
            parts.append(Alternate((self.letter(name), concatenate(_plain(name)))))
            end = found.end()
        return concatenate([*parts, *_plain(text[end:])]) if text else Empty()

    def value(self, key: Hashable, compiled: Compiled) -> Node:
        """Return the tree of a schema, which calls its objects and arrays.

        Args:
            key: What tells the schema from all others.
            compiled: Its network.
        """
        network = compiled.network
        self.dropped.extend(compiled.dropped)
        self.ignored.extend(compiled.ignored)
        words = tuple([self._words.setdefault(text, len(self._words)) for text in network.words])
        fresh: list[tuple[int, int]] = []
        calls: list[int] = []
        for number, definition in enumerate(network.definitions):
            place = _place(definition, key, number)
            known = self._places.get(place)
            if known is None:
                known = self._places[place] = len(self._definitions)
                self._definitions.append(definition)
                fresh.append((number, known))
            calls.append(known)
        numbers = tuple(calls)
        for number, place_here in fresh:
            definition = network.definitions[number]
            if isinstance(definition, Definition):
                name, called = definition.known_as, numbers
                if name is None:
                    name = key, number
                else:
                    called = tuple(numbers[call] for call in definition.calls)
                self._definitions[place_here] = PlacedDefinition(definition, name, called, words, numbers)
        return renumbered(network.main, numbers, words)

    def counted_text(self, text: CountedText) -> Node:
        """Return the tree of texts whose characters are counted, with the byte before them."""
        place = text.leaf.key, text.opening
        if place not in self._places:
            self._places[place] = len(self._definitions)
            self._definitions.append(text)
        return Call(self._places[place])

    def grammar(self, key: Hashable, grammar: RuleSet) -> Node:
        """Return the tree of a grammar, which calls its start.

        Args:
            key: What tells the grammar from all others, and from schemas.
            grammar: Its rules.

        Raises:
            PatternTooLarge: A rule is nested too deeply.
            VocabularyError: The vocabulary lacks a special token that the grammar names.
        """
        if key not in self._places:
            bodies = tuple([rule.body for rule in grammar.rules])
            check_trees(Rules(bodies, grammar.start), self.limits)
            first = self._places[key] = len(self._definitions)
            calls = range(first, first + len(bodies))
            letters = [self._symbol(token) - LETTERS for token in grammar.tokens]
            self._definitions += [replace(r, body=renumbered(r.body, calls, (), letters)) for r in grammar.rules]
            self.ignored.extend(grammar.warnings)
        return Call(self._places[key] + grammar.start)

    def _symbol(self, token: str | int) -> int:
        """Return the symbol of a special token of a grammar."""
        return self._whole() if token == WHOLE else self._number[OTHERS if token == OTHERS else self.token(token)]

    def rules(self, main: Node) -> Rules:
        """Return the whole language as the rules of a grammar, given its tree. Schemas are written without leaves and words.

        Raises:
            ConfigurationError: Text with a limit of tokens stands beside a grammar.
        """
        if self._limits:
            raise ConfigurationError(
                "any_text(max_tokens=...) stands in one language with a grammar, in which tokens cannot be counted; leave out "
                "one of them"
            )
        assert not self._words
        bodies = []
        for definition in self._definitions:
            # Characters are not counted in grammars.
            assert not isinstance(definition, CountedText)
            opening = [] if isinstance(definition, GrammarRule) else _plain(definition.opening)
            bodies.append(concatenate([*opening, definition.body]))
        return Rules((*bodies, main), len(bodies), tuple(self._letters))

    def network(self, main: Node) -> Network:
        """Return the whole network, given the tree of a language without grammars."""
        definitions = [definition for definition in self._definitions if not isinstance(definition, GrammarRule)]
        return Network(main, tuple(definitions), tuple(self._words), tuple(self._letters), tuple(self._limits))


def _place(definition: object, key: Hashable, number: int) -> Hashable:
    """Return what equal definitions have in common, whatever schemas they stand in."""
    if isinstance(definition, Strings):
        return definition.leaf.key, definition.excluded
    assert isinstance(definition, Definition)
    return (key, number) if definition.known_as is None else (definition.known_as, definition.opening)


def _plain(text: str) -> list[Node]:
    return [Characters(CharSet.single(ord(c))) for c in text]
