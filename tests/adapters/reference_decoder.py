"""A plain decoder to compare with: no automaton, no cache, no state."""

from __future__ import annotations

from functools import cache
from typing import Any

import regex  # type: ignore[import-untyped]
import torch


class ReferenceDecoder:
    """Greedy decoding under a pattern: at each step the model reads the whole text, and every token is tried.

    A token is legal if the text with it can still become a match, which the `regex` module answers by partial
    matching. Patterns have ASCII texts only, so that a token with any other byte is illegal, whatever it is a
    part of.
    """

    def __init__(self, model: Any, tokenizer: Any, pattern: str) -> None:
        self._model = model
        self._eos = int(tokenizer.eos_token_id)
        self._pattern = regex.compile(pattern)
        special = set(tokenizer.all_special_ids)
        # A token of a byte-level tokenizer that is not ASCII decodes to something that is not ASCII either.
        self._texts = {i: tokenizer.decode([i]) for i in range(len(tokenizer)) if i not in special}
        self.legal = cache(self._legal)

    def _legal(self, text: str) -> frozenset[int]:
        """The ids that may follow a text."""
        legal = {i for i, token in self._texts.items() if self._extends(text + token)}
        if self._pattern.fullmatch(text):
            legal.add(self._eos)
        return frozenset(legal)

    def _extends(self, text: str) -> bool:
        return text.isascii() and self._pattern.fullmatch(text, partial=True) is not None

    def greedy(self, prompt: torch.Tensor, limit: int) -> list[int]:
        """The new ids after a prompt, [1, P], with EOS."""
        ids, text, new = prompt, "", []
        for _ in range(limit):
            with torch.no_grad():
                logits = self._model(ids, use_cache=False).logits[0, -1]
            best = max(self.legal(text), key=lambda i: float(logits[i]))
            new.append(best)
            if best == self._eos:
                break
            text += self._texts[best]
            ids = torch.cat([ids, torch.tensor([[best]])], dim=1)
        return new
