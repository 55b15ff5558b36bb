"""The check that two tokenizers agree on token ids: the tokenizer of a state and that of the generator that continues it."""

from __future__ import annotations

from collections.abc import Sequence
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
    first, second = TextTokenizer(one), TextTokenizer(other)
    if _probed(first) != _probed(second) or any(_read(first, row) != _read(second, row) for row in rows):
        raise ConfigurationError(
            f"the state has another tokenizer ({type(one).__qualname__}), whose token ids mean other texts than those of the one "
            f"that continues it ({type(other).__qualname__}); give its texts instead: list(state)"
        )


def _probed(tokenizer: TextTokenizer) -> list[int] | None:
    try:
        return tokenizer.encode(PROBE)
    except Exception:  # noqa: BLE001 - tokenizers raise errors of every kind for text that they cannot encode
        return None


def _read(tokenizer: TextTokenizer, row: Sequence[int]) -> str | None:
    """Return the text of ids, stripped, because some tokenizers omit outer spaces; None if the ids are out of range."""
    try:
        return tokenizer.decode(row).strip()
    except Exception:  # noqa: BLE001 - as above, for ids
        return None
