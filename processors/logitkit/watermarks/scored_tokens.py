"""The tokens of a text that a detector scores, and those that it leaves out.

Without a watermark, the score of a token after its context is a random number, but the same for every occurrence: a text that
says the same ten times would count one piece of chance ten times. So each occurrence after the first one is left out. A token
that a constraint forced carries no mark and is left out too, as are all from the first EOS on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.parameters import TokenIds
from logitkit.parameters.numbers import LARGEST
from logitkit.parameters.scalars import as_integer
from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context, padded
from logitkit.protocol.processor import Processor, name_of

__all__ = ["first_occurrences", "forced_tokens", "ngrams_of", "rows_without_padding"]


def rows_without_padding(tokens: Tensor | Sequence[Sequence[int]], eos_ids: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return the tokens of each text before its first EOS.

    Raises:
        ConfigurationError: The tokens are not texts of token ids.
    """
    advice = "give a list of texts, each a list of token ids, or a tensor of [texts, tokens] with -1 at the end of shorter ones"
    if isinstance(tokens, Tensor):
        if tokens.dim() != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise ConfigurationError(f"tokens is a tensor of shape {list(tokens.shape)} and {tokens.dtype}; {advice}")
        lines = [*tokens.cpu().numpy().astype(np.int64)]
    else:
        if isinstance(tokens, str | bytes) or any(not isinstance(line, Sequence | Tensor) for line in tokens):
            raise ConfigurationError(f"tokens is not a list of lists; {advice}")
        lines = [_of_integers(number, line, advice) for number, line in enumerate(tokens)]
    end_ids = TokenIds(least=0).check("eos_ids", eos_ids)
    found = []
    for number, line in enumerate(lines):
        wrong = line[(line < -1) | (line > LARGEST)]
        if len(wrong):
            raise ConfigurationError(f"text {number} has the token {wrong[0]}; {advice}")
        real = line[line >= 0]
        ends = np.flatnonzero(np.isin(real, end_ids))
        found.append(real[: ends[0]] if len(ends) else real)
    return found


def _of_integers(number: int, line: Any, advice: str) -> NDArray[np.int64]:
    """Return the tokens of a text as an array."""
    given = [*map(as_integer, line.tolist() if isinstance(line, Tensor) else line)]
    if None in given or any(abs(token) > LARGEST for token in given if token is not None):
        raise ConfigurationError(f"text {number} has a token that is not an integer up to {LARGEST:,}; {advice}")
    return np.array(given, np.int64)


def ngrams_of(line: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return all runs of `size` tokens of a text, [N, size], the newest token last."""
    if len(line) < size:
        return np.empty((0, size), np.int64)
    return np.lib.stride_tricks.sliding_window_view(line, size)


def first_occurrences(runs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which runs, [N, W], have not been there before, [N] bool.

    Example:
        >>> first_occurrences(np.array([[1, 2], [2, 1], [1, 2]])).tolist()
        [True, True, False]
    """
    first = np.zeros(len(runs), np.bool_)
    if len(runs):
        first[np.unique(runs, axis=0, return_index=True)[1]] = True
    return first


def forced_tokens(constraint: Processor[Any], rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.bool_]]:
    """Return which tokens of each text were the only legal ones.

    Args:
        constraint: The constraint of the texts, or a chain with constraints.
        rows: The texts.

    Raises:
        ConfigurationError: It is not a constraint on texts.
    """
    allowed_of = getattr(constraint, "allowed_tokens", None)
    if allowed_of is None:
        raise ConfigurationError(
            f"constraint is a {name_of(constraint)}; give the constraint of the texts, such as logitkit.Regex(...), or the chain"
        )
    tokens = padded([line.tolist() for line in rows])
    forced = torch.zeros(tokens.shape, dtype=torch.bool)
    vocabulary = getattr(constraint, "vocabulary", None)
    columns = 2**20 if vocabulary is None else vocabulary.size
    state = init_checked(constraint, Context.of([[]] * len(rows), columns))
    for step in range(tokens.shape[1]):
        allowed, token = allowed_of(state), tokens[:, step]
        inside = (token >= 0) & (token < allowed.shape[1])
        legal = allowed.gather(1, torch.where(inside, token, 0)[:, None])[:, 0] & inside
        forced[:, step] = legal & (allowed.sum(1) == 1)
        state = advance_checked(constraint, state, token)
    return [marks[: len(line)].numpy() for marks, line in zip(forced, rows, strict=True)]
