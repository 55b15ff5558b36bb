"""The hook of mlx engines, which call `hook(tokens, logits)` for one sequence: the base class of those of mlx-lm and mlx-vlm."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, ClassVar, Self

import mlx.core as mx
import numpy as np
import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, BrokenLogits, ConfigurationError
from logitkit.protocol.processor import Processor
from logitkit.runtime.tensor_logits import UNREAD
from logitkit.tracking import SequenceTracker, Tracker
from logitkit.tracking.padding import Padding
from logitkit_adapters.arrays import call_to_torch, ids_to_torch
from logitkit_adapters.arrays.mlx_masks import is_row, masked, memory_of
from logitkit_adapters.hooks.engine_hook import EngineHook
from logitkit_adapters.hooks.known_prompt import WarnOnce
from logitkit_adapters.mlx.beginning import Beginning
from logitkit_adapters.mlx.caller import Caller

__all__ = ["MlxLogitsProcessor"]

# The number of sequences that may take turns: a forgotten one would start again in the middle of its text.
SEQUENCES = 1024

# The engines whose functions call these hooks, by their packages.
PACKAGES = {"mlx_lm": "mlx-lm", "mlx_vlm": "mlx-vlm"}


class MlxLogitsProcessor(EngineHook):
    """The hook that an mlx engine calls; create it with `logits_processor` of its adapter.

    Subclasses set `engine`, `module`, and `caller`.

    Args:
        processor: The processor that it applies.
        state: The state of the sequence of the last call, [1] row, or None before the first. Pass it to the processor's methods,
            as in `processor.is_dead(hook.state)`. The engine computes one token ahead, so after a generation the state has seen
            all its tokens.
    """

    argument = "logits_processors"
    caller: ClassVar[Caller]

    def __init__(
        self,
        processor: Processor[Any],
        prompt: list[list[int]] | Tensor | None,
        padding: Padding,
        max_new_tokens: int | None = None,
        record_kept: bool = False,
    ) -> None:
        super().__init__(processor, padding, record_kept=record_kept)
        self._fresh = True  # before the first call of a generation
        self._sound: mx.array | None = None  # whether the logits of the last call were sound, if they were not read
        self._lengths: list[int] = []  # of the given prompts, if any
        self._beginning = Beginning(processor, padding, self.caller)
        self._plain = prompt is None and not padding.given
        if prompt is None:
            self.tracker: Tracker[Any] = Tracker(
                processor,
                skip=self._beginning,
                plain=self._plain,
                max_new_tokens=max_new_tokens,
                capacity=SEQUENCES,
                continued=WarnOnce(self.caller.begins_generation),
            )
        else:
            self._lengths = (padding.without(prompt) >= 0).sum(1).tolist()
            rows = prompt.tolist() if isinstance(prompt, Tensor) else prompt
            pads = [len(row) - length for row, length in zip(rows, self._lengths, strict=True)]
            self.tracker = SequenceTracker(
                processor, prompts=rows, pads=pads, max_new_tokens=max_new_tokens, capacity=SEQUENCES
            )

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return the processed logits; the given ones stay unchanged.

        Args:
            tokens: [L] integers, the tokens of one sequence so far, or those of them that the engine shows.
            logits: [1, V] or [V] floating point, including bfloat16.

        Returns:
            New logits, of the same shape and dtype.

        Raises:
            BatchMismatch: There are several rows.
            BrokenLogits: A logit is NaN or +inf, or none is finite; if they are not read, in the call after that.
            ConfigurationError: The shapes or dtypes are not as above, the tokens do not belong to the given prompt, or the engine
                chooses later tokens without the hook.
            Exception: Any exception of the processor; the hook is then as it was before the call.
        """
        caller = sys._getframe(1)  # noqa: SLF001 - the public way, inspect.stack, reads source files
        # Usually a function of the engine that generates one sequence. Others need a closer look.
        one = (
            caller.f_globals.get("__name__") == self.caller.module and self.caller.row not in caller.f_code.co_varnames
        )
        if not one or self.caller.has_modes_without_hooks:
            self._check_engine(caller, known=one)
        name, begins = (None, False) if one else self.caller.batch_sequence()
        # More than ids may distinguish the sequences of a batch.
        if name is None and self.tracker.steps and self._record is None and is_row(tokens, logits):
            found = self._masked(tokens, logits)
            if found is not None:
                return found
        if self._sound is not None:
            last, self._sound = self._sound, None
            if not last.item():
                raise BrokenLogits(UNREAD, 0)
        if not isinstance(logits, mx.array):
            self.check_caller(logits)
        ids, taken = call_to_torch(tokens, logits)
        shown, columns = ids.tensor.shape[1], taken.tensor.shape[1]
        self._check_tokens(ids.tensor, taken.tensor)
        hidden: dict[str, Any] = {"hidden": self.caller.hidden_tokens(shown)} if self._lengths else {}
        state, context = self.tracker.resolve(
            ids.tensor, vocabulary_size=columns, device=taken.tensor.device, sequence=name, begins=begins, **hidden
        )
        processed = self._process(state, taken.tensor, context)
        self.tracker.answer(state)
        if self._record is not None:
            self._record.add(ids.tensor, context, processed)
        self._fresh = False
        return taken.back(processed).array

    def _check_tokens(self, ids: Tensor, logits: Tensor) -> None:
        """Check that these are the tokens and the logits of one sequence, with its padding and without hidden output."""
        if ids.shape[0] != 1:
            raise BatchMismatch(
                f"the hook was called with tokens {list(ids.shape)} and logits {list(logits.shape)}; {self.engine} passes the "
                "tokens [L] and the logits [1, V] of one sequence. Call the hook once for each sequence"
            )
        if self._lengths and self._fresh:
            self._beginning.check_cache(ids.shape[1], max(self._lengths))
        elif self._padding.given and not self._lengths:
            self._padding.check(ids)

    def _check_engine(self, caller: FrameType, *, known: bool) -> None:
        """Refuse another mlx engine, and a generation of which this hook sees the first token only."""
        if not known:
            package = str(caller.f_globals.get("__name__")).partition(".")[0]
            if PACKAGES.get(package, self.engine) != self.engine:
                raise self.foreign_in(PACKAGES[package])
        reason = self.caller.why_tokens_are_unprocessed(caller)
        if reason is not None:
            raise ConfigurationError(f"the hook would not process all tokens: {self.engine} {reason}")

    def _masked(self, tokens: mx.array, logits: mx.array) -> mx.array | None:
        """Return the masked logits of a sequence that grows, without reading any; None if only the histories know its state."""
        memory, width = memory_of(tokens)
        if self._fresh and self._plain:
            self._beginning.check(len(memory) // width)
        row = self.tracker.step(memory, width, logits.shape[-1])
        if row is None:
            return None
        # Known by now, because it was computed together with the last token.
        if self._sound is not None and not self._sound.item():
            self._sound = None
            _, context = self.tracker.resolve(ids_to_torch(tokens).tensor, vocabulary_size=logits.shape[-1])
            raise BrokenLogits(UNREAD, 0, int(context.lengths - context.prompt_lengths) - 1)
        self._fresh = False
        found, self._sound = masked(row.mask(logits.shape[-1]), logits)
        return found

    @property
    def broken(self) -> Tensor | None:
        """Whether the logits of the last call were broken, [1] bool; None if they were read, since they raise then."""
        return None if self._sound is None else torch.tensor([not self._sound.item()])

    def new_generation(self) -> None:
        """Treat the next call as the first of a new generation, whatever its tokens are."""
        self.tracker.new_generation()
        self._fresh, self._sound = True, None
        if self._record is not None:
            self._record.clear()

    @classmethod
    def made(
        cls,
        processor: Processor[Any],
        *,
        prompt: Any,
        attention_mask: Any,
        pad_id: int | None,
        max_new_tokens: int | None,
        record_kept: bool,
    ) -> Self:
        """Return a hook, from the arguments of `logits_processor`, whose `max_new_tokens` has been checked.

        Raises:
            ConfigurationError: An argument is malformed, or one prompt is the beginning of another.
        """
        mask = attention_mask
        if mask is not None:
            mask = mask if isinstance(mask, Tensor) else torch.from_numpy(np.array(mask))
            mask = mask[None] if mask.dim() == 1 else mask
        padding = Padding(processor, mask, pad_id)
        return cls(processor, None if prompt is None else _rows(prompt), padding, max_new_tokens, record_kept)


def _rows(prompt: Any) -> list[list[int]] | Tensor:
    """Return the prompts as lists of ids, or as a tensor that may contain left padding."""
    if isinstance(prompt, Sequence):
        rows = list(prompt)
        flat = all(not isinstance(row, Sequence) for row in rows)
        return [rows] if flat else [list(row) for row in rows]
    return ids_to_torch(prompt).tensor
