"""Prompts as lists of token ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer, checked_integer

__all__ = ["read_prompts"]


def read_prompts(prompt: Any, encode: Callable[[str], list[int]] | None) -> list[list[int]]:
    """Return the tokens of each prompt.

    Args:
        prompt: A text, a list of token ids, or several of either.
        encode: Returns the tokens of a text; None if there is no tokenizer.

    Raises:
        ConfigurationError: There is no prompt, or one is something else, has no tokens, or is a text without a tokenizer.
    """
    given = prompt.tolist() if isinstance(prompt, Tensor) else prompt
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"prompt is {given!r}; give a text, a list of token ids, or several of either")
    rows = [given] if isinstance(given, str) else list(given)
    if rows and (_are_plain(rows) or all(as_integer(i) is not None for i in rows)):
        rows = [rows]
    if not rows:
        raise ConfigurationError(
            "the prompt has no tokens, or there is no prompt; give at least one token, such as the model's BOS"
        )
    return [_tokens(row, encode) for row in rows]


def _tokens(prompt: Any, encode: Callable[[str], list[int]] | None) -> list[int]:
    if isinstance(prompt, str):
        if encode is None:
            raise ConfigurationError(
                f"the prompt is the text {prompt!r}, but there is no tokenizer; give one, or give token ids"
            )
        tokens = encode(prompt)
    elif isinstance(prompt, Iterable):
        tokens = list(prompt)
        if not _are_plain(tokens) or not 0 <= min(tokens) <= max(tokens) < 2**31:
            tokens = [checked_integer("prompt", i, 0, 2**31 - 1) for i in tokens]
    else:
        raise ConfigurationError(f"a prompt is {prompt!r}; give a text or a list of token ids")
    if not tokens:
        raise ConfigurationError("a prompt has no tokens; give at least one, such as the model's BOS")
    return tokens


def _are_plain(values: list[Any]) -> bool:
    """Whether all are Python's integers; of a long prompt one by one takes long to say."""
    return set(map(type, values)) == {int}
