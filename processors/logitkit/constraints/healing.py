"""Token healing: cut off the last tokens of a prompt if a longer token might have been used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, SupportsIndex

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.parameters.scalars import as_integer
from logitkit.vocabulary.marker import check_vocabulary
from logitkit.vocabulary.trie import Trie
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["HealedPrompt", "heal_prompt"]


class HealedPrompt(NamedTuple):
    """A prompt without its last tokens, and their text.

    Args:
        tokens: The remaining ids.
        text: The text that the output must begin with, for `ForcedPrefix`; empty if nothing was cut off. It may end inside a
            character.
    """

    tokens: tuple[int, ...]
    text: bytes


def heal_prompt(
    tokens: Sequence[SupportsIndex], vocabulary: Vocabulary, count: SupportsIndex | None = None
) -> HealedPrompt:
    """Cut off the last tokens of a prompt if a longer token would have contained them, had the text continued.

    If `://` is a token, the tokens `http` and `:` rarely come before `//`: the model has seen `http` and `://` instead. So the
    last tokens are cut off as long as some token begins with all their text and is longer.

    Args:
        tokens: The ids of the prompt.
        vocabulary: The tokens.
        count: Cut off this many tokens instead, from 0.

    Returns:
        The remaining ids, and the text to force. Cutting stops at an id without text, such as a special token, and at the first
        token of the prompt, so fewer than `count` may be cut off.

    Raises:
        ConfigurationError: `count` is not an integer from 0.
        VocabularyError: An id is not in the vocabulary.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"http", b":", b"://", b"x", None], eos_ids=[4])
        >>> lk.heal_prompt([3, 0, 1], vocabulary)
        HealedPrompt(tokens=(3, 0), text=b':')

    Source: Lundberg, The Art of Prompt Design: Prompt Boundaries and Token Healing (2023).
    """
    check_vocabulary(vocabulary)
    ids = tuple(_checked_id(place, token, vocabulary) for place, token in enumerate(tokens))
    wanted = None if count is None else as_integer(count)
    if count is not None and (wanted is None or wanted < 0):
        raise ConfigurationError(f"count is {count!r}; allowed are integers from 0, and None to find the number")
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
