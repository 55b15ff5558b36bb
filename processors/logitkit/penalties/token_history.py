"""The tokens of each row in order, all or the last few: what the repetition processors remember."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Boolean, Either, Integer, Null
from logitkit.protocol.calls import by_tensors
from logitkit.protocol.context import Context
from logitkit.protocol.state import Fill

__all__ = ["COUNTED", "TokenHistory"]

# The parameters that say which tokens count.
COUNTED = {
    "window": Either((Integer(1, 2**24, "None counts all tokens"), Null())),
    "include_prompt": Boolean(),
}

# Window of a row that remembers everything.
UNBOUNDED = 2**31 - 1

# A history without bound begins with room for so many tokens behind the prompt, and doubles when it is full.
ROOM = 256

# A window up to this has its whole room from the start, and never grows.
AT_ONCE = 4096


class TokenHistory(NamedTuple):
    """A ring per row: token number `i` is at place `i % window`.

    Args:
        tokens: [B, N] int32 token ids, -1 where there is none. Memory is 4 bytes for each remembered token,
            rounded up to a power of two.
        length: [B] int64, tokens so far, forgotten ones included.
        window: [B] int64, tokens remembered per row; `UNBOUNDED` for all.
        grows: [B, 1] bool if a row may ever need more room, else [B, 0]. The shape alone says so, and no device is asked.
    """

    tokens: Annotated[Tensor, Fill(-1)]
    length: Tensor
    window: Annotated[Tensor, Fill(UNBOUNDED)]
    grows: Annotated[Tensor, Fill(True)]

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
        limit = None if context.max_length is None else max(context.max_length, prompt.shape[1])
        bounds = [bound for bound in (window, limit) if bound is not None]
        fixed = limit is not None or (window is not None and window <= AT_ONCE)
        size = min(bounds if fixed else [*bounds, _room(prompt.shape[1])])
        empty = cls(
            torch.full((rows, size), -1, dtype=torch.int32, device=device),
            torch.zeros(rows, dtype=torch.int64, device=device),
            torch.full((rows,), UNBOUNDED if window is None else window, dtype=torch.int64, device=device),
            torch.ones((rows, 0 if fixed or size == window else 1), dtype=torch.bool, device=device),
        )
        return empty.append(prompt) if prompt.shape[1] else empty

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        if bool((self.tokens < -1).any()):
            return "a token id is below -1"
        if bool((self.length < 0).any()) or bool((self.window < 1).any()):
            return "a length is below 0, or a window below 1"
        count = torch.minimum(self.length, self.window)[:, None]
        there = torch.arange(self.tokens.shape[1]) < count
        if bool((count > there.shape[1]).any()) or not torch.equal(self.tokens >= 0, there):
            return "a row has not as many tokens as it says"
        return None

    def rows(self) -> list[NDArray[np.int32]]:
        """Return the tokens of each row, in the order of their places in the ring, on the host."""
        tokens = self.tokens.numpy()
        ends = zip(self.length.tolist(), self.window.tolist(), strict=True)
        return [tokens[row, : min(length, window)] for row, (length, window) in enumerate(ends)]

    def ordered_rows(self) -> list[NDArray[np.int32]]:
        """Return the tokens of each row, oldest first, on the host."""
        found = []
        for tokens, length, window in zip(self.rows(), self.length.tolist(), self.window.tolist(), strict=True):
            oldest = length % window if length > window else 0
            found.append(np.concatenate([tokens[oldest:], tokens[:oldest]]) if oldest else tokens)
        return found

    def latest_tensors(self) -> Tensor:
        """Return the tokens of each row, newest first: [B, N] int32, -1 behind the oldest."""
        size = self.tokens.shape[1]
        back = torch.arange(size, device=self.tokens.device)[None]
        there = back < torch.minimum(self.length, self.window)[:, None]
        place = (self.length[:, None] - 1 - back) % self.window[:, None]
        return torch.where(there, self.tokens.gather(1, torch.where(there, place, 0)), -1)

    def append(self, tokens: Tensor) -> TokenHistory:
        """Return the histories with more tokens: [B] or [B, T] int64, -1 = none."""
        if tokens.dim() == 2 and tokens.shape[1] == 1:
            tokens = tokens[:, 0]
        history = self.grown(tokens.shape[1] if tokens.dim() == 2 else 1)
        if tokens.dim() == 2 or by_tensors(tokens):
            return history.append_tensors(tokens if tokens.dim() == 2 else tokens[:, None])
        return history.append_rows(tokens)

    def append_tensors(self, tokens: Tensor) -> TokenHistory:
        """Append [B, T] tokens, -1 = none, where there is room for them."""
        real = tokens >= 0
        # The place of a token counts only real ones before it; of more than a window holds, the last stay.
        index = self.length[:, None] + real.cumsum(1) - 1
        length = self.length + real.sum(1)
        stays = real & (index >= (length - self.window)[:, None])
        size = self.tokens.shape[1]
        place = torch.where(stays, index % self.window[:, None], size)
        padded = torch.nn.functional.pad(self.tokens, (0, 1), value=-1)
        padded = padded.scatter(1, place, tokens.to(torch.int32))
        return self._replace(tokens=padded[:, :size].contiguous(), length=length)

    def append_rows(self, tokens: Tensor) -> TokenHistory:
        """Append [B] tokens on the host: for one token a row it is faster than any tensor operation."""
        kept = self.tokens.numpy().copy()
        length = self.length.tolist()
        for row, (token, window) in enumerate(zip(tokens.tolist(), self.window.tolist(), strict=True)):
            if token >= 0:
                kept[row, length[row] % window] = token
                length[row] += 1
        return self._replace(tokens=torch.from_numpy(kept), length=torch.from_numpy(np.array(length, np.int64)))

    def grown(self, more: int) -> TokenHistory:
        """Return the histories with room for `more` tokens, at least doubled when there is too little.

        A short window, or `Context.max_length`, gives the room from the start; without either the host reads the lengths,
        and a compiled graph, which cannot, must not outgrow the room that is there. On the CPU reading costs nothing, so
        that there more tokens than `Context.max_length` find room too.
        """
        fixed = self.grows.shape[1] == 0 and not self.tokens.is_cpu
        if fixed or torch.compiler.is_compiling() or len(self.length) == 0:
            return self
        size = self.tokens.shape[1]
        needed = max((self.length + more).minimum(self.window).tolist())
        if needed <= size:
            return self
        extra = min(max(_room(needed), 2 * size), int(self.window.max())) - size
        return self._replace(tokens=torch.nn.functional.pad(self.tokens, (0, extra), value=-1))


def _room(tokens: int) -> int:
    return 1 << (tokens + ROOM - 1).bit_length()
