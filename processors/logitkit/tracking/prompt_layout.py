"""Where the prompt of each row begins and ends in the ids that an engine shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.tracking.branches import Integers
from logitkit.tracking.rows import Shown

__all__ = ["PromptLayout", "Skip"]


# The number of leading padding ids of each row: a tensor, or a function of the ids.
Skip = Tensor | Callable[[Tensor], Tensor]


class PromptLayout:
    """Find the prompt and the padding of each row, from what the caller says about them.

    Args:
        prompt: [B, P] integers, right-padded with -1. None: the first ids shown are the prompt.
        skip: The padding on the left: [B] integers, or a function from ids [R, L] to [R] integers. None: no padding.
        sources: The number of sequences that differ in more than their ids, such as in their processors. None: they do not.

    Raises:
        ConfigurationError: An argument has a wrong shape or dtype, or impossible values.
    """

    def __init__(self, prompt: Tensor | None, skip: Skip | None, sources: int | None = None) -> None:
        self._prompts = None if prompt is None else _prompts_of(_integers(prompt, "prompt", 2))
        self._given_skip = skip
        self._skip = _integers(skip, "skip", 1) if isinstance(skip, Tensor) else None
        if not (skip is None or isinstance(skip, Tensor) or callable(skip)):
            raise ConfigurationError(
                f"skip is of type {type(skip).__name__}; give a tensor [B], a function of the ids, or None"
            )
        if self._skip is not None and (len(self._skip) == 0 or self._skip.min() < 0):
            raise ConfigurationError(
                f"skip is {self._skip.tolist()}; give the number of padding ids of each row, at least 0"
            )
        self._sources = sources
        # Whether prompts were given, and whether rows with equal ids may have different prompts, padding or processors.
        self.explicit = self._prompts is not None
        self.has_keys = self.explicit or self._skip is not None or sources is not None
        self._keys: dict[int, Integers] = {}

    def with_prompt(self, prompt: Tensor) -> PromptLayout:
        """Return the layout with these prompts, [B, P], and the same padding."""
        return PromptLayout(prompt, self._given_skip, self._sources)

    def keys(self, rows: int) -> Integers:
        """Return a number for the given prompt, padding and processor of each row, [R].

        Raises:
            BatchMismatch: The number of rows is not a multiple of the rows of the prompt or of `skip`, or of the processors.
        """
        keys = self._keys.get(rows)
        if keys is None:
            keys = np.zeros(rows, np.int64)
            if self._skip is not None:
                keys += self._skip[_spread(len(self._skip), rows, "skip")]
            if self._prompts is not None:
                keys += _spread(len(self._prompts), rows, "prompt") << 32
            if self._sources is not None:
                keys = keys * self._sources + _spread(self._sources, rows, "the processor")
            self._keys = {rows: keys}
        return keys

    def of(self, shown: Shown) -> tuple[Integers, Integers]:
        """Return the columns at which the prompts of new rows begin and end, [R] each.

        Raises:
            BatchMismatch: The number of rows is not a multiple of the rows of the prompt or of `skip`.
            ConfigurationError: A row does not begin with its whole prompt, has fewer ids than padding, or has a negative id.
        """
        rows, length = shown.rows, shown.length
        skips = np.zeros(rows, np.int64)
        if self._skip is not None:
            skips = self._skip[_spread(len(self._skip), rows, "skip")]
        elif callable(self._given_skip):
            skips = _integers(self._given_skip(shown.ids), "the result of skip", 1)
            if skips.shape != (rows,):
                raise BatchMismatch(f"skip returned {len(skips)} numbers for {rows} rows; return one for each row")
        for row in np.flatnonzero((skips < 0) | (skips > length))[:1].tolist():
            raise ConfigurationError(
                f"row {row} has {length} ids, but skip says that {skips[row]} of them are padding; give the padding of the "
                "prompts that the engine runs, and make a new hook for other prompts"
            )
        if self._prompts is None:
            if shown.array is not None and shown.array.size and shown.array.min() < 0:
                row, column = np.argwhere(shown.array < 0)[0].tolist()
                raise ConfigurationError(
                    f"row {row} has the id {shown.array[row, column]} at position {column}; ids are at least 0"
                )
            return skips, np.full(rows, length)
        prompts = [self._prompts[source] for source in _spread(len(self._prompts), rows, "prompt")]
        for row, (skip, prompt) in enumerate(zip(skips.tolist(), prompts, strict=True)):
            _check_row(shown, row, skip, prompt)
        return skips, skips + np.array([len(prompt) for prompt in prompts], np.int64)


def _check_row(shown: Shown, row: int, skip: int, prompt: Integers) -> None:
    given = shown.ids[row, skip : skip + len(prompt)].cpu().numpy()
    if len(given) < len(prompt):
        padding = f" after {skip} padding ids" if skip else ""
        raise ConfigurationError(
            f"row {row} has {len(given)} ids{padding}, but its prompt has {len(prompt)}; let the engine show all of it"
        )
    differs = np.flatnonzero(given != prompt)
    if len(differs):
        at = int(differs[0])
        raise ConfigurationError(
            f"row {row} does not begin with its prompt: at position {at + skip} it has id {given[at]}, "
            f"the prompt has {prompt[at]}; for another prompt, make a new hook, or one without a prompt"
        )


def _prompts_of(padded: Integers) -> list[Integers]:
    """Return prompts, [B, P], without the -1 after each."""
    if not len(padded):
        raise ConfigurationError("prompt has no rows; give one for each sequence")
    lengths = (padded != -1).sum(1)
    if (padded[np.arange(padded.shape[1]) < lengths[:, None]] < 0).any():
        raise ConfigurationError("prompt has token ids after a negative id; pad it with -1, on the right only")
    return [row[:length] for row, length in zip(padded, lengths, strict=True)]


def _integers(tensor: Tensor, name: str, dimensions: int) -> Integers:
    wanted = "[B]" if dimensions == 1 else "[B, P]"
    if not isinstance(tensor, Tensor):
        raise ConfigurationError(f"{name} is of type {type(tensor).__name__}; give a tensor {wanted} of integers")
    if tensor.dim() != dimensions or tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ConfigurationError(
            f"{name} is a {tensor.dtype} tensor of shape {list(tensor.shape)}; give a tensor {wanted} of integers"
        )
    # A copy: the caller may change its own tensor later.
    copied: Integers = tensor.detach().to("cpu", torch.int64, copy=True).numpy()
    return copied


def _spread(given: int, rows: int, name: str) -> Integers:
    """Return the given row that each row belongs to: the beams or samples of a prompt are consecutive rows."""
    if rows % given:
        raise BatchMismatch(
            f"the engine shows {rows} rows, but {name} has {given}; give the same number of rows, or a divisor of it"
        )
    return np.arange(rows) // (rows // given)
