"""Checks of the arguments of a session, the same for all engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from logitkit.errors import ConfigurationError
from logitkit.parameters.integers import checked_integer
from logitkit.protocol.processor import check_is_processor

__all__ = ["MOST", "check_open", "checked_new_tokens", "checked_position", "checked_processor", "checked_seed"]

MOST = 2**31 - 1

P = TypeVar("P")


def check_open(is_closed: bool) -> None:
    """Raise `ConfigurationError` if a session has been closed."""
    if is_closed:
        raise ConfigurationError("the session is closed; create another")


def checked_processor(processor: P, note: str = "") -> P:
    """Return a processor, or None.

    Args:
        processor: The value to check.
        note: A remark on other allowed values, for the error.

    Raises:
        ConfigurationError: The value has another type.
    """
    if processor is not None:
        check_is_processor(processor, note=note)
    return processor


def checked_seed(seed: int | None) -> int | None:
    """Return a seed, or None for greedy decoding.

    Raises:
        ConfigurationError: The seed is not a 63-bit integer.
    """
    return None if seed is None else checked_integer("seed", seed, 0, 2**63 - 1)


def checked_position(position: int, here: int) -> int:
    """Return a position to rewind a session to.

    Raises:
        ConfigurationError: It is not an integer from 0 to the current position.
    """
    return checked_integer("position", position, 0, here, "; a session can only be rewound")


def checked_new_tokens(
    prompt: list[int], asked: int | None, limit: int | None, prefix: Callable[[list[int]], tuple[int, str]]
) -> int:
    """Return the maximum number of tokens to add to a prompt.

    Args:
        prompt: The tokens of the prompt.
        asked: The requested number; None: as many as the limit allows.
        limit: The maximum number of tokens of prompt and output, if there is one.
        prefix: Returns how many tokens of the prompt already exist, and a description of them, for the error.

    Raises:
        ConfigurationError: The tokens exceed the limit, there is no limit, or `asked` is not a number of tokens.
    """
    if asked is None:
        if limit is None:
            raise ConfigurationError("max_new_tokens is None, and so is max_length; give one of them")
        asked = max(1, limit - len(prompt))
    count = checked_integer("max_new_tokens", asked, 1, MOST)
    if limit is not None and len(prompt) + count > limit:
        there, what = prefix(prompt)
        rest = len(prompt) - there
        raise ConfigurationError(
            f"a prefix of {there} {what} and an addition of {rest + count}, {rest} of the prompt and {count} new ones, are "
            f"{len(prompt) + count} tokens: more than max_length={limit}; drop the head of the prompt, or ask for fewer new "
            "tokens"
        )
    return count
