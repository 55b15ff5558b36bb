"""logitkit in llama-cpp-python: `llama.create_completion(..., logits_processor=logits_processor(processor))`.

- *`create_completion`, `create_chat_completion`, plain or with `stream=True`, `generate` and `sample`*: pass the
  list. One list may serve any number of generations, one after another or of several `Llama`s at once: each begins
  with its own prompt. Ids that a hook sees outside of `generate` begin a new prompt where they do not continue
  what it saw before.
- *Logits are changed where they are*, in llama.cpp's own candidates.
- *Errors* of a processor, Ctrl-C among them, reach the caller as they are, and the token is not returned.
  llama-cpp-python by itself drops them; so the import of this module wraps `Llama.generate`,
  `Llama.sample` and `Llama.create_completion`, which behave as before for calls without a hook of logitkit. A hook may
  also be called by a function of yours that is in the list.
- *`logit_bias`* works beside it, and comes first. *`grammar`* and the sampling parameters come after. *Other
  processors* may stand in the same list, before or after, and are guarded as well.
- *One generation at a time*: a second one on the same `Llama` makes the first raise, if it goes on. *`draft_model`*
  is refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import logitkit
from logitkit.errors import VocabularyError
from logitkit.history import HistoryResolver
from logitkit.history.growing_row import GrowingRow
from logitkit.history.stepped_row import SteppedRow
from logitkit.left_pads import LeftPads
from logitkit.processor import Processor, check_processor, process_checked
from logitkit.stepping import can_step
from logitkit_adapters.arrays import call_to_torch

try:
    import llama_cpp
except ImportError as error:
    raise ImportError(
        "logitkit_adapters.llama_cpp needs llama-cpp-python: pip install 'logitkit[llama-cpp]'"
    ) from error

from logitkit_adapters.llama_cpp_guard import install
from logitkit_adapters.llama_cpp_guarded_list import Call, GuardedHook, own_of_generation, report
from logitkit_adapters.sessions import Session, continuous

__all__ = ["LlamaCppLogitsProcessor", "Session", "continuous", "logits_processor", "vocabulary"]

# Bytes of a token's text that are made room for at first; few tokens have more.
ROOM = 128


class LlamaCppLogitsProcessor(GuardedHook):
    """The hook that llama-cpp-python calls; `logits_processor` returns a list of one.

    Args:
        processor: What it applies.
        state: The state of the last call, or None before the first. Ask the processor about it, as in
            `processor.is_dead(hook.state)`.
    """

    def __init__(self, processor: Processor[Any], prompt: Tensor | None, left_pads: LeftPads) -> None:
        self.processor = processor
        self._state: Any = None
        # The row of the generation that was called last, if it is stepped.
        self._stepped: SteppedRow[Any] | None = None
        self._prompt, self._left_pads = prompt, left_pads

    @cached_property
    def _resolver(self) -> HistoryResolver[Any]:
        """For calls outside of `generate`, which has one of its own."""
        return self._resolver_of(self._prompt)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Change the scores in place, where they can be written to, and return them.

        Args:
            input_ids: [L] integers, all tokens so far, prompt included.
            scores: [V] floating point, with any strides.

        Returns:
            The processed scores: those given, or a new array.

        Raises:
            BatchMismatch: There are not as many rows of ids as of scores.
            ConfigurationError: The shapes or dtypes are others, or the ids do not begin with `prompt`.
            Exception: What the processor raises.
        """
        try:
            own = own_of_generation(self, lambda: self._resolver_of(self._prompt))
            ids, logits = call_to_torch(input_ids, scores)
            self._left_pads.check(ids.tensor)
            columns, device = logits.tensor.shape[1], logits.tensor.device
            resolver = self._resolver if own is None else own
            state, context = resolver.resolve(ids.tensor, vocabulary_size=columns, device=device)
            self._state, processed = process_checked(self.processor, state, logits.tensor, context)
            self._stepped = None
            return logits.back(processed).array
        except BaseException as error:
            report(error)
            raise

    def new_generation(self) -> None:
        """Take the next call outside of `generate` for the first of a new generation, whatever its tokens are."""
        self._resolver.new_generation()

    def for_generation(self) -> Call:
        """Return the hook for one generation, which begins with the next call."""
        row: GrowingRow[Any] | None = None
        stepped = SteppedRow(self.processor) if can_step(self.processor) else None
        plain = self._prompt is None and not self._left_pads.told

        def call(input_ids: NDArray[Any], scores: NDArray[Any]) -> NDArray[Any]:
            nonlocal row
            self._stepped = stepped
            if stepped is not None:
                ids, width = input_ids.tobytes(), input_ids.itemsize
                found = stepped.step(ids, width, len(scores))
                if found is None and plain:
                    found = stepped.start(ids, width, len(scores))
                if found is not None:
                    found.process(scores, -np.inf, 0.0)
                    return scores
            missed: list[Tensor] = []
            if stepped is not None:
                self._state, missed = self.state, [*stepped.missed()]
            if row is None:
                shown = missed[0] if missed else torch.from_numpy(input_ids)[None]
                self._left_pads.check(shown)
                prompt = self._left_pads.without(shown) if self._prompt is None else self._prompt
                row = GrowingRow(self.processor, self._resolver_of(prompt))
            for one in missed:
                row.resolve(one[0].numpy(), vocabulary_size=len(scores))
            # Of what `arrays` guards against, the engine's own candidates have nothing.
            logits = torch.from_numpy(scores)[None]
            state, context = row.resolve(input_ids, vocabulary_size=len(scores))
            self._state, processed = process_checked(self.processor, state, logits, context)
            if processed is not logits:
                logits.copy_(processed)
            if stepped is not None:
                stepped.begin(ids, width, len(scores), self._state)
            return scores

        return call

    @property
    def state(self) -> Any:
        """The state of the row of the last call, [1] row."""
        stepped = None if self._stepped is None else self._stepped.state
        return self._state if stepped is None else stepped

    def _resolver_of(self, prompt: Tensor | None) -> HistoryResolver[Any]:
        return HistoryResolver(self.processor, prompt=prompt, skip=self._left_pads.skip)


