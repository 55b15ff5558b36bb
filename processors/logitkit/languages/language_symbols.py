"""The special tokens of a language: which number stands for each in its tree, and how texts with their names are written.

In `sequence(special("<tool_call>"), text)`, the token `<tool_call>` is a symbol: `Symbol.special_token(i)` stands for it in the
tree, as a code point stands for a character. A special token stands for itself wherever the language names it, and is legal in
free text otherwise. A fixed text may contain the name of a special token: it may be written as that token, or spelled in others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

from logitkit.compiler.bytes.special_tokens import OTHERS, WHOLE
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.characters.text_search import Symbols
from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Alternate, Characters, Empty, Node
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["LanguageSymbols", "Symbols", "spelled_out"]

# A text with more special tokens in it, each written in two ways, is refused.
MOST_NAMES = 8


class LanguageSymbols:
    """Knows which number stands for which special token.

    Args:
        vocabulary: The tokens.
        special: The special tokens that the language names, by name or id.
        texts: The fixed texts of the language.
    """

    def __init__(self, vocabulary: Vocabulary, special: Iterable[str | int], texts: Iterable[str]) -> None:
        self.vocabulary = vocabulary
        given = {name: self.token(name) for name in special}
        ids = set(given.values())
        # A token that is a symbol is never read by its text, so texts that contain its name have to name the symbol.
        self._named = {n: t for n, t in vocabulary.special.items() if vocabulary.tokens[t] is None or t in ids}
        self._named |= {name: token for name, token in given.items() if isinstance(name, str)}
        # The longest first: one name may begin another.
        names = sorted(self._named, key=len, reverse=True)
        self._names = re.compile("|".join(map(re.escape, names)) or "(?!)")
        ids |= {self._named[name] for text in texts for name in self._names.findall(text)}
        self._special_tokens = [OTHERS, *sorted(ids)]
        self._number = {token: Symbol.special_token(i) for i, token in enumerate(self._special_tokens)}
        self._limits: list[tuple[int, int, int]] = []

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

    def special_token(self, special: str | int) -> Node:
        """Return the tree of a special token."""
        return Characters(CharSet.single(self._number[self.token(special)]))

    def any_token(self, exclude: Iterable[str | int]) -> Node:
        """Return the tree of one token, whatever its text is, but for some."""
        excluded = {*map(self.token, exclude), *self.vocabulary.eos_ids}
        without_text = self.vocabulary.without_text
        without_text[[*self.own_ids, *self.vocabulary.eos_ids]] = False
        if not without_text.any():
            excluded.add(OTHERS)
        numbers = [number for token, number in self._number.items() if token not in excluded]
        numbers.append(self._sign(WHOLE))
        return Alternate(tuple([Characters(CharSet.single(number)) for number in numbers]))

    def _sign(self, number: int) -> int:
        """Return the symbol of a number below those of tokens: of `WHOLE`, for any token with text, or a sign of a limit."""
        if number not in self._special_tokens:
            self._special_tokens.append(number)
        return Symbol.special_token(self._special_tokens.index(number))

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
        self._special_tokens += [count, end]
        first, second = (Symbol.special_token(len(self._special_tokens) - n) for n in (2, 1))
        return CharSet.single(first), CharSet.single(second)

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
            parts.extend(spelled_out(text[end : found.start()]))
            name = found.group()
            parts.append(Alternate((self.special_token(name), concatenate(spelled_out(name)))))
            end = found.end()
        return concatenate([*parts, *spelled_out(text[end:])]) if text else Empty()


def spelled_out(text: str) -> list[Node]:
    """Return the trees of the characters of a text."""
    return [Characters(CharSet.single(ord(c))) for c in text]
