"""NoRepeatNGram: no run of n tokens occurs twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters import Integer
from logitkit.penalties.repeats import repeat_ends, repeats_tensors
from logitkit.penalties.token_history import COUNTED, NOTHING_COUNTED, HistoryProcessor, TokenHistory
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostLogits
from logitkit.runtime.tensor_logits import ban_tensors

__all__ = ["NoRepeatNGram", "NoRepeatNGramState"]

N = Integer(0, 256)


class NoRepeatNGramState(NamedTuple):
    """The tokens of each row, and the length of the runs that must not occur twice.

    Args:
        history: The tokens that count.
        n: [B] int64, the number of tokens in a run, from 0 to 256; 0 bans nothing.
        compared: [B, C] bool. C, at least n - 1, is the number of tokens to compare; a shape needs no read from a device.
    """

    history: TokenHistory
    n: Tensor
    compared: Annotated[Tensor, Fill(True)]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        return Integer(0, min(N.most, self.compared.shape[1] + 1)).problem("n", self.n)


@dataclass(frozen=True)
class NoRepeatNGram(HistoryProcessor[NoRepeatNGramState]):
    """Ban every token that would complete a run of n tokens that has occurred already.

    EOS is banned like any other token. If no token is left in a row, a chain with a constraint ends the row. A row takes 4 bytes
    of memory for each token that counts.

    Args:
        n: The number of tokens in a run, from 0 to 256; 1 bans all tokens that have occurred, 0 bans nothing.
        window: Search only this many of the last tokens for runs, from n to 2**24; None searches all.
        include_prompt: Whether runs in the prompt, or from the prompt into the output, count. Padding never does.

    Raises:
        ConfigurationError: An argument is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> once = lk.NoRepeatNGram(2)
        >>> context = lk.Context.of([[0, 1, 2, 0]], vocabulary_size=4)
        >>> once.process_logits(once.init_state(context), torch.zeros(1, 4), context)[1]
        tensor([[0., -inf, 0., 0.]])

    Source: Paulus et al., A deep reinforced model for abstractive summarization (2017), and fairseq. The results are those of
    transformers' NoRepeatNGramLogitsProcessor.
    """

    n: int
    window: int | None = None
    include_prompt: bool = True

    role = Role.CONSTRAINT
    kind = Kind("no_repeat_ngram", {"n": N, **COUNTED}, main="n", order=50, neutral={"n": 0, **NOTHING_COUNTED})
    may_empty_rows = True
    bans_repeats = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None and self.window < self.n:
            raise ConfigurationError(
                f"window is {self.window}, too short for a run of n={self.n} tokens; give at least {self.n}, or None"
            )

    def init_state(self, context: Context) -> NoRepeatNGramState:
        """Return the initial state of the rows."""
        compared = torch.ones((context.batch_size, max(self.n - 1, 0)), dtype=torch.bool, device=context.device)
        return NoRepeatNGramState(self.history(context), per_row(context, self.n), compared)

    def _by_rows(self, state: NoRepeatNGramState, logits: Tensor) -> Tensor:
        host = HostLogits.of(logits)
        for row, (tokens, n) in enumerate(zip(state.history.rows(), state.n.tolist(), strict=True)):
            if len(tokens) >= n > 0:
                host.ban(row, tokens if n == 1 else tokens[repeat_ends(tokens, n - 1) + 1])
        return logits

    def _by_kernel(self, state: NoRepeatNGramState, logits: Tensor) -> bool:
        from logitkit.kernels.repeat_step import ngram_step

        history = state.history
        return ngram_step(history.tokens, history.length, history.window, state.n, logits)

    def _by_tensors(self, state: NoRepeatNGramState, logits: Tensor) -> Tensor:
        latest, n = state.history.latest_tensors(), state.n[:, None]
        # A token completes a run if the tokens before it are the last ones.
        again = (n > 0) & (repeats_tensors(latest, state.compared.shape[1]) >= n - 1)
        return ban_tensors(torch.where(again, latest, -1), logits)
