"""logitkit in transformers: `model.generate(..., logits_processor=[logits_processor(processor)])`.

- *Greedy search, sampling, beams, assisted decoding, prompt lookup, static caches, chunked prefill, going
  on from a cache*: pass the hook to `generate`. It finds each row's state by the row's token history, in
  whatever order and however often it is called.
- *One hook per generation.* It costs nothing: all that is compiled lives on the processor. A hook may serve
  more generations, but ids cannot tell a new prompt from the same text going on where the prompt is (a
  beginning of) a prompt and its output from before, or that and one token: call `new_generation` in
  between.
- *Left pads* are tokens to a hook unless `attention_mask` or `pad_id` says otherwise. A constraint begins
  after the prompt and does not care; a penalty that counts the prompt does.
- *Beams.* A beam that leaves the language has the score -inf for ever. Where a language has fewer texts
  than there are beams, transformers fills up `num_return_sequences` with copies of legal texts or
  unfinished rows, whose `sequences_scores` are below -1e7: its mark for "no beam", -1e9, divided by a power
  of the length. A row that `max_new_tokens` cut off is the beginning of a legal text.
- *Assisted decoding with another tokenizer* shows the hook ids of two vocabularies: it raises where they
  differ in size, and cannot tell otherwise; do not use it.
- *Continuous batching* (`generate_batch`, `cache_implementation="paged"`) ignores `logits_processor`: use
  `continuous_batching`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.automata.row_mask import as_array
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.history import HistoryResolver
from logitkit.history.stepped_row import SteppedRow
from logitkit.left_pads import LeftPads
from logitkit.processor import Processor, check_processor, process_checked
from logitkit.stepping import can_step
from logitkit_adapters.tokenizer_bytes import vocabulary

try:
    import transformers
except ImportError as error:
    raise ImportError(
        "logitkit_adapters.transformers needs transformers: pip install 'logitkit[transformers]'"
    ) from error

from logitkit_adapters.sessions import Session, continuous
from logitkit_adapters.sessions.prefill import FixedCache, fixed_cache, prefill
from logitkit_adapters.transformers_continuous_batching import continuous_batching

__all__ = [
    "FixedCache",
    "Session",
    "TransformersLogitsProcessor",
    "continuous",
    "continuous_batching",
    "fixed_cache",
    "logits_processor",
    "prefill",
    "vocabulary",
]


class TransformersLogitsProcessor(transformers.LogitsProcessor):
    """The hook that `generate` calls; make it with `logits_processor`.

    Equality is identity: `generate` would drop the second of two equal hooks.

    Args:
        processor: What it applies.
        state: The state of the rows of the last call, in their order, or None before the first. Ask the
            processor about it, as in `processor.is_dead(hook.state)`. After beams these are the rows that the
            last step ran, not those returned.
    """

    def __init__(
        self,
        processor: Processor[Any],
        prompt: Sequence[Sequence[int]] | Tensor | None,
        left_pads: LeftPads,
    ) -> None:
        self.processor = processor
        self._state: Any = None
        self._left_pads = left_pads
        prompts = None if prompt is None else left_pads.without(prompt)
        self._resolver = HistoryResolver(processor, prompt=prompts, skip=left_pads.skip)
        self._columns: int | None = None
        # All ids of the first call are prompt, and none of them is known to be a pad.
        self._plain = prompt is None and not left_pads.told
        self._stepped = SteppedRow(processor) if can_step(processor) else None

    @property
    def state(self) -> Any:
        """The state of the rows of the last call."""
        stepped = None if self._stepped is None else self._stepped.state
        return self._state if stepped is None else stepped

    @property
    def supports_continuous_batching(self) -> bool:  # type: ignore[override]
        """Raise: continuous batching asks this, leaves out who says no, and tells the others too little."""
        raise ConfigurationError(
            "a hook does not work in continuous batching, which tells it the last token of each row only; "
            "write `with continuous_batching(model, processor): model.generate_batch(...)` instead"
        )

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the processed scores; those given are left as they are.

        Args:
            input_ids: [R, L] integers, every row's tokens so far, prompt and left pads included.
            scores: [R, V] floating point.

        Returns:
            New scores, [R, V].

        Raises:
            BatchMismatch: There are not as many rows of ids as of scores.
            ConfigurationError: The shapes are others, or the scores have another number of columns than in this
                generation before.
            Exception: What the processor raises; the hook is as it was before the call.
        """
        stepped = self._stepped
        alone = None if stepped is None else _alone(input_ids, scores)
        if stepped is not None and alone is not None:
            array, columns = alone
            ids, width = array.tobytes(), array.itemsize
            row = stepped.step(ids, width, columns)
            # No call of this generation has told how many columns there are.
            if row is None and self._plain and self._columns is None:
                row = stepped.start(ids, width, columns)
                self._columns = None if row is None else columns
            if row is not None:
                processed, masked, never, zero = _copied(scores)
                row.process(masked[0], never, zero)
                return processed
        self._check(input_ids, scores)
        if stepped is not None:
            self._state = self.state
            for shown in stepped.missed():
                self._resolver.resolve(shown, vocabulary_size=stepped.columns, device="cpu")
        state, context = self._resolver.resolve(input_ids, vocabulary_size=scores.shape[1], device=scores.device)
        # `generate` keeps the scores it passed in (`output_logits`): processors get a copy that they may
        # overwrite.
        after, processed = process_checked(self.processor, state, scores.clone(), context)
        self._state, self._columns = after, scores.shape[1]
        if stepped is not None and alone is not None:
            stepped.begin(ids, width, columns, after)
        return processed

    def new_generation(self) -> None:
        """Take the next call for the first of a new generation, whatever its tokens are."""
        self._resolver.new_generation()
        self._columns = None
        self._stepped = SteppedRow(self.processor) if can_step(self.processor) else None

    def _check(self, input_ids: Tensor, scores: Tensor) -> None:
        if input_ids.dim() != 2 or scores.dim() != 2:
            raise ConfigurationError(
                f"the hook was called with ids {list(input_ids.shape)} and scores {list(scores.shape)}; it "
                "needs whole histories [R, L] and scores [R, V], as `generate` gives them. For continuous "
                "batching, which gives the last token of each row only, use "
                "logitkit_adapters.transformers.continuous_batching"
            )
        if input_ids.shape[0] != scores.shape[0]:
            raise BatchMismatch(
                f"the hook was called with {len(input_ids)} rows of ids and {len(scores)} rows of scores"
            )
        if not scores.is_floating_point():
            raise ConfigurationError(f"the hook was called with scores of {scores.dtype}; it needs floating point")
        if self._columns not in (None, scores.shape[1]):
            raise ConfigurationError(
                f"the scores have {scores.shape[1]} columns after {self._columns} in earlier calls: a hook "
                "serves one vocabulary. Assisted decoding with another tokenizer is not supported; for a "
                "second model, make a second hook"
            )
        self._left_pads.check(input_ids)


