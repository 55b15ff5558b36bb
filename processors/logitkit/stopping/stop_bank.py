"""The stop automata of one vocabulary, apart from its languages.

Many stops take long chains of fallbacks, by which every look-up in a common table would be lengthened; and their tables over
tokens are made only where tensors alone are used.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import cast

import torch
from torch import Tensor

from logitkit.automata.bank import Bank
from logitkit.automata.bank_layout import BankLayout
from logitkit.automata.limits import Limits
from logitkit.automata.shared import shared_by
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.stopping.stop_automaton import StopAutomaton, stop_key
from logitkit.tensor_path import by_tensors
from logitkit.vocabulary import Vocabulary

__all__ = ["StopBank", "stop_bank"]

# Requests come and go with the same few lists.
RECENT = 8


class StopBank(Bank):
    """A bank of stop automata, and how many bytes each token adds to a text.

    Args:
        vocabulary: The tokens.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.length = [len(text or b"") for text in vocabulary.tokens]
        # A table is also read when no automaton is left, by rows that outlived theirs.
        self._ends = [*vocabulary.eos_ids]
        self._finished = sorted({*self._ends, *(() if vocabulary.pad_id is None else (vocabulary.pad_id,))})
        self._lengths: dict[torch.device, Tensor] = {}
        self._known: weakref.WeakValueDictionary[str, StopAutomaton] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[str, StopAutomaton] = OrderedDict()

    def made(self, stops: tuple[bytes | int, ...], vocabulary: Vocabulary, limits: Limits) -> StopAutomaton:
        """Return the automaton of some stops: the one that is in use or was lately, or a new one.

        Raises:
            PatternTooLarge: There are more states than allowed.
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

    def stops(self, slot: int, generation: int) -> StopAutomaton:
        """Return the automaton that a state refers to.

        Raises:
            StaleAutomaton: All processors that used it are gone.
        """
        return cast(StopAutomaton, self.automaton(slot, generation))

    def lengths_on(self, device: torch.device) -> Tensor:
        """Return how many bytes each token adds, as [V] int32 on a device."""
        # Asked first, as it has ready what a traced graph reads.
        self.tables_on(device)
        return self._lengths[device]

    def text_length(self, tokens: Tensor) -> Tensor:
        """Return the bytes of text of each row of [B, T] tokens: [B] int64. Ids that the vocabulary lacks have none."""
        count = len(self.length)
        if by_tensors(tokens):
            lengths = self.lengths_on(tokens.device)[tokens.clamp(0, count - 1)]
            return torch.where((tokens >= 0) & (tokens < count), lengths, 0).sum(1)
        return torch.tensor([sum(self.length[t] for t in row if 0 <= t < count) for row in tokens.tolist()])

    def size_of(self, automaton: TokenAutomaton) -> int:
        """Return the bytes that an automaton takes on the host."""
        return automaton.nbytes

    def table_of(self, automaton: TokenAutomaton) -> TokenAutomaton:
        """Return the table over tokens of an automaton over bytes."""
        return cast(StopAutomaton, automaton).table

    def new_layout(self, device: torch.device) -> BankLayout:
        """Lay out the tables of all slots anew."""
        if device not in self._lengths:
            self._lengths[device] = torch.tensor(self.length, dtype=torch.int32, device=device)
        layout = super().new_layout(device)
        ends, finished = (torch.tensor(ids, dtype=torch.int64, device=device) for ids in (self._ends, self._finished))
        layout.tables = layout.tables._replace(eos_ids=ends, finished_ids=finished)
        return layout


def stop_bank(vocabulary: Vocabulary) -> StopBank:
    """Return the bank of all vocabularies equal to this one."""
    return shared_by(vocabulary).once(StopBank, lambda: StopBank(vocabulary))
