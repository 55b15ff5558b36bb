"""Cut a prompt back to where its last tokens might have been longer ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, SupportsIndex

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.parameters.integers import as_integer
from logitkit.vocabulary.trie import Trie
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["HealedPrompt", "heal_prompt"]


class HealedPrompt(NamedTuple):
    """A prompt without its last tokens, and the text that these said.

    Args:
        tokens: The ids that are left.
        text: What the new text must begin with, for `ForcedPrefix`; not necessarily whole characters. Empty if nothing was cut.
    """

    tokens: tuple[int, ...]
    text: bytes


def heal_prompt(
    tokens: Sequence[SupportsIndex], vocabulary: Vocabulary, count: SupportsIndex | None = None
) -> HealedPrompt:
    """Cut back the last tokens of a prompt that a longer token might have taken in, had the text gone on.

    A prompt that ends with `http` and `:` would rarely have been written so before `//`, if `://` is a token: the model has seen
    other tokens there. So the last tokens are cut back as far as some token says all that they say, and more.

    Args:
        tokens: The ids of the prompt.
        vocabulary: The tokens.
        count: Cut so many tokens instead, from 0.

    Returns:
        The ids that are left, and the text to force. Ids without text (special tokens) are never cut nor passed, and of a prompt
        that had tokens one is left, so fewer than `count` may be cut.

    Raises:
        ConfigurationError: `count` is no integer from 0.
        VocabularyError: An id is none of the vocabulary's.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"http", b":", b"://", b"x", None], eos_ids=[4])
        >>> lk.heal_prompt([3, 0, 1], vocabulary)
        HealedPrompt(tokens=(3, 0), text=b':')

    Source: Lundberg, The Art of Prompt Design: Prompt Boundaries and Token Healing (2023).
    """
    if not isinstance(vocabulary, Vocabulary):
        raise VocabularyError(f"vocabulary is a {type(vocabulary).__name__}; give a logitkit.Vocabulary")
    ids = tuple(_checked_id(place, token, vocabulary) for place, token in enumerate(tokens))
    wanted = None if count is None else as_integer(count)
    if count is not None and (wanted is None or wanted < 0):
        raise ConfigurationError(f"count is {count!r}; allowed are integers from 0, and None to cut what needs healing")
    text, kept, healed = b"", len(ids), b""
    for place in range(len(ids) - 1, 0, -1):
        spelled = vocabulary.tokens[ids[place]]
        if spelled is None or (wanted is not None and len(ids) - place > wanted):
            break
        text = spelled + text
        # No token is longer than the trie is deep.
        if wanted is None and len(text) >= vocabulary.trie.depth:
            break
        if wanted is not None or _goes_on(vocabulary.trie, text):
            kept, healed = place, text
    return HealedPrompt(ids[:kept], healed)


def _goes_on(trie: Trie, text: bytes) -> bool:
    """Whether a longer token starts with the text."""
    path = trie.path(text)
    return len(path) == len(text) and bool(trie.children[path[-1]] < trie.children[path[-1] + 1])


def _checked_id(place: int, given: object, vocabulary: Vocabulary) -> int:
    found = as_integer(given)
    if found is None or not 0 <= found < vocabulary.size:
        raise VocabularyError(f"tokens[{place}] is {given!r}; allowed are ids from 0 to {vocabulary.size - 1}")
    return found
