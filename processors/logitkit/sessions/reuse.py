"""Reuse of cached tokens: find the part of the cache that a new prompt starts with."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from logitkit.errors import ArgumentTypeError, ConfigurationError
from logitkit.parameters.scalars import as_integer

__all__ = ["Reuse", "plan_reuse"]


class Reuse(NamedTuple):
    """The cached tokens that replace the beginning of a prompt.

    Args:
        start: Index of the first reused token in the cache. If above 0, the tokens before it are dropped, and positions shift.
        length: The number of reused tokens.
        todo: The rest of the prompt, at least one token, to be fed to the model.
    """

    start: int
    length: int
    todo: list[int]


def plan_reuse(old: Sequence[int], new: Sequence[int], rolling: bool = False) -> Reuse:
    """Find the cached tokens that a prompt starts with.

    The last token of the prompt is never reused, because the model must compute its logits.

    Args:
        old: The cached tokens.
        new: The prompt, at least one token.
        rolling: Whether the reused tokens may start anywhere in the cache. Then the longest match wins, the first of several,
            so the common prefix is preferred. By default, only the common prefix is reused.

    Returns:
        The reused tokens and the rest of the prompt. The time is linear in both lengths.

    Raises:
        ArgumentTypeError: An argument is not a sequence of token ids, but for example a text or floats.
        ConfigurationError: The prompt has no tokens.

    Example:
        >>> import logitkit as lk
        >>> lk.plan_reuse([1, 2, 3, 4], [1, 2, 9])
        Reuse(start=0, length=2, todo=[9])
        >>> lk.plan_reuse([1, 2, 1, 3], [1, 3, 4], rolling=True)
        Reuse(start=2, length=2, todo=[4])

    Source: the Z algorithm, see Gusfield, Algorithms on Strings, Trees, and Sequences, 1997, section 1.4.
    """
    cached, prompt = _ids("old", old), _ids("new", new)
    if not prompt:
        raise ConfigurationError("new has no tokens; a prompt has at least one, whose logits begin the new text")
    if rolling:
        start, length = _longest_run(cached, prompt[:-1])
    else:
        start, length = 0, common_prefix(cached, prompt[:-1])
    return Reuse(start, length, prompt[length:])


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences."""
    shorter = min(len(one), len(other))
    # Usually one is a prefix of the other, as in a chat, and comparing them in one go is the fastest way to find out.
    if one[:shorter] == other[:shorter]:
        return shorter
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return shorter


def _ids(name: str, given: object) -> list[int]:
    if isinstance(given, str | bytes | bytearray) or not isinstance(given, Iterable):
        raise ArgumentTypeError(
            f"{name} is {reprlib.repr(given)} of type {type(given).__name__}; give a sequence of token ids"
        )
    values = list(given)
    # Checking the set of types of a long prompt is much cheaper than checking each token.
    if set(map(type, values)) <= {int}:
        return values
    for value in values:
        if as_integer(value) is None:
            raise ArgumentTypeError(
                f"{name} contains {reprlib.repr(value)} of type {type(value).__name__}; give integers, the ids of tokens"
            )
    return values


def _longest_run(text: list[int], pattern: list[int]) -> tuple[int, int]:
    """Return the position and length of the longest prefix of a pattern in a text, the first of several."""
    # The separator equals no token, so that no match extends beyond the pattern.
    joined: list[int | None] = [*pattern, None, *text]
    begin = len(pattern) + 1
    lengths = [0] * len(joined)
    # The match that extends furthest so far: joined[left:right] equals the beginning of the pattern.
    left = right = start = longest = 0
    for place in range(1, len(joined)):
        length = min(right - place, lengths[place - left]) if place < right else 0
        while place + length < len(joined) and joined[length] == joined[place + length]:
            length += 1
        lengths[place] = length
        if place + length > right:
            left, right = place, place + length
        if place >= begin and length > longest:
            start, longest = place - begin, length
    return start, longest
