"""The state of rows with a thinking budget, and its transitions.

By hand, for 4 tokens and a grace of 2: the end is forced after 6 tokens, or after the 4th or 5th one, if a line ends there. The
row must remember that while the end is written, so `closed_at` then has the number of tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.errors import StateFileError
from logitkit.parameters import Integer
from logitkit.parameters.numbers import LARGEST
from logitkit.protocol.state import Fill
from logitkit.reasoning.section_states import SectionStates
from logitkit.runtime.automaton_registry import NEUTRAL
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.registry_tables import RegistryTables, advance_tensors

__all__ = ["NEVER_CLOSED", "ThinkingOptions", "ThinkingState"]

_Number = TypeVar("_Number", int, Tensor)

# No section has that many tokens.
NEVER_CLOSED = LARGEST


class ThinkingOptions(NamedTuple, Generic[_Number]):
    """The columns of `ThinkingState.options`, in order. In a row without options, all are 0.

    Args:
        grace: The number of tokens after the budget in which a line may end.
        min_tokens: The number of tokens before which no marker may end the section.
        breaks: The number of states inside that are at the end of a line or a sentence.
        paused: The number of states inside that are in a pause.
        held: How far the states with the marker held back are from those inside.
    """

    grace: _Number
    min_tokens: _Number
    breaks: _Number
    paused: _Number
    held: _Number

    @classmethod
    def of(cls, columns: Tensor) -> ThinkingOptions[Tensor]:
        """Return the columns of a tensor, [B, 5]."""
        return ThinkingOptions(*columns.unbind(1))


NO_OPTIONS = ThinkingOptions(0, 0, 0, 0, 0)


class ThinkingState(NamedTuple):
    """Whether each row is in a section, and for how long it has been.

    Args:
        at: The row's automaton and its state.
        spent: [B] int64, output tokens since the section began, without those in pauses; outside a section 0, unless the row
            ended while the end of its section was forced.
        budget: [B] int64, the number of tokens that a section may have.
        inside: [B] int64, the number of automaton states inside a section, which come first.
        closed_at: [B] int64, the number of tokens from which the end of this section is forced, because a line ended after the
            budget or by `ThinkingBudget.close`; 2**31 - 1 if neither has happened.
        options: [B, 5] int64, the columns of `ThinkingOptions`, or [B, 0] if no row of the batch has options; a shape needs no
            read from a device.
    """

    at: AutomatonState
    spent: Annotated[Tensor, Integer(0)]
    budget: Annotated[Tensor, Integer(0)]
    inside: Annotated[Tensor, Integer(1)]
    closed_at: Annotated[Tensor, Integer(0)]
    options: Annotated[Tensor, Fill(0), Integer(0)]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        width = self.options.shape[1]
        if width not in (0, len(ThinkingOptions._fields)):
            return f"options has {width} columns"
        if width:
            options = ThinkingOptions.of(self.options)
            if bool((options.breaks + options.paused > self.inside).any()):
                return "a section has more ends of lines and pauses than states"
        return None

    def to_portable(self, processor: Any) -> tuple[ThinkingState, None]:
        """Return the state itself; `at` replaces its own references to this process."""
        return self, None

    def from_portable(self, notes: object, processor: Any, device: torch.device) -> ThinkingState:
        """Return the state itself, if its automata have the states that it uses.

        Raises:
            StateFileError: They do not.
        """
        columns = zip(*(c.tolist() for c in (*self.at, self.inside)), self.option_rows(), strict=True)
        for row, (slot, generation, state, inside, options) in enumerate(columns):
            if slot == NEUTRAL:
                continue
            sections: SectionStates[int] = SectionStates(inside, *options[2:])
            states = processor.registry.automaton(slot, generation).states
            if not sections.fit(states) or sections.is_looked_up(state):
                raise StateFileError(
                    f"row {row} is in state {state} of an automaton without {inside} states of a section"
                )
        return self

    def renewed(self, tensors: Mapping[str, Tensor]) -> ThinkingState:
        """Return the state that version 0.2 saved, in which no row had options.

        Raises:
            StateFileError: The tensors are not those of such a state.
        """
        names = (*(f"at.{name}" for name in self.at._fields), "spent", "budget", "inside")
        if tensors.keys() != {*names}:
            raise StateFileError(f"its state has the tensors {', '.join(sorted(tensors))}, which no version of it had")
        found = [tensors[name] for name in names]
        if any(tensor.dtype != torch.int64 or tensor.dim() != 1 for tensor in found):
            raise StateFileError("the tensors of its state have other dtypes or numbers of dimensions")
        at, (spent, budget, inside) = AutomatonState(*found[:3]), found[3:]
        closed_at = torch.full_like(spent, NEVER_CLOSED)
        return ThinkingState(at, spent, budget, inside, closed_at, spent.new_zeros((len(spent), 0)))

    @property
    def kernel_arguments(self) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
        """The tensors as `thinking_step` takes them."""
        slot, generation, state = self.at
        return slot, generation, (state, self.spent, self.budget, self.inside, self.closed_at), self.options

    @property
    def _options(self) -> ThinkingOptions[Any]:
        """The options, as columns or as zeros for all rows."""
        return ThinkingOptions.of(self.options) if self.options.shape[1] else NO_OPTIONS

    def option_rows(self) -> Sequence[Sequence[int]]:
        """Return the options of each row on the host."""
        if self.options.shape[1]:
            rows: list[list[int]] = self.options.tolist()
            return rows
        return [NO_OPTIONS] * len(self.spent)

    @property
    def sections(self) -> SectionStates[Any]:
        """The numbers of the states of each row."""
        return SectionStates(self.inside, *self._options[2:])

    @property
    def is_inside(self) -> Tensor:
        """[B] bool, whether each row is in a section."""
        return SectionStates(self.inside).is_inside(self.at.state) & (self.at.slot != NEUTRAL)

    @property
    def is_open(self) -> Tensor:
        """[B] bool, whether each row is in a section, and not in a pause."""
        found: Tensor = self.sections.is_open(self.at.state) & (self.at.slot != NEUTRAL)
        return found

    @property
    def is_forced(self) -> Tensor:
        """[B] bool, whether each row may only write the end of its section."""
        due: Tensor = (self.spent >= self.budget + self._options.grace) | (self.spent >= self.closed_at)
        if self.options.shape[1]:
            due = due | self._is_grace_over
        return self.is_open & due

    @property
    def _is_grace_over(self) -> Tensor:
        """[B] bool, whether each row is at the end of a line or a sentence after its budget."""
        found: Tensor = self.sections.is_break(self.at.state) & (self.spent >= self.budget)
        return found

    @property
    def is_held(self) -> Tensor:
        """[B] bool, whether each row may not end its section yet."""
        options = self._options
        found: Tensor = self.is_inside & (options.held > 0) & (self.spent < options.min_tokens) & ~self.is_forced
        return found

    @property
    def is_cut(self) -> Tensor:
        """[B] bool, whether each row ended while the end of its section was forced."""
        return (self.at.state == FINISHED) & (self.spent > 0) & (self.at.slot != NEUTRAL)

    @property
    def masked(self) -> tuple[Tensor, Tensor]:
        """[B] int64 the states whose masks count, and [B] bool whether these mask anything; no row is in such a state."""
        forced, sections, state = self.is_forced, self.sections, self.at.state
        now = torch.where(forced, sections.forced(state), state)
        bound = forced | (state < FIRST_STATE)
        if self.options.shape[1]:
            held = self.is_held
            now, bound = torch.where(held, sections.holding(state), now), bound | held
        return now, bound

    def closed(self, rows: Tensor) -> ThinkingState:
        """Return a state in which the ends of the sections of some rows, [B] bool, are forced from now on."""
        closed_at = torch.minimum(self.closed_at, self.spent)
        return self._replace(closed_at=torch.where(rows & self.is_inside, closed_at, self.closed_at))

    def advance_tensors(self, tables: RegistryTables, size: int, token: Tensor, prompt: bool = False) -> ThinkingState:
        """Return the state after one token per row, [B] int64, with tensors only; an id outside the vocabulary has no text."""
        slot, generation, before = self.at
        token = torch.where((token >= 0) & (token < size), token, -1)
        state = advance_tensors(tables, slot, generation, before, token)
        if prompt:
            state = torch.where((state == FINISHED) & (before >= FIRST_STATE), before, state)
        after = self._replace(at=self.at._replace(state=state))
        goes_on = counts = self.is_inside & after.is_inside
        closed_at = self.closed_at
        if self.options.shape[1]:
            counts = self.is_open & after.is_open
            closed_at = torch.where(self._is_grace_over, torch.minimum(closed_at, self.spent), closed_at)
        spent = torch.where(goes_on, self.spent + counts, 0)
        spent = torch.where(self.is_forced & (state == FINISHED), self.spent.clamp(min=1), spent)
        closed_at = torch.where(goes_on, closed_at, NEVER_CLOSED)
        moves = (token >= 0) & (slot != NEUTRAL) & (before != FINISHED)
        return after._replace(
            spent=torch.where(moves, spent, self.spent), closed_at=torch.where(moves, closed_at, self.closed_at)
        )
