"""The tokens of each row in order, all or the last few: what the repetition processors remember."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.state import Fill

__all__ = ["TokenHistory"]

# Window of a row that remembers everything.
UNBOUNDED = 2**31 - 1

# A history without bound begins with room for so many tokens behind the prompt, and doubles when that is full.
ROOM = 256


class TokenHistory(NamedTuple):
    """A ring per row: token number `i` is at place `i % window`.

    Args:
        tokens: [B, N] int32 token ids, -1 where there is none. Memory is 4 bytes for each remembered token, rounded up to a
            power of two.
        length: [B] int64, tokens so far, forgotten ones included.
        window: [B] int64, tokens remembered per row; `UNBOUNDED` for all.
    """

    tokens: Annotated[Tensor, Fill(-1)]
    length: Tensor
    window: Annotated[Tensor, Fill(UNBOUNDED)]

    @classmethod
    def of(cls, context: Context, window: int | None, include_prompt: bool) -> TokenHistory:
        """Begin the histories of a batch, with or without the prompt.

        Args:
            context: The batch.
            window: Tokens to remember, or None for all.
            include_prompt: Whether the prompt counts.
        """
        rows, device = context.batch_size, context.device
        prompt = context.prompt if include_prompt else context.prompt[:, :0]
        if window is not None:
            size = window
        elif context.max_length is not None:
            size = max(context.max_length, prompt.shape[1])
        else:
            size = _room(prompt.shape[1])
        empty = cls(
            torch.full((rows, size), -1, dtype=torch.int32, device=device),
            torch.zeros(rows, dtype=torch.int64, device=device),
            torch.full((rows,), UNBOUNDED if window is None else window, dtype=torch.int64, device=device),
        )
        return empty.append(prompt) if prompt.shape[1] else empty

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        if bool((self.tokens < -1).any()):
            return "a token id is below -1"
        if bool((self.length < 0).any()) or bool((self.window < 1).any()):
            return "a length is below 0, or a window below 1"
        if bool((torch.minimum(self.length, self.window) > self.tokens.shape[1]).any()):
            return f"a row remembers more than the {self.tokens.shape[1]} tokens that there is room for"
        return None

    def append(self, tokens: Tensor) -> TokenHistory:
        """Return the histories with more tokens: [B] or [B, T] int64, -1 = none."""
        if tokens.dim() == 1:
            tokens = tokens[:, None]
        history = self.grown(tokens.shape[1])
        real = tokens >= 0
        # The place of a token counts only real ones before it; of more tokens than a window holds, the last ones stay.
        index = history.length[:, None] + real.cumsum(1) - 1
        length = history.length + real.sum(1)
        stays = real & (index >= (length - history.window)[:, None])
        size = history.tokens.shape[1]
        place = torch.where(stays, index % history.window[:, None], size)
        padded = torch.nn.functional.pad(history.tokens, (0, 1), value=-1)
        padded = padded.scatter(1, place, tokens.to(torch.int32))
        return history._replace(tokens=padded[:, :size].contiguous(), length=length)

    def grown(self, more: int) -> TokenHistory:
        """Return the histories with room for `more` tokens, at least doubled when there is too little.

        Only on the host: in a compiled graph and on an accelerator, `Context.max_length` gives the room from the start.
        """
        if self.tokens.device.type != "cpu" or torch.compiler.is_compiling():
            return self
        size = self.tokens.shape[1]
        needed = int(torch.minimum(self.length + more, self.window).max()) if len(self.length) else 0
        if needed <= size:
            return self
        extra = max(_room(needed), 2 * size) - size
        return self._replace(tokens=torch.nn.functional.pad(self.tokens, (0, extra), value=-1))


def _room(tokens: int) -> int:
    return 1 << (tokens + ROOM - 1).bit_length()
