"""Find the states of sequences whose beginning an engine may hide."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, reads_prompt
from logitkit.tracking.generation import Port
from logitkit.tracking.hidden_prompt import HiddenPrompt
from logitkit.tracking.tracker import CAPACITY, Tracker, single_row

__all__ = ["SequenceTracker"]

S = TypeVar("S")


class SequenceTracker(Tracker[S]):
    """Find the states of sequences whose prompts are known, and of which the engine may hide the beginning; see `HiddenPrompt`.

    Args:
        processor: The processor whose states are wanted.
        prompts: The whole prompts of all sequences, including padding on the left.
        pads: The number of padding ids of each prompt.
        max_new_tokens: The maximum number of tokens of a row after its prompt; None if unknown.
        capacity: The number of histories to remember for each prompt.

    Raises:
        ConfigurationError: A prompt is the beginning of another.
    """

    def __init__(
        self,
        processor: Processor[S],
        *,
        prompts: Sequence[Sequence[int]],
        pads: Sequence[int],
        max_new_tokens: int | None = None,
        capacity: int = CAPACITY,
    ) -> None:
        super().__init__(processor, max_new_tokens=max_new_tokens, capacity=capacity)
        self._hidden = HiddenPrompt(prompts, distinct=reads_prompt(processor))
        self._by_prompt: list[Tracker[S]] = [
            Tracker(
                processor,
                prompt=torch.tensor([list(ids[count:])], dtype=torch.int64),
                skip=torch.tensor([count]),
                max_new_tokens=max_new_tokens,
                capacity=capacity,
            )
            for ids, count in zip(prompts, pads, strict=True)
        ]

    def new_generation(self) -> None:
        """Forget all histories, so that the ids of the next call are prompts."""
        super().new_generation()
        self._hidden.new_generation()
        for tracker in self._by_prompt:
            tracker.new_generation()

    def resolve(
        self,
        ids: Tensor,
        *,
        vocabulary_size: int,
        device: torch.device | str | None = None,
        sequence: Hashable = None,
        begins: bool = False,
        hidden: int = 0,
    ) -> tuple[S, Context]:
        """Return the state and the context of a sequence; see `Tracker.resolve`.

        Args:
            ids: [1, L] int32 or int64, the ids that the engine shows.
            vocabulary_size: The number of columns of the logits.
            device: The device of the logits. None: that of the ids.
            sequence: The engine's name for the sequence, if any.
            begins: Ignored, because the prompts are known.
            hidden: The minimum number of tokens that the engine hides before those that it shows.

        Raises:
            ConfigurationError: The ids belong to none or to several of the prompts, or output is hidden.
        """
        port = Port(vocabulary_size, ids.device if device is None else torch.device(device))
        if self._known:
            self._update_histories()
        tracker, found = self._search(ids, port, sequence, hidden)
        self._begun = True
        single = single_row(ids, port, sequence)
        if single is not None:
            self._remember_row(single, found, vocabulary_size, alone=len(tracker.groups) == 1)
        return found

    def _search(
        self, ids: Tensor, port: Port, sequence: Hashable = None, hidden: int = 0
    ) -> tuple[Tracker[S], tuple[S, Context]]:
        """Return the tracker of the sequence's prompt, and the state and the context of the sequence."""
        index, whole = self._hidden.complete(ids[0].cpu().numpy(), hidden)
        if len(whole) != ids.shape[1]:
            ids = torch.from_numpy(whole)[None].to(ids.device)
        tracker = self._by_prompt[index]
        return tracker, tracker.resolve(
            ids, vocabulary_size=port.vocabulary_size, device=port.device, sequence=sequence
        )

    def _add_to_histories(self, ids: Tensor, start: int, port: Port) -> None:
        for length in range(start + 1, ids.shape[1] + 1):
            self._search(ids[:, :length], port)
