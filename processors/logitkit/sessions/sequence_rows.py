"""The rows of a generation: tokens and weights of B prompts x S samples, and a cache of the first columns.

`SequenceState` adds the operations, which are in separate files and work on any such rows.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import BatchMismatch
from logitkit.protocol.processor import Processor
from logitkit.sessions.cache_port import CachePort
from logitkit.sessions.text_continuation import added_text
from logitkit.sessions.text_tokenizer import TextTokenizer

__all__ = ["SequenceRows"]


# Compared by identity: tensors have no single truth value.
@dataclass(frozen=True, eq=False, repr=False)
class SequenceRows:
    """The fields of `SequenceState`, which documents them."""

    token_ids: Tensor
    weights: Tensor
    attention_masks: Tensor
    kv_cache: Any = None
    tokenizer: Any = None
    _: KW_ONLY
    processor_state: Any = None
    processor: Processor[Any] | None = None
    prompt_lengths: Tensor = field(default=None)  # type: ignore[assignment]
    seams: Tensor = field(default=None)  # type: ignore[assignment]
    finished: Tensor = field(default=None)  # type: ignore[assignment]
    open_weights: Tensor = field(default=None)  # type: ignore[assignment]
    lost_bos: Tensor = field(default=None)  # type: ignore[assignment]
    token_log_probs: Tensor = field(default=None)  # type: ignore[assignment]
    cached: int = 0
    port: CachePort | None = None

    def __post_init__(self) -> None:
        if self.token_ids.dim() != 2 or self.attention_masks.shape != self.token_ids.shape:
            raise BatchMismatch(
                f"token_ids has the shape {list(self.token_ids.shape)} and attention_masks {list(self.attention_masks.shape)}; "
                "both are [prompts x samples, tokens]"
            )
        if self.weights.dim() != 2 or self.weights.numel() != len(self.token_ids):
            raise BatchMismatch(
                f"weights has the shape {list(self.weights.shape)} for {len(self.token_ids)} rows; it is [prompts, samples]"
            )
        lengths = self.attention_masks.sum(1)
        none = torch.zeros(len(lengths), dtype=torch.bool, device=lengths.device)
        defaults = {
            "prompt_lengths": lengths,
            "seams": lengths,
            "finished": none,
            "open_weights": self.weights,
            "lost_bos": none,
            "token_log_probs": self.weights.new_full(self.token_ids.shape, torch.nan),
        }
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        if self.token_log_probs.shape != self.token_ids.shape:
            raise BatchMismatch(
                f"token_log_probs has the shape {list(self.token_log_probs.shape)} and token_ids {list(self.token_ids.shape)}; "
                "both are [prompts x samples, tokens]"
            )

    @property
    def batch_size(self) -> int:
        """The number of prompts, B."""
        return self.weights.shape[0]

    @property
    def num_samples(self) -> int:
        """The number of samples per prompt, S."""
        return self.weights.shape[1]

    @cached_property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of each row, without padding."""
        pairs = zip(self.token_ids.tolist(), self.attention_masks.tolist(), strict=True)
        return tuple(tuple(i for i, there in zip(ids, mask, strict=True) if there) for ids, mask in pairs)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text of each row, including the prompt, without special tokens and without incomplete characters at its ends."""
        tokenizer = TextTokenizer(self.tokenizer)
        return tuple(tokenizer.text(row) for row in self.rows)

    @cached_property
    def new_texts(self) -> tuple[str, ...]:
        """The text that the last generator added to each row, as in `texts`; all that it wrote if its state was carried."""
        tokenizer = TextTokenizer(self.tokenizer)
        pairs = zip(self.rows, self.seams.tolist(), strict=True)
        return tuple(added_text(row[:seam], row[seam:], tokenizer) for row, seam in pairs)
