"""States of single sequences, of which an engine may hide the beginning."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.history.hidden_prompt import HiddenPrompt
from logitkit.history.resolver import HistoryResolver
from logitkit.processor import Processor, reads_prompt

__all__ = ["SequenceResolver"]

S = TypeVar("S")

# Sequences that may take turns: one that is forgotten would begin anew, in the middle of its text.
CAPACITY = 1024


class SequenceResolver(Generic[S]):
    """Find the state of a sequence from its token ids, one sequence a call.

    Without `prompts` this is a `HistoryResolver`: what a sequence begins with is its prompt, and sequences that take turns are
    told apart by their ids. With `prompts` nothing is guessed, and the engine may show less than the whole prompt; see
    `HiddenPrompt`.

    Args:
        processor: Whose states are wanted.
        prompts: The whole prompts of all sequences, left pads included; None takes what is shown first.
        pads: How many ids of each prompt are left pads.
        skip: Without `prompts`: a function from the ids [1, L] of a sequence that begins to the number of its left pads, [1].

    Example:
        >>> import logitkit as lk
        >>> resolver = SequenceResolver(lk.RepetitionPenalty(2.0), prompts=[[5, 6]], pads=[0])
        >>> _, context = resolver.resolve(torch.tensor([[6]]), vocabulary_size=9)
        >>> state, context = resolver.resolve(torch.tensor([[6, 3]]), vocabulary_size=9)
        >>> context.prompt.tolist(), context.lengths.tolist(), sorted(state.history.tokens[0].tolist())[-3:]
        ([[5, 6]], [3], [3, 5, 6])
    """

    def __init__(
        self,
        processor: Processor[S],
        *,
        prompts: Sequence[Sequence[int]] | None = None,
        pads: Sequence[int] = (),
        skip: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._hidden = None if prompts is None else HiddenPrompt(prompts, distinct=reads_prompt(processor))
        self._resolvers = (
            [HistoryResolver(processor, skip=skip, capacity=CAPACITY)]
            if prompts is None
            else [
                HistoryResolver(
                    processor,
                    prompt=torch.tensor([list(ids[count:])], dtype=torch.int64),
                    skip=torch.tensor([count]),
                    capacity=CAPACITY,
                )
                for ids, count in zip(prompts, pads, strict=True)
            ]
        )

    def new_generation(self) -> None:
        """Take what the next call shows for the beginning of a sequence."""
        for resolver in self._resolvers:
            resolver.new_generation()
        if self._hidden is not None:
            self._hidden.new_generation()

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
        """Return the state and the context of a sequence.

        Args:
            ids: [1, L] int32 or int64, what the engine shows.
            vocabulary_size: Columns of the logits.
            device: Where the logits are; None is where the ids are.
            sequence: What the engine calls the sequence, where it says.
            begins: Whether the engine says that it begins.
            hidden: With `prompts`: how many tokens the engine hides before those that it shows, or fewer where it does not say.

        Raises:
            ConfigurationError: The ids are none, or do not belong to any of the prompts, or to more than one; or output is
                hidden.
        """
        index = 0
        if self._hidden is not None:
            home = ids.device
            index, whole = self._hidden.complete(ids[0].cpu().numpy(), hidden)
            if len(whole) != ids.shape[1]:
                ids = torch.from_numpy(whole)[None].to(home)
            begins = False  # the prompt is known
        return self._resolvers[index].resolve(
            ids, vocabulary_size=vocabulary_size, device=device, sequence=sequence, begins=begins
        )
