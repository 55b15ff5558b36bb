"""logitkit in llama-cpp-python: `llama.create_completion(..., logits_processor=logits_processor(processor))`.

- Pass the list to `create_completion`, `create_chat_completion` (also with `stream=True`), `generate` or `sample`. One list may
  serve any number of generations, one after another or in several `Llama`s at once: each starts with its own prompt. Outside of
  `generate`, ids that do not continue those of an earlier call start a new prompt.
- Logits are changed in place, in llama.cpp's own candidates.
- All exceptions, including Ctrl-C, reach the caller, and the token is not returned. llama-cpp-python drops exceptions, so the
  import of this module wraps `Llama.generate`, `Llama.sample` and `Llama.create_completion`, which behave as before for calls
  without a hook of logitkit. Your own function in the list may also call a hook.
- `logit_bias` is applied before the list, `grammar` and the sampling parameters after it. The list may have other processors,
  whose exceptions are handled in the same way.
- Only one generation of a `Llama` can run at a time: after a second one has started, the first one raises when it continues.
  `draft_model` is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import logitkit
from logitkit.errors import BrokenLogits
from logitkit.protocol.processor import Processor
from logitkit.protocol.row_limit import checked_max_new_tokens
from logitkit.tracking import Tracker
from logitkit.tracking.generation import Room
from logitkit.tracking.padding import Padding
from logitkit_adapters.arrays import call_to_torch
from logitkit_adapters.hooks.door import processor_for
from logitkit_adapters.hooks.engine_hook import EngineHook
from logitkit_adapters.loaded_class import needed_for

with needed_for("llama_cpp", "llama-cpp-python", "llama-cpp"):
    import llama_cpp

from logitkit_adapters.llama_cpp.guard import install
from logitkit_adapters.llama_cpp.guarded_list import Call, eos_of_running, own_of_generation, report
from logitkit_adapters.llama_cpp.vocabulary import vocabulary

__all__ = ["LlamaCppLogitsProcessor", "logits_processor"]


class LlamaCppLogitsProcessor(EngineHook):
    """The hook that llama-cpp-python calls; `logits_processor` returns a list with one.

    Args:
        processor: The processor that it applies.
        state: The state after the last call, or None before the first. Pass it to the processor's methods, as in
            `processor.is_dead(hook.state)`.
    """

    engine, module, argument = "llama.cpp", "logitkit_adapters.llama_cpp", "logits_processor"

    def __init__(
        self,
        processor: Processor[Any],
        prompt: Tensor | None,
        padding: Padding,
        max_new_tokens: int | None = None,
        record_kept: bool = False,
    ) -> None:
        super().__init__(processor, padding, record_kept=record_kept)
        self._prompt, self._max_new_tokens = prompt, max_new_tokens
        # The tracker of the generation that called last.
        self.tracker: Tracker[Any] | None = None

    @cached_property
    def _outside_of_generate(self) -> Tracker[Any]:
        return self._new_tracker()

    def _new_tracker(self, **options: Any) -> Tracker[Any]:
        return Tracker(
            self.processor, prompt=self._prompt, skip=self._padding.skip, max_new_tokens=self._max_new_tokens, **options
        )

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Process the scores in place if they are writable, and return them.

        Args:
            input_ids: [L] integers, all tokens so far, prompt included.
            scores: [V] floating point, with any strides.

        Returns:
            The processed scores: the given array or a new one.

        Raises:
            BatchMismatch: The numbers of rows of ids and scores differ.
            BrokenLogits: A score is NaN or +inf, or none is finite.
            ConfigurationError: A shape or dtype is not as above, or the ids do not begin with `prompt`.
            Exception: Any error of the processor.
        """
        try:
            self.check_caller(scores)
            tracker = own_of_generation(self, self._new_tracker) or self._outside_of_generate
            ids, logits = call_to_torch(input_ids, scores)
            self._padding.check(ids.tensor)
            columns, device = logits.tensor.shape[1], logits.tensor.device
            state, context = tracker.resolve(ids.tensor, vocabulary_size=columns, device=device)
            processed = self._process(state, logits.tensor, context, eos_of_running())
            tracker.answer(state)
            if self._record is not None:
                self._record.add(ids.tensor, context, processed)
            self.tracker = tracker
            return logits.back(processed).array
        except BaseException as error:
            report(error)
            raise

    def new_generation(self) -> None:
        """Treat the next call outside of `generate` as the first of a new generation, whatever its tokens are."""
        self._outside_of_generate.new_generation()
        if self._record is not None:
            self._record.clear()

    def for_generation(self, room: Room, eos_ids: Sequence[int]) -> Call:
        """Return the hook for one generation, which starts with the next call, with its token limit and EOS ids."""
        tracker: Tracker[Any] | None = None

        def call(input_ids: NDArray[Any], scores: NDArray[Any]) -> NDArray[Any]:
            nonlocal tracker
            if tracker is None:
                plain, most = self._prompt is None and not self._padding.given, room.longest(len(input_ids))
                tracker = self._new_tracker(plain=plain, one_prompt=True, max_length=most)
            stepped = tracker.steps and self._record is None
            row = tracker.step(input_ids.tobytes(), input_ids.itemsize, len(scores)) if stepped else None
            try:
                if row is not None:
                    row.process(scores, -np.inf, 0.0)
            except BrokenLogits:
                # Raised again below, where the step is known.
                row = None
            if row is None:
                shown, logits = torch.from_numpy(input_ids)[None], torch.from_numpy(scores)[None]
                if self._padding.given:
                    self._padding.check(shown)
                # The engine's own candidates need none of the checks and copies of `arrays`.
                state, context = tracker.resolve(shown, vocabulary_size=len(scores))
                processed = self._process(state, logits, context, eos_ids)
                tracker.answer(state)
                if self._record is not None:
                    self._record.add(shown, context, processed)
                if processed is not logits:
                    logits.copy_(processed)
            self.tracker = tracker
            return scores

        return call


