"""The state of rows that are watched for loops, and how tokens change it on a device.

A row loops with period p if its last tokens are copies of one block of p tokens. Then each of the last `p * (count - 1)` tokens
equals the one p places before it. So a row counts, for each period, how many of its last tokens do that: its *run*. A token
compares itself with the last tokens of the row, all periods at once, and each run grows by one or begins again at 0.

By hand, for the tokens a b a b a and three copies:

    token     a  b  a  b  a
    period 1  0  0  0  0  0    needs 2 for three copies of one token
    period 2  0  0  1  2  3    needs 4: with one more b, `ab` stands there three times
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from logitkit.errors import StateFileError
from logitkit.parameters import Integer
from logitkit.protocol.calls import token_columns
from logitkit.protocol.state import Fill
from logitkit.reasoning.section_states import SectionStates
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.device_rows import advance_on_device
from logitkit.runtime.registry_layout import RegistryLayout

__all__ = ["NEVER_LOOPS", "LoopPhase", "LoopState"]

# The run of a period that is too short to be a loop; no run gets that long.
NEVER_LOOPS = 2**31 - 1


class LoopPhase:
    """The phases of a row, as numbers in a tensor: torch.compile does not trace comparisons with an enum."""

    WATCHING = 0  # the usual one, which a step on the host recognises by this number
    CLOSING = 1  # it looped in a section of reasoning, whose end is forced
    WATCHING_AGAIN = 2  # after that end
    LOOPED = 3  # it may only end
    ENDED = 4
    LOOPED_AND_ENDED = 5
    CUT = 6  # it ended while the end of its section was forced
    NEUTRAL = 7  # it is never watched


# A row goes on in these.
LAST_OPEN = LoopPhase.WATCHING_AGAIN


class LoopState(NamedTuple):
    """The last tokens of each row, and how long they have been repeating themselves.

    Args:
        at: The automaton of the row's markers, and its state; neutral without markers.
        inside: [B] int64, the number of automaton states inside a section; 0 without markers.
        phase: [B] int64, a `LoopPhase`.
        left: [B] int64, the number of output tokens before a loop counts.
        window: [B, P] int32, the last tokens, newest first, -1 where there are none. P is the greatest period of the batch.
        run: [B, P] int32, for each period how many of the last tokens equal the one a period before them.
        needed: [B, P] int32, the run that is a loop; 0 for a period that is too long for the row, 2**31 - 1 for one too short.
        has_sections: [B, 1] bool if any row may have markers, else [B, 0]; a shape needs no read from a device.
    """

    at: AutomatonState
    inside: Annotated[Tensor, Integer(0)]
    phase: Annotated[Tensor, Integer(0, LoopPhase.NEUTRAL)]
    left: Annotated[Tensor, Integer(0)]
    window: Annotated[Tensor, Fill(-1), Integer(-1)]
    run: Annotated[Tensor, Fill(0), Integer(0)]
    needed: Annotated[Tensor, Fill(0), Integer(0)]
    has_sections: Annotated[Tensor, Fill(True)]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if not self.window.shape == self.run.shape == self.needed.shape:
            return "window, run and needed have different shapes"
        if bool(((self.needed == 0) & ((self.window >= 0) | (self.run > 0))).any()):
            return "a row has tokens or a run of a period that is too long for it"
        return None

    def to_portable(self, processor: Any) -> tuple[LoopState, None]:
        """Return the state itself; `at` replaces its own references to this process."""
        return self, None

    def from_portable(self, notes: object, processor: Any, device: torch.device) -> LoopState:
        """Return the state itself, if its automata have the states that it uses.

        Raises:
            StateFileError: They do not.
        """
        columns = (*self.at, self.inside, self.phase)
        for row, (slot, generation, state, inside, phase) in enumerate(
            zip(*(c.tolist() for c in columns), strict=True)
        ):
            sections: SectionStates[int] = SectionStates(inside)
            if slot != NEUTRAL:
                states = processor.registry.automaton(slot, generation).states
                if states <= sections.outside or sections.is_looked_up(state):
                    raise StateFileError(
                        f"row {row} is in state {state} of an automaton without {inside} states of a section"
                    )
            if phase == LoopPhase.CLOSING and (slot == NEUTRAL or not sections.is_inside(state)):
                raise StateFileError(f"row {row} closes a section, but is not inside of one")
        return self

    @property
    def is_inside(self) -> Tensor:
        """[B] bool, whether each row is in a section of reasoning."""
        return SectionStates(self.inside).is_inside(self.at.state) & (self.at.slot != NEUTRAL)

    @property
    def is_loop(self) -> Tensor:
        """[B, P] bool, for each period whether the last tokens of the row are a loop."""
        return (self.run >= self.needed) & (self.needed > 0)

    def ended(self, rows: Tensor) -> LoopState:
        """Return a state in which some rows, [B] bool, have had EOS."""
        phase = self.phase
        after = torch.where(phase <= LAST_OPEN, LoopPhase.ENDED, phase)
        after = torch.where(phase == LoopPhase.CLOSING, LoopPhase.CUT, after)
        after = torch.where(phase == LoopPhase.LOOPED, LoopPhase.LOOPED_AND_ENDED, after)
        return self._replace(phase=torch.where(rows, after, phase))

    def advance_tensors(
        self, layout: RegistryLayout | None, size: int, eos_ids: Sequence[int], tokens: Tensor
    ) -> LoopState:
        """Return the state after tokens, with tensors only.

        Args:
            layout: The tables of the automata; None if no row has markers.
            size: The number of ids of the vocabulary.
            eos_ids: The ids that end a row.
            tokens: [B] or [B, T] int64, -1 = none.
        """
        state = self
        for token in token_columns(tokens):
            state = state._after_token(layout, size, eos_ids, token)
        return state

    def _after_token(
        self, layout: RegistryLayout | None, size: int, eos_ids: Sequence[int], token: Tensor
    ) -> LoopState:
        phase = self.phase
        is_end = torch.zeros_like(token, dtype=torch.bool)
        for end in eos_ids:  # one by one: a list of ids would be copied to the device
            is_end = is_end | (token == end)
        goes_on = (token >= 0) & ~is_end & (phase <= LAST_OPEN)
        after = self._replace(left=torch.where(goes_on, (self.left - 1).clamp(min=0), self.left))
        if layout is not None:
            read = torch.where(goes_on & (token < size), token, -1)
            after = after._replace(at=self.at.at_positions(advance_on_device(layout, self.at.positions, read)))
        is_inside = after.is_inside
        watched = (goes_on & (phase != LoopPhase.CLOSING))[:, None]
        newest = token[:, None].to(torch.int32)
        window = torch.cat([newest, self.window], 1)[:, : self.window.shape[1]].masked_fill(self.needed == 0, -1)
        run = torch.where(self.window == newest, self.run + 1, 0)
        after = after._replace(
            window=torch.where(watched, window, self.window), run=torch.where(watched, run, self.run)
        )
        loops = watched[:, 0] & (after.left == 0) & after.is_loop.any(1)
        closes = loops & is_inside & (phase == LoopPhase.WATCHING)
        closed = goes_on & (phase == LoopPhase.CLOSING) & ~is_inside
        phase = torch.where(loops, LoopPhase.LOOPED, phase)
        phase = torch.where(closes, LoopPhase.CLOSING, phase)
        phase = torch.where(closed, LoopPhase.WATCHING_AGAIN, phase)
        return after._replace(
            phase=phase,
            window=after.window.masked_fill(closes[:, None], -1),
            run=after.run.masked_fill(closes[:, None], 0),
        ).ended(is_end)
