"""The token histories that an engine has shown, and which of them the rows of a call continue."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import chain
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import select
from logitkit.tracking.branches import Integers
from logitkit.tracking.generation import Generation, Port, Room
from logitkit.tracking.prompt_layout import PromptLayout
from logitkit.tracking.row_group import RowGroup
from logitkit.tracking.rows import Parents, Shown

__all__ = ["Histories"]

S = TypeVar("S")

# The number of groups that keep several states for rewinding; the others keep only the newest.
REWINDABLE = 4


class Histories(Generic[S]):
    """Find the states of rows by their histories: all token ids of a row, including prompt and padding.

    - A history that is one token longer than a known one continues it. It may be in another row, in several rows, or in a call
      with more or fewer rows, as with beams and sequences that take turns. If several known rows are equal, the one with the same
      index is continued.
    - A history that was shown before has the same state as before, and so has every beginning of it down to its prompt, because
      engines look ahead, repeat calls and take back drafts. Continuing comes first: the output of one sequence may become the
      prompt of another.
    - Any other history (several tokens longer, shorter than the prompt, another prompt, other padding) is the prompt of a new
      generation. Engines never skip a token, so a jump is for example the next turn of a chat. One such row makes all rows of its
      call new, because the rows of a call belong to one run of the engine.

    If prompts are given, every history that begins with the prompt of its row continues it, however long it is. Any other history
    is an error. Row i of R has prompt i // (R / B) of B, and its padding, because engines put the beams and samples of a prompt
    next to each other.

    Hashes only propose matches, and token ids decide. On a GPU, a usual step (the same rows, one token longer) reads one boolean
    from the device. The last `capacity` histories are remembered, or those of two calls if that is more. The least recently used
    group of rows is forgotten first, and a dropped beam at once, unless the rows may be those of two groups. Each group keeps its
    newest state, and the last four groups keep at most 24 states.

    Args:
        processor: The processor whose states are wanted.
        advance: The function that advances its states.
        layout: Where prompts begin and end.
        room: The maximum length of a row.
        capacity: The number of histories to remember.
        one_prompt: Whether the ids of the first call are the given prompt of every history.
        continued: Called if all rows of a call were shown before, with output.
    """

    def __init__(
        self,
        processor: Processor[S],
        advance: Callable[[S, Tensor], S],
        layout: PromptLayout,
        room: Room,
        capacity: int,
        one_prompt: bool = False,
        continued: Callable[[], None] | None = None,
    ) -> None:
        self._continued = continued
        self._processor, self._advance, self._layout = processor, advance, layout
        self._room, self._capacity, self._one_prompt = room, capacity, one_prompt
        # Most recently used first.
        self.groups: list[RowGroup] = []

    def resolve(self, ids: Tensor, port: Port, sequence: Hashable = None, begins: bool = False) -> tuple[S, Context]:
        """Return the states and the context of the rows of a call after their last token; see `Tracker.resolve`."""
        shown = self._shown(ids)
        keys = self._layout.keys(shown.rows) if self._layout.has_keys else None
        found = None if begins else self._find(shown, keys, sequence)
        if found is None:
            group = self._new_group(shown, keys, *self._begin(shown, keys))
            state: S = group.state_at(self._processor, port, shown.length)
        else:
            group, seen, parents = found
            if group.last < shown.length <= group.rows.length and self._continued is not None:
                self._continued()
            state = group.state_at(self._processor, port, seen)
            if parents is not None:
                state = select(state, torch.from_numpy(parents.rows).to(port.device))
            if seen < shown.length:
                state = self._advance(state, shown.columns(seen).to(port.device))
            # No processor is called after this, so a processor that fails changes nothing.
            stays = parents is not None and self._has_twin(group, shown, keys, parents)
            group = group.extended(shown, seen, parents, stays)
            group.keep(port, shown.length, state)
        group.sequence = sequence
        self._use(group)
        return state, group.context(self._processor, port, shown.length)

    def begin(self, ids: Tensor) -> RowGroup:
        """Begin a generation whose prompts, [R, L] on the CPU, have no padding."""
        shown = Shown(ids)
        ends = np.full(shown.rows, shown.length)
        group = self._new_group(shown, None, np.zeros_like(ends), ends)
        self._use(group)
        return group

    def _new_group(self, shown: Shown, keys: Integers | None, skips: Integers, starts: Integers) -> RowGroup:
        generation = Generation(shown, skips, starts, self._room)
        if self._one_prompt and not self._layout.explicit:
            self._layout = self._layout.with_prompt(generation.prompt)
            keys = self._layout.keys(shown.rows)
        return RowGroup(generation, None, shown, keys)

    def _shown(self, ids: Tensor) -> Shown:
        if ids.dim() != 2 or ids.shape[0] == 0 or ids.dtype not in (torch.int64, torch.int32):
            raise ConfigurationError(
                f"ids is a {ids.dtype} tensor of shape {list(ids.shape)}; give the token ids of at least one "
                "row, [R, L], int32 or int64"
            )
        # All histories are kept on the device of the first.
        home = self.groups[0].rows.tokens.device if self.groups else ids.device
        shown = Shown(ids if ids.dtype == torch.int64 and ids.device == home else ids.to(home, torch.int64))
        if shown.array is not None and shown.length and np.minimum.reduce(shown.array[:, -1]) < 0:
            row = int(shown.array[:, -1].argmin())
            raise ConfigurationError(
                f"row {row} has the id {shown.array[row, -1]} at position {shown.length - 1}; ids are at least 0"
            )
        return shown

    def _find(
        self, shown: Shown, keys: Integers | None, sequence: Hashable
    ) -> tuple[RowGroup, int, Parents | None] | None:
        """Return a group that all rows continue, the number of columns known to it, and the parents of the rows if they moved."""
        before = shown.length - 1
        tip = int(shown.array[0, before - 1]) if shown.array is not None and before > 0 else None
        # Groups that are one token shorter come first: if the output of one sequence is the prompt of another, both continue.
        shorter = [g for g in self.groups if g.rows.length == before and g.rows.tip in (None, tip)]
        if sequence is not None:
            shorter.sort(key=lambda group: group.sequence != sequence)
        for group in chain(shorter, (g for g in self.groups if g.rows.length != before)):
            seen = group.follow(shown, self._layout.explicit)
            if seen is not None:
                return group, seen, None
        for group in self.groups:
            parents = group.parents(shown, keys)
            if parents is not None:
                return group, shown.length - 1, parents
        return None

    def _has_twin(self, group: RowGroup, shown: Shown, keys: Integers | None, parents: Parents) -> bool:
        """Whether another group may be meant just as well, so that those rows that do not go on here are not dropped beams."""
        dropped = len(np.unique(parents.rows)) < group.rows.count
        return dropped and any(other is not group and other.parents(shown, keys) is not None for other in self.groups)

    def _begin(self, shown: Shown, keys: Integers | None) -> tuple[Integers, Integers]:
        """Return the columns at which the prompts of rows begin and end, for rows that are not all in one group."""
        places = []
        for row in range(shown.rows) if shown.rows > 1 and not self._layout.explicit else ():
            key = None if keys is None else int(keys[row])
            known = (group.start_of(shown, row, key) for group in self.groups)
            place = next((p for p in known if p is not None), None)
            if place is None:
                break
            places.append(place)
        if len(places) == shown.rows:
            # Every row is known from some group: the engine regrouped its rows.
            skips, starts = np.array(places, np.int64).T
            return np.ascontiguousarray(skips), np.ascontiguousarray(starts)
        return self._layout.of(shown)

    def _use(self, group: RowGroup) -> None:
        """Put a group first, and drop the last groups if there are too many rows."""
        groups = self.groups
        if groups and groups[0] is group:
            return
        self.groups = groups = [group, *(other for other in groups if other is not group)]
        for other in groups[REWINDABLE : REWINDABLE + 1]:
            for states in other.checkpoints.values():
                states.cut()
        limit = max(self._capacity, 2 * group.rows.count)
        total = 0
        for place, other in enumerate(groups):
            total += other.rows.count
            if total > limit:
                del groups[place:]
                break
