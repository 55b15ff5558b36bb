"""Appended text: the tokens that add a text to other tokens, and the text that tokens add.

Some tokenizers insert a space before everything that they encode, and remove one from everything that they decode. So the text
that tokens add depends on the tokens before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from logitkit.errors import ConfigurationError
from logitkit.sessions.text_tokenizer import MOST_LEFT, REPLACEMENT, TextTokenizer

__all__ = ["added_text", "continuation", "joined_tokens", "spellings", "whole_characters"]

# Texts to encode another text after. An anchor that does not merge with it reveals the tokens of the text itself.
ANCHORS = ("\n", "a", ".", "0")
# The number of tokens to decode to see the text that others add, if they form a complete text.
TAIL = 16


def spellings(text: str, tokenizer: TextTokenizer) -> Iterator[list[int]]:
    """Yield tokenizations of a text that continues within a word, the tokenizer's own first."""
    yield tokenizer.encode(text)
    for _, tokens in _anchored(text, tokenizer):
        yield tokens


def continuation(ids: Sequence[int], text: str, tokenizer: TextTokenizer) -> list[int]:
    """Return tokens that add a text to others, like appending a string in Python.

    A text that the tokenizer normalises, for example to lowercase, is added in that form; a special token's name becomes that
    token.

    Args:
        ids: The tokens before it, at least one.
        text: The text to append.
        tokenizer: The tokenizer of the ids.

    Raises:
        ConfigurationError: No tokens add exactly this text.
    """
    if not text:
        return []
    tail = _tail(ids, tokenizer)
    before = tokenizer.decode(tail)
    for found in spellings(text, tokenizer):
        if tokenizer.decode([*tail, *found]) == before + text:
            return found
    anchored = list(_anchored(text, tokenizer))
    read = [_read(anchor, text, tokenizer) for anchor, _ in anchored]
    for found in spellings(text, tokenizer):
        if tokenizer.decode([*tail, *found]).removeprefix(before) in read:
            return found
    # Some tokenizers drop all trailing space when they decode; it reappears when something follows.
    for (_, found), added in zip(anchored, read, strict=True):
        whole = tokenizer.decode([*tail, *found])
        if whole.endswith(added) and whole.removesuffix(added).rstrip() == before:
            return found
    other = tokenizer.decode([*tail, *tokenizer.encode(text)]).removeprefix(before)
    raise ConfigurationError(
        f"{text[:80]!r} is appended, but the tokenizer's tokens for it add {other[:80]!r}, and it has no others; append a state "
        "with the tokens that you want, or begin again from the whole text"
    )


def whole_characters(ids: Sequence[int], tokenizer: TextTokenizer) -> tuple[Sequence[int], str]:
    """Return tokens without those that hold an incomplete character at the end, and the text that is lost with these.

    A row may end inside of a character. Appended text would turn these bytes into a replacement character.

    Args:
        ids: The tokens.
        tokenizer: Their tokenizer.
    """
    if not tokenizer.decode(_tail(ids, tokenizer)).endswith(REPLACEMENT):
        return ids, ""
    text = tokenizer.text(ids)
    if not text.endswith(REPLACEMENT):
        special = tokenizer.special_ids | tokenizer.eos_ids
        for count in range(1, min(MOST_LEFT, len(ids)) + 1):
            if ids[-count] in special:
                # The end of a turn, for example, stays where it is.
                break
            kept = ids[:-count]
            before = tokenizer.text(kept) if kept else ""
            is_whole = before.endswith(REPLACEMENT) or not tokenizer.decode(kept).endswith(REPLACEMENT)
            if is_whole and text.startswith(before):
                return kept, text.removeprefix(before)
    return ids, ""


def joined_tokens(ids: Sequence[int], more: Sequence[int], tokenizer: TextTokenizer) -> Sequence[int]:
    """Return the tokens of the second row as they continue the first, without a space that shows only there.

    Args:
        ids: The first row.
        more: The second row.
        tokenizer: The tokenizer of both rows.
    """
    tail, head = _tail(ids, tokenizer), more[:TAIL]
    before, added = tokenizer.decode(tail), tokenizer.decode(head)
    if tokenizer.decode([*tail, *head]) != f"{before} {added}" or head[0] in tokenizer.special_ids:
        return more
    for count in range(1, len(head) + 1):
        first = tokenizer.decode(head[:count])
        for found in spellings(first, tokenizer) if first else [[]]:
            if tokenizer.decode([*tail, *found, *head[count:]]) == before + added:
                return [*found, *more[count:]]
    return more


def added_text(ids: Sequence[int], new: Sequence[int], tokenizer: TextTokenizer) -> str:
    """Return the text that tokens add to others, without an incomplete character at its end.

    Args:
        ids: The tokens before.
        new: The added tokens.
        tokenizer: The tokenizer of both.
    """
    tail = _tail(ids, tokenizer)
    before, whole = tokenizer.text(tail), tokenizer.text([*tail, *new])
    return whole.removeprefix(before) if whole.startswith(before) else tokenizer.text(new)


def _anchored(text: str, tokenizer: TextTokenizer) -> Iterator[tuple[str, list[int]]]:
    """Yield anchor texts that do not merge with a text, and the tokens of the text after them."""
    for anchor in ANCHORS:
        start, whole = tokenizer.encode(anchor), tokenizer.encode(anchor + text)
        if start and whole[: len(start)] == start:
            yield anchor, whole[len(start) :]


def _read(anchor: str, text: str, tokenizer: TextTokenizer) -> str:
    """Return a text in the form that the tokenizer gives it after another text."""
    return tokenizer.decode(tokenizer.encode(anchor + text)).removeprefix(tokenizer.decode(tokenizer.encode(anchor)))


def _tail(ids: Sequence[int], tokenizer: TextTokenizer) -> Sequence[int]:
    """Return the last tokens, as few as decode to text with complete characters at both ends, otherwise all."""
    count = TAIL
    while count < len(ids):
        text = tokenizer.decode(ids[-count:])
        if text and REPLACEMENT not in text:
            return ids[-count:]
        count *= 2
    return ids
