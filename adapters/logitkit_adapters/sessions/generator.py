"""Generators that continue each other's states."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from logitkit.composition.engine_ends import check_ends, vocabulary_ends
from logitkit.errors import ConfigurationError, SampleMismatch
from logitkit.parameters.integers import checked_integer
from logitkit.parameters.reals import checked_real
from logitkit.protocol.processor import Processor, check_is_processor, name_of
from logitkit.protocol.same_processor import same_processor
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.decoding import write
from logitkit_adapters.sessions.engines import batch_engine_of
from logitkit_adapters.sessions.initial_state import initial_state, opened
from logitkit_adapters.sessions.prompts import Prompt
from logitkit_adapters.sessions.rows_of_pads import write_others
from logitkit_adapters.sessions.written_rows import Decoding

__all__ = ["Continuous", "continuous"]

MOST = 2**31 - 1
MOST_PENALTY = 8.0


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """A generator, made by `continuous`: takes a prompt, a list of prompts or a state, and returns a state."""

    engine: BatchEngine
    processor: Processor[Any] | None
    max_new_tokens: int | None
    num_samples: int | None
    num_beams: int
    length_penalty: float
    do_sample: bool | None
    seed: int | None
    carry_state: bool

    def __post_init__(self) -> None:
        if self.processor is not None:
            check_is_processor(self.processor)
            check_ends(self.processor, self.engine.eos_ids)
        limits = {"num_samples": (1, MOST), "num_beams": (1, MOST), "max_new_tokens": (0, MOST), "seed": (0, 2**63 - 1)}
        for name, (least, most) in limits.items():
            given = getattr(self, name)
            if given is not None:
                checked_integer(name, given, least, most)
        checked_real(
            "length_penalty", self.length_penalty, -MOST_PENALTY, MOST_PENALTY, "0 compares texts without their lengths"
        )
        if self.num_beams > 1 and (
            self.num_samples not in (None, self.num_beams) or self.do_sample or self.seed is not None
        ):
            raise ConfigurationError(
                f"num_beams={self.num_beams} was given with num_samples={self.num_samples}, do_sample={self.do_sample} and "
                f"seed={self.seed}; beam search does not sample, and each beam is a sample of the state: leave these out"
            )

    @property
    def samples(self) -> int:
        """The number of samples per prompt in the result."""
        return self.num_beams if self.num_beams > 1 else self.num_samples or 1

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
        how = self._with(options if max_new_tokens is None else {**options, "max_new_tokens": max_new_tokens})
        with self.engine.lock:
            state = initial_state(self.engine, prompt, attention_mask)
            repeats = 1 if isinstance(prompt, SequenceState) else how.samples
            if state.num_samples * repeats != how.samples:
                raise SampleMismatch(
                    f"the state has {state.num_samples} samples, and the generator {how.samples}; give the generator num_samples="
                    f"{state.num_samples}, select samples of the state, or repeat its only one by fan_out({how.samples})"
                )
            steps = how.steps(state)
            return write_others(state, repeats, lambda others: how.written(others, steps, repeats))

    def written(self, state: SequenceState, steps: int, repeats: int) -> SequenceState:
        """Return a state in which every row becomes `repeats` rows, with up to `steps` more tokens each."""
        active = ~(state.finished if self.carry_state else torch.zeros_like(state.finished))
        if steps == 0 or not bool(active.any()):
            return state if repeats == 1 else state.fan_out(repeats)
        return write(self.engine, state, self.decoding(state), steps, repeats)

    def load(self, folder: str | os.PathLike[str]) -> SequenceState:
        """Read a state written by `SequenceState.save`, with its cache if that belongs to this model.

        Raises:
            StateFileError: The folder contains no saved state, or one of another processor.
            OSError: The folder cannot be read.
        """
        return opened(self.engine, SequenceState.load(folder, self.engine.tokenizer, self.processor))

    def _with(self, options: dict[str, Any]) -> Continuous:
        allowed = [f.name for f in fields(self) if f.name not in ("engine", "processor")]
        wrong = next((name for name in options if name not in allowed), None)
        if wrong is not None:
            raise TypeError(f"{wrong} is not an option of a generator; allowed are {', '.join(allowed)}")
        return replace(self, **options) if options else self

    def steps(self, state: SequenceState) -> int:
        """Return the maximum number of tokens to add."""
        longest, most = max(map(len, state.rows)), self.engine.max_length
        if self.max_new_tokens is None:
            if most is None:
                raise ConfigurationError(
                    "max_new_tokens is None, and the model has no known number of positions; give one"
                )
            return max(most - longest, 0)
        if most is not None and longest + self.max_new_tokens > most:
            raise ConfigurationError(
                f"a row of {longest} tokens and max_new_tokens={self.max_new_tokens} are more than the model's {most} positions; "
                "ask for fewer new tokens, or slice the state"
            )
        return self.max_new_tokens

    def decoding(self, state: SequenceState) -> Decoding:
        """Return the decoding options."""
        if self.carry_state and state.processor is not None and not same_processor(state.processor, self.processor):
            raise ConfigurationError(
                f"carry_state=True continues with the state that {name_of(state.processor)} left, but the generator has another "
                "processor; use the generator that made the state, or leave carry_state out"
            )
        return Decoding(
            processor=self.processor,
            beams=self.num_beams > 1,
            length_penalty=float(self.length_penalty),
            seed=self._drawn_from(),
            eos_ids=sorted(self.engine.eos_ids | vocabulary_ends(self.processor)),
            pad_id=TextTokenizer(self.engine.tokenizer).pad_id,
            carry_state=self.carry_state,
        )

    def _drawn_from(self) -> int | None:
        draws = self.do_sample
        if draws is None:
            draws = self.num_beams == 1 and (self.samples > 1 or self.seed is not None)
        if not draws:
            return None
        return int(torch.randint(2**62, ())) if self.seed is None else self.seed


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
) -> Continuous:
    r"""Make a generator that continues states, including those of other generators, from their cache.

    It is greedy by default. `num_samples` above 1 or a `seed` samples; `num_beams` runs beam search. Generators of different
    kinds can continue each other if their numbers of samples agree.

    Args:
        model: A causal language model of transformers or mlx-lm, or a `llama_cpp.Llama`.
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

    Returns:
        A callable `(prompt, max_new_tokens=None, **options) -> SequenceState`.

    Raises:
        ConfigurationError: An argument is not allowed, or the model does not belong to a supported engine.

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
    return Continuous(
        engine=batch_engine_of(model, tokenizer, make_cache),
        processor=processor,
        max_new_tokens=max_new_tokens,
        num_samples=num_samples,
        num_beams=num_beams,
        length_penalty=length_penalty,
        do_sample=do_sample,
        seed=seed,
        carry_state=carry_state,
    )