def logits_processor(
    processor: Processor[Any],
    *,
    prompt: Sequence[int] | Sequence[Sequence[int]] | Tensor | None = None,
    attention_mask: Tensor | None = None,
    pad_id: int | None = None,
) -> llama_cpp.LogitsProcessorList:
    r"""Make the list that runs a processor in generations of llama-cpp-python.

    Args:
        processor: Any processor; it may serve any number of lists at once.
        prompt: The prompt's token ids, where the prompt that the engine is given holds output of an earlier
            generation already. Default: all ids that a generation begins with are prompt.
        attention_mask: [1, P] of 0 and 1: leading zeros are left pads. llama.cpp needs none; all engines' adapters
            have the same arguments.
        pad_id: The id of left pads, where no mask is told.

    Returns:
        A list of one hook, a `LlamaCppLogitsProcessor`.

    Raises:
        ConfigurationError: Both `attention_mask` and `pad_id` are told, one of the arguments is malformed, or the
            processor is none.

    Example:
        >>> import re
        >>> import llama_cpp
        >>> import logitkit as lk
        >>> from logitkit_adapters.demo import gguf_path
        >>> llama = llama_cpp.Llama(str(gguf_path()), verbose=False)
        >>> date = lk.Regex(r" \d{4}-\d\d-\d\d", vocabulary(llama))
        >>> answer = llama.create_completion("The price of", temperature=0, logits_processor=logits_processor(date))
        >>> re.fullmatch(r" \d{4}-\d\d-\d\d", answer["choices"][0]["text"]) is not None
        True
    """
    check_processor(processor)
    left_pads = LeftPads(processor, attention_mask, pad_id)
    told = None if prompt is None else left_pads.without(_rows(prompt))
    return llama_cpp.LogitsProcessorList([LlamaCppLogitsProcessor(processor, told, left_pads)])


def vocabulary(llama: llama_cpp.Llama) -> logitkit.Vocabulary:
    r"""Read the bytes that each token id adds to a text out of a model.

    They are what llama.cpp itself writes for a token after others. Control tokens, which it does not write, have no
    text; all tokens that end a generation in llama.cpp (EOS, end of turn, end of message) are EOS.

    Args:
        llama: The model; `vocab_only=True` is enough.

    Returns:
        The vocabulary, with as many ids as the logits have columns, and the model's padding id if it has one.

    Raises:
        VocabularyError: No `Llama` is given, or the model has no token that ends a generation.

    Example:
        >>> import llama_cpp
        >>> from logitkit_adapters.demo import gguf_path
        >>> vocabulary(llama_cpp.Llama(str(gguf_path()), vocab_only=True, verbose=False))
        Vocabulary(1277 tokens with text of 1280, eos_ids=[2], pad_id=0)
    """
    if not isinstance(llama, llama_cpp.Llama):
        raise VocabularyError(f"there are no tokens in {llama!r}; give the llama_cpp.Llama that generates")
    vocab = llama_cpp.llama_model_get_vocab(llama.model)
    ids = range(llama_cpp.llama_vocab_n_tokens(vocab))
    ends = [i for i in ids if llama_cpp.llama_vocab_is_eog(vocab, i)]
    if not ends:
        raise VocabularyError(
            "the model has no token that ends a generation; load it with "
            'kv_overrides={"tokenizer.ggml.eos_token_id": ...}, the id with which it ends a sequence'
        )
    pad = llama_cpp.llama_vocab_pad(vocab)
    return logitkit.Vocabulary([_text_of(vocab, i) for i in ids], ends, pad_id=pad if pad in ids else None)


def _text_of(vocab: Any, token: int) -> bytes | None:
    """Return what llama.cpp writes for a token; None for nothing."""
    size = -ROOM
    while size < 0:  # the room that it needs
        buffer = ctypes.create_string_buffer(-size)
        # No space is taken off its beginning, and control tokens are not written.
        size = llama_cpp.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False)
    return buffer.raw[:size] or None


def _bias(bias: Mapping[int, float]) -> LlamaCppLogitsProcessor:
    processor = logitkit.LogitBias(bias)
    return LlamaCppLogitsProcessor(processor, None, LeftPads(processor))


def _rows(prompt: Sequence[int] | Sequence[Sequence[int]] | Tensor) -> Any:
    """Return one row of ids as a batch of one."""
    if isinstance(prompt, Tensor):
        return prompt[None] if prompt.dim() == 1 else prompt
    return [prompt] if all(isinstance(i, int) for i in prompt) else prompt


# Not in `logits_processor`, whose call stands in that of `generate`: Python has looked that up by then.
install(_bias)
