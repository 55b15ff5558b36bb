"""How tokens change the state of rows that are watched for loops, on the host.

One token of each row is a few operations of numpy on all rows together. Many tokens of a row, as when a generation is resumed,
are compared with those before them in blocks, so that no operation runs once per token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from logitkit.reasoning.loop_state import LAST_OPEN, LoopPhase, LoopState
from logitkit.reasoning.section_states import SectionStates
from logitkit.runtime.automaton_registry import NEUTRAL, AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState

__all__ = ["advance_rows"]

# The number of tokens that are compared at once, at most 65,535, so that 16 bits count them: a block of 64 periods takes 64 kB.
BLOCK = 1024

# Most runs are shorter than this, so these last tokens of a block are looked at first.
NEAR = 32

Integers = NDArray[Any]


def advance_rows(
    state: LoopState, registry: AutomatonRegistry, size: int, eos_ids: Sequence[int], tokens: Tensor
) -> LoopState:
    """Return the state after tokens, on the CPU.

    Args:
        state: The state of B rows.
        registry: The registry that the slots refer to.
        size: The number of ids of the vocabulary.
        eos_ids: The ids that end a row.
        tokens: [B] or [B, T] int64, -1 = none.

    Raises:
        StaleAutomaton: A slot's automaton no longer exists.
    """
    if tokens.dim() == 2 and tokens.shape[1] == 1:
        tokens = tokens[:, 0]
    given = tokens.tolist()
    found = _by_one_token(state, registry, size, eos_ids, given) if tokens.dim() == 1 and given else None
    if found is not None:
        return found
    runs = given if tokens.dim() == 2 else [[token] for token in given]
    rows = [_LoopRow(state, row, registry, size, eos_ids) for row in range(len(runs))]
    for row, run in zip(rows, runs, strict=True):
        row.advance([token for token in run if token >= 0])
    return state._replace(
        at=state.at._replace(state=_column([row.at for row in rows])),
        phase=_column([row.phase for row in rows]),
        left=_column([row.left for row in rows]),
        window=_stacked([row.window for row in rows], state.window),
        run=_stacked([row.run for row in rows], state.run),
    )


def _equal_at_end(equal: NDArray[np.bool_]) -> Integers:
    """Return how many tokens at the end of each line are equal, which may be all."""
    last = equal[:, ::-1].argmin(1)
    # If none differs, `argmin` returns 0 too.
    return np.where((last == 0) & equal[:, -1], equal.shape[1], last)


def _column(numbers: list[int]) -> Tensor:
    return torch.from_numpy(np.array(numbers, np.int64))


def _stacked(rows: list[Integers], like: Tensor) -> Tensor:
    return torch.from_numpy(np.array(rows, np.int32)) if rows else like


def _by_one_token(
    state: LoopState, registry: AutomatonRegistry, size: int, eos_ids: Sequence[int], tokens: list[int]
) -> LoopState | None:
    """Return the state after one token of each row, or None where rows need a look at their markers, which is rare."""
    at, _, phase, left, window, run, needed_runs, has_sections = state
    phases, before, run_before, needed = phase.tolist(), window.numpy(), run.numpy(), needed_runs.numpy()
    if LoopPhase.CLOSING in phases or not before.size:
        return None
    goes_on = [
        token >= 0 and was <= LAST_OPEN and token not in eos_ids for token, was in zip(tokens, phases, strict=True)
    ]
    newest = np.array(tokens, np.int32)[:, None]
    after = run_before + 1
    after *= before == newest
    latest = np.empty_like(before)
    latest[:, :1] = newest
    latest[:, 1:] = before[:, :-1]
    found = after >= needed
    # Periods that are too long for a row come last. In rows of one configuration, there are none.
    if not all(needed[:, -1].tolist()):
        too_long = needed == 0
        latest[too_long] = -1
        found &= ~too_long
    if not all(goes_on):
        live = np.array(goes_on)[:, None]
        after, latest, found = np.where(live, after, run_before), np.where(live, latest, before), found & live
        ends = [token in eos_ids for token in tokens]
        phase = _column([_AFTER_END.get(was, was) if end else was for was, end in zip(phases, ends, strict=True)])
    remaining = left.tolist()
    if any(remaining):
        remaining = [max(n - 1, 0) if reads else n for n, reads in zip(remaining, goes_on, strict=True)]
        left = _column(remaining)
    if found.any():
        looped = found.any(1) & (np.array(remaining) == 0)
        if has_sections.shape[1] and looped.any():
            return None
        phase = torch.from_numpy(np.where(looped, LoopPhase.LOOPED, phase.numpy()))
    if has_sections.shape[1]:
        at = _sections_after(state, registry, size, tokens, goes_on)
    return LoopState(
        at, state.inside, phase, left, torch.from_numpy(latest), torch.from_numpy(after), needed_runs, has_sections
    )


def _sections_after(
    state: LoopState, registry: AutomatonRegistry, size: int, tokens: list[int], goes_on: list[bool]
) -> AutomatonState:
    """Return where rows are between their markers after one token of each."""
    columns = (state.at.slot, state.at.generation, state.at.state)
    states = [
        registry.automaton(slot, generation).next(at, token) if slot != NEUTRAL and reads and token < size else at
        for slot, generation, at, token, reads in zip(*(c.tolist() for c in columns), tokens, goes_on, strict=True)
    ]
    return state.at._replace(state=_column(states))


class _LoopRow:
    """One row as numbers."""

    def __init__(
        self, state: LoopState, row: int, registry: AutomatonRegistry, size: int, eos_ids: Sequence[int]
    ) -> None:
        self.at, self.phase, self.left = int(state.at.state[row]), int(state.phase[row]), int(state.left[row])
        self.window, self.run = state.window[row].numpy(), state.run[row].numpy()
        self._needed = state.needed[row].numpy()
        self._size, self._eos_ids = size, eos_ids
        slot = int(state.at.slot[row])
        self._sections: SectionStates[int] = SectionStates(int(state.inside[row]))
        self._automaton = None if slot == NEUTRAL else registry.automaton(slot, int(state.at.generation[row]))

    def advance(self, tokens: list[int]) -> None:
        """Advance by tokens, none of which is -1."""
        if self.phase == LoopPhase.NEUTRAL:
            return
        end = next((at for at, token in enumerate(tokens) if token in self._eos_ids), None)
        rest = np.array(tokens[:end], np.int64)
        while len(rest) and self.phase <= LAST_OPEN:
            rest = rest[self._close(rest) if self.phase == LoopPhase.CLOSING else self._watch(rest) :]
        if end is not None:
            self.phase = _AFTER_END.get(self.phase, self.phase)

    def _close(self, tokens: Integers) -> int:
        """Read tokens up to the one that closes the section; return how many."""
        used = 0
        while used < len(tokens) and self.phase == LoopPhase.CLOSING:
            self._read([int(tokens[used])])
            used += 1
            if not self._is_inside:
                self.phase = LoopPhase.WATCHING_AGAIN
        self.left = max(self.left - used, 0)
        return used

    def _watch(self, tokens: Integers) -> int:
        """Read tokens up to the one that completes a loop, but at most a block; return how many."""
        tokens = tokens[:BLOCK]
        used, looped = self._compare(tokens)
        self.left = max(self.left - used, 0)
        self._read(tokens[:used].tolist())
        if looped and self._is_inside and self.phase == LoopPhase.WATCHING:
            self.phase = LoopPhase.CLOSING
            self.window, self.run = np.full_like(self.window, -1), np.zeros_like(self.run)
        elif looped:
            self.phase = LoopPhase.LOOPED
        return used

    def _compare(self, tokens: Integers) -> tuple[int, bool]:
        """Compare tokens with those before them, up to the first loop; return how many, and whether there is a loop."""
        periods, count = len(self.window), len(tokens)
        too_long = self._needed == 0
        text = np.concatenate([self.window[::-1], tokens.astype(np.int32)])
        # For each period, whether tokens equal those one period before them.
        equal = sliding_window_view(text, count)[:periods][::-1] == text[periods:]
        equal[too_long] = False
        found = self._loops(equal) & (np.arange(count) >= self.left - 1)
        looped = bool(found.any())
        used = int(found.argmax()) + 1 if looped else count
        self.run = self._runs_at_end(equal[:, :used]).astype(np.int32)
        self.window = np.where(too_long, -1, text[used : used + periods][::-1]).astype(np.int32)
        return used, looped

    def _loops(self, equal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each token whether some run is a loop after it.

        Args:
            equal: [P, T], whether each token equals the one a period before it.
        """
        # No run is longer than all tokens that are equal, of which most periods have few.
        most = equal.view(np.uint8).sum(1, dtype=np.uint16) + np.where(equal[:, 0], self.run, 0)
        lines = np.flatnonzero((most >= self._needed) & (self._needed > 0))
        number = np.arange(1, equal.shape[1] + 1, dtype=np.int32)
        # The number of the last token that differs, and how many have been equal since then.
        differs = np.maximum.accumulate(np.where(equal[lines], 0, number), axis=1)
        runs = number - differs + np.where(differs == 0, self.run[lines, None], 0)
        found: NDArray[np.bool_] = (runs >= self._needed[lines, None]).any(0)
        return found

    def _runs_at_end(self, equal: NDArray[np.bool_]) -> Integers:
        """Return the run of each period after the last token."""
        runs = _equal_at_end(equal[:, -NEAR:])
        longer = np.flatnonzero(runs == min(NEAR, equal.shape[1]))
        runs[longer] = _equal_at_end(equal[longer])
        whole = runs == equal.shape[1]
        runs[whole] += self.run[whole]
        return runs

    def _read(self, tokens: list[int]) -> None:
        """Follow the markers."""
        if self._automaton is not None:
            step = self._automaton.next
            for token in tokens:
                if token < self._size:
                    self.at = step(self.at, token)

    @property
    def _is_inside(self) -> bool:
        return self._automaton is not None and bool(self._sections.is_inside(self.at))


_AFTER_END = {
    LoopPhase.WATCHING: LoopPhase.ENDED,
    LoopPhase.CLOSING: LoopPhase.CUT,
    LoopPhase.WATCHING_AGAIN: LoopPhase.ENDED,
    LoopPhase.LOOPED: LoopPhase.LOOPED_AND_ENDED,
}
