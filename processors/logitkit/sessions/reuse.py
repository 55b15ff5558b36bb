"""Which cached tokens serve a new prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logitkit.errors import ConfigurationError

__all__ = ["Reuse", "plan_reuse"]


class Reuse(NamedTuple):
    """Which run of cached tokens stands for the beginning of a prompt.

    Args:
        start: Where the run begins among the cached tokens; above 0, what is before it is dropped, and its positions move.
        length: How many tokens it has.
        todo: The rest of the prompt, at least one token: it must be fed.
    """

    start: int
    length: int
    todo: list[int]


def plan_reuse(old: Sequence[int], new: Sequence[int], rolling: bool = False) -> Reuse:
    """Find the cached tokens that a prompt begins with.

    At least the last token of the prompt is left to be fed, for its logits are wanted.

    Args:
        old: The cached tokens.
        new: The prompt, at least one token.
        rolling: Whether the run may begin anywhere: the longest is taken, of equally long ones the first, so that the common
            prefix is preferred. By default, only the common prefix is.

    Returns:
        The run, and what is left to do. The time is linear in the lengths.

    Raises:
        ConfigurationError: The prompt has no tokens.

    Example:
        >>> plan_reuse([1, 2, 3, 4], [1, 2, 9])
        Reuse(start=0, length=2, todo=[9])
        >>> plan_reuse([1, 2, 1, 3], [1, 3, 4], rolling=True)
        Reuse(start=2, length=2, todo=[4])

    Source: the runs are found by the Z algorithm, Gusfield, Algorithms on Strings, Trees, and Sequences, 1997, section 1.4.
    """
    cached, prompt = list(old), list(new)
    if not prompt:
        raise ConfigurationError("new has no tokens; a prompt has at least one, whose logits begin the new text")
    if rolling:
        start, length = _longest_run(cached, prompt[:-1])
    else:
        start, length = 0, common_prefix(cached, prompt[:-1])
    return Reuse(start, length, prompt[length:])


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with alike."""
    shorter = min(len(one), len(other))
    # Mostly all of it is alike, as in a chat, which takes a comparison of the whole the shortest time to say.
    if one[:shorter] == other[:shorter]:
        return shorter
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return shorter


def _longest_run(text: list[int], pattern: list[int]) -> tuple[int, int]:
    """Return where in a text the longest beginning of a pattern is, the first of several, and how long that is."""
    # What stands between the two is equal to no token, so that no run goes beyond the pattern.
    joined: list[int | None] = [*pattern, None, *text]
    begin = len(pattern) + 1
    lengths = [0] * len(joined)
    # The run that reaches furthest so far, joined[left:right], equals the beginning of the pattern.
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
