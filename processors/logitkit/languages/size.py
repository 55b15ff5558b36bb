"""Refuses languages that are built from too many parts, or nest too deeply, before anything walks through them."""

from __future__ import annotations

from typing import Any

from logitkit.errors import ConfigurationError

__all__ = ["check_size"]

# Walks through a language call themselves at each level, several frames deep, within Python's limit of 1,000.
MOST_LEVELS = 100

# Each part costs a few microseconds wherever it stands.
MOST_PARTS = 200_000


def check_size(language: Any) -> None:
    """Raise an error if a language is too large, without recursion and in time linear in its distinct parts.

    Args:
        language: A language.

    Raises:
        ConfigurationError: It nests too deeply, or has too many parts, counted as often as they stand in it.
    """
    # By identity: to compare parts would walk through them. How deep and how large each part is.
    known: dict[int, tuple[int, int]] = {}
    todo = [(language, False)]
    while todo:
        part, ready = todo.pop()
        if id(part) in known:
            continue
        parts = part.parts
        if not ready:
            todo.append((part, True))
            todo.extend((inner, False) for inner in parts)
            continue
        found = [known[id(inner)] for inner in parts]
        levels = 1 + max((level for level, _ in found), default=0)
        size = 1 + sum(count for _, count in found)
        if levels > MOST_LEVELS:
            raise ConfigurationError(
                f"the language has more than {MOST_LEVELS} languages inside each other; write repetitions by repeat(...), and "
                "many parts by one sequence(...) or either(...)"
            )
        if size > MOST_PARTS:
            raise ConfigurationError(
                f"the language has more than {MOST_PARTS:,} parts, counted as often as they occur; use repeat(...) for "
                "repetitions, and choice(...) for lists of texts"
            )
        known[id(part)] = levels, size
