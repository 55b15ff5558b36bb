"""Generators that continue each other's states."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError, SampleMismatch
from logitkit.protocol.processor import Processor
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.sessions.decoding import finished, write
from logitkit_adapters.sessions.engines import batch_engine_of, check_tokens
from logitkit_adapters.sessions.generation_stream import StateStream
from logitkit_adapters.sessions.generator_options import OPTIONS, GeneratorOptions
from logitkit_adapters.sessions.initial_state import initial_state, opened
from logitkit_adapters.sessions.prompts import Prompt
from logitkit_adapters.sessions.rows_of_pads import write_others
from logitkit_adapters.sessions.sampling_options import refuse_sampling_options
from logitkit_adapters.sessions.written_rows import Steps

__all__ = ["Continuous", "continuous"]


class Continuous(GeneratorOptions):
    """A generator, made by `continuous`: takes a prompt, a list of prompts or a state, and returns a state."""

    def __call__(
        self,
        prompt: Prompt | SequenceState,
        max_new_tokens: int | None = None,
        *,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> SequenceState:
        """Return the state after generation.

        Args:
            prompt: A state to continue, without the EOS at the end of a row. Or a text, a list of token ids, a tensor or array
                of them [P] or [B, P], the output of a tokenizer, or a chat: a list of `{"role": ..., "content": ...}`, to which
                the tokenizer's chat template is applied. Or a list of texts, of lists of token ids, or of chats.
            max_new_tokens: The maximum number of tokens to add to each row; fewer only if EOS comes. None: the value given to
                `continuous`, or else up to EOS or the model's last position.
            attention_mask: 1 for a token and 0 for padding, in the shape of the token ids. None: the mask of the prompt, or no
                padding. A row that contains only padding has ended, and gets no tokens.
            **options: `num_samples`, `num_beams`, `length_penalty`, `do_sample`, `seed` or `carry_state`, for this call.

        Returns:
            B prompts x S samples. The given state stays unchanged.

        Raises:
            SampleMismatch: The state and the generator have different numbers of samples.
            ConfigurationError: An argument is not allowed, a prompt has no tokens, or the model has too few positions.
        """
        how = self._with(max_new_tokens, options)
        with self.engine.lock:
            _, _, steps = how.started(prompt, attention_mask)
            return finished(steps)

    def stream(
        self,
        prompt: Prompt | SequenceState,
        max_new_tokens: int | None = None,
        *,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> StateStream:
        """Generate while the text is read: an iterator of its pieces, which has the state at the end.

        The arguments are those of a call, except `num_beams`. Each step takes the model's lock, so other generations may run
        in between, and a stream that is not read to its end needs no clean-up.

        Returns:
            An iterator. For one row, it yields pieces of its new text, and for several, lists of one piece per row; each step
            that adds text yields. Engines that run rows one at a time finish each before the next. At the end, `state` is what
            a call returns.

        Raises:
            SampleMismatch: The state and the generator have different numbers of samples.
            ConfigurationError: As for a call, or `num_beams` is above 1: beams are known only at the end.
        """
        how = self._with(max_new_tokens, options)
        if how.num_beams > 1:
            raise ConfigurationError(
                f"a stream has num_beams={how.num_beams}, but the best beam is known only at the end; call the generator instead"
            )
        with self.engine.lock:
            state, samples, steps = how.started(prompt, attention_mask)
            return StateStream(self.engine, state, steps, samples)

    def _with(self, max_new_tokens: int | None, options: dict[str, Any]) -> Self:
        return self.with_options(options if max_new_tokens is None else {**options, "max_new_tokens": max_new_tokens})

    def started(
        self, prompt: Prompt | SequenceState, attention_mask: Tensor | None
    ) -> tuple[SequenceState, int, Steps]:
        """Return the initial state, the number of samples of the result, and the steps to it.

        A generator whose number of samples was not given continues as many as a state has, and a state of one sample becomes as
        many as the generator has.
        """
        state = initial_state(self.engine, prompt, attention_mask)
        samples = state.num_samples if self.num_samples is None and self.num_beams == 1 else self.samples
        repeats = samples if state.num_samples == 1 else 1
        if state.num_samples * repeats != samples:
            raise SampleMismatch(
                f"the state has {state.num_samples} samples, and the generator {samples}; give the generator num_samples="
                f"{state.num_samples} or leave it out, or select one sample of the state"
            )
        most = self.steps(state)
        return state, samples, write_others(state, repeats, lambda others: self._written(others, most, repeats))

    def _written(self, state: SequenceState, most: int, repeats: int) -> Steps:
        """Generate up to `most` tokens for every row, each of which becomes `repeats` rows."""
        active = ~(state.finished if self.carry_state else torch.zeros_like(state.finished))
        if most == 0 or not bool(active.any()):
            return state if repeats == 1 else state.fan_out(repeats)
        return (yield from write(self.engine, state, self.decoding(state), most, repeats))

    def load(self, folder: str | os.PathLike[str]) -> SequenceState:
        """Read a state written by `SequenceState.save`, with its cache if that belongs to this model.

        Raises:
            StateFileError: The folder contains no saved state, or one of another processor.
            OSError: The folder cannot be read.
        """
        return opened(self.engine, SequenceState.load(folder, self.engine.tokenizer, self.processor))


def continuous(
    model: Any,
    tokenizer: Any = None,
    processor: Processor[Any] | None = None,
    *,
    max_new_tokens: int | None = None,
    num_samples: int | None = None,
    num_beams: int = 1,
    length_penalty: float = 1.0,
    do_sample: bool | None = None,
    seed: int | None = None,
    carry_state: bool = False,
    make_cache: Callable[[], Any] | None = None,
    **options: Any,
) -> Continuous:
    r"""Return a function that generates text, and continues texts of other such functions from their cache.

    It is greedy by default. `num_samples` above 1 or a `seed` samples; `num_beams` runs beam search. Generators of different
    kinds can continue each other if their numbers of samples agree.

    Args:
        model: A model of transformers, mlx-lm or mlx-vlm, a `llama_cpp.Llama` or an `onnxruntime_genai.Model`.
        tokenizer: Its tokenizer; llama.cpp has its own.
        processor: The processor to apply to the logits at every step. A constraint restarts with every call, with all earlier
            tokens as its prompt; a penalty sees the whole history.
        max_new_tokens: The default for the maximum number of tokens that a call adds to each row.
        num_samples: The number of samples per prompt, sampled independently.
        num_beams: The number of beams per prompt. They become the samples, best first, as `generate` of transformers finds
            them. Their weights are the sums of the processed log-probabilities; -inf marks a beam for which there was no other
            text.
        length_penalty: Beams are compared by their weight divided by this power of the number of generated tokens, including
            EOS. A larger value favours longer texts; 0 compares the weights themselves.
        do_sample: Whether to sample, if `num_samples` and `seed` leave it open.
        seed: The seed of sampling. The result depends on it, on the row and on the number of tokens before, so a generation in
            several parts samples the same tokens as in one. None: a new seed for every call, from torch's random numbers.
        carry_state: Whether a call continues the processor's state from the last call with the same processor, as if both were
            one call, instead of restarting. Finished rows then stay finished.
        make_cache: Returns the engine's empty cache, to replace its default. A cache that cannot be cut (sliding window,
            quantised) is recomputed when it would have to be cut; the result is the same.
        **options: None; `temperature` and the like raise an error that names the processor to use instead.

    Returns:
        A callable `(prompt, max_new_tokens=None, **options) -> SequenceState`. Its method `stream` has the same arguments, and
        yields the text while it is generated.

    Raises:
        ConfigurationError: An argument is not allowed, or the model does not belong to a supported engine.
        VocabularyError: The processor was built for another tokenizer.

    Example:
        >>> import logitkit as lk
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import continuous, vocabulary
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> text = continuous(model, tokenizer)
        >>> answer = continuous(model, tokenizer, lk.Choice([" yes", " no"], vocabulary(tokenizer)))
        >>> asked = text("Question: Is Paris in", max_new_tokens=1) + "?\nAnswer:"
        >>> str(answer(asked)).splitlines()[-1] in ("Answer: yes", "Answer: no")
        True
    """
    refuse_sampling_options(options, [*OPTIONS, "processor", "make_cache"])
    if isinstance(model, Continuous):
        raise ConfigurationError(
            "model is a generator that continuous has made; call it, with other options if need be: generator(prompt, seed=1). "
            "For another processor, give continuous the model and the tokenizer again; generators continue each other's states"
        )
    engine = batch_engine_of(model, tokenizer, make_cache)
    check_tokens(processor, model, tokenizer)
    return Continuous(
        engine=engine,
        processor=processor,
        max_new_tokens=max_new_tokens,
        num_samples=num_samples,
        num_beams=num_beams,
        length_penalty=length_penalty,
        do_sample=do_sample,
        seed=seed,
        carry_state=carry_state,
    )
