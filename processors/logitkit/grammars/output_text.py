"""An output as the characters and special tokens that a grammar reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from logitkit.compiler.characters.symbols import Symbol
from logitkit.errors import ConfigurationError, OutputError
from logitkit.parameters.scalars import as_integer
from logitkit.vocabulary.marker import encoded
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["OutputText", "output_text"]


class OutputText(NamedTuple):
    """The symbols of an output.

    Args:
        symbols: Code points, and `Symbol.special_token(i)`.
        texts: The text of each; of a special token, its name.
        places: The token that each ends in; of a text, the character.
        what: The unit of the places: "token" or "character".
    """

    symbols: list[int]
    texts: list[str]
    places: list[int]
    what: str


def output_text(given: Any, vocabulary: Vocabulary, special_tokens: Mapping[int, int]) -> OutputText:
    """Read an output.

    Args:
        given: Its text, in which the name of a special token of the grammar stands for the token; or its token ids, with -1 for
            none. Nothing but EOS and padding may follow an EOS that the grammar does not name.
        vocabulary: The tokens.
        special_tokens: The special tokens of the grammar, by id, with the number of each.

    Raises:
        ConfigurationError: It is neither a text nor token ids.
        OutputError: Its tokens have no text, or a text that is not valid UTF-8.

    Example:
        >>> vocabulary = Vocabulary([b"a", None, None], eos_ids=[2], special={"<x>": 1})
        >>> output_text("a<x>", vocabulary, {1: 0}) == output_text([0, 1, 2], vocabulary, {1: 0})._replace(
        ...     places=[0, 1], what="character"
        ... )
        True
    """
    if isinstance(given, str):
        return _of_text(given, vocabulary, special_tokens)
    found = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(found, bytes | bytearray) or not isinstance(found, Iterable):
        raise ConfigurationError(
            f"output is of type {type(given).__name__}; give the text as str, or the token ids of one row"
        )
    reader = _TokenReader(vocabulary, special_tokens)
    for at, token in enumerate(found):
        number = as_integer(token)
        if number is None or not -1 <= number < vocabulary.size:
            allowed = f"the token ids of one row are integers from 0 to {vocabulary.size - 1}, or -1 for none"
            raise ConfigurationError(f"output[{at}] is {token!r:.60}; {allowed}")
        if number >= 0:
            reader.add(at, number)
    reader.flush()
    return reader.text


def _of_text(text: str, vocabulary: Vocabulary, special_tokens: Mapping[int, int]) -> OutputText:
    encoded("output", text)
    names = {name: special_tokens[token] for name, token in vocabulary.special.items() if token in special_tokens}
    longest_first = sorted(names, key=len, reverse=True)
    found, at = OutputText([], [], [], "character"), 0
    while at < len(text):
        name = next((name for name in longest_first if name and text.startswith(name, at)), "")
        found.symbols.append(Symbol.special_token(names[name]) if name else ord(text[at]))
        found.texts.append(name or text[at])
        found.places.append(at)
        at += len(name) or 1
    return found


class _TokenReader:
    """Reads tokens one after the other."""

    def __init__(self, vocabulary: Vocabulary, special_tokens: Mapping[int, int]) -> None:
        self.vocabulary, self.special_tokens = vocabulary, special_tokens
        self.text = OutputText([], [], [], "token")
        self.bytes, self.places = bytearray(), list[int]()
        self.end: int | None = None

    def add(self, at: int, token: int) -> None:
        """Read a token."""
        vocabulary = self.vocabulary
        if self.end is not None:
            if token not in vocabulary.eos_ids and token != vocabulary.pad_id:
                self.refuse(f"output[{at}] is token {token}, which follows EOS at {self.end}; give only one output")
        elif token in self.special_tokens:
            self.flush()
            text = vocabulary.tokens[token]
            name = vocabulary.special_names.name(token) or (text or b"").decode("utf-8", "replace") or f"<[{token}]>"
            self.text.symbols.append(Symbol.special_token(self.special_tokens[token]))
            self.text.texts.append(name)
            self.text.places.append(at)
        elif token in vocabulary.eos_ids:
            self.end = at
        elif (text := vocabulary.tokens[token]) is None:
            name = vocabulary.special_names.name(token)
            shown = f"{token} ({name})" if name else f"{token}"
            self.refuse(f"output[{at}] is token {shown}, which has no text and is not named by the grammar")
        else:
            self.bytes += text
            self.places += [at] * len(text)

    def flush(self) -> None:
        """Decode the text of the tokens since the last special token."""
        try:
            text = self.bytes.decode()
        except UnicodeDecodeError as error:
            at = self.places[error.start]
            self.refuse(f"the text of output[{at}] is not valid UTF-8: it has a part of a character")
        end = 0
        for character in text:
            end += len(character.encode())
            self.text.symbols.append(ord(character))
            self.text.texts.append(character)
            self.text.places.append(self.places[end - 1])
        self.bytes, self.places = bytearray(), []

    def refuse(self, reason: str) -> NoReturn:
        """Raise for an output that is not one of the grammar."""
        raise OutputError(reason, self.vocabulary_text())

    def vocabulary_text(self) -> str:
        """Return the text so far."""
        return "".join(self.text.texts) + self.bytes.decode("utf-8", "replace")
