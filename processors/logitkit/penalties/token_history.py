"""The last tokens of each row, or all of them, for processors that look for repetitions."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.kernels import switch
from logitkit.parameters import Boolean, Either, Integer, Null
from logitkit.protocol.calls import by_tensors, check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice

__all__ = ["COUNTED", "NOTHING_COUNTED", "UNBOUNDED", "HistoryProcessor", "TokenHistory"]

S = TypeVar("S", bound=tuple[Any, ...])

# The parameters that define which tokens count.
COUNTED = {"window": Either((Integer(1, 2**24, "None counts all tokens"), Null())), "include_prompt": Boolean()}

# With these, no token counts.
NOTHING_COUNTED = {"window": 1, "include_prompt": False}

# The window of a row that remembers all tokens.
UNBOUNDED = 2**31 - 1

# An unbounded history starts with room for this many tokens after the prompt, and doubles when it is full.
ROOM = 256

# A window up to this size is allocated at the start and never grows.
AT_ONCE = 4096


class TokenHistory(NamedTuple):
    """A ring buffer per row: token number `i` is at index `i % window`.

    Args:
        tokens: [B, N] int32 token ids, -1 for unused places: 4 bytes for each remembered token, rounded up to a power of two.
        length: [B] int64, the number of tokens so far, including forgotten ones.
        window: [B] int64, the number of tokens to remember; `UNBOUNDED` for all.
        grows: [B, 1] bool if a row may ever need more room, else [B, 0]; a shape needs no read from a device.
    """

    tokens: Annotated[Tensor, Fill(-1)]
    length: Tensor
    window: Annotated[Tensor, Fill(UNBOUNDED)]
    grows: Annotated[Tensor, Fill(True)]

    @classmethod
    def of(cls, context: Context, window: int | None, include_prompt: bool) -> TokenHistory:
        """Start the histories of a batch, with or without the prompt.

        Args:
            context: The batch.
            window: The number of tokens to remember, or None for all.
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

    @classmethod
    def nothing(cls, context: Context) -> TokenHistory:
        """Return the histories of rows that are kept elsewhere."""
        rows, device = context.batch_size, context.device
        return cls(
            torch.zeros((rows, 0), dtype=torch.int32, device=device),
            torch.zeros(rows, dtype=torch.int64, device=device),
            torch.ones(rows, dtype=torch.int64, device=device),
            torch.ones((rows, 0), dtype=torch.bool, device=device),
        )

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if bool((self.tokens < -1).any()):
            return "a token id is below -1"
        if bool((self.length < 0).any()) or bool((self.window < 1).any()):
            return "a length is below 0, or a window below 1"
        count = torch.minimum(self.length, self.window)[:, None]
        there = torch.arange(self.tokens.shape[1]) < count
        if bool((count > there.shape[1]).any()) or not torch.equal(self.tokens >= 0, there):
            return "a row has more or fewer tokens than its length and window say"
        return None

    def rows(self) -> list[NDArray[np.int32]]:
        """Return the tokens of each row, oldest first, on the CPU."""
        found = []
        for tokens, length, window in zip(self.tokens.numpy(), self.length.tolist(), self.window.tolist(), strict=True):
            used = tokens[: min(length, window)]
            oldest = length % window if length > window else 0
            found.append(np.concatenate([used[oldest:], used[:oldest]]) if oldest else used)
        return found

    def latest_tensors(self) -> Tensor:
        """Return the tokens of each row, newest first: [B, N] int32, -1 after the oldest."""
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
        if tokens.dim() == 1 and not by_tensors(tokens):
            return history.append_rows(tokens)
        if tokens.dim() == 1 and switch.runs_on(self.tokens, tokens):
            from logitkit.kernels.memory_step import append_step

            made = append_step(history.tokens, history.length, history.window, tokens[:, None])
            if made is not None:
                return history._replace(tokens=made[0], length=made[1])
        return history.append_tensors(tokens if tokens.dim() == 2 else tokens[:, None])

    def append_tensors(self, tokens: Tensor) -> TokenHistory:
        """Append [B, T] tokens, -1 = none, for which there is room."""
        real = tokens >= 0
        # A -1 takes no place. If there are more tokens than the window holds, the last ones stay.
        index = self.length[:, None] + real.cumsum(1) - 1
        length = self.length + real.sum(1)
        stays = real & (index >= (length - self.window)[:, None])
        size = self.tokens.shape[1]
        place = torch.where(stays, index % self.window[:, None], size)
        padded = torch.nn.functional.pad(self.tokens, (0, 1), value=-1)
        padded = padded.scatter(1, place, tokens.to(torch.int32))
        return self._replace(tokens=padded[:, :size].contiguous(), length=length)

    def append_rows(self, tokens: Tensor) -> TokenHistory:
        """Append [B] tokens on the CPU: for one token per row, this is faster than tensor operations."""
        kept = self.tokens.numpy().copy()
        length = self.length.tolist()
        for row, (token, window) in enumerate(zip(tokens.tolist(), self.window.tolist(), strict=True)):
            if token >= 0:
                kept[row, length[row] % window] = token
                length[row] += 1
        return self._replace(tokens=torch.from_numpy(kept), length=torch.from_numpy(np.array(length, np.int64)))

    def grown(self, more: int) -> TokenHistory:
        """Return the histories with room for `more` tokens; if they need to grow, they at least double.

        With a short window or `Context.max_length`, all room is allocated at the start. Otherwise the host reads the lengths. A
        compiled graph cannot do that, so there a history must not outgrow its room. On the CPU, reading costs nothing, so a
        history may even exceed `Context.max_length`.
        """
        fixed = self.grows.shape[1] == 0 and not self.tokens.is_cpu
        if fixed or torch.compiler.is_compiling() or len(self.length) == 0:
            return self
        size = self.tokens.shape[1]
        needed = max(map(min, [length + more for length in self.length.tolist()], self.window.tolist()))
        if needed <= size:
            return self
        extra = min(max(_room(needed), 2 * size), int(self.window.max())) - size
        return self._replace(tokens=torch.nn.functional.pad(self.tokens, (0, extra), value=-1))


def _room(tokens: int) -> int:
    return 1 << (tokens + ROOM - 1).bit_length()


class HistoryProcessor(HostAndDevice[S]):
    """A processor that remembers tokens, with the parameters of `COUNTED`. Its states have the field `history`."""

    window: int | None
    include_prompt: bool

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens of the prompt count."""
        return self.include_prompt

    def history(self, context: Context) -> TokenHistory:
        """Return the initial histories of the rows."""
        return TokenHistory.of(context, self.window, self.include_prompt)

    def advance(self, state: S, tokens: Tensor) -> S:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        history: TokenHistory = state.history  # type: ignore[attr-defined]
        check_tokens(type(self).__name__, history.length.shape[0], tokens)
        after: S = state._replace(history=history.append(tokens))  # type: ignore[attr-defined]
        return after
