"""No run of n tokens occurs twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters import Integer
from logitkit.penalties.history_logits import filled_places
from logitkit.penalties.repeats import repeat_ends
from logitkit.penalties.token_history import COUNTED, TokenHistory
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostLogits

__all__ = ["NoRepeatNGram", "NoRepeatNGramState"]

N = Integer(0, 256)


class NoRepeatNGramState(NamedTuple):
    """What has been said, and how long a run may not occur twice.

    Args:
        history: The tokens that count.
        n: [B] int64, tokens of a run, from 0 to 256; 0 bans nothing.
        compared: [B, C] bool, C at least n - 1. The shape alone says how many tokens are compared, and no device is asked.
    """

    history: TokenHistory
    n: Tensor
    compared: Annotated[Tensor, Fill(True)]

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        least, most = 0, min(N.most, self.compared.shape[1] + 1)
        allowed = (self.n >= least) & (self.n <= most)
        return None if bool(allowed.all()) else f"n is not from {least} to {most}"


@dataclass(frozen=True)
class NoRepeatNGram(Described):
    """Ban every token that would complete a run of n tokens which occurred already.

    Memory is 4 bytes for each token that counts. Nothing is known of EOS, which is banned like any other; where a ban leaves
    a row nothing, a chain with a constraint ends the row.

    Args:
        n: Tokens of a run, from 0 to 256; 1 bans all tokens said already, 0 bans nothing.
        window: Look only for runs within so many of the last tokens, from n to 2**24; None looks at all.
        include_prompt: Whether runs of the prompt, or from the prompt into the output, count. Pads never do.

    Raises:
        ConfigurationError: An argument is not a number of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> once = lk.NoRepeatNGram(2)
        >>> context = lk.Context.of([[0, 1, 2, 0]], vocabulary_size=4)
        >>> once.process_logits(once.init_state(context), torch.zeros(1, 4), context)[1]
        tensor([[0., -inf, 0., 0.]])

    Source: Paulus et al., A deep reinforced model for abstractive summarization (2017), and fairseq; results are those of
    transformers' NoRepeatNGramLogitsProcessor.
    """

    n: int
    window: int | None = None
    include_prompt: bool = True

    role = Role.CONSTRAINT
    kind = Kind(
        "no_repeat_ngram",
        {"n": N, **COUNTED},
        main="n",
        order=50,
        neutral={"n": 0, "window": 1, "include_prompt": False},
    )
    may_empty_rows = True
    bans_repeats = True

    @property
    def reads_prompt(self) -> bool:
        """Whether tokens of the prompt count."""
        return self.include_prompt

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None and self.window < self.n:
            raise ConfigurationError(
                f"window is {self.window}, in which no run of n={self.n} tokens has room; give {self.n} at least, or None"
            )

    def init_state(self, context: Context) -> NoRepeatNGramState:
        """Return the state of rows that have their prompt."""
        rows, device = context.batch_size, context.device
        return NoRepeatNGramState(
            TokenHistory.of(context, self.window, self.include_prompt),
            torch.full((rows,), self.n, dtype=torch.int64, device=device),
            torch.ones((rows, max(self.n - 1, 0)), dtype=torch.bool, device=device),
        )

    def advance(self, state: NoRepeatNGramState, tokens: Tensor) -> NoRepeatNGramState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("NoRepeatNGram", state.n.shape[0], tokens)
        return state._replace(history=state.history.append(tokens))

    def process_logits(
        self, state: NoRepeatNGramState, logits: Tensor, context: Context
    ) -> tuple[NoRepeatNGramState, Tensor]:
        """Set the logits of tokens that would complete a run again to -inf, in place.

        Raises:
            VocabularyError: A banned token is none of the logits' columns (on the CPU).
        """
        logits = own_rows("NoRepeatNGram", state.n.shape[0], logits)
        if by_tensors(logits):
            return state, ban_tensors(state, logits)
        host = HostLogits.of(logits)
        for row, (tokens, n) in enumerate(zip(state.history.ordered_rows(), state.n.tolist(), strict=True)):
            if len(tokens) >= n > 0:
                host.ban(row, completing(tokens, n))
        return state, logits


def completing(tokens: NDArray[np.int32], n: int) -> NDArray[np.int32]:
    """Return the tokens, perhaps some twice, that followed what the last n - 1 are.

    Args:
        tokens: [N] in order, N at least n.
        n: At least 1.
    """
    return tokens if n == 1 else tokens[repeat_ends(tokens, n - 1) + 1]


def ban_tensors(state: NoRepeatNGramState, logits: Tensor) -> Tensor:
    """Set the logits of tokens that would complete a run again to -inf, in place; for the arguments see `NoRepeatNGram`."""
    latest, n = state.history.latest_tensors(), state.n[:, None]
    size, most = latest.shape[1], state.compared.shape[1]
    if size == 0:
        return logits
    # A token at a place would be said again if those before it are the last ones.
    behind = torch.nn.functional.pad(latest, (0, most + 1), value=-1)
    again = n > 0
    for back in range(most):
        before = behind[:, back + 1 : back + 1 + size]
        again = again & (((before == behind[:, back : back + 1]) & (before >= 0)) | (back >= n - 1))
    ids, some = filled_places(torch.where(again, latest, -1), logits.shape[1])
    return logits.scatter_(1, ids, torch.where(some, float("-inf"), logits.gather(1, ids)))
