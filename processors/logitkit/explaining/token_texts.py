"""The text of tokens as people can read it, and texts as token ids, without a tokenizer."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Iterable, Sequence

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import as_integer
from logitkit.vocabulary.marker import encoded
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["before_byte", "quoted", "shortened", "spelled", "visible", "width"]

_LONGEST = 80


def visible(text: str | bytes) -> str:
    r"""Escape characters that a terminal would interpret instead of showing, and bytes that are not UTF-8.

    Example:
        >>> print(visible(b"a\n\xff\x1b[31m"))
        a\n\xff\x1b[31m
    """
    text = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(text: str | bytes) -> str:
    """Put visible text in quotation marks."""
    return f"'{visible(text)}'"


def shortened(text: str) -> str:
    """Return a text, of a long one the beginning."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def before_byte(data: bytes, byte: int) -> str:
    """Return the visible text before the character to which a byte belongs.

    Example:
        >>> before_byte("aé".encode(), 2)
        'a'
    """
    return visible(codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(data[:byte]))


def width(text: str) -> int:
    """Return the number of terminal cells that a text takes.

    Example:
        >>> width("Zoë"), width("東京")
        (3, 4)
    """
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def spelled(given: Sequence[int] | str, vocabulary: Vocabulary, name: str = "output") -> list[int]:
    """Return token ids as they are, and a text in the longest tokens from left to right.

    The name of a special token stands for this token.

    Args:
        given: The token ids, or the text.
        vocabulary: The tokens.
        name: The argument's name, for errors.

    Raises:
        ConfigurationError: It is neither a text nor integers, or no token begins at some place of the text.

    Example:
        >>> spelled("ab-", Vocabulary([b"a", b"ab", b"b", b"-", None], eos_ids=[4]))
        [1, 3]
    """
    if not isinstance(given, str):
        return _ids(given, name)
    text, at, tokens = encoded(name, given), 0, list[int]()
    longest = max((len(special.encode()) for special in vocabulary.special), default=0)
    while at < len(text):
        begun = [text[at:end] for end in range(at + 1, min(at + longest, len(text)) + 1)]
        found = [(at + len(name), i) for name in begun for i in vocabulary.special_names.tokens(name)]
        found = found or vocabulary.trie.tokens_at(text, at)
        if not found:
            raise ConfigurationError(
                f"no token of the vocabulary begins {text[at : at + 20].decode('utf-8', 'replace')!r}, at byte {at} of the text; "
                "give token ids, or a text that the tokens can spell"
            )
        # Of equal tokens, the first.
        at, token = max(found, key=lambda one: one[0])
        tokens.append(token)
    return tokens


def _ids(given: Sequence[int], name: str) -> list[int]:
    """Return token ids as Python's integers.

    Raises:
        ConfigurationError: They are not integers.
    """
    # The bytes of a text are a sequence of integers too, but not token ids.
    if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
        raise ConfigurationError(
            f"{name} is of type {type(given).__name__}; give a list of token ids, or a text as str"
        )
    ids = []
    for at, token in enumerate(given):
        number = as_integer(token)
        if number is None:
            raise ConfigurationError(f"{name}[{at}] is {token!r:.60}; a token id is an integer")
        ids.append(number)
    return ids
