"""Slices of a text, as tokens: tokens inside the slice are kept, and tokens that it cuts are re-encoded."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from logitkit.errors import ConfigurationError
from logitkit.sessions.text_continuation import spellings
from logitkit.sessions.text_tokenizer import TextTokenizer

__all__ = ["cut_text"]

# A character has at most four bytes, each of which may be a token.
MOST_TOKENS_OF_A_CHARACTER = 4


def cut_text(ids: Sequence[int], start: int, stop: int, tokenizer: TextTokenizer) -> tuple[int, list[int]]:
    """Return the tokens of `text[start:stop]`, for `0 <= start <= stop <= len(text)`.

    Args:
        ids: The tokens of the text.
        start: Index of the first character.
        stop: Index after the last character.
        tokenizer: The tokenizer of the ids.

    Returns:
        The number of first tokens that are kept, and the tokens after them. With `start=0`, as many as possible are kept, else
        none.

    Raises:
        ConfigurationError: The tokenizer does not reproduce the text that it encodes.
    """
    text = tokenizer.text(ids)
    if start == 0:
        return _beginning(ids, text[:stop], tokenizer) if stop < len(text) else (len(ids), [])
    return 0, _middle(ids, text, start, stop, tokenizer)


def _beginning(ids: Sequence[int], wanted: str, tokenizer: TextTokenizer) -> tuple[int, list[int]]:
    for count, reached in _boundaries(ids, wanted, tokenizer):
        # Before the cut, the text of all tokens may contain bytes that are not characters, but not at its end.
        if reached == len(wanted) and tokenizer.text(ids[:count]) == wanted:
            return count, []
        for rest in spellings(wanted[reached:], tokenizer):
            if tokenizer.text([*ids[:count], *rest]) == wanted:
                return count, rest
    return 0, _spelled(wanted, tokenizer)


def _middle(ids: Sequence[int], text: str, start: int, stop: int, tokenizer: TextTokenizer) -> list[int]:
    wanted = text[start:stop]
    if not wanted:
        return []
    end, end_at = next(_boundaries(ids, text[:stop], tokenizer))
    begin, begin_at = next(_boundaries(ids, text[:start], tokenizer))
    while begin_at < start and begin < end:
        begin += 1
        before = tokenizer.decode(ids[:begin])
        if text.startswith(before):
            begin_at = len(before)
    if start <= begin_at <= end_at and begin <= end:
        # A slice to the end of the text also keeps tokens without text and those of an incomplete character.
        last = len(ids) if stop == len(text) else end
        rest = [] if stop == len(text) else tokenizer.encode(text[end_at:stop])
        found = [*tokenizer.encode(text[start:begin_at]), *ids[begin:last], *rest]
        if tokenizer.text(found) == wanted:
            return found
    return _spelled(wanted, tokenizer)


def _boundaries(ids: Sequence[int], wanted: str, tokenizer: TextTokenizer) -> Iterator[tuple[int, int]]:
    """Yield (tokens, characters) at which the first tokens form a prefix of the text, longest first; only a few."""
    lost = tokenizer.cut_off(ids)
    most = bisect_right(range(len(ids) + 1), len(wanted), key=lambda n: len(tokenizer.decode(ids[:n])))
    most = min(most + MOST_TOKENS_OF_A_CHARACTER, len(ids))
    found = 0
    for count in range(most, -1, -1):
        before = tokenizer.decode(ids[:count])[lost:]
        if wanted.startswith(before):
            yield count, len(before)
            found += 1
            if found == 2 * MOST_TOKENS_OF_A_CHARACTER:
                return


def _spelled(text: str, tokenizer: TextTokenizer) -> list[int]:
    # Some tokenizers remove a leading space from everything that they decode.
    for ids in (*spellings(text, tokenizer), tokenizer.encode(" " + text)):
        if tokenizer.text(ids) == text:
            return ids
    raise ConfigurationError(
        f"the tokenizer turns {text!r} into the tokens of {tokenizer.decode(tokenizer.encode(text))!r}: such a text cannot be "
        "sliced by characters; slice tokens instead: state.tokens[...]"
    )