def logits_processor(
    processor: Any,
    tokenizer: llama_cpp.Llama | None = None,
    *,
    model: llama_cpp.Llama | None = None,
    prompt: Sequence[int] | Sequence[Sequence[int]] | Tensor | None = None,
    attention_mask: Tensor | None = None,
    pad_id: int | None = None,
    max_new_tokens: int | None = None,
    record_kept: bool = False,
) -> llama_cpp.LogitsProcessorList:
    r"""Make the list that runs a processor in generations of llama-cpp-python.

    Args:
        processor: A processor, which can serve any number of lists at once; or a Python type, such as a pydantic model, a JSON
            Schema as a dict, `re.compile(...)`, a language or `logitkit.Tools`, which is compiled for the `Llama`. See
            `logitkit.output_types.output_type_of`.
        tokenizer: The `Llama` that generates, which has the tokenizer and is read once. With a processor, it is optional; if
            given, the processor must have been built for its tokens.
        model: The same `Llama`, for code that works with all engines; optional.
        prompt: The prompt's token ids, if the engine starts from ids that already contain output of an earlier
            generation. Default: all ids that a generation begins with are the prompt.
        attention_mask: [1, P] of 0 and 1; leading zeros are padding. llama.cpp does not need it; the adapters of all
            engines have the same arguments.
        pad_id: The id of the padding on the left, if there is no mask.
        max_new_tokens: The maximum number of tokens after the prompt. Default: `max_tokens` of `create_completion` and
            `create_chat_completion`, within the room of `n_ctx`. If your own function calls the hook, it can
            see neither. A type, schema, language or tools close their text within the limit.
        record_kept: Whether to record which tokens are kept at each step, for training: see `kept_sets` of the hook.

    Returns:
        A list of one hook, a `LlamaCppLogitsProcessor`.

    Raises:
        ConfigurationError: Both `attention_mask` and `pad_id` are given, an argument is malformed, `processor` is
            something else, or it needs a `Llama`.
        VocabularyError: The vocabulary cannot be read, or the processor was built for another tokenizer.
        LogitkitError: A type, schema or language cannot be compiled.

    Example:
        >>> import re
        >>> import llama_cpp
        >>> import logitkit as lk
        >>> from logitkit_adapters.demo import gguf_path
        >>> from logitkit_adapters.llama_cpp import logits_processor, vocabulary
        >>> llama = llama_cpp.Llama(str(gguf_path()), verbose=False)
        >>> date = lk.Regex(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", vocabulary(llama))
        >>> answer = llama.create_completion("The price of", temperature=0, logits_processor=logits_processor(date))
        >>> re.fullmatch(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", answer["choices"][0]["text"]) is not None
        True
    """
    # The engine's limit is known to `generate`, so a text is closed whether `max_new_tokens` is given or not.
    llama = model if tokenizer is None else tokenizer
    same = llama if model is None else model
    processor = processor_for(processor, llama, same, vocabulary, closing=True, argument="llama")
    padding = Padding(processor, attention_mask, pad_id)
    ids = None if prompt is None else padding.without(_rows(prompt))
    # Without a warning if it is missing, because `generate` knows the limit.
    most = None if max_new_tokens is None else checked_max_new_tokens(processor, max_new_tokens)
    return llama_cpp.LogitsProcessorList([LlamaCppLogitsProcessor(processor, ids, padding, most, record_kept)])


def _bias(bias: Mapping[int, float]) -> LlamaCppLogitsProcessor:
    processor = logitkit.LogitBias(bias)
    return LlamaCppLogitsProcessor(processor, None, Padding(processor))


def _rows(prompt: Sequence[int] | Sequence[Sequence[int]] | Tensor) -> Any:
    """Return the ids as a batch of one row."""
    if isinstance(prompt, Tensor):
        return prompt[None] if prompt.dim() == 1 else prompt
    return [prompt] if all(isinstance(i, int) for i in prompt) else prompt


# At import, because Python looks up `llama.generate` before it evaluates `logits_processor(...)` among the arguments.
install(_bias)
