"""JSON objects whose keys differ: readers keep only one of several equal keys, and which one depends on the reader."""

from __future__ import annotations

from typing import Any

from logitkit.errors import ConfigurationError

__all__ = ["with_unique_keys"]


def with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object as a dict; the argument `object_pairs_hook` of `json.loads`.

    Raises:
        ConfigurationError: Two have the same key.

    Example:
        >>> import json
        >>> json.loads('{"a": 1, "b": {"c": 2}}', object_pairs_hook=with_unique_keys)
        {'a': 1, 'b': {'c': 2}}
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ConfigurationError(
            f"an object has the key {twice!r:.80} twice; JSON readers keep one of them only, so remove one"
        )
    return found
