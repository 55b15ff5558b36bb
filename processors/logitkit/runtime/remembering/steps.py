"""The two operations on rows that remember items. They run on the host, wherever the tensors are.

On a device, a step waits for its tokens, and its logits are masked on the host.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from logitkit.errors import ProcessorError
from logitkit.protocol.state import to
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.host_rows import advance_on_host, bits_on_host, mask_on_host
from logitkit.runtime.positions import RowState

__all__ = ["advance_remembering", "bits_remembering", "mask_remembering"]

HOST = torch.device("cpu")

S = TypeVar("S", bound=RowState)


def advance_remembering(registry: AutomatonRegistry, state: S, tokens: Tensor) -> S:
    """Return the state after tokens; see `advance_on_host`.

    Raises:
        ProcessorError: The tensors have no values, as in a graph that is being traced.
    """
    _check_has_values(tokens)
    if tokens.is_cpu:
        return advance_on_host(registry, state, tokens)
    return to(advance_on_host(registry, to(state, HOST), tokens.to(HOST)), tokens.device)


def mask_remembering(registry: AutomatonRegistry, state: RowState, logits: Tensor) -> Tensor:
    """Mask logits; see `mask_on_host`.

    Raises:
        ProcessorError: The tensors have no values, as in a graph that is being traced.
    """
    _check_has_values(logits)
    if logits.is_cpu:
        return mask_on_host(registry, state, logits)
    return mask_on_host(registry, to(state, HOST), logits.to(HOST)).to(logits.device)


def bits_remembering(registry: AutomatonRegistry, state: RowState, columns: int) -> Tensor:
    """Return which tokens are left, as bits; see `bits_on_host`.

    Raises:
        ProcessorError: The tensors have no values, as in a graph that is being traced.
    """
    _check_has_values(state.row_states)
    device = state.row_states.device
    return bits_on_host(registry, to(state, HOST), columns).to(device)


def _check_has_values(tensor: Tensor) -> None:
    if torch.compiler.is_dynamo_compiling() or isinstance(tensor, FakeTensor):
        raise ProcessorError(
            "this constraint has arrays whose items must differ ('uniqueItems'), or objects whose names must ('minProperties', "
            "any_order, member_order='any'), which a row remembers on the host, so its steps cannot be part of a compiled graph; "
            "run them eagerly, or leave out the keyword or option"
        )
