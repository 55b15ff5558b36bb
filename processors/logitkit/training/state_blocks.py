"""The states of all steps of rollouts, in blocks: several steps of several rows side by side, as the rows of one batch.

A state is a value with one row per sequence, so the states of rows 0 and 1 at steps 5 and 6 make a batch of four rows: one call
of each processor then serves all four. Advancing is sequential, but short. Blocks are as large as their logits should be, and no
state is kept longer than its block, so that long outputs do not need memory for the states of all their steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import IllegalToken, VocabularyError
from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context, context_to, select_context
from logitkit.protocol.state import concatenate, select, to
from logitkit.training.rollouts import Group, Rollouts

__all__ = ["StateBlock", "blocks_of"]

# How many logits a block has: few enough for the caches of a CPU, and enough to keep a GPU busy.
ON_HOST, ON_DEVICE = 2**22, 2**27


@dataclass(frozen=True, eq=False)
class StateBlock:
    """N steps of rows, as a batch.

    Args:
        group: The group of the rows.
        rows: [N] int64, the row in the batch of each.
        steps: [N] int64, the step of each.
        tokens: [N] int64, the token that was sampled there.
        state: The state of the group's processor before each token, of N rows.
        context: The context of each.

    All but the group are on the device of the logits.
    """

    group: Group
    rows: Tensor
    steps: Tensor
    tokens: Tensor
    state: Any
    context: Context

    def occurring(self, columns: int) -> list[NDArray[np.int64]]:
        """Return the tokens of the prompt and the output of the row of each step that are columns, rising; on the host only."""
        found = [tokens[: np.searchsorted(tokens, columns)] for tokens in self.group.occurring]
        return [found[row] for row in torch.searchsorted(self.group.rows, self.rows).tolist()]


def blocks_of(rollouts: Rollouts, *wanted: Tensor) -> Iterator[StateBlock]:
    """Yield all steps that are not padding, or those of some sets, [B, T] bool on the CPU; no block has steps of two sets."""
    size = ON_HOST if rollouts.device.type == "cpu" else ON_DEVICE
    most = max(1, size // rollouts.columns)
    for group in rollouts.groups:
        yield from _of_group(rollouts, group, most, wanted)


def _of_group(rollouts: Rollouts, group: Group, most: int, wanted: Sequence[Tensor]) -> Iterator[StateBlock]:
    count, end = len(group.rows), int(group.lengths.max()) if len(group.lengths) else 0
    together = max(1, most // max(count, 1))
    state = init_checked(group.chain, group.context)
    for start in range(0, end, together):
        steps = range(start, min(start + together, end))
        states = []
        for step in steps:
            states.append(state)
            if step + 1 < end:
                state = _advanced(group, state, step)
        joined = states[0] if len(states) == 1 else concatenate(states)
        # Row-major in `states`: all rows of a step, then those of the next.
        at = torch.arange(steps.start, steps.stop).repeat_interleave(count)
        row = torch.arange(count).repeat(len(steps))
        real = at < group.lengths[row]
        for some in [real & part[group.rows[row], at] for part in wanted] or [real]:
            at_once = some.nonzero()[:, 0]
            for chosen in torch.split(at_once, most) if len(at_once) else ():
                taken = None if len(chosen) == len(at) else chosen
                yield _block(rollouts, group, joined, row[chosen], at[chosen], taken)


def _advanced(group: Group, state: Any, step: int) -> Any:
    """Return the state after the tokens of a step.

    Raises:
        IllegalToken: A token is not in the vocabulary of a processor. Its own error would count the rows of the group.
    """
    try:
        return advance_checked(group.chain, state, group.tokens[:, step])
    except VocabularyError as error:
        sizes = [p.vocabulary.size for p in group.chain.processors if hasattr(p, "vocabulary")]
        tokens = group.tokens[:, step].tolist()
        outside = [i for i, token in enumerate(tokens) if sizes and token >= min(sizes)]
        if not outside:
            raise
        row, token = int(group.rows[outside[0]]), tokens[outside[0]]
        reason = f"token {token} is not in the vocabulary, which has ids from 0 to {min(sizes) - 1}"
        raise IllegalToken(f"{reason}; the tokens were sampled with another processor", row, step, token) from error


def _block(rollouts: Rollouts, group: Group, joined: Any, row: Tensor, at: Tensor, chosen: Tensor | None) -> StateBlock:
    where = group.context.device
    state = joined if chosen is None else select(joined, chosen.to(where))
    context = select_context(group.context, row.to(where))
    context = context.at(context.prompt_lengths + at.to(where))
    rows, device = group.rows[row], rollouts.device
    tokens = rollouts.tokens[rows, at]
    if where != device:
        state, context = to(state, device), context_to(context, device)
    return StateBlock(group, rows.to(device), at.to(device), tokens.to(device), state, context)
