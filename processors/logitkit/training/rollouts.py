"""The arguments of a replay, checked: which rows a processor has, with their prompts and outputs, and which steps are padding."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.composition.chain import Chain
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.engine_vocabulary import parts_of
from logitkit.errors import ArgumentTypeError, BatchMismatch, ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.context import Context, context_to, select_context
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, check_is_processor, name_of, reads_max_length
from logitkit.runtime.token_bits import width
from logitkit.training.derivatives import is_shipped
from logitkit.training.token_lines import output_lines, prompt_lines

__all__ = ["Group", "Rollouts", "checked_kept", "checked_logits", "stream_numbers"]

# Token ids and lengths in 32 bits.
MOST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Group:
    """The rows of a batch that one processor sampled.

    Args:
        chain: The processor, as a chain.
        rows: [G] int64, which rows of the batch they are, rising.
        tokens: [G, T] int64, their outputs, -1 at padding.
        lengths: [G] int64, the tokens of each output.
        context: Their context before the first output token.
    """

    chain: Chain
    rows: Tensor
    tokens: Tensor
    lengths: Tensor
    context: Context

    @cached_property
    def occurring(self) -> list[NDArray[np.int64]]:
        """The different tokens of the prompt and the output of each row, rising."""
        both = torch.cat([self.context.prompt, self.tokens], 1).cpu().numpy()
        return [np.unique(line[line >= 0]) for line in both]


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Prompts and outputs, in groups of rows with the same processor.

    Args:
        groups: The groups; each row is in one of them.
        tokens: [B, T] int64 on the CPU, the outputs, -1 at padding.
        columns: The number of columns of the logits.
        device: The device of the logits.
    """

    groups: tuple[Group, ...]
    tokens: Tensor
    columns: int
    device: torch.device

    @classmethod
    def of(
        cls,
        processor: Processor[Any] | Sequence[Processor[Any]],
        prompts: Any,
        outputs: Any,
        logits: Tensor,
        max_lengths: Any = None,
        stream_ids: Any = None,
        pad_id: int | None = None,
    ) -> Rollouts:
        """Check the arguments of `replay`; it says which are allowed.

        Raises:
            ConfigurationError: An argument is malformed.
            BatchMismatch: Arguments differ in their numbers of rows or steps.
        """
        rows, steps, columns = logits.shape
        if pad_id is not None:
            pad_id = checked_integer("pad_id", pad_id, 0, MOST)
        chains = _chains(processor, rows)
        prompt_rows = prompt_lines(prompts, rows, pad_id)
        lines = output_lines(outputs, (rows, steps, columns), pad_id, [eos_ids_of(chain) for chain in chains])
        tokens = Context.of(lines, columns).prompt
        tokens = torch.nn.functional.pad(tokens, (0, steps - tokens.shape[1]), value=-1)
        context = Context.of(prompt_rows, columns)
        limits = _numbers("max_lengths", max_lengths, rows)
        streams = stream_numbers(stream_ids, rows)
        if limits is None:
            _warn_without_limits(chains)
        else:
            context = replace(context, max_lengths=limits, max_length=int(limits.max()) if rows else None)
        context = replace(context, stream_ids=context.streams if streams is None else streams)
        groups = [_group(chains, members, tokens, context, logits.device) for members in _members(chains)]
        return cls(tuple(groups), tokens, columns, logits.device)


def checked_logits(logits: Any) -> Tensor:
    """Return the logits of a trainer, or raise an error if they are not [B, T, V] floating point."""
    if not isinstance(logits, Tensor):
        raise ArgumentTypeError(f"logits is of type {type(logits).__name__}; give a torch tensor [B, T, V]")
    if logits.dim() != 3 or not logits.is_floating_point() or logits.shape[2] == 0:
        raise ConfigurationError(
            f"logits has shape {list(logits.shape)} and {logits.dtype}; give [B, T, V] in floating point, where logits[:, t] "
            "predicts outputs[:, t]"
        )
    return logits


