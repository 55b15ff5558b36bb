"""All ways to write a text with whole tokens.

For example, a vocabulary with `a`, `b`, `c`, `ab` and `bc` writes `abc` as `a b c`, `ab c` and `a bc`. Their number may double
with each byte, so it is limited. They are found from the end of the text, so that the rest of the text is known at each place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logitkit.errors import ConfigurationError

if TYPE_CHECKING:
    from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["MOST_TOKENIZATIONS", "tokenizations_of"]

MOST_TOKENIZATIONS = 1024


def tokenizations_of(text: str, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """Return all sequences of token ids whose texts, one after the other, are the given text.

    Raises:
        ConfigurationError: The text is empty, cannot be written, or in more than 1,024 ways.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
        >>> tokenizations_of("ab", vocabulary)
        [(0, 1), (2,)]
    """
    if not isinstance(text, str) or not text:
        raise ConfigurationError(f"the text to bias is {text!r}; give a text of at least one character")
    content = text.encode()
    parts = {content[i:j] for i in range(len(content)) for j in range(i + 1, len(content) + 1)}
    ids: dict[bytes, list[int]] = {}
    for i, token in enumerate(vocabulary.tokens):
        if token in parts:
            ids.setdefault(token, []).append(i)
    # How many sequences there are is known before one is made.
    counts = [0] * len(content) + [1]
    for start in range(len(content) - 1, -1, -1):
        ends = range(start + 1, len(content) + 1)
        counts[start] = sum(len(ids.get(content[start:end], ())) * counts[end] for end in ends)
    if not 0 < counts[0] <= MOST_TOKENIZATIONS:
        ways = (
            "cannot be written with the tokens of the vocabulary" if not counts[0] else f"has {counts[0]} tokenizations"
        )
        raise ConfigurationError(
            f"the text {text!r} {ways}; allowed are 1 to {MOST_TOKENIZATIONS}; give a shorter text"
        )
    found: list[list[tuple[int, ...]]] = [[] for _ in content] + [[()]]
    for start in range(len(content) - 1, -1, -1):
        if counts[start] <= MOST_TOKENIZATIONS:
            for end in range(start + 1, len(content) + 1):
                heads = ids.get(content[start:end], ())
                found[start] += [(head, *rest) for head in heads for rest in found[end]]
    return found[0]
