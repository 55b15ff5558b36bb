"""The two operations on the host, for states of automata without stacks."""

from torch import Tensor

from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.host_rows import advance_on_host, mask_on_host

__all__ = ["advance_rows", "mask_on_host"]


def advance_rows(registry: AutomatonRegistry, at: AutomatonState, tokens: Tensor) -> Tensor:
    """Return the states of the automata after tokens."""
    return advance_on_host(registry, at, tokens).state
