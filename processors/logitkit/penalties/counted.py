"""FrequencyPenalty and PresencePenalty: tokens become less likely each time that they occur, or once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from torch import Tensor

from logitkit.parameters import Number
from logitkit.penalties.repetition import OccurrencePenalty, renewed_memories
from logitkit.penalties.token_counts import TokenCounts
from logitkit.penalties.token_history import COUNTED, TokenHistory
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind

__all__ = ["CountedPenalty", "CountedState", "FrequencyPenalty", "PresencePenalty"]

# Servers allow -2 to 2. This is far beyond every use, and cannot overflow in 32 bits, whatever the count.
PENALTY = Number(-100, 100, "0 changes nothing")
PARAMETERS = {"penalty": PENALTY, **COUNTED}


class CountedState(NamedTuple):
    """The tokens of each row, and the penalty on repeating them.

    Args:
        history: The last tokens of rows with a window.
        occurred: The distinct tokens of rows without one.
        penalty: [B] float32, from -100 to 100; 0 changes nothing.
    """

    history: TokenHistory
    occurred: TokenCounts
    penalty: Annotated[Tensor, PENALTY]

    def renewed(self, tensors: Mapping[str, Tensor]) -> CountedState:
        """Return the state that version 0.2 saved."""
        return CountedState(*renewed_memories(tensors, self.occurred.counts.shape[1] > 0), tensors["penalty"])


@dataclass(frozen=True)
class CountedPenalty(OccurrencePenalty[CountedState]):
    """A penalty that is subtracted from the logits of tokens that have occurred."""

    penalty: float
    window: int | None = None
    include_prompt: bool = False

    neutral = 0.0
    may_empty_rows = False

    def __post_init__(self) -> None:
        super().__post_init__()
        # Subtracting a negative zero would change the sign of another.
        object.__setattr__(self, "penalty", self.penalty + 0.0)

    def init_state(self, context: Context) -> CountedState:
        """Return the initial state of the rows."""
        return CountedState(*self.memories(context), per_row(context, self.penalty).float())

    def _changed(self, given: Any, penalty: Any, where: Callable[..., Any]) -> Any:
        return given - penalty


@dataclass(frozen=True)
class FrequencyPenalty(CountedPenalty):
    """Subtract a penalty from the logit of each token for every time that it has occurred.

    Engines count different tokens. OpenAI and vLLM count only the output, which is the default here. llama.cpp counts the last
    tokens, including the prompt: that is `FrequencyPenalty(penalty, window=penalty_last_n, include_prompt=True)`. transformers
    has no such penalty.

    It takes 8 bytes of memory for each distinct token, or 4 for each token of a window; a step does not read the whole history.

    Args:
        penalty: From -100 to 100 (OpenAI and vLLM allow -2 to 2); below 0 encourages repetition, 0 changes nothing.
        window: Count only this many of the last tokens, from 1 to 2**24; None counts all.
        include_prompt: Whether tokens of the prompt count. Padding never does.

    Raises:
        ConfigurationError: The penalty or the window is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> penalty = lk.FrequencyPenalty(0.5)
        >>> context = lk.Context.of([[0]], vocabulary_size=4)
        >>> state = penalty.advance(penalty.init_state(context), torch.tensor([[1, 2, 2]]))
        >>> penalty.process_logits(state, torch.tensor([[4.0, 4.0, 4.0, 4.0]]), context)[1]
        tensor([[4.0000, 3.5000, 3.0000, 4.0000]])

    Source: OpenAI, API reference, `frequency_penalty`. The results are those of vLLM and of llama.cpp's penalties sampler.
    """

    kind = Kind("frequency_penalty", PARAMETERS, main="penalty", order=20, neutral={"penalty": 0.0, "window": 1})
    counts = True
    change = "SUBTRACT_COUNTED"


@dataclass(frozen=True)
class PresencePenalty(CountedPenalty):
    """Subtract a penalty from the logit of each token that has occurred, once, however often it occurred.

    Engines count different tokens. OpenAI and vLLM count only the output, which is the default here. llama.cpp counts the last
    tokens, including the prompt: that is `PresencePenalty(penalty, window=penalty_last_n, include_prompt=True)`. transformers
    has no such penalty.

    It takes 4 bytes of memory for each distinct token, or for each token of a window; a step does not read the whole history.

    Args:
        penalty: From -100 to 100 (OpenAI and vLLM allow -2 to 2); below 0 encourages repetition, 0 changes nothing.
        window: Count only this many of the last tokens, from 1 to 2**24; None counts all.
        include_prompt: Whether tokens of the prompt count. Padding never does.

    Raises:
        ConfigurationError: The penalty or the window is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> penalty = lk.PresencePenalty(0.5)
        >>> context = lk.Context.of([[0]], vocabulary_size=4)
        >>> state = penalty.advance(penalty.init_state(context), torch.tensor([[1, 2, 2]]))
        >>> penalty.process_logits(state, torch.tensor([[4.0, 4.0, 4.0, 4.0]]), context)[1]
        tensor([[4.0000, 3.5000, 3.5000, 4.0000]])

    Source: OpenAI, API reference, `presence_penalty`. The results are those of vLLM and of llama.cpp's penalties sampler.
    """

    kind = Kind("presence_penalty", PARAMETERS, main="penalty", order=30, neutral={"penalty": 0.0, "window": 1})
    change = "SUBTRACT"
