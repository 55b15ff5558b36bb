"""Texts as token ids, without a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logitkit.errors import ConfigurationError
from logitkit.parameters.integers import as_integer
from logitkit.vocabulary.marker import encoded
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["spelled"]


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
