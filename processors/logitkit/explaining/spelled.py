"""Texts as token ids, without a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from logitkit.errors import ConfigurationError
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["spelled"]


def spelled(given: Sequence[int] | str, vocabulary: Vocabulary) -> list[int]:
    """Return token ids as they are, and a text in the longest tokens from left to right.

    The name of a special token stands for this token.

    Raises:
        ConfigurationError: No token begins at some place of the text.

    Example:
        >>> spelled("ab-", Vocabulary([b"a", b"ab", b"b", b"-", None], eos_ids=[4]))
        [1, 3]
    """
    if not isinstance(given, str):
        return [int(token) for token in given]
    text, at, tokens = given.encode(), 0, list[int]()
    longest = max((len(name.encode()) for name in vocabulary.special), default=0)
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
