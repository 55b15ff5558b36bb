"""The histories that an engine has shown, and which of them the rows of a call continue."""

from __future__ import annotations

from collections.abc import Callable, Hashable
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

# How many groups keep their last states for rewinding; the others keep the newest one.
REWINDABLE = 4


class Histories(Generic[S]):
    """Find the states of rows by their histories: all token ids of a row, prompt and pads included.

    A history that was shown before has the state that it had then, and so has every beginning of it that is not shorter than its
    prompt: an engine may look ahead, repeat a call or take back a draft. A history that is one token longer continues it. It may
    stand in another row, more than once, or beside fewer or more rows, as beams and sequences that take turns do. Of rows with
    equal histories, the one with the same index is continued. This goes before what was shown already: a sequence may come to
    say what is the prompt of another.

    Any other history (several tokens longer, shorter than the prompt, another prompt, other pads) is the prompt of a new
    generation, because engines never skip a token: a jump is the next turn of a chat, say. One such row makes all rows of its
    call new, since the rows of a call belong to one run of the engine.

    If prompts are given, nothing is guessed: every history that begins with its row's prompt continues it, however much longer,
    and any other is an error. Row i of R has the prompt (and the pads) i // (R / B) of B, as engines lay out beams and samples.

    Token ids decide; hashes only propose. On a GPU the usual step, the same rows and one token more, reads one boolean from the
    device. Memory: the last `capacity` histories, or two calls' worth if that is more; the group of rows that was used least
    recently goes first. Each has its newest state, and the last four groups at most 24. A beam that is dropped is forgotten at
    once.

    Args:
        processor: The processor whose states are wanted.
        advance: The function that advances its states.
        layout: Where prompts begin and end.
        room: How many tokens a row may have.
        capacity: The number of histories to remember.
        one_prompt: Whether the ids shown first count as given: the prompt of every history.
    """

    def __init__(
        self,
        processor: Processor[S],
        advance: Callable[[S, Tensor], S],
        layout: PromptLayout,
        room: Room,
        capacity: int,
        one_prompt: bool = False,
    ) -> None:
        self._processor, self._advance, self._layout = processor, advance, layout
        self._room, self._capacity, self._one_prompt = room, capacity, one_prompt
        # The most recently used one first.
        self.groups: list[RowGroup] = []

    def resolve(self, ids: Tensor, port: Port, sequence: Hashable = None, begins: bool = False) -> tuple[S, Context]:
        """Return the states of the rows of a call after their last token, and their context; see `Tracker.resolve`."""
        shown = self._shown(ids)
        keys = self._layout.keys(shown.rows) if self._layout.has_keys else None
        found = None if begins else self._find(shown, keys, sequence)
        if found is None:
            group = self._new_group(shown, keys, *self._begin(shown, keys))
            state: S = group.state_at(self._processor, port, shown.length)
        else:
            group, seen, parents = found
            state = group.state_at(self._processor, port, seen)
            if parents is not None:
                state = select(state, torch.from_numpy(parents.rows).to(port.device))
            if seen < shown.length:
                state = self._advance(state, shown.columns(seen).to(port.device))
            # Only now, when no processor can fail any more, does anything change.
            group = group.extended(shown, seen, parents)
            group.keep(port, shown.length, state)
        group.sequence = sequence
        self._use(group)
        return state, group.context(self._processor, port, shown.length)

    def begin(self, ids: Tensor) -> RowGroup:
        """Take ids, [R, L] on the CPU, for prompts without pads."""
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
        # All histories are kept where the first ones were.
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
        """Return a group that all rows continue, how many of their columns it has, and their parents in it."""
        before = shown.length - 1
        tip = int(shown.array[0, before - 1]) if shown.array is not None and before > 0 else None
        # First the groups that are one token shorter: if a prompt is what another sequence says, each continues its own.
        shorter = [group for group in self.groups if group.rows.length == before]
        if sequence is not None:
            shorter.sort(key=lambda group: group.sequence != sequence)
        for group in shorter:
            if group.rows.tip is None or group.rows.tip == tip:
                seen = group.follow(shown, self._layout.explicit)
                if seen is not None:
                    return group, seen, None
        for group in self.groups:
            if group.rows.length != before:
                seen = group.follow(shown, self._layout.explicit)
                if seen is not None:
                    return group, seen, None
        for group in self.groups:
            parents = group.parents(shown, keys)
            if parents is not None:
                return group, shown.length - 1, parents
        return None

    def _begin(self, shown: Shown, keys: Integers | None) -> tuple[Integers, Integers]:
        """Return the columns at which the prompts of rows begin and end, if no group has all of these rows."""
        places = []
        for row in range(shown.rows) if shown.rows > 1 and not self._layout.explicit else ():
            key = None if keys is None else int(keys[row])
            known = (group.start_of(shown, row, key) for group in self.groups)
            place = next((p for p in known if p is not None), None)
            if place is None:
                break
            places.append(place)
        if len(places) == shown.rows:
            # Every row continues one of another group: the rows of a call were put together anew.
            skips, starts = np.array(places, np.int64).T
            return np.ascontiguousarray(skips), np.ascontiguousarray(starts)
        return self._layout.of(shown)

    def _use(self, group: RowGroup) -> None:
        """Put a group first, and drop the last ones if there are too many rows."""
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
