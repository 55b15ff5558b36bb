"""logitkit in transformers: `model.generate(..., logits_processor=[logits_processor(processor)])`.

- *Greedy search, sampling, beam search, assisted decoding, prompt lookup, static caches, chunked prefill, continued caches*: pass
  the hook to `generate`. It finds the state of each row by its token history, in any order, however often it is called.
- *A processor for each row*: `logits_processor([first, second, None])`, for the prompts of a batch in their order. Beams and
  `num_return_sequences` of a prompt have its processor.
- *Use one hook per generation.* A hook costs nothing, because everything compiled belongs to the processor. One hook can serve
  several generations, but token ids cannot tell a new prompt from a continuation of the last one if the new prompt is the last
  prompt with its output, the beginning of that, or that and one more token: call `new_generation` before such a prompt. In
  greedy search and sampling, a hook warns once of the first two, and of a text with EOS.
- *EOS*: `generate` ends a text at every id in `generation_config.eos_token_id`, which a hook cannot see. Build the vocabulary
  with the model, `vocabulary(tokenizer, model)`.
- *Bans of `generate`* (`forced_bos_token_id`, `forced_eos_token_id`, `suppress_tokens`, ...) run before the hook. If they leave
  none of the tokens that a constraint allows, the row ends with an incomplete text, and the hook warns: `EngineBansWarning`.
- *Left padding* counts as tokens unless you pass `attention_mask` or `pad_id`. This does not matter to a constraint, which begins
  after the prompt. It matters to a penalty that counts the prompt.
- *Beam search*: a beam without a legal token keeps the score -inf. If the language has fewer texts than there are beams,
  transformers fills `num_return_sequences` with copies of legal texts or with unfinished rows. Their `sequences_scores` are below
  -1e7, because transformers marks them with -1e9, divided by a power of the length. A row cut off by `max_new_tokens` is the
  beginning of a legal text.
- *Assisted decoding with another tokenizer* is not supported: it shows the hook ids of two vocabularies. The hook raises if their
  sizes differ, and cannot detect it otherwise.
- *Continuous batching* (`generate_batch`, `cache_implementation="paged"`) ignores `logits_processor`: use `continuous_batching`.

Whether `generate` of transformers has just begun, which it does not tell hooks.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

import transformers
from torch import Tensor

from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.empty_rows import cut_off_rows
from logitkit.errors import BatchMismatch, BrokenLogits, ConfigurationError
from logitkit.protocol.calls import by_tensors, check_gradient
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor
from logitkit.protocol.row_limit import checked_max_new_tokens
from logitkit.runtime.logit_arrays import as_array
from logitkit.tracking import Tracker
from logitkit.tracking.padding import Padding
from logitkit_adapters.hooks.door import processor_for, processors_for
from logitkit_adapters.hooks.engine_hook import EngineHook
from logitkit_adapters.hooks.known_prompt import WarnOnce
from logitkit_adapters.transformers.engine_bans import warn_of_cut_off, warn_of_settings
from logitkit_adapters.transformers.vocabulary import vocabulary

if TYPE_CHECKING:
    from logitkit_adapters.transformers.guidance_pass import GuidancePass
    from logitkit_adapters.transformers.second_pass import SecondPass

__all__ = ["TransformersLogitsProcessor", "begins_generation", "logits_processor"]

MODULE = "transformers.generation.utils"


def begins_generation() -> bool:
    """Return whether the hook is called for the first token of greedy search or sampling, and not for drafts.

    Only warnings may depend on it: in other versions of transformers, the variables may have other names.
    """
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the public way, inspect.stack, reads source files
    first = None
    while frame is not None:
        if frame.f_globals.get("__name__") == MODULE:
            if frame.f_code.co_name == "_assisted_decoding":
                return False
            first = first or frame
        frame = frame.f_back
    return first is not None and first.f_code.co_name == "_sample" and "next_tokens" not in first.f_locals


def _second_pass(guidance: GuidancePass, processor: Processor[Any], rows: int | None) -> SecondPass:
    """Return the second pass of a hook. Few hooks have one, so its modules are loaded here."""
    from logitkit_adapters.transformers.second_pass import SecondPass

    return SecondPass.of(guidance, processor, rows)


class TransformersLogitsProcessor(EngineHook, transformers.LogitsProcessor):
    """The hook that `generate` calls; create it with `logits_processor`.

    Hooks are compared by identity, because `generate` would drop the second of two equal hooks.

    Args:
        processor: The processor that it applies.
        state: The state of the rows of the last call, in their order, or None before the first. Pass it to the processor's
            methods, as in `processor.is_dead(hook.state)`. After beam search, these are the rows of the last step, not those
            returned.
    """

    engine, module, argument = "transformers", "logitkit_adapters.transformers", "logits_processor"

    def __init__(
        self,
        processor: Processor[Any],
        prompt: Sequence[Sequence[int]] | Tensor | None,
        padding: Padding,
        max_new_tokens: int | None = None,
        record_kept: bool = False,
        guidance: GuidancePass | None = None,
    ) -> None:
        super().__init__(processor, padding, record_kept=record_kept, guided=guidance is not None)
        rows = padding.rows if prompt is None else len(prompt)
        self._second = None if guidance is None else _second_pass(guidance, processor, rows)
        self.tracker: Tracker[Any] = Tracker(
            processor,
            prompt=None if prompt is None else padding.without(prompt),
            skip=padding.skip,
            plain=prompt is None and not padding.given,
            max_new_tokens=max_new_tokens,
            continued=WarnOnce(begins_generation) if prompt is None else None,
        )
        self._columns: int | None = None
        self._ends = eos_ids_of(processor)
        # Whether a ban of `generate` has been reported.
        self._warned = False

    @property
    def supports_continuous_batching(self) -> bool:  # type: ignore[override]
        """Raise `ConfigurationError` when continuous batching asks: it would pass a hook only the last token of each row."""
        raise ConfigurationError(
            "a hook does not work in continuous batching, which passes it only the last token of each row; "
            "write `with continuous_batching(model, processor): model.generate_batch(...)` instead"
        )

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # type: ignore[override]  # hooks can be called
        """Return the processed scores; the given ones stay unchanged.

        Args:
            input_ids: [R, L] integers, the tokens of each row so far, including its prompt and left padding.
            scores: [R, V] floating point.

        Returns:
            New scores, [R, V].

        Raises:
            BatchMismatch: There are more rows of ids than of scores, or fewer.
            BrokenLogits: A score is NaN or +inf, or a row has no finite one; on an accelerator, in the call after that.
            ConfigurationError: The shapes or dtypes are not as above, the scores require a gradient, or their number of columns
                has changed within the generation.
            ProcessorError: A function or class of yours bans all tokens of a row, and declares no EOS.
            Exception: Any exception of the processor; the hook is then as it was before the call.
        """
        if not isinstance(scores, Tensor):
            self.check_caller(scores)
        single = _single(input_ids, scores) if self.tracker.steps and self._record is None else None
        if single is not None:
            row = self.tracker.step(*single)
            if row is not None:
                self._columns = single[2]
                if scores.requires_grad:
                    check_gradient("the hook", scores)
                try:
                    processed = row.processed(scores)
                except BrokenLogits:
                    # Raised again below, where the step is known.
                    pass
                else:
                    if row.cut_off:
                        self._warn(0, input_ids.shape[1])
                    return processed
        self._check(input_ids, scores)
        # On a device, broken scores of the last call are noticed only now.
        self._process.raise_broken()
        state, context = self.tracker.resolve(input_ids, vocabulary_size=scores.shape[1], device=scores.device)
        context = self._with_guidance(input_ids, scores, context)
        # `generate` may keep the given scores (`output_logits`), so processors get a copy that they may overwrite.
        processed = self._process(state, scores, context, overwrite=False)
        self.tracker.answer(state)
        if self._record is not None:
            self._record.add(input_ids, context, processed)
        self._columns = scores.shape[1]
        if self._ends and not (self._warned or by_tensors(scores)):
            self._look_for_cut_off(state, context, scores, processed)
        return processed

    def _with_guidance(self, input_ids: Tensor, scores: Tensor, context: Context) -> Context:
        """Return the context with the logits of the second pass, if there is one."""
        if self._second is None:
            return context
        return replace(context, guidance_logits=self._second.logits(input_ids, context).to(scores.device))

    def new_generation(self) -> None:
        """Treat the next call as the first of a new generation, whatever its tokens are."""
        self.tracker.new_generation()
        self._columns, self._warned = None, False
        if self._record is not None:
            self._record.clear()
        if self._second is not None:
            self._second.clear()

    def _look_for_cut_off(self, state: Any, context: Context, scores: Tensor, processed: Tensor) -> None:
        """Warn of a row that ends because of a ban of `generate`, if there is one."""
        # An ended row has every EOS at 0. Through numpy, which takes a tenth of torch's time for a few numbers.
        array, _, zero = as_array(processed)
        if (array[:, self._ends[0]] == zero).any():
            for row in cut_off_rows(self.processor, state, context, scores, processed, self._ends)[:1]:
                self._warn(row, int(context.lengths[row]))

    def _warn(self, row: int, length: int) -> None:
        """Warn once of a row that ends because of a ban of `generate`."""
        if not self._warned:
            self._warned = True
            warn_of_cut_off(self.processor, row, length)

    def _check(self, input_ids: Tensor, scores: Tensor) -> None:
        if input_ids.dim() != 2 or scores.dim() != 2:
            raise ConfigurationError(
                f"the hook was called with ids {list(input_ids.shape)} and scores {list(scores.shape)}; it needs all tokens, "
                "[R, L], and scores [R, V], as `generate` passes them. For continuous batching, which passes only the last token "
                "of each row, use logitkit_adapters.transformers.continuous_batching"
            )
        if input_ids.shape[0] != scores.shape[0]:
            raise BatchMismatch(
                f"the hook was called with {len(input_ids)} rows of ids and {len(scores)} rows of scores"
            )
        if not scores.is_floating_point():
            raise ConfigurationError(f"the hook was called with scores of {scores.dtype}; it needs floating point")
        if self._columns not in (None, scores.shape[1]):
            raise ConfigurationError(
                f"the scores have {scores.shape[1]} columns after {self._columns} in earlier calls: a hook serves one "
                "vocabulary. Assisted decoding with another tokenizer is not supported; for a second model, create another hook"
            )
        if self._padding.given:
            self._padding.check(input_ids)


# `generate` inspects the number of parameters at every step, which Python would compute each time.
TransformersLogitsProcessor.__call__.__signature__ = inspect.signature(  # type: ignore[attr-defined]
    TransformersLogitsProcessor.__call__
)


def _single(input_ids: Tensor, scores: Tensor) -> tuple[bytes, int, int] | None:
    """Return the ids of a single row on the CPU as bytes, the bytes per id, and the columns of its scores; else None."""
    # As few torch operations as possible: this runs at every step, and the model has evicted torch's code from the CPU's caches.
    shape = scores.shape
    if len(shape) != 2 or shape[0] != 1 or not (scores.is_cpu and input_ids.is_cpu):
        return None
    ids = input_ids.numpy()
    if ids.ndim != 2 or len(ids) != 1 or ids.dtype.kind != "i" or not scores.is_floating_point():
        return None
    return ids.tobytes(), ids.itemsize, shape[1]


def logits_processor(
    processor: Any,
    tokenizer: Any = None,
    *,
    model: Any = None,
    prompt: Sequence[Sequence[int]] | Tensor | None = None,
    attention_mask: Tensor | None = None,
    pad_id: int | None = None,
    max_new_tokens: int | None = None,
    record_kept: bool = False,
    guidance: GuidancePass | None = None,
) -> TransformersLogitsProcessor:
    r"""Create the hook that runs a processor in `generate` of transformers.

    Args:
        processor: A processor, which can serve any number of hooks at once; or a Python type, such as a pydantic model, a JSON
            Schema as a dict, `re.compile(...)`, a language or `logitkit.Tools`, which is compiled for the tokenizer. See
            `logitkit.output_types.output_type_of`. For rows that differ, a list with one of these for each prompt of the batch,
            or None for a row without a processor.
        tokenizer: The tokenizer of the model, which is read once. With a processor, it is optional; if given, the processor
            must have been built for its tokens.
        model: The model that generates, from which the hook learns all ids at which `generate` ends a text, and the settings with
            which `generate` bans tokens.
        prompt: The prompts, if `generate` starts from ids that already contain output of an earlier generation:
            [B, P] ids, or B lists of ids without padding. Default: all ids of the first call are the prompt.
        attention_mask: [B, P] of 0 and 1, as passed to `generate`; leading zeros are padding. A call may have a multiple of B
            rows (beams, `num_return_sequences`).
        pad_id: The id of the padding on the left, if there is no mask. It is ignored at the start of a prompt.
        max_new_tokens: The `max_new_tokens` passed to `generate`, which a hook cannot see. Only processors that plan ahead need
            it, such as `JsonSchema(..., closing=True)`. A type, schema, language or tools close their text within it.
        record_kept: Whether to record which tokens are kept at each step, for training: see `kept_sets` of the hook.
        guidance: The second pass of the model, which `Guidance` needs.

    Returns:
        The hook.

    Raises:
        ConfigurationError: Both `attention_mask` and `pad_id` are given, the mask is not zeros followed by ones, `prompt` is not
            ids for each row, `processor` is something else, or it needs a tokenizer; or only one of a processor that reads a
            second pass and `guidance` is given.
        BatchMismatch: `guidance` has another number of negative prompts than there are prompts, and more than one.
        VocabularyError: The vocabulary cannot be read, or the processor was built for another tokenizer.
        LogitkitError: A type, schema or language cannot be compiled.

    Example:
        >>> import re
        >>> import logitkit as lk
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import logits_processor, vocabulary
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> date = lk.Regex(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", vocabulary(tokenizer))
        >>> inputs = tokenizer("The price of", return_tensors="pt")
        >>> ids = model.generate(**inputs, num_beams=4, max_new_tokens=20, logits_processor=[logits_processor(date)])
        >>> text = tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        >>> bool(re.fullmatch(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", text))
        True
    """
    make = processors_for if isinstance(processor, list | tuple) else processor_for
    processor = make(processor, tokenizer, model, vocabulary, closing=max_new_tokens is not None)
    for part in getattr(processor, "distinct", (processor,)):
        warn_of_settings(part, model)
    most = checked_max_new_tokens(processor, max_new_tokens)
    if isinstance(prompt, Mapping):
        raise ConfigurationError(f"prompt is of type {type(prompt).__name__}; give its ids, prompt['input_ids']")
    if isinstance(prompt, Sequence) and any(isinstance(row, int) for row in prompt):
        raise ConfigurationError("prompt is a list of ids; give one list for each row of the batch, as in prompt=[ids]")
    padding = Padding(processor, attention_mask, pad_id)
    return TransformersLogitsProcessor(processor, prompt, padding, most, record_kept, guidance)
