"""The contexts after which a row has chosen tokens, so that a watermark skips a context that it has had.

A text that repeats itself would draw the same random numbers again: its words would follow the key and not the model, and a loop
would never end. So a watermark of this kind marks only the first token after each context. The row remembers the hashes of its
last contexts in a ring. Only output tokens count: a context that reaches into the prompt could not be computed from the text
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import Integer
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.state import Fill
from logitkit.runtime.latest_tokens import with_tokens

__all__ = ["REMEMBERED", "WIDTH", "ContextHistory"]

WIDTH = Integer(1, 64)

# The number of contexts that a row remembers: 8 bytes each.
REMEMBERED = Integer(0, 2**16, "0 marks after repeated contexts too")

# Returns the hashes, [B, N] int64, of contexts, [B, N, W] int64 with the newest token first and -1 after the oldest, of which the
# first tokens count, as many as [B] int64 says.
Hash = Callable[[Tensor, Tensor], Tensor]


class ContextHistory(NamedTuple):
    """The last output tokens of each row, and the hashes of the contexts that it has had.

    Args:
        latest: [B, N] int32, the last tokens, newest first, -1 after the oldest.
        width: [B] int64, the number of tokens in a context.
        length: [B] int64, the number of output tokens so far.
        first: [B] int64, the number of output tokens from which contexts count.
        hashes: [B, H] int64, a ring: the hash of context number `i` is at index `i % size`; 0 where there is none yet.
        size: [B] int64, how many contexts the row remembers, at most H.
    """

    latest: Annotated[Tensor, Fill(-1)]
    width: Tensor
    length: Annotated[Tensor, Integer(0, 2**63 - 1)]
    first: Annotated[Tensor, Integer(0, WIDTH.most)]
    hashes: Annotated[Tensor, Fill(0)]
    size: Tensor

    @classmethod
    def of(cls, context: Context, width: int, first: int, size: int) -> ContextHistory:
        """Start the histories of a batch."""
        rows, device = context.batch_size, context.device
        return cls(
            torch.full((rows, width), -1, dtype=torch.int32, device=device),
            per_row(context, width),
            torch.zeros(rows, dtype=torch.int64, device=device),
            per_row(context, first),
            torch.zeros((rows, size), dtype=torch.int64, device=device),
            per_row(context, size),
        )

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if bool((self.latest < -1).any()):
            return "a token id is below -1"
        return Integer(1, self.latest.shape[1]).problem("width", self.width) or Integer(
            0, self.hashes.shape[1]
        ).problem("size", self.size)

    def is_new(self, hash_of: Hash) -> Tensor:
        """Return the rows whose context counts and has not been there, [B] bool."""
        now = hash_of(self.latest[:, None].to(torch.int64), self.width)
        places = torch.arange(self.hashes.shape[1], device=self.hashes.device)
        known = (self.hashes == now) & (places < self.size[:, None])
        return (self.length >= self.first) & ~known.any(1)

    def append(self, tokens: Tensor, hash_of: Hash) -> ContextHistory:
        """Return the histories after more tokens: [B] or [B, T] int64, -1 = none."""
        steps = tokens[:, None] if tokens.dim() == 1 else tokens
        latest, real = with_tokens(self.latest, tokens, self.width), steps >= 0
        length = self.length + real.sum(1)
        slots = self.hashes.shape[1]
        if not slots or not steps.shape[1]:
            return self._replace(latest=latest, length=length)
        # Each token ends a context, which is the tokens before it. Tokens without gaps come first.
        packed = steps.gather(1, (~real).to(torch.uint8).sort(dim=1, stable=True).indices)
        line = torch.cat([self.latest.flip(1).to(torch.int64), packed], 1)
        contexts = line.unfold(1, self.latest.shape[1], 1)[:, : steps.shape[1]].flip(2)
        passed = self.length[:, None] + torch.arange(steps.shape[1], device=steps.device)
        number = passed - self.first[:, None]
        # If there are more contexts than places, the last ones stay.
        stays = (packed >= 0) & (number >= 0) & (passed >= (length - self.size)[:, None])
        place = torch.where(stays, number % self.size.clamp(min=1)[:, None], slots)
        ring = torch.nn.functional.pad(self.hashes, (0, 1)).scatter(1, place, hash_of(contexts, self.width))
        return self._replace(latest=latest, length=length, hashes=ring[:, :slots].contiguous())
