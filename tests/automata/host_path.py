"""The two operations on the host, for states of automata without stacks."""

import torch
from torch import Tensor

from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.runtime import AutomatonRegistry, AutomatonState, ConstraintState
from logitkit.runtime.host_rows import advance_on_host, mask_on_host


def advance_rows(registry: AutomatonRegistry, at: AutomatonState, tokens: Tensor) -> Tensor:
    """Return the states of the automata after tokens."""
    return advance_on_host(registry, _without_stacks(at), tokens).at.state


def mask_rows(registry: AutomatonRegistry, at: AutomatonState, logits: Tensor) -> Tensor:
    """Mask logits in place, and return them."""
    return mask_on_host(registry, _without_stacks(at), logits)


def _without_stacks(at: AutomatonState) -> ConstraintState:
    rows = len(at.state)
    return ConstraintState(at, torch.zeros((rows, 0), dtype=torch.int32), torch.full((rows,), NO_LIMIT))
