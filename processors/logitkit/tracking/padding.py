"""Count the padding to the left of each prompt, which engines add to the shorter prompts of a batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, name_of, reads_prompt

__all__ = ["Padding"]


class Padding:
    """Count the padding to the left of prompts, from an attention mask or the padding id.

    If neither is given, no padding is assumed. If the processor reads prompts that seem to be padded, it warns once.

    Args:
        processor: The processor that the prompts are for.
        attention_mask: [B, P] of 0 and 1, with the zeros first, or None.
        pad_id: The id of padding tokens, or None.

    Raises:
        ConfigurationError: Both are given, or one is malformed.

    Example:
        >>> import logitkit as lk
        >>> pads = Padding(lk.RepetitionPenalty(2.0), pad_id=0)
        >>> pads.without(torch.tensor([[0, 0, 5], [6, 0, 7]])).tolist()
        [[5, -1, -1], [6, 0, 7]]
    """

    def __init__(
        self, processor: Processor[Any], attention_mask: Tensor | None = None, pad_id: int | None = None
    ) -> None:
        if attention_mask is not None and pad_id is not None:
            raise ConfigurationError("both attention_mask and pad_id are given; give one of them")
        if pad_id is not None and (isinstance(pad_id, bool) or not isinstance(pad_id, int) or pad_id < 0):
            raise ConfigurationError(f"pad_id is {pad_id!r}; allowed are token ids and None")
        self._mask_zeros = None if attention_mask is None else _leading_zeros(attention_mask)
        self._width = 0 if attention_mask is None else attention_mask.shape[1]
        self._pad_id = pad_id
        # Whether the caller says which tokens are padding.
        self.given = attention_mask is not None or pad_id is not None
        self._watched = name_of(processor) if reads_prompt(processor) else None

    @property
    def rows(self) -> int | None:
        """The number of rows of the mask, or None without a mask."""
        return None if self._mask_zeros is None else len(self._mask_zeros)

    @property
    def skip(self) -> Tensor | Callable[[Tensor], Tensor]:
        """The padding of each row of the mask, [B] int64, or a function that counts that of prompts, [R, L]."""
        return self._count if self._mask_zeros is None else self._mask_zeros

    def without(self, prompt: Sequence[Sequence[int]] | Tensor) -> Tensor:
        """Return prompts without their padding on the left, [B, P] int64, right-padded with -1.

        Args:
            prompt: [B, P] ids, padded on the left, or B lists of ids without padding.

        Raises:
            ConfigurationError: The prompts are something else, or contain negative ids.
            BatchMismatch: The mask has a different number of rows.
        """
        if isinstance(prompt, Tensor):
            if prompt.dim() != 2 or prompt.dtype not in (torch.int64, torch.int32):
                raise ConfigurationError(
                    f"prompt is a {prompt.dtype} tensor of shape {list(prompt.shape)}; give ids [B, P], or B "
                    "lists of ids"
                )
            if self._mask_zeros is not None and len(self._mask_zeros) != len(prompt):
                raise BatchMismatch(f"prompt has {len(prompt)} rows, but attention_mask has {len(self._mask_zeros)}")
            pads = (self._count(prompt) if self._mask_zeros is None else self._mask_zeros).tolist()
            rows = [row[skip:] for row, skip in zip(prompt.tolist(), pads, strict=True)]
        else:
            rows = [list(row) for row in prompt]
        if not rows:
            raise ConfigurationError("prompt has no rows; give ids [B, P], or B lists of ids")
        return Context.of(rows, vocabulary_size=1).prompt

    def check(self, ids: Tensor) -> None:
        """Raise `BatchMismatch` if the mask cannot belong to these rows, [R, L]."""
        if self._mask_zeros is not None and (len(ids) % len(self._mask_zeros) or ids.shape[1] < self._width):
            raise BatchMismatch(
                f"attention_mask is [{len(self._mask_zeros)}, {self._width}], but the rows are {list(ids.shape)}; they must be "
                "at least as long, and their number a multiple of its rows. Give the mask that the engine gets, and make a new "
                "hook for other prompts"
            )

    def _count(self, prompts: Tensor) -> Tensor:
        if self._pad_id is not None:
            return _leading_run(prompts == self._pad_id)
        token = None if self._watched is None else _pad_like(prompts)
        if token is not None:
            warnings.warn(
                f"{self._watched} reads the prompts, and some of them seem to be padded with token {token}, which counts as "
                "text; if it is padding, pass attention_mask=... or pad_id=...",
                stacklevel=1,
            )
            self._watched = None
        return torch.zeros(len(prompts), dtype=torch.int64, device=prompts.device)


def _leading_zeros(mask: Tensor) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dim() != 2 or not len(mask):
        shape = list(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        raise ConfigurationError(f"attention_mask is {shape}; give the [B, P] tensor that the engine gets")
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise ConfigurationError(
            "attention_mask has values other than 0 and 1; give the mask that the tokenizer returns"
        )
    zeros = _leading_run(mask == 0)
    if not torch.equal(zeros, (mask == 0).sum(1)):
        raise ConfigurationError(
            "attention_mask has a 0 after a 1; generation needs padding on the left: tokenizer(..., padding_side='left')"
        )
    return zeros


def _leading_run(true: Tensor) -> Tensor:
    """Return the number of leading true values of each row, [R] int64."""
    return true.long().cumprod(1).sum(1)


def _pad_like(prompts: Tensor) -> int | None:
    """Return the token that seems to be padding, or None.

    In a padded batch, all rows begin with a run of the same id, except the longest, which begins as the others do after their
    padding.
    """
    rows, length = prompts.shape
    if rows < 2 or length < 2:
        return None
    first = prompts[:, 0]
    run = _leading_run(prompts == first[:, None])
    after = prompts.gather(1, run.clamp(max=length - 1)[:, None])
    other = first[:, None] != first
    longer = (run[:, None] > run) & (run[:, None] > 1)
    padded = torch.where(other, (run[:, None] > 1) | (after == first), longer).any(1)
    return int(first[padded][0]) if bool(padded.any()) else None
