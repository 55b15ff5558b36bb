"""The same two questions to the tokenizers of all engines: the tokens of a text, and the text of tokens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from logitkit.integers import as_integer

__all__ = ["TextTokenizer"]

# Stands in decoded text for bytes that are no character.
REPLACEMENT = "\ufffd"

# A character has at most four bytes.
MOST_LEFT = 3


class TextTokenizer:
    """A tokenizer of any engine, with `encode` and `decode`.

    Args:
        tokenizer: Has `encode(text)` and `decode(ids)`; where they take `add_special_tokens` and
            `skip_special_tokens`, these are given. `bos_token_id`, `pad_token_id` and `eos_token_id` are read where they are.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def encode(self, text: str, with_special_tokens: bool = False) -> list[int]:
        """Return the tokens of a text; special ones, such as BOS, only on demand."""
        found = _call(self.tokenizer.encode, text, add_special_tokens=with_special_tokens)
        found = getattr(found, "ids", found)
        return [int(i) for i in found]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; special ones have none."""
        given = list(ids)
        text = _call(self.tokenizer.decode, given, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without what is left of a character at either end whose other bytes are elsewhere."""
        text = self._without_end(ids)
        if not text.startswith(REPLACEMENT) or self._is_written(ids[: self._size]):
            return text
        parts = (self._without_end(ids[n:]) for n in range(1, MOST_LEFT + 1))
        return _longest(text, parts, str.startswith, str.removeprefix)

    def cut_off(self, ids: Sequence[int]) -> int:
        """Return how many characters `decode` begins with that `text` leaves out."""
        decoded = self.decode(ids)
        if not decoded.startswith(REPLACEMENT) or self.text(ids).startswith(REPLACEMENT):
            return 0
        return len(decoded) - len(decoded.lstrip(REPLACEMENT))

    def _without_end(self, ids: Sequence[int]) -> str:
        text = self.decode(ids)
        if not text.endswith(REPLACEMENT) or self._is_written(ids[-self._size :]):
            return text
        parts = (self.decode(ids[:-n]) for n in range(1, MOST_LEFT + 1))
        return _longest(text, parts, str.endswith, str.removesuffix)

    def _is_written(self, ids: Sequence[int]) -> bool:
        """Return whether tokens are those of the character that stands for bytes: somebody may have written it."""
        return list(ids) == self.encode(REPLACEMENT)

    @property
    def _size(self) -> int:
        return len(self.encode(REPLACEMENT))

    @property
    def bos_id(self) -> int | None:
        """The id that begins a text, if any."""
        return as_integer(getattr(self.tokenizer, "bos_token_id", None))

    @property
    def pad_id(self) -> int:
        """An id for places without a token; which one does not matter, as masks tell them."""
        names = ("pad_token_id", "eos_token_id")
        found = (as_integer(getattr(self.tokenizer, name, None)) for name in names)
        return next((i for i in found if i is not None), 0)


def _longest(
    text: str, parts: Iterable[str], has: Callable[[str, str], bool], removed: Callable[[str, str], str]
) -> str:
    """Return the longest of what is left of a text without the bytes at an end, and of the texts of fewer tokens.

    Some tokenizers give up a whole run of bytes for one that is missing, with the characters in it that are complete.
    """
    for _ in range(MOST_LEFT):
        text = removed(text, REPLACEMENT)
    return max((one for one in (text, *parts) if not has(one, REPLACEMENT)), key=len, default=text)


def _call(function: Callable[..., Any], value: Any, **options: Any) -> Any:
    try:
        taken = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function(value)
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return function(value, **options)
    return function(value, **{name: option for name, option in options.items() if name in taken})