# `generate` asks for the number of parameters at every step, and Python would work it out anew each time.
TransformersLogitsProcessor.__call__.__signature__ = inspect.signature(  # type: ignore[attr-defined]
    TransformersLogitsProcessor.__call__
)


def _alone(input_ids: Tensor, scores: Tensor) -> tuple[NDArray[Any], int] | None:
    """Return the ids of a call about one row on the CPU, [1, L], and how many columns its scores have; None for other calls."""
    # Few operations of torch, at every step: a model has thrown all that they touch out of the processor's caches.
    shape = scores.shape
    if len(shape) != 2 or shape[0] != 1 or not (scores.is_cpu and input_ids.is_cpu):
        return None
    ids = input_ids.numpy()
    if ids.ndim != 2 or len(ids) != 1 or ids.dtype.kind != "i" or not scores.is_floating_point():
        return None
    return ids, shape[1]


def _copied(scores: Tensor) -> tuple[Tensor, NDArray[Any], Any, Any]:
    """Return a copy of scores, and it as an array; see `row_mask.as_array`."""
    if scores.dtype == torch.float32 and not scores.requires_grad:
        array = scores.numpy().copy()
        return torch.from_numpy(array), array, -np.inf, 0.0
    copy = scores.clone()
    return copy, *as_array(copy)


def logits_processor(
    processor: Processor[Any],
    *,
    prompt: Sequence[Sequence[int]] | Tensor | None = None,
    attention_mask: Tensor | None = None,
    pad_id: int | None = None,
) -> TransformersLogitsProcessor:
    r"""Make the hook that runs a processor in one `generate` of transformers.

    Args:
        processor: Any processor; it may serve any number of hooks at once.
        prompt: The prompts, where the ids that `generate` starts from hold output of an earlier generation
            already: the [B, P] ids that it started from, or B lists of ids without pads. Default: all ids of
            the first call are prompt.
        attention_mask: [B, P] of 0 and 1, as given to `generate`: leading zeros are left pads. The rows of a
            call may be a multiple of B (beams, `num_return_sequences`).
        pad_id: The id of left pads, where no mask is told: a prompt's leading run of it is no part of it.

    Returns:
        The hook.

    Raises:
        ConfigurationError: Both `attention_mask` and `pad_id` are told, the mask is not of 0 and 1 with the
            zeros in front, or the processor is none.

    Example:
        >>> import re
        >>> import logitkit as lk
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from logitkit_adapters.demo import model_dir
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> date = lk.Regex(r" \d{4}-\d\d-\d\d", vocabulary(tokenizer))
        >>> inputs = tokenizer("The price of", return_tensors="pt")
        >>> ids = model.generate(**inputs, num_beams=4, max_new_tokens=20, logits_processor=[logits_processor(date)])
        >>> text = tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        >>> bool(re.fullmatch(r" \d{4}-\d\d-\d\d", text))
        True
    """
    check_processor(processor)
    return TransformersLogitsProcessor(processor, prompt, LeftPads(processor, attention_mask, pad_id))
