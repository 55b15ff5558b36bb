"""What the sessions of all engines are given, checked alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from logitkit.errors import ConfigurationError
from logitkit.integers import checked_integer
from logitkit.processor import is_processor

__all__ = ["MOST", "check_open", "checked_new_tokens", "checked_position", "checked_processor", "checked_seed"]

MOST = 2**31 - 1

P = TypeVar("P")


def check_open(is_closed: bool) -> None:
    """Raise `ConfigurationError` if a session has been closed."""
    if is_closed:
        raise ConfigurationError("the session is closed; make another")


def checked_processor(processor: P, note: str = "") -> P:
    """Return a processor, or None.

    Args:
        processor: What is given for one.
        note: What is allowed besides, for an error.

    Raises:
        ConfigurationError: It is something else.
    """
    if processor is not None and not is_processor(processor):
        raise ConfigurationError(
            f"processor is {processor!r}; give a processor, such as logitkit.Regex(...){note and f', {note}'}"
        )
    return processor


def checked_seed(seed: int | None) -> int | None:
    """Return a seed, or None where the likeliest tokens are taken.

    Raises:
        ConfigurationError: It is no integer of 63 bits.
    """
    return None if seed is None else checked_integer("seed", seed, 0, 2**63 - 1)


def checked_position(position: int, here: int) -> int:
    """Return a position to set a session back to.

    Raises:
        ConfigurationError: It is not one from 0 to here.
    """
    return checked_integer("position", position, 0, here, "; a session can be set back only")


def checked_new_tokens(
    prompt: list[int], asked: int | None, limit: int | None, prefix: Callable[[list[int]], tuple[int, str]]
) -> int:
    """Return how many tokens may come to a prompt.

    Args:
        prompt: Its tokens.
        asked: How many are asked for; None: as many as there is room for.
        limit: Most tokens of prompt and output, if there is a limit.
        prefix: Returns how many tokens a prompt begins with that are there already, and what they are, for an error.

    Raises:
        ConfigurationError: They are more than the limit, there is none, or `asked` is no number of tokens.
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
