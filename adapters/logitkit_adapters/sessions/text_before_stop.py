r"""The text of a row before the stop that ends it, also while it is written.

A row with the stop "\nUser:" writes "Yes", "\n", "Use", "r:". After "\n" and after "Use", the text may end with the beginning of
the stop, so only "Yes" is shown, and no more in the end. Had it written "ful" in place of "r:", "\nUseful" would be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from logitkit.composition.chain import members
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor
from logitkit.stopping.stop_strings import StopStrings

__all__ = ["TextBeforeStop"]


class TextBeforeStop:
    """Shows the text of a row piece by piece: not the stop that ends it, nor what may be the beginning of a stop.

    Args:
        processor: The processor of the row, or None; its `StopStrings` count, also inside of chains.
        prompt: The tokens before the text.
    """

    def __init__(self, processor: Processor[Any] | None, prompt: list[int]) -> None:
        parts = [] if processor is None else members(processor)
        self._stops = [
            (part, part.init_state(Context.of([prompt], vocabulary_size=part.vocabulary.size)))
            for part in parts
            if isinstance(part, StopStrings)
        ]
        self._bytes = bytearray()
        self.text = ""

    def feed(self, tokens: Sequence[int], text: str) -> str:
        """Return the piece of text that can be shown after more tokens.

        Args:
            tokens: The tokens since the last call.
            text: The text of all tokens so far, or its beginning.
        """
        self._advance(tokens)
        return self._piece(self._before(text, self._pending()))

    def rest(self, whole: str) -> str:
        """Return the last piece, given the whole text up to the stop; "" if the text shown is not its beginning."""
        return self._piece(whole)

    def before_stop(self, tokens: Sequence[int], text: str) -> str:
        """Return the text of a row up to the stop that ended it, or the whole text."""
        self._advance(tokens)
        return self._before(text, 0)

    def _piece(self, text: str) -> str:
        piece = text.removeprefix(self.text) if text.startswith(self.text) else ""
        self.text += piece
        return piece

    def _advance(self, tokens: Sequence[int]) -> None:
        if self._stops and tokens:
            known = self._stops[0][0].vocabulary.tokens
            self._bytes += b"".join([known[token] or b"" for token in tokens])
            ids = torch.tensor([list(tokens)], dtype=torch.int64)
            self._stops = [(stops, stops.advance(state, ids)) for stops, state in self._stops]

    def _pending(self) -> int:
        """Return how many bytes at the end of the text may be the beginning of a stop."""
        return max((int(stops.pending(state)) for stops, state in self._stops), default=0)

    def _before(self, text: str, held: int) -> str:
        """Return a text without the stop that ended it, or without the bytes that are held back."""
        begins = [int(stops.place(state).begin) for stops, state in self._stops if bool(stops.fired(state))]
        if begins:
            return _cut(text, self._bytes, max(min(begins), 0))
        characters = self._bytes[len(self._bytes) - held :].decode("utf-8", "replace")
        return text[: max(len(text) - len(characters), 0)]


def _cut(text: str, spelled: bytearray, begin: int) -> str:
    """Return the text of the first bytes of a row.

    Args:
        text: The whole text, as the tokenizer decodes it: it may leave out a space at either end, and begin with a character of
            which the first bytes belong to the prompt.
        spelled: The bytes of the tokens.
        begin: How many of them.
    """
    head, stop = (part.decode("utf-8", "ignore") for part in (spelled[:begin], spelled[begin:]))
    for known in (head, head.removeprefix(" ")):
        if text.startswith(known):
            return known
    return text.removesuffix(stop)
