"""Find the states of rows by the token ids that an engine shows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.errors import ConfigurationError
from logitkit.protocol.calls import advance_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, batch_size_of
from logitkit.runtime.constraint_row import ConstraintRow
from logitkit.runtime.single_row import can_step, first_state, row_of
from logitkit.tracking.generation import Port, Room
from logitkit.tracking.histories import Histories
from logitkit.tracking.prompt_layout import PromptLayout, Skip
from logitkit.tracking.row_group import Checkpoints, RowGroup
from logitkit.tracking.rows import Shown

__all__ = ["Tracker", "single_row"]

S = TypeVar("S")

# The default number of histories to remember, which limits how many sequences can take turns in one hook.
CAPACITY = 256

# The allowed numbers of bytes per id of a single row.
WIDTHS = (4, 8)


class Tracker(Generic[S]):
    """Find the states of rows from their tokens alone, in whatever order an engine makes its calls.

    A state is a function of the prompt and the tokens after it, never of the call. `Histories` has the rules. The ids cannot show
    one case: a new run whose prompt is a known history, or a known history and one token. It is taken for a continuation, so call
    `new_generation` before such a run, or give its prompt.

    If a single row on the CPU grows by one token, `resolve` advances its state without searching the histories. If its processor
    also only follows an automaton, `step` does so without tensors. Such tokens are added to the histories when another kind of
    call comes. Not thread-safe.

    Args:
        processor: The processor whose states are wanted.
        prompt: [B, P] integers, the prompts without padding, right-padded with -1. None: the first ids shown.
        skip: The number of padding ids on the left of each row, which are not part of its prompt: [B] integers, or a function of
            the ids, [R, L], that returns [R] integers. None: no padding.
        plain: Whether all ids of the first call are a prompt without padding, so that a row may begin in `step`.
        one_prompt: Whether every history begins with the ids of the first call.
        max_length: The maximum number of tokens of a row, including padding, for `Context.max_length`; None if unknown.
        max_new_tokens: The maximum number of tokens of a row after its prompt; None if unknown.
        capacity: The number of histories to remember; a forgotten one counts as a new prompt.
        continued: Called if a call continues output in a way that is unusual within one generation, so that it may begin another:
            its rows were shown before, with output, or its single row has ended.

    Raises:
        ConfigurationError: An argument has a wrong shape or dtype, or values out of range.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"0", b"1", None], eos_ids=[2])
        >>> tracker = Tracker(lk.Regex("01*", vocabulary))
        >>> _, context = tracker.resolve(torch.tensor([[1, 1]]), vocabulary_size=3)
        >>> state, context = tracker.resolve(torch.tensor([[1, 1, 0]]), vocabulary_size=3)
        >>> context.prompt.tolist(), context.lengths.tolist()
        ([[1, 1]], [3])
    """

    # The single row of the last call, as numbers with a state in which it was, or as a state and its context; and the group that
    # it belongs to.
    _row: ConstraintRow | None
    _row_state: Any
    _found: tuple[S, Context] | None
    _group: RowGroup | None
    _states: Checkpoints
    _width: int
    _columns: int
    _alone: bool

    def __init__(
        self,
        processor: Processor[S],
        *,
        prompt: Tensor | None = None,
        skip: Skip | None = None,
        plain: bool = False,
        one_prompt: bool = False,
        max_length: int | None = None,
        max_new_tokens: int | None = None,
        capacity: int = CAPACITY,
        continued: Callable[[], None] | None = None,
    ) -> None:
        if type(capacity) is not int or capacity < 1:
            raise ConfigurationError(f"capacity is {capacity!r}; allowed are integers from 1")
        self._processor = processor
        # A chain checks the calls of its processors itself.
        checks_itself = getattr(type(processor), "checks_parts", False) is True
        self._advance = processor.advance if checks_itself else partial(advance_checked, processor)
        layout = PromptLayout(prompt, skip, batch_size_of(processor))
        room = Room(max_length, max_new_tokens)
        self._histories = Histories(processor, self._advance, layout, room, capacity, one_prompt, continued)
        self._continued = continued
        # Whether `step` can ever return a row.
        self.steps = can_step(processor)
        self._plain, self._begun = plain, False
        self._answered: Any = None
        self._forget_row()

    def new_generation(self) -> None:
        """Forget all histories, so that the ids of the next call are prompts."""
        self._answered = self.state
        self._begun = False
        self._forget_row()
        self._histories.groups.clear()

    @property
    def state(self) -> Any:
        """The state of the rows of the last answered call, or None before the first."""
        if self._row is None:
            return self._answered
        return self._row_state.with_numbers(self._row_state.numbers_of([self._row]))

    def answer(self, state: S) -> None:
        """Record that the engine received its logits for this state, which `state` then returns."""
        self._answered = state

    def step(self, ids: bytes, width: int, columns: int) -> ConstraintRow | None:
        """Return the single row of a call, found without tensors, or None if the call needs `resolve`.

        Args:
            ids: All token ids of the row, including prompt and padding, as bytes in the machine's byte order.
            width: The number of bytes per id.
            columns: The number of columns of the logits.

        Raises:
            VocabularyError: There are fewer columns than the vocabulary has ids, or far more.
        """
        if not self.steps:
            return None
        if not self._begun:
            return self._first_row(ids, width, columns)
        more = self._more(ids, width, columns)
        if more is None:
            return None
        row = self._row
        if row is None and self._found is not None:
            self._row_state = self._found[0]
            row = self._row = row_of(self._processor, self._row_state)
        if row is not None and more:
            row.advance(*more)
            self._known = ids
            if row.current < FIRST_STATE and self._continued is not None:
                self._continued()
        return row

    def _first_row(self, ids: bytes, width: int, columns: int) -> ConstraintRow | None:
        if not self._plain or width not in WIDTHS or not ids or np.frombuffer(ids, f"i{width}").min() < 0:
            return None
        state = first_state(self._processor, columns)
        row = row_of(self._processor, state)
        if row is not None:
            row.mask(columns)
            self._begun, self._row, self._row_state = True, row, state
            self._remember_row((ids, width), None, columns, alone=True)
        return row

    def _more(self, ids: bytes, width: int, columns: int) -> tuple[()] | tuple[int] | None:
        """Return the token that a row adds to the last call, nothing if it repeats that call, or None if it is another row."""
        if columns != self._columns:
            return None
        if width != self._width and width in WIDTHS and self._known:
            # mlx-lm passes a prompt in 32 bits, and prompt and output in 64.
            self._known = np.frombuffer(self._known, f"i{self._width}").astype(f"i{width}").tobytes()
            self._width = width
        known = self._known
        if width != self._width or not ids.startswith(known):
            return None
        if len(ids) == len(known):
            # Another group of rows may be one token shorter, and continued by the last token.
            if self._alone and self._continued is not None and len(known) > self._start * width:
                self._continued()
            return () if self._alone else None
        token = int.from_bytes(ids[-width:], sys.byteorder, signed=True)
        return (token,) if len(ids) == len(known) + width and token >= 0 else None

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
            ids: [R, L] int32 or int64, all token ids of each row, including prompt and padding. The tensor is not kept.
            vocabulary_size: The number of columns of the logits. Logits of different sizes or devices have separate states.
            device: The device of the logits, and so of the states. None: that of the ids.
            sequence: The engine's name for these rows, if any. Among equal histories, the one with the same name is continued.
            begins: Whether the engine says that these ids are a prompt.

        Returns:
            The state of the R rows after their last token, and their context.

        Raises:
            ConfigurationError: The ids have a wrong shape or dtype, are negative, or do not begin with the prompt.
            BatchMismatch: The number of rows is not a multiple of the rows of `prompt` or `skip`.
        """
        if not isinstance(ids, Tensor):
            raise ConfigurationError(f"ids is of type {type(ids).__name__}; give a tensor [R, L] of int32 or int64")
        port = Port(vocabulary_size, ids.device if device is None else torch.device(device))
        single = None if begins else single_row(ids, port, sequence)
        if single is not None and self._found is not None and self._row is None:
            more = self._more(*single, vocabulary_size)
            if more is not None:
                found = self._found
                if more:
                    state, context = found
                    found = self._advance(state, torch.from_numpy(np.array(more))), context.at(context.lengths + 1)
                    self._states.put(ids.shape[1], found[0])
                    self._known, self._found = single[0], found
                return found
        if self._known:
            self._update_histories()
        found = self._histories.resolve(ids, port, sequence, begins)
        self._begun = True
        # The next call may continue a single row without the histories, unless its group has other tokens after this length.
        group = self.groups[0]
        if single is not None and group.rows.tip is not None and group.rows.length == ids.shape[1]:
            self._group, self._states = group, group.checkpoints_for(port)
            self._remember_row(single, found, vocabulary_size, alone=len(self.groups) == 1)
        return found

    @property
    def groups(self) -> list[RowGroup]:
        """The groups of rows that are remembered, the most recently used first."""
        return self._histories.groups

    def _remember_row(
        self, single: tuple[bytes, int], found: tuple[S, Context] | None, columns: int, alone: bool
    ) -> None:
        """Remember a single row, so that its next token continues it without the histories."""
        known, width = single
        self._known, self._width, self._start = known, width, len(known) // width
        self._found, self._columns, self._alone = found, columns, alone

    def _update_histories(self) -> None:
        """Add to the histories the tokens by which the single row has grown without them."""
        state = self.state
        ids = torch.from_numpy(np.frombuffer(self._known, f"i{self._width}").astype(np.int64))[None]
        self._add_to_histories(ids, self._start, Port(self._columns, ids.device))
        # Only now, because an interruption may come in between.
        self._answered = state
        self._forget_row()

    def _add_to_histories(self, ids: Tensor, start: int, port: Port) -> None:
        """Add a single row, [1, L], of which the histories know the first `start` ids."""
        if self._group is None:
            self._group = self._histories.begin(ids[:, :start])
        if self._group.rows.length < ids.shape[1]:
            self._group.rows.append(Shown(ids))
        if self._row is not None:
            self._group.keep(port, ids.shape[1], self.state)

    def _forget_row(self) -> None:
        self._row = self._row_state = self._group = None
        self._states = Checkpoints()
        self._remember_row((b"", 1), None, 0, alone=False)


def single_row(ids: Tensor, port: Port, sequence: Hashable) -> tuple[bytes, int] | None:
    """Return the ids of a single row on the CPU as bytes, and the bytes per id; None for other rows and named sequences."""
    if sequence is not None or port.device.type != "cpu" or not ids.is_cpu or ids.dim() != 2 or len(ids) != 1:
        return None
    array = ids.numpy()
    return (array.tobytes(), array.itemsize) if ids.dtype in (torch.int32, torch.int64) else None
