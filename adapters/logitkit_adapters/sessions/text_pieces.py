"""The text of a generation in pieces, as its tokens arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logitkit.sessions.text_continuation import added_text
from logitkit.sessions.text_tokenizer import REPLACEMENT, TextTokenizer

__all__ = ["TextPieces"]


class TextPieces:
    """Turns the tokens of one row into pieces of text, which contain no incomplete character.

    The pieces join to the text that the tokens add, if their bytes are valid UTF-8.

    Args:
        prompt: The tokens before the text.
        tokenizer: The tokenizer.
    """

    def __init__(self, prompt: Sequence[int], tokenizer: Any) -> None:
        self._tokens = list(prompt)
        self._tokenizer = TextTokenizer(tokenizer)
        # The tokens before it are shown completely; those after it have shown `_shown`.
        self._begin, self._shown = len(self._tokens), ""
        self.text = ""

    def feed(self, tokens: Sequence[int]) -> str:
        """Return the text that can be shown after more tokens."""
        self._tokens += tokens
        before, new = self._tokens[: self._begin], self._tokens[self._begin :]
        added = added_text(before, new, self._tokenizer)
        # Some decoders replace a whole run of bytes, also a part that has been shown, once the run is not valid UTF-8.
        piece = added[len(self._shown) :]
        self._shown += piece
        self.text += piece
        if piece and not self._tokenizer.decode(new).endswith(REPLACEMENT):
            self._begin, self._shown = len(self._tokens), ""
        return piece
