"""The registry of stop automata of one vocabulary, separate from the registry of constraints.

Many stops create long chains of fallbacks, which would slow down every look-up in a common table. And only the tensor path
needs their tables over tokens, so these are built on demand.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import cast

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import Limits
from logitkit.protocol.calls import by_tensors
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.registry_layout import RegistryLayout
from logitkit.runtime.row_mask import RowMask, finished_ids
from logitkit.runtime.shared import shared_by
from logitkit.stopping.stop_automaton import StopAutomaton, stop_key
from logitkit.stopping.stop_pattern import StopPattern
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["StopRegistry", "stop_registry"]

# Requests usually repeat the same few lists.
RECENT = 8


class StopRegistry(AutomatonRegistry):
    """A registry of stop automata, with the number of bytes that each token adds to a text.

    Args:
        vocabulary: The vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        # They are read even when no automaton is left, by rows that outlived theirs.
        self.ends = vocabulary.eos_ids, vocabulary.pad_id
        self.length = [len(text or b"") for text in vocabulary.tokens]
        ends = np.array(vocabulary.eos_ids, np.int64)
        finished = finished_ids(vocabulary.eos_ids, vocabulary.pad_id)
        # The masks of rows after a stop and after EOS, by their states `FIRED` and `FINISHED`.
        self.endings = [RowMask(vocabulary.size, ends, ids, allowed=ids) for ids in (ends, finished)]
        self._lengths: dict[torch.device, Tensor] = {}
        self._known: weakref.WeakValueDictionary[str, StopAutomaton] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[str, StopAutomaton] = OrderedDict()

    def made(
        self, stops: tuple[bytes | int | StopPattern, ...], vocabulary: Vocabulary, limits: Limits
    ) -> StopAutomaton:
        """Return the automaton for a list of stops, an existing or recent one if possible.

        Raises:
            PatternTooLarge: The automaton has more states than allowed.
        """
        key = stop_key(stops, vocabulary)
        found = self._known.get(key)
        if found is None or found.states > limits.states:
            found = StopAutomaton(stops, vocabulary, limits)
        with self._lock:
            self._known[key] = self._recent[key] = found
            self._recent.move_to_end(key)
            while len(self._recent) > RECENT:
                self._recent.popitem(last=False)
        return found

    def lengths_on(self, device: torch.device) -> Tensor:
        """Return how many bytes each token adds, as [V] int32 on a device."""
        # Called first, because it prepares the tables that a traced graph reads.
        self.tables_on(device)
        return self._lengths[device]

    def text_length(self, tokens: Tensor) -> Tensor:
        """Return the bytes of text in each row of [B, T] tokens: [B] int64. Ids outside the vocabulary add none."""
        count = len(self.length)
        if by_tensors(tokens):
            lengths = self.lengths_on(tokens.device)[tokens.clamp(0, count - 1)]
            return torch.where((tokens >= 0) & (tokens < count), lengths, 0).sum(1)
        return torch.tensor([sum(self.length[t] for t in row if 0 <= t < count) for row in tokens.tolist()])

    def size_of(self, automaton: TokenAutomaton) -> int:
        """Return the size of an automaton on the host, in bytes."""
        return automaton.nbytes

    def table_of(self, automaton: TokenAutomaton) -> TokenAutomaton:
        """Return the table over tokens of an automaton over bytes."""
        return cast(StopAutomaton, automaton).table

    def new_layout(self, device: torch.device) -> RegistryLayout:
        """Lay out the tables of all slots from the start."""
        if device not in self._lengths:
            self._lengths[device] = torch.tensor(self.length, dtype=torch.int32, device=device)
        return super().new_layout(device)


def stop_registry(vocabulary: Vocabulary) -> StopRegistry:
    """Return the registry of this vocabulary, which equal vocabularies share, and those without some of its tokens."""
    vocabulary = vocabulary.whole or vocabulary
    return shared_by(vocabulary).once(StopRegistry, lambda: StopRegistry(vocabulary))
