"""EncoderNoRepeatNGram: no run of n tokens of the prompt occurs in the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from logitkit.parameters import Integer
from logitkit.protocol.calls import check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits
from logitkit.runtime.latest_tokens import latest_of, with_tokens
from logitkit.runtime.tensor_logits import ban_tensors

__all__ = ["EncoderNoRepeatNGram", "EncoderNoRepeatNGramState"]

N = Integer(0, 256)

# In a comparison, no token of a prompt and no missing one.
BEFORE = -2


class EncoderNoRepeatNGramState(NamedTuple):
    """The prompt of each row, its last tokens, and the length of the runs that must not occur again.

    Args:
        prompt: [B, P] int32, padded with -1 at the end: 4 bytes for each token.
        latest: [B, N] int32, the last tokens of the row, newest first, -1 after the oldest; N is at least n - 1.
        n: [B] int64, the number of tokens in a run, from 0 to 256; 0 bans nothing.
    """

    prompt: Annotated[Tensor, Fill(-1)]
    latest: Annotated[Tensor, Fill(-1)]
    n: Tensor

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if bool((self.prompt < -1).any()) or bool((self.latest < -1).any()):
            return "a token id is below -1"
        return Integer(0, min(N.most, self.latest.shape[1] + 1)).problem("n", self.n)


@dataclass(frozen=True)
class EncoderNoRepeatNGram(HostAndDevice[EncoderNoRepeatNGramState]):
    """Ban every token that would complete a run of n tokens of the prompt.

    Runs that begin in the prompt and end in the output count too. Runs that only the output has may occur again: for these, use
    `NoRepeatNGram`. If no token is left in a row, a chain with a constraint ends the row.

    Args:
        n: The number of tokens in a run, from 0 to 256; 1 bans all tokens of the prompt, 0 bans nothing.

    Raises:
        ConfigurationError: `n` is not an integer in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> fresh = lk.EncoderNoRepeatNGram(2)
        >>> context = lk.Context.of([[0, 1, 2, 0]], vocabulary_size=4)
        >>> fresh.process_logits(fresh.init_state(context), torch.zeros(1, 4), context)[1]
        tensor([[0., -inf, 0., 0.]])

    Source: transformers' EncoderNoRepeatNGramLogitsProcessor, which returns the same results.
    """

    n: int

    role = Role.CONSTRAINT
    kind = Kind("encoder_no_repeat_ngram", {"n": N}, main="n", order=52, neutral={"n": 0})
    may_empty_rows = True
    bans_repeats = True
    reads_prompt = True

    def init_state(self, context: Context) -> EncoderNoRepeatNGramState:
        """Return the initial state of the rows."""
        prompt = context.prompt if self.n else context.prompt[:, :0]
        return EncoderNoRepeatNGramState(
            prompt.to(torch.int32), latest_of(context, max(self.n - 1, 0)), per_row(context, self.n)
        )

    def advance(self, state: EncoderNoRepeatNGramState, tokens: Tensor) -> EncoderNoRepeatNGramState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("EncoderNoRepeatNGram", state.n.shape[0], tokens)
        return state._replace(latest=with_tokens(state.latest, tokens, state.n - 1))

    def _by_rows(self, state: EncoderNoRepeatNGramState, logits: Tensor) -> Tensor:
        host, prompts, recent = HostLogits.of(logits), state.prompt.numpy(), state.latest.numpy()
        for row, n in enumerate(state.n.tolist()):
            tokens = prompts[row]
            if n == 0:
                continue
            if n == 1:
                ends = np.flatnonzero(tokens >= 0)
            else:
                # Most places are left out by the last token.
                ends = np.flatnonzero(tokens[n - 2 : -1] == recent[row, 0]) + (n - 1)
                for back in range(1, n - 1):
                    ends = ends[tokens[ends - 1 - back] == recent[row, back]]
                ends = ends[tokens[ends] >= 0]
            if len(ends):
                host.ban(row, tokens[ends])
        return logits

    def _by_tensors(self, state: EncoderNoRepeatNGramState, logits: Tensor) -> Tensor:
        width = state.latest.shape[1]
        again = (state.n[:, None] > 0) & (state.prompt >= 0)
        if not state.prompt.shape[1]:
            return logits
        # Token by token: all at once would take n times the memory of the prompts, for each row of a batch in which one has n.
        padded = pad(state.prompt, (width, 0), value=BEFORE)
        for back in range(width):
            before = padded[:, width - 1 - back : padded.shape[1] - 1 - back]
            again = again & ((before == state.latest[:, back, None]) | (state.n[:, None] - 1 <= back))
        return ban_tensors(torch.where(again, state.prompt, -1), logits)
