"""Logits of an engine, processed: broken ones are an error, and a token is left in every row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.composition.chain import Chain, members
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.empty_rows import end_rows, name_empty_row, name_infinite_row
from logitkit.errors import BrokenLogits
from logitkit.protocol.calls import by_tensors, check_gradient, own_rows, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import is_foreign, may_empty_rows
from logitkit.protocol.guidance import checked_guidance, readers_of_guidance, refuse_guidance
from logitkit.protocol.processor import Processor, name_of
from logitkit.runtime.branching_state import BranchingState
from logitkit.runtime.constraint_state import ConstraintState
from logitkit.runtime.host_rows import mask_on_host
from logitkit.runtime.logit_arrays import as_array, check_row, drop_nan, why_broken
from logitkit.runtime.single_row import can_step
from logitkit.runtime.tensor_logits import UNREAD, broken_rows, end_broken

__all__ = ["EngineLogits"]


class _Flag(NamedTuple):
    """The broken rows of a call, on a device, with the state and the context of all rows."""

    broken: Tensor
    state: Any
    context: Context


class EngineLogits:
    """Run a processor on an engine's logits, so that broken ones are an error, and no row is without a token.

    The logits of a row are broken if any of them is NaN or +inf, or none is finite; -inf in some columns is a ban of the engine.
    A constraint alone may read only those that it leaves, if the row is long. On a device, nothing is read: a broken row has only
    EOS left there, and `raise_broken` raises the error, which may wait until the sampled tokens are read anyway. After a row has
    ended or left its language, its logits do not matter. The logits of a second pass are checked like those of the first.

    A row without a token ends with EOS at logit 0, if the processor or the engine knows its EOS ids; otherwise it is an error. To
    find such rows on a device, the host has to wait for the device, so they are looked for only after functions and classes of
    users. NaN in the result of these counts as -inf.

    Args:
        processor: The processor; None changes nothing.
        guided: Whether contexts have the logits of a second pass, for a processor that reads them.

    Raises:
        ConfigurationError: The processor reads the logits of a second pass, and the engine has none.
    """

    def __init__(self, processor: Processor[Any] | None, *, guided: bool = False) -> None:
        if not guided:
            refuse_guidance(processor, "this engine")
        self._reader = next(readers_of_guidance(processor), None)
        self._processor: Processor[Any] = Chain(()) if processor is None else processor
        self._name = name_of(self._processor)
        # The processors of rows that have one each are its parts.
        of_rows = getattr(self._processor, "parts_of_rows", None)
        self._parts = members(self._processor) if of_rows is None else of_rows
        # An EOS of the engine ends every row, but that of a processor only the rows that have it.
        self._engine_first = of_rows is not None
        alone = (self._processor,) if may_empty_rows(self._processor) else ()
        tells = isinstance(self._processor, Chain) or of_rows is not None
        self._at_fault: tuple[Processor[Any], ...] = getattr(self._processor, "at_fault", alone) if tells else alone
        self._foreign = tuple(p for p in self._parts if is_foreign(p))
        self._eos_ids = eos_ids_of(self._processor)
        # The mask of an automaton reads the logits itself, so they need not be read for it once more.
        self._constraint: Any = self._processor if can_step(self._processor) else None
        self._flag: _Flag | None = None
        # The rows of the last call that ended because no token was left, [B] bool; None if there were none, or if a constraint
        # ended them.
        self.emptied: Tensor | None = None

    def __call__(
        self, state: Any, logits: Tensor, context: Context, eos_ids: Sequence[int] = (), overwrite: bool = True
    ) -> Tensor:
        """Return the processed logits.

        Args:
            state: The state of B rows.
            logits: [B, V] floating point.
            context: The context of the rows.
            eos_ids: The EOS ids of the engine, if known.
            overwrite: Whether the logits may be overwritten.

        Returns:
            [B, V].

        Raises:
            BrokenLogits: The logits of a row are broken; on a device only if no EOS is known.
            ConfigurationError: The logits require a gradient.
            ProcessorError: The processor returns something other than the pair of the given state and logits of the same shape
                and dtype, or +inf, or it leaves a row without a token and no EOS is known.
        """
        if logits.requires_grad:
            check_gradient(self._name, logits)
        self.emptied = None
        logits = logits if overwrite else logits.clone()
        if by_tensors(logits):
            return self._on_device(state, logits, context, eos_ids)
        try:
            if self._constraint is not None and isinstance(state, ConstraintState | BranchingState):
                logits = own_rows(self._name, len(state.slots), logits)
                return mask_on_host(self._constraint.registry, state, logits, of_model=True)
            ended = self._check(state, logits)
            if self._reader is not None:
                self._check_guidance(state, checked_guidance(name_of(self._reader), logits, context))
        except BrokenLogits as error:
            raise _located(error, context) from None
        if isinstance(self._processor, Chain):
            # A chain checks the calls of its processors.
            processed, self.emptied = self._processor.processed(state, logits, context)
        else:
            processed = process_checked(self._processor, state, logits, context)
        is_whole = bool(self._foreign) and name_infinite_row(self._foreign, processed)
        if is_whole and not ended and max(self._ends(eos_ids), default=-1) < processed.shape[1]:
            return processed
        return self._ended(processed, eos_ids) if self._at_fault or ended else processed

    @property
    def broken(self) -> Tensor | None:
        """The rows of the last call whose logits are broken, [B] bool on a device; None on the host, where that is an error."""
        return None if self._flag is None else self._flag.broken & ~self._over(self._flag.state, self._flag.broken)

    def raise_broken(self) -> None:
        """Raise an error if logits of the last call, on a device, were broken. The host waits for it, once for each call.

        Raises:
            BrokenLogits: They were.
        """
        if self._flag is None:
            return
        flag, self._flag = self._flag, None
        broken = flag.broken & ~self._over(flag.state, flag.broken)
        if bool(broken.any()):
            row = int(broken.nonzero()[0, 0])
            or_own = f"; or {' or '.join(map(name_of, self._foreign))} has returned +inf" if self._foreign else ""
            raise _located(BrokenLogits(UNREAD + or_own, row), flag.context)

    def forget_broken(self) -> None:
        """Do not report broken logits of the last call: a broken row has only EOS left."""
        self._flag = None

    def _on_device(self, state: Any, logits: Tensor, context: Context, eos_ids: Sequence[int]) -> Tensor:
        broken = broken_rows(logits)
        if self._reader is not None:
            broken = broken | broken_rows(checked_guidance(name_of(self._reader), logits, context))
        processed = process_checked(self._processor, state, logits, context)
        if self._foreign:
            broken = broken | (processed == torch.inf).any(1)
        self._flag = _Flag(broken, state, context)
        ends = [end for end in self._ends(eos_ids) if end < logits.shape[1]]
        if not ends:
            self.raise_broken()
        if self._at_fault:
            processed = self._ended(processed, eos_ids)
        return end_broken(processed, broken, ends)

    def _check(self, state: Any, logits: Tensor) -> bool:
        """Raise an error if a row is broken; return whether one is that has ended, in which NaN is replaced with -inf."""
        array, never, _ = as_array(logits)
        over = False
        for number, row in enumerate(array):
            try:
                check_row(row, never, number)
            except BrokenLogits:
                if not bool(self._over(state, torch.zeros(len(array), dtype=torch.bool))[number]):
                    raise
                over = True
                drop_nan(row, never)
        return over

    def _check_guidance(self, state: Any, second: Tensor) -> None:
        """Raise an error if a row of the second pass is broken, and has not ended."""
        broken = broken_rows(second)
        if bool(broken.any()):
            broken = broken & ~self._over(state, torch.zeros_like(broken))
            for row in broken.nonzero()[:1, 0].tolist():
                raise BrokenLogits(f"in the second pass, {why_broken(second[row])}", row)

    def _over(self, state: Any, none: Tensor) -> Tensor:
        """Return which rows have ended, or left their language, as far as processors know that: [B] bool."""
        if not self._parts:
            return torch.zeros_like(none)
        states = state if isinstance(self._processor, Chain) else (state,)
        pairs: list[tuple[Any, Any]] = [*zip(members(self._processor), states, strict=True)]
        known = [getattr(p, name)(s) for p, s in pairs for name in ("is_finished", "is_dead") if hasattr(p, name)]
        return reduce(or_, known, torch.zeros_like(none))

    def _ends(self, eos_ids: Sequence[int]) -> Sequence[int]:
        """Return the ids that end a row, of those that the processor and the engine know."""
        return (eos_ids or self._eos_ids) if self._engine_first else (self._eos_ids or eos_ids)

    def _ended(self, processed: Tensor, eos_ids: Sequence[int]) -> Tensor:
        """End rows without a token, or raise an error that names the processors that may have left them so."""
        if ends := self._ends(eos_ids):
            processed, emptied = end_rows(processed, ends)
            if emptied is not None:
                self.emptied = emptied if self.emptied is None else self.emptied | emptied
            return processed
        if not self._at_fault or any(map(is_foreign, self._at_fault)):
            name_empty_row(self._at_fault or members(self._processor), processed)
        return processed


def _located(error: BrokenLogits, context: Context) -> BrokenLogits:
    """Return an error with the step of its row."""
    assert error.row is not None
    step = int(context.lengths[error.row] - context.prompt_lengths[error.row])
    return BrokenLogits(error.reason, error.row, step)
