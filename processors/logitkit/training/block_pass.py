"""One pass of a block of logits through the processors of its rows, and the way back for its gradient.

The forward pass runs each processor in place. On the way, it measures the mass that constraints keep. For a gradient, the pass is
run again, and each processor leaves a *pullback*: a function from the gradient of its processed logits to that of its given ones.
Applied from the last processor to the first, they are the chain rule. A mask needs none: the gradient of a masked logit is zero
already, since its probability is. So where only logitkit's own processors run, the second pass leaves out all that mask, and
applies the set of tokens that the first pass found to be legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.composition.empty_rows import end_rows
from logitkit.errors import ConfigurationError
from logitkit.protocol.calls import own_rows, process_checked
from logitkit.protocol.declared import is_foreign, truncates
from logitkit.protocol.processor import Processor, Role, name_of, role_of
from logitkit.runtime.token_bits import unpacked
from logitkit.training.block_room import BlockRoom
from logitkit.training.constraint_run import ConstraintRun
from logitkit.training.derivatives import READING_ROWS, Derivative, derivative_of
from logitkit.training.kept_sets import restrict
from logitkit.training.log_sums import LogSums
from logitkit.training.state_blocks import StateBlock

__all__ = ["BlockPass", "pass_back", "pass_forward"]

Pullback = Callable[[Tensor], Tensor]


@dataclass(eq=False)
class BlockPass:
    """What both passes of N rows of logits have in common.

    Args:
        logits: [N, V], processed so far.
        block: Their states and contexts.
        kept: [N, ceil(V / 32)] int32, the tokens that the sampler kept, or None.
    """

    logits: Tensor
    block: StateBlock
    kept: Tensor | None

    def run(self) -> None:
        """Run all processors of the chain."""
        chain, left_out = self.block.group.chain, False
        for place, (processor, state) in enumerate(zip(chain.processors, self.block.state, strict=True)):
            if self.kept is not None and truncates(processor):
                # What truncations do is known from the kept sets.
                left_out = True
            else:
                if left_out and derivative_of(processor) in READING_ROWS:
                    self.cut()
                self.process(processor, state)
            if self.may_end_rows and chain.ends_rows_after(place):
                own = own_rows("chain", len(self.logits), self.logits)
                self.logits, ended = end_rows(own, chain.known_eos_ids)
                if ended is not None:
                    self.end(ended)

    @property
    def may_end_rows(self) -> bool:
        """Whether a row may have no token left."""
        return True

    def process(self, processor: Processor[Any], state: Any) -> None:
        """Run a processor."""
        raise NotImplementedError

    def cut(self) -> None:
        """Mask what truncations did, for a processor that reads the whole row."""
        assert self.kept is not None
        self.logits, _ = restrict(self.logits, self.kept)

    def end(self, rows: Tensor) -> None:
        """Note that the chain has ended some rows, [N] bool, which had no token left."""

    def undo(self, before: Tensor) -> Tensor:
        """Give tokens that the sampler kept, but a processor masks now, the logits before it; return which these are, [N, V]."""
        assert self.kept is not None
        restored = unpacked(self.kept, before.shape[1]) & (self.logits == -torch.inf)
        self.logits = torch.where(restored, before, self.logits)
        return restored


@dataclass(eq=False)
class ForwardPass(BlockPass):
    """A pass that measures.

    Args:
        room: [N, V] of the dtype of the logits, or [1, V] on the CPU, which may be overwritten.
        log_mass: [N], the logarithm of the mass that constraints kept.
        raised: [N] bool, the rows that had to end, in which no logit depends on the given ones.
        sums: The `log_sums` of the processed logits, if they are known.
        legal: [N, ceil(V / 32)] int32, the tokens above -inf, if they are known.
        missing: [N] bool, the rows in which constraints mask a token that the sampler kept.
    """

    room: Tensor
    log_mass: Tensor
    raised: Tensor
    missing: Tensor
    sums: LogSums | None = None
    legal: Tensor | None = None
    constraints: ConstraintRun | None = None

    def process(self, processor: Processor[Any], state: Any) -> None:
        """Run a processor, and measure a run of constraints at its end."""
        own = derivative_of(processor)
        if role_of(processor) is not Role.CONSTRAINT:
            self.close()
            self.sums = None
            if own is not Derivative.ROW_SCALE or truncates(processor):
                self.legal = None
        elif self.constraints is None:
            self.constraints = ConstraintRun(self.logits, self.block, self.room)
        if self.constraints is not None and own is Derivative.COMPARED:
            self.constraints.keep_before(self.logits)
        # Only functions and classes of users may mask by the trainer's logits without a role that says so.
        before = self.logits.clone() if self.kept is not None and own is Derivative.BY_TORCH else None
        self.logits = _sound(processor, process_checked(processor, state, self.logits, self.block.context))
        if before is not None:
            self.undo(before)

    def cut(self) -> None:
        """Measure what constraints kept before truncations."""
        self.close()
        self.sums = self.legal = None
        super().cut()

    def end(self, rows: Tensor) -> None:
        """Note that the sums and the legal tokens have changed."""
        self.sums = self.legal = None

    def close(self) -> None:
        """Measure the mass that the last neighbouring constraints kept."""
        if self.constraints is not None:
            found = self.constraints.measure(self.logits, self.room)
            self.constraints, self.sums, self.legal = None, found.sums, found.legal
            self.log_mass, self.raised = self.log_mass + found.log_mass, self.raised | found.raised


@dataclass(frozen=True, eq=False)
class TokenSlopes:
    """The pullback of a processor that scales some tokens of each row, on the CPU.

    Args:
        places: [M], the place of each token among all logits of the N rows, V in each; rising.
        slopes: [M], by how much it is scaled.
        starts: [N + 1], where the tokens of each row begin, and their number.
    """

    places: NDArray[np.int64]
    slopes: NDArray[np.floating]
    starts: NDArray[np.int64]

    def __call__(self, grad: Tensor) -> Tensor:
        """Return the gradient of the given logits, [N, V], from that of the processed ones, which may be overwritten."""
        grad = grad.contiguous()
        grad.numpy().reshape(-1)[self.places] *= self.slopes
        return grad

    def scale_row(self, number: int, grad: Tensor) -> None:
        """Do the same for one row, [V]."""
        own = slice(self.starts[number], self.starts[number + 1])
        grad.numpy()[self.places[own] - number * len(grad)] *= self.slopes[own]


@dataclass(eq=False)
class BackwardPass(BlockPass):
    """A pass that leaves pullbacks.

    Args:
        sets: [N, ceil(V / 32)] int32, the tokens that have a probability; None if the processors that run leave only these.
        leave_out: Whether all that mask are left out.
        room: For tensors as large as the block.
        scale: [N, 1], the product of the slopes of processors that scale whole rows, or 1. The pullbacks are linear, so a
            gradient may be multiplied by it before them.
        pullbacks: In the order of the processors.
    """

    sets: Tensor | None
    leave_out: bool
    room: BlockRoom
    scale: Tensor | float = 1.0
    pullbacks: list[Pullback] = field(default_factory=list)

    @property
    def may_end_rows(self) -> bool:
        """Whether a row may have no token left: not without what masks."""
        return not self.leave_out

    def process(self, processor: Processor[Any], state: Any) -> None:
        """Run a processor."""
        derivative, context = derivative_of(processor), self.block.context
        if self.leave_out and derivative is Derivative.SELECTION:
            return
        given = self.logits
        if derivative in (Derivative.BY_TORCH, Derivative.BY_TENSORS):
            self._by_torch(processor, state, derivative)
            return
        before = given.clone() if derivative is Derivative.COMPARED else None
        if derivative is Derivative.ROW_SCALE:
            self.scale = process_checked(processor, state, torch.ones_like(given[:, :1]), context) * self.scale
        elif derivative is Derivative.SIGN_SCALE:
            self._scale_by_sign(processor, state)
        self.logits = _sound(processor, process_checked(processor, state, given, context))
        if before is not None:
            changed = self.logits != before
            self.pullbacks.append(lambda grad: grad.masked_fill_(changed, 0))

    def end(self, rows: Tensor) -> None:
        """Note that the logits of some rows do not depend on the given ones."""
        self.pullbacks.append(lambda grad: grad.masked_fill_(rows[:, None], 0))

    def pull_back(self, grad: Tensor) -> Tensor:
        """Return the gradient of the given logits, [N, V], from that of the processed ones, which may be overwritten."""
        for pullback in reversed(self.pullbacks):
            grad = pullback(grad)
        return grad

    @property
    def is_by_row(self) -> bool:
        """Whether `pull_back_row` can be called."""
        return all(isinstance(pullback, TokenSlopes) for pullback in self.pullbacks)

    def pull_back_row(self, number: int, grad: Tensor) -> None:
        """Do what `pull_back` does for one row, [V], in place."""
        for pullback in self.pullbacks:
            assert isinstance(pullback, TokenSlopes)
            pullback.scale_row(number, grad)

    def _scale_by_sign(self, processor: Processor[Any], state: Any) -> None:
        """Note the slopes of a penalty, which scales only tokens that the row has had."""
        given, context = self.logits, self.block.context
        if not given.is_cpu:
            # Choosing the tokens would wait for the device.
            slopes = process_checked(processor, state, torch.where(given < 0, -1.0, 1.0).to(given), context).abs_()
            self.pullbacks.append(lambda grad: grad.mul_(slopes))
            return
        columns = given.shape[1]
        lists = self.block.occurring(columns)
        starts = np.cumsum([0, *map(len, lists)])
        places = np.concatenate(lists) + np.repeat(np.arange(len(lists)) * columns, np.diff(starts))
        # Rows of -inf, which stays as it is: filling rows takes longer than the rest of the way.
        signs = self.room.nothing(len(given))
        numbers = signs.numpy().reshape(-1)
        numbers[places] = np.where(given.numpy().reshape(-1)[places] < 0, -1, 1)
        scaled = process_checked(processor, state, signs, context).numpy().reshape(-1)[places]
        numbers[places] = -np.inf
        self.pullbacks.append(TokenSlopes(places, np.abs(scaled), starts))

    def _by_torch(self, processor: Processor[Any], state: Any, derivative: Derivative) -> None:
        leaf = self.logits.detach().clone().requires_grad_()
        with _named_failure(processor), torch.enable_grad():
            # A copy, because torch allows no writes to a leaf.
            given = leaf.clone()
            if derivative is Derivative.BY_TENSORS:
                made: Tensor = processor.reshaped(state, given)  # type: ignore[attr-defined]
            else:
                made = process_checked(processor, state, given, self.block.context)
        self.logits = _sound(processor, made.detach().clone())
        restored = None if self.kept is None else self.undo(leaf.detach())

        def pullback(grad: Tensor) -> Tensor:
            found, inner = None, grad if restored is None else grad.masked_fill(restored, 0)
            if made.requires_grad:
                with _named_failure(processor):
                    (found,) = torch.autograd.grad(made, leaf, inner, allow_unused=True)
            # A logit at -inf stays there, whatever torch says of the operations on it.
            own = torch.zeros_like(grad) if found is None else found.masked_fill(leaf == -torch.inf, 0)
            return own if restored is None else torch.where(restored, grad, own)

        self.pullbacks.append(pullback)


def pass_forward(block: StateBlock, logits: Tensor, kept: Tensor | None, room: Tensor) -> ForwardPass:
    """Run the processors of a block, and measure the mass that constraints keep.

    Args:
        block: The states of N rows.
        logits: [N, V] of at least 32 bits, which may be overwritten.
        kept: [N, ceil(V / 32)] int32, the tokens that the sampler kept, or None. Truncations do not run then.
        room: [N, V] of the same dtype, or [1, V] on the CPU, which may be overwritten.

    Returns:
        The pass. Tokens outside of `kept` are at -inf in its logits.
    """
    nothing = torch.zeros_like(logits[:, 0], dtype=torch.bool)
    made = ForwardPass(logits, block, kept, room, torch.zeros_like(logits[:, 0]), nothing, nothing)
    made.run()
    made.close()
    if kept is not None:
        made.logits, made.missing = restrict(made.logits, kept)
        made.sums = made.legal = None
    return made


def pass_back(
    block: StateBlock, logits: Tensor, kept: Tensor | None, legal: Tensor | None, room: BlockRoom
) -> BackwardPass:
    """Run the processors of a block so that gradients can be pulled back.

    Args:
        block: The states of N rows, none of which had to end.
        logits: [N, V] of at least 32 bits, which may be overwritten.
        kept: As in `pass_forward`.
        legal: [N, ceil(V / 32)] int32, the tokens that the forward pass left; then all that mask are left out.
        room: For tensors as large as the block.

    Returns:
        The pass. If it has `sets`, tokens outside of them have no probability, whatever their logits are.
    """
    made = BackwardPass(logits, block, kept, kept if legal is None else legal, legal is not None, room)
    made.run()
    return made


def _sound(processor: Processor[Any], logits: Tensor) -> Tensor:
    """Return processed logits; NaN of functions and classes of users counts as -inf, as while sampling."""
    return logits.masked_fill(logits.isnan(), -torch.inf) if is_foreign(processor) else logits


@contextmanager
def _named_failure(processor: Processor[Any]) -> Iterator[None]:
    """Name the processor that torch cannot differentiate."""
    try:
        yield
    except RuntimeError as error:
        raise ConfigurationError(
            f"torch must differentiate {name_of(processor)}, but it fails ({error}); write it with torch operations, or, if "
            "it only sets logits to -inf, give its class role = logitkit.Role.CONSTRAINT or TRUNCATION"
        ) from error