def checked_kept(kept: Any, logits: Tensor) -> Tensor | None:
    """Return the kept sets as [B, T, ceil(V / 32)] int32, or None.

    Raises:
        ConfigurationError: They are something else.
    """
    if kept is None:
        return None
    rows, steps, columns = logits.shape
    wanted = [rows, steps, width(columns)]
    if not isinstance(kept, Tensor):
        parts = list(kept) if isinstance(kept, Iterable) else None
        if parts is None or not all(isinstance(part, Tensor) for part in parts):
            raise ArgumentTypeError(
                f"kept is of type {type(kept).__name__}; give a tensor {wanted} of int32, or the results of training.kept of "
                "each step"
            )
        if len({(part.shape, part.dtype) for part in parts}) > 1:
            raise BatchMismatch("kept has steps of different shapes; give for each step the set of every row")
        stacked = torch.stack(parts, 1) if parts else torch.zeros(wanted, dtype=torch.int32)
    else:
        stacked = kept
    if stacked.dtype != torch.int32 or list(stacked.shape) != wanted:
        raise ConfigurationError(
            f"kept has shape {list(stacked.shape)} and {stacked.dtype}; for logits {list(logits.shape)}, give {wanted} of int32, "
            "as training.kept packs them"
        )
    return _without_bits_after(stacked, columns)


def _without_bits_after(sets: Tensor, columns: int) -> Tensor:
    """Return sets without bits after the last token, which the bitmasks of kernels have."""
    if not columns % 32 or not sets.numel():
        return sets
    last = sets[..., -1:] & ((1 << columns % 32) - 1)
    # Sets are rather copied than compared on a device, which would have to be waited for.
    return sets if sets.is_cpu and last.equal(sets[..., -1:]) else torch.cat([sets[..., :-1], last], -1)


def _chains(processor: Any, rows: int) -> list[Chain]:
    """Return the processor of each row as a chain; rows with the same processor get the same chain."""
    given = list(processor) if isinstance(processor, list | tuple) else [processor] * rows
    if len(given) != rows:
        raise BatchMismatch(f"processor is a list of {len(given)}, but logits have {rows} rows; give one for each row")
    if not rows:
        check_is_processor(processor, "processor")
    found: dict[int, Chain] = {}
    for one in given:
        if id(one) not in found:
            check_is_processor(one, "processor", "or a list of one for each row")
            refuse_guidance(one, "the trainer in replay")
            found[id(one)] = Chain(tuple(parts_of(one)), getattr(one, "eos_ids", ()) if isinstance(one, Chain) else ())
    return [found[id(one)] for one in given]


def _members(chains: Sequence[Chain]) -> list[list[int]]:
    """Return the rows of each chain."""
    members: dict[int, list[int]] = {}
    for row, chain in enumerate(chains):
        members.setdefault(id(chain), []).append(row)
    return [*members.values()]


def _group(
    chains: Sequence[Chain], members: Sequence[int], tokens: Tensor, context: Context, device: torch.device
) -> Group:
    rows, chain = torch.tensor(members), chains[members[0]]
    # States are replayed on the host, whose steps are short, and moved to the device in blocks. A class of a user may have
    # tensors of its own on the device, and expects its state there.
    if not all(map(is_shipped, chain.processors)):
        context = context_to(context, device)
        tokens = tokens.to(device)
    chosen = rows.to(tokens.device)
    own = tokens[chosen]
    return Group(chain, rows, own, (own >= 0).sum(1).cpu(), select_context(context, chosen))


def stream_numbers(given: Any, rows: int) -> Tensor | None:
    """Return the random stream of each row, [B] int64, or None.

    Raises:
        ConfigurationError: They are not integers from 0.
        BatchMismatch: They are too many or too few.
    """
    return _numbers("stream_ids", given, rows)


def _numbers(name: str, given: Any, rows: int) -> Tensor | None:
    """Return one integer for each row, [B] int64, or None."""
    if given is None:
        return None
    values = given.tolist() if isinstance(given, Tensor) and given.dim() == 1 else given
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ArgumentTypeError(f"{name} is {given!r:.80}; give one integer for each row")
    if len(values) != rows:
        raise BatchMismatch(f"{name} has {len(values)} numbers, but there are {rows} rows; give one for each row")
    least = 0 if name == "stream_ids" else 1
    return torch.tensor([checked_integer(f"{name}[{i}]", v, least, 2**63 - 1) for i, v in enumerate(values)]).long()


def _warn_without_limits(chains: Sequence[Chain]) -> None:
    for chain in chains:
        found = next((p for p in chain.processors if reads_max_length(p)), None)
        if found is not None:
            warnings.warn(
                f"{name_of(found)} depends on the maximum length of a row; if it was known while sampling, give the same "
                "numbers: replay(..., max_lengths=[...]), prompt tokens included",
                stacklevel=4,
            )
            return
