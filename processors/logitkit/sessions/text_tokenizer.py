"""A common interface to the tokenizers of all engines: encode text, decode tokens, and the check that two agree."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import as_integer
from logitkit.vocabulary.marker import encoded

__all__ = ["MOST_LEFT", "REPLACEMENT", "TextTokenizer", "check_same_tokenizer"]

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


# Replaces bytes that are not a character in decoded text.
REPLACEMENT = "\ufffd"

# A character has at most four bytes.
MOST_LEFT = 3


class TextTokenizer:
    """A tokenizer of any engine, with `encode` and `decode`.

    Args:
        tokenizer: An object with `encode(text)` and `decode(ids)`. `add_special_tokens` and `skip_special_tokens` are passed if
            the methods accept them. `bos_token_id`, `pad_token_id` and `eos_token_id` are used if present.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def encode(self, text: str, with_special_tokens: bool = False) -> list[int]:
        """Return the tokens of a text; special tokens, such as BOS, only on request.

        Raises:
            ConfigurationError: The text has a lone surrogate.
        """
        encoded("text", text)
        found = _call(self.tokenizer.encode, text, add_special_tokens=with_special_tokens)
        found = getattr(found, "ids", found)
        return [int(i) for i in found]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        given = list(ids)
        text = _call(self.tokenizer.decode, given, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, without incomplete characters at either end."""
        text = self._without_end(ids)
        if not text.startswith(REPLACEMENT) or self._is_written(ids, at_end=False):
            return text
        parts = (self._without_end(ids[n:]) for n in range(1, MOST_LEFT + 1))
        return _longest(text, parts, str.startswith, str.removeprefix)

    def cut_off(self, ids: Sequence[int]) -> int:
        """Return the number of characters at the start of `decode` that `text` omits."""
        decoded = self.decode(ids)
        if not decoded.startswith(REPLACEMENT) or self.text(ids).startswith(REPLACEMENT):
            return 0
        return len(decoded) - len(decoded.lstrip(REPLACEMENT))

    def _without_end(self, ids: Sequence[int]) -> str:
        text = self.decode(ids)
        if not text.endswith(REPLACEMENT) or self._is_written(ids, at_end=True):
            return text
        parts = (self.decode(ids[:-n]) for n in range(1, MOST_LEFT + 1))
        return _longest(text, parts, str.endswith, str.removesuffix)

    def _is_written(self, ids: Sequence[int], at_end: bool) -> bool:
        """Return whether tokens start or end with the tokens of the replacement character, which may have been typed as such."""
        given = list(ids)
        return any((given[-len(one) :] if at_end else given[: len(one)]) == one for one in self._replacements)

    @cached_property
    def _replacements(self) -> list[list[int]]:
        """The tokens of the replacement character, at the start of a text and within one; empty if it has none."""
        try:
            found = self.encode(REPLACEMENT)
            whole = self.decode(found)
        except Exception:  # noqa: BLE001 - tokenizers raise errors of every kind for an unsupported character
            return []
        if REPLACEMENT not in whole:
            return []
        has_space = len(found) > 1 and not self.decode(found[:1]).strip()
        return [found, found[1:]] if has_space else [found]

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that the tokenizer declares as special tokens."""
        return frozenset(getattr(self.tokenizer, "all_special_ids", None) or ())

    @property
    def bos_id(self) -> int | None:
        """The id of BOS, if any."""
        return as_integer(getattr(self.tokenizer, "bos_token_id", None))

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids of EOS, if any."""
        several = getattr(self.tokenizer, "eos_token_ids", None)
        named = several if isinstance(several, list | tuple | set | frozenset) else (several,)
        found = map(as_integer, (*named, getattr(self.tokenizer, "eos_token_id", None)))
        return frozenset(i for i in found if i is not None)

    @property
    def pad_id(self) -> int:
        """An id for padding; any id works, because masks mark the padding."""
        names = ("pad_token_id", "eos_token_id")
        found = (as_integer(getattr(self.tokenizer, name, None)) for name in names)
        return next((i for i in found if i is not None), 0)


def _longest(
    text: str, parts: Iterable[str], has: Callable[[str, str], bool], removed: Callable[[str, str], str]
) -> str:
    """Return the longest of a text without its incomplete end, and the texts of fewer tokens.

    Some tokenizers drop a whole run of bytes if one is missing, including the complete characters in it.
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
