"""From the token ids that an engine shows to the states of its rows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.errors import ConfigurationError
from logitkit.history.branches import Integers
from logitkit.history.generation import Generation, Port
from logitkit.history.lineage import Lineage, keep_rows
from logitkit.history.prompt_layout import PromptLayout, Skip
from logitkit.history.rows import Parents, Shown
from logitkit.processor import Processor
from logitkit.state import select

__all__ = ["HistoryResolver"]

S = TypeVar("S")

# Histories remembered by default: enough for as many sequences that take turns in one hook.
CAPACITY = 256

# Only so many lineages keep their last states for rewinding; the others keep the newest one.
TRAILS = 4


class HistoryResolver(Generic[S]):
    """Find the state of every row from its token ids alone, in whatever order an engine makes its calls.

    A state is a function of the prompt and the tokens after it, never of the call. A *history* is all ids of
    a row. The resolver remembers the histories that calls have shown, and with each where its prompt ends:

    - A history that was shown before has the state that it had then. So has every beginning of it that is not
      shorter than its prompt: an engine that looks ahead, repeats a call or takes back a draft sees no
      difference.
    - A history one token longer than that is its continuation: `advance` by the token. It may stand in
      another row, more than once, or beside fewer or more rows, as beams and sequences that take turns do. Of
      rows with equal histories, that of the same index is continued. It goes before what was shown already:
      a sequence may come to say what is the prompt of another.
    - Any other history (longer by several tokens, shorter than the prompt, another within the prompt, with
      other pads) is the prompt of a new generation, because engines never skip a token: a jump is the next
      turn of a chat, say. One such row makes all rows of its call new, since rows of a call belong to one run
      of the engine.

    One case cannot be told from ids: a new run whose prompt is exactly a history shown before, or that and
    one token. It is taken for a continuation; call `new_generation` before such a run, or give its prompt.

    With `prompt` nothing is guessed: every history that begins with its row's prompt is a continuation,
    however much longer, and any other is an error. Row i of R has the prompt (and `skip`) i // (R / B) of B,
    as engines lay out beams and samples.

    Token ids decide; hashes only propose. On a GPU the fast path, the same rows and one token more, reads one
    boolean from the device. Memory: the last `capacity` histories or two calls' worth if that is more (the
    least recently used lineage, that is rows shown together, goes first), the newest state of each, and at
    most 24 states of the last four lineages. A beam that is dropped is forgotten at once; a forgotten history
    is a new prompt. Not thread-safe.

    Args:
        processor: Whose states are wanted.
        prompt: [B, P] integers, the prompts without pads, right-padded with -1; None takes the first ids
            shown.
        prompt_lengths: [B] integers; None counts the ids of `prompt` that are not -1.
        skip: How many of a row's leading ids are pads, which no prompt in a context has: [B] integers, or a
            function from the ids [R, L] of a new generation to [R] integers; None is no pads.
        max_length: Most tokens that a row will ever have, for `Context.max_length`.
        capacity: Histories to remember.

    Raises:
        ConfigurationError: An argument has another shape or dtype, or values that make no sense.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"0", b"1", None], eos_ids=[2])
        >>> resolver = HistoryResolver(lk.Regex("01*", vocabulary))
        >>> _, context = resolver.resolve(torch.tensor([[1, 1]]), vocabulary_size=3)
        >>> state, context = resolver.resolve(torch.tensor([[1, 1, 0]]), vocabulary_size=3)
        >>> context.prompt.tolist(), context.lengths.tolist()
        ([[1, 1]], [3])
    """

    def __init__(
        self,
        processor: Processor[S],
        *,
        prompt: Tensor | None = None,
        prompt_lengths: Tensor | None = None,
        skip: Skip | None = None,
        max_length: int | None = None,
        capacity: int = CAPACITY,
    ) -> None:
        if type(capacity) is not int or capacity < 1:
            raise ConfigurationError(f"capacity is {capacity!r}; allowed are integers from 1")
        self._processor = processor
        self._layout = PromptLayout(prompt, prompt_lengths, skip)
        self._max_length = max_length
        self._capacity = capacity
        # The most recently used one first.
        self._lineages: list[Lineage] = []

    def new_generation(self) -> None:
        """Forget all histories: what the next call shows is a prompt."""
        self._lineages.clear()

    def resolve(
        self,
        ids: Tensor,
        *,
        vocabulary_size: int,
        device: torch.device | str | None = None,
        sequence: Hashable = None,
        begins: bool = False,
    ) -> tuple[S, Context]:
        """Return the states and the context of the rows of a call.

        Args:
            ids: [R, L] int32 or int64, all token ids of each row, prompt and pads included. Nothing refers to
                it afterwards.
            vocabulary_size: Columns of the logits. States are kept apart for logits of another size or
                device.
            device: Where the logits are, and so the states; None is where the ids are.
            sequence: What the engine calls these rows, where it says: of equal histories, that of the same name is continued.
            begins: Whether the engine says that these ids are a prompt.

        Returns:
            The state of the R rows after their last token, and their context.

        Raises:
            ConfigurationError: The ids have another shape or dtype, are negative, or do not begin with the
            prompt. BatchMismatch: The rows are not a multiple of those of `prompt` or `skip`.
        """
        shown = self._shown(ids)
        port = Port(vocabulary_size, torch.device(device) if device is not None else ids.device)
        keys = self._layout.keys(shown.rows)
        found = None if begins else self._find(shown, keys, sequence)
        if found is None:
            generation = Generation(shown, *self._begin(shown, keys), self._max_length)
            lineage = Lineage(generation, None, keep_rows(shown), keys)
            state: S = lineage.state_at(self._processor, port, shown.length)
        else:
            lineage, seen, parents = found
            state = lineage.state_at(self._processor, port, seen)
            if parents is not None:
                state = select(state, torch.from_numpy(parents.rows).to(port.device))
            if seen < shown.length:
                state = self._processor.advance(state, shown.columns(seen).to(port.device))
            # Only now, when no processor can fail any more, does anything change.
            lineage = lineage.extended(shown, seen, parents)
            lineage.keep(port, shown.length, state)
        lineage.sequence = sequence
        self._use(lineage)
        return state, lineage.context(self._processor, port, shown.length)

    def _shown(self, ids: Tensor) -> Shown:
        if not isinstance(ids, Tensor):
            raise ConfigurationError(f"ids is a {type(ids).__name__}; give a tensor [R, L] of int32 or int64")
        if ids.dim() != 2 or ids.shape[0] == 0 or ids.dtype not in (torch.int64, torch.int32):
            raise ConfigurationError(
                f"ids is a {ids.dtype} tensor of shape {list(ids.shape)}; give the token ids of at least one "
                "row, [R, L], int32 or int64"
            )
        # All histories are kept where the first ones were.
        home = self._lineages[0].rows.tokens.device if self._lineages else ids.device
        shown = Shown(ids if ids.dtype == torch.int64 and ids.device == home else ids.to(home, torch.int64))
        if shown.array is not None and shown.length and np.minimum.reduce(shown.array[:, -1]) < 0:
            row = int(shown.array[:, -1].argmin())
            raise ConfigurationError(
                f"row {row} has the id {shown.array[row, -1]} at position {shown.length - 1}; ids are at least 0"
            )
        return shown

    def _find(
        self, shown: Shown, keys: Integers | None, sequence: Hashable
    ) -> tuple[Lineage, int, Parents | None] | None:
        """Return a lineage that all rows continue, how many columns it has of theirs, and their parents."""
        before = shown.length - 1
        tip = int(shown.array[0, before - 1]) if shown.array is not None and before > 0 else None
        # First the lineages that are one token shorter: where a prompt is what another sequence says, each goes on with its own.
        shorter = [lineage for lineage in self._lineages if lineage.rows.length == before]
        if sequence is not None:
            shorter.sort(key=lambda lineage: lineage.sequence != sequence)
        for lineage in shorter:
            if lineage.rows.tip is None or lineage.rows.tip == tip:
                seen = lineage.follow(shown, self._layout.explicit)
                if seen is not None:
                    return lineage, seen, None
        for lineage in self._lineages:
            if lineage.rows.length != before:
                seen = lineage.follow(shown, self._layout.explicit)
                if seen is not None:
                    return lineage, seen, None
        for lineage in self._lineages:
            parents = lineage.parents(shown, keys)
            if parents is not None:
                return lineage, shown.length - 1, parents
        return None

    def _begin(self, shown: Shown, keys: Integers | None) -> tuple[Integers, Integers]:
        """Return the columns at which the prompts of rows begin and end that no lineage has together."""
        places = []
        for row in range(shown.rows) if shown.rows > 1 and not self._layout.explicit else ():
            key = None if keys is None else int(keys[row])
            tellers = (lineage.start_of(shown, row, key) for lineage in self._lineages)
            place = next((p for p in tellers if p is not None), None)
            if place is None:
                break
            places.append(place)
        if len(places) == shown.rows:
            # Every row continues one of another lineage: the rows of a call were put together anew.
            skips, starts = np.array(places, np.int64).T
            return np.ascontiguousarray(skips), np.ascontiguousarray(starts)
        return self._layout.of(shown)

    def _use(self, lineage: Lineage) -> None:
        """Put a lineage first, and let go of the last ones where there are too many rows."""
        lineages = self._lineages
        if lineages and lineages[0] is lineage:
            return
        self._lineages = lineages = [lineage, *(other for other in lineages if other is not lineage)]
        for other in lineages[TRAILS : TRAILS + 1]:
            for trail in other.trails.values():
                trail.cut()
        limit = max(self._capacity, 2 * lineage.rows.count)
        total = 0
        for place, other in enumerate(lineages):
            total += other.rows.count
            if total > limit:
                del lineages[place:]
                break
