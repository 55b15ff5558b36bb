"""The check that two tokenizers agree on token ids: the tokenizer of a state and that of the generator that continues it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.sessions.text_tokenizer import TextTokenizer

__all__ = ["check_same_tokenizer"]

# Common words, numbers and punctuation: tokenizers with the same vocabulary agree on them, and different ones almost never do.
PROBE = 'The quick brown fox (31 years old) jumps over 1250 lazy dogs.\n\t"It is not so," said nobody: x = [a + b];\n'


def check_same_tokenizer(rows: Sequence[Sequence[int]], one: Any, other: Any) -> None:
    """Check that ids mean the same to two tokenizers, by decoding them and by encoding a common text.

    Args:
        rows: The ids.
        one: The tokenizer of the state; None if unknown.
        other: The tokenizer of the generator that continues the state.

    Raises:
        ConfigurationError: The tokenizers disagree.
    """
    if one is None or one is other:
        return
    if _meanings(TextTokenizer(one), rows) != _meanings(TextTokenizer(other), rows):
        raise ConfigurationError(
            f"the state has another tokenizer ({type(one).__qualname__}), whose token ids mean other texts than those of the one "
            f"that continues it ({type(other).__qualname__}); give its texts instead: list(state)"
        )


def _meanings(tokenizer: TextTokenizer, rows: Sequence[Sequence[int]]) -> list[Any]:
    """Return the ids of a common text, and the texts of rows, stripped, because some tokenizers omit outer spaces."""
    texts = [_tried(tokenizer.decode, row) for row in rows]
    return [_tried(tokenizer.encode, PROBE), *(text and text.strip() for text in texts)]


def _tried(method: Callable[[Any], Any], given: object) -> Any:
    """Return the result of a method, or None for a text that it cannot encode or ids that it cannot decode."""
    try:
        return method(given)
    except Exception:  # noqa: BLE001 - tokenizers raise errors of every kind
        return None
