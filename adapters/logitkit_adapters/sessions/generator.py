"""Generators that go on from one another's states."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from logitkit.chain import Chain
from logitkit.errors import ConfigurationError, SampleMismatch
from logitkit.integers import checked_integer
from logitkit.processor import Processor, check_processor, name_of
from logitkit.sessions.cache_port import SavedCache
from logitkit.sessions.sequence_parts import Piece, put_together, weights_of
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions.batches.protocol import BatchEngine, batch_engine_of
from logitkit_adapters.sessions.decoding import write
from logitkit_adapters.sessions.written_rows import Decoding

__all__ = ["Continuous", "continuous"]

MOST = 2**31 - 1
MOST_PENALTY = 8.0


@dataclass(frozen=True, kw_only=True)
class Continuous:
    """A generator: a prompt, a list of prompts or a state in, a state out; make it with `continuous`."""

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
            check_processor(self.processor)
        for name, given, least in (
            ("num_samples", self.num_samples, 1),
            ("num_beams", self.num_beams, 1),
            ("max_new_tokens", self.max_new_tokens, 0),
            ("seed", self.seed, 0),
        ):
            if given is not None:
                checked_integer(name, given, least, MOST if name != "seed" else 2**63 - 1)
        penalty = self.length_penalty
        if (
            isinstance(penalty, bool)
            or not isinstance(penalty, int | float)
            or not -MOST_PENALTY <= penalty <= MOST_PENALTY
        ):
            raise ConfigurationError(
                f"length_penalty is {penalty!r}; allowed are numbers from -{MOST_PENALTY} to {MOST_PENALTY}"
            )
        if self.num_beams > 1 and (self.num_samples not in (None, self.num_beams) or self.do_sample or self.seed):
            raise ConfigurationError(
                f"num_beams={self.num_beams} was given with num_samples={self.num_samples}, do_sample={self.do_sample} and "
                f"seed={self.seed}; beams are not drawn, and each is a sample: leave these out"
            )

    @property
    def samples(self) -> int:
        """How many samples of each prompt come out."""
        return self.num_beams if self.num_beams > 1 else self.num_samples or 1

    def __call__(
        self, prompt: str | Sequence[str] | SequenceState, max_new_tokens: int | None = None, **options: Any
    ) -> SequenceState:
        """Return the state after what is written.

        Args:
            prompt: A text, several, or a state to go on from; an EOS at the end of a row is not part of it.
            max_new_tokens: Most tokens to add to each row: exactly as many, unless EOS comes. None: as `continuous` was told,
                or else up to EOS or the model's last position.
            **options: `num_samples`, `num_beams`, `length_penalty`, `do_sample`, `seed` or `carry_state`, for this call.

        Returns:
            B prompts x S samples. The state that was given is as it was.

        Raises:
            SampleMismatch: The state has another number of samples than the generator.
            ConfigurationError: An argument is not allowed, a prompt has no tokens, or the model has too few positions.
        """
        how = self._with(options if max_new_tokens is None else {**options, "max_new_tokens": max_new_tokens})
        state = how.begun(prompt)
        repeats = 1 if isinstance(prompt, SequenceState) else how.samples
        if state.num_samples * repeats != how.samples:
            raise SampleMismatch(
                f"the state has {state.num_samples} samples, and the generator {how.samples}; give the generator "
                f"num_samples={state.num_samples}, select samples of the state, or repeat its only one by fan_out({how.samples})"
            )
        steps = how.steps(state)
        going_on = ~(state.finished if how.carry_state else torch.zeros_like(state.finished))
        if steps == 0 or not bool(going_on.any()):
            return state if repeats == 1 else state.fan_out(repeats)
        return write(self.engine, state, how.decoding(state), steps, repeats)

    def load(self, folder: str | os.PathLike[str]) -> SequenceState:
        """Read a state that `SequenceState.save` wrote, with its cache where it is one of this model.

        Raises:
            StateFileError: The folder holds no saved state, or one of another processor.
            OSError: It cannot be read.
        """
        return self._opened(SequenceState.load(folder, self.engine.tokenizer, self.processor))

    def _with(self, options: dict[str, Any]) -> Continuous:
        allowed = [f.name for f in fields(self) if f.name not in ("engine", "processor")]
        wrong = next((name for name in options if name not in allowed), None)
        if wrong is not None:
            raise TypeError(f"{wrong} is no option of a generator; allowed are {', '.join(allowed)}")
        return replace(self, **options) if options else self

    def begun(self, prompt: str | Sequence[str] | SequenceState) -> SequenceState:
        """Return the state to go on from, packed, with a column to feed."""
        if isinstance(prompt, SequenceState):
            state = self._opened(prompt)
            pieces = [Piece(row, len(ids), [] if ids else self._first(ids)) for row, ids in enumerate(state.rows)]
            return put_together(state, pieces, weights_of(state), to_feed=1)
        texts = [prompt] if isinstance(prompt, str) else list(prompt) if isinstance(prompt, Sequence) else [prompt]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ConfigurationError(f"prompt is {prompt!r}; give a text, a list of texts, or a SequenceState")
        tokenizer = TextTokenizer(self.engine.tokenizer)
        rows = [tokenizer.encode(text, with_special_tokens=True) for text in texts]
        empty = torch.zeros(len(rows), 0, dtype=torch.int64, device=self.engine.device)
        nothing = SequenceState(
            empty, torch.zeros(len(rows), 1, device=self.engine.device), empty, None, self.engine.tokenizer
        )
        return put_together(
            nothing, [Piece(row, 0, ids or self._first(ids)) for row, ids in enumerate(rows)], weights_of(nothing)
        )

    def steps(self, state: SequenceState) -> int:
        """Return how many tokens to add at most."""
        longest, most = max(map(len, state.rows)), self.engine.max_length
        if self.max_new_tokens is None:
            if most is None:
                raise ConfigurationError("max_new_tokens is None, and the model tells no number of positions; give one")
            return max(most - longest, 0)
        if most is not None and longest + self.max_new_tokens > most:
            raise ConfigurationError(
                f"a row of {longest} tokens and max_new_tokens={self.max_new_tokens} are more than the model's {most} positions; "
                "ask for fewer new tokens, or slice the state"
            )
        return self.max_new_tokens

    def decoding(self, state: SequenceState) -> Decoding:
        """Return how tokens are chosen."""
        if self.carry_state and state.processor is not None and state.processor != self.processor:
            raise ConfigurationError(
                f"carry_state=True goes on with the state that {name_of(state.processor)} left, but the generator has another "
                "processor; go on with the generator that wrote, or leave carry_state out"
            )
        parts = self.processor.processors if isinstance(self.processor, Chain) else (self.processor,)
        vocabularies = [getattr(part, "vocabulary", None) for part in parts]
        ends = {i for vocabulary in vocabularies if vocabulary is not None for i in vocabulary.eos_ids}
        return Decoding(
            processor=self.processor,
            beams=self.num_beams > 1,
            length_penalty=float(self.length_penalty),
            seed=self._drawn_from(),
            eos_ids=sorted(ends | self.engine.eos_ids),
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

    def _opened(self, state: SequenceState) -> SequenceState:
        if isinstance(state.kv_cache, SavedCache):
            cache = self.engine.opened(state) if state.kv_cache.is_there() else None
            state = replace(state, kv_cache=cache, port=self.engine, cached=0 if cache is None else state.cached)
        elif state.kv_cache is not None and not self.engine.owns(state):
            state = replace(state, kv_cache=None, cached=0)
        return state.to(self.engine.device)

    def _first(self, ids: Sequence[int]) -> list[int]:
        bos = TextTokenizer(self.engine.tokenizer).bos_id
        if bos is None:
            raise ConfigurationError("a prompt has no tokens, and the tokenizer no BOS to begin with; give some text")
        return [bos]


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
    r"""Make a generator that goes on from the state of another, with the cache that it left.

    Greedy by default; `num_samples` above 1, or a `seed`, draws; `num_beams` searches. Generators of different kinds mix, as
    long as their numbers of samples agree.

    Args:
        model: A causal language model of transformers or mlx-lm, or a `llama_cpp.Llama`.
        tokenizer: Its tokenizer; llama.cpp has its own.
        processor: What to apply to the logits at every step. A constraint restarts with every call, and all that is there
            already is its prompt; a penalty sees the whole history.
        max_new_tokens: Most tokens that a call adds to each row, where the call says nothing else.
        num_samples: Samples of each prompt, drawn independently.
        num_beams: Beams of each prompt, which are its samples, best first: those that `generate` of transformers finds. Their
            weights are the sums of the log-probabilities as the processor left them; -inf marks a beam for which there was
            no other text.
        length_penalty: Beams are compared by their weight over this power of the number of tokens written, an EOS counted: the
            larger, the longer the texts; 0: by their weight.
        do_sample: Whether to draw, where `num_samples` and `seed` do not say so.
        seed: What is drawn depends on it, on the row and on the number of tokens before, so that a generation in several
            parts draws what one in one part draws. None: another one every call, of torch's random numbers.
        carry_state: Whether a call goes on with the processor's state where the last call of the same processor left it, as
            one call of both lengths does, instead of a restart. Rows that were finished then stay so.
        make_cache: Makes the engine's empty cache, where its default is not wanted. A cache that cannot be cut (a sliding
            window, quantised) is computed anew where it would have to be; what comes out is the same.

    Returns:
        A callable `(prompt, max_new_tokens=None, **options) -> SequenceState`.

    Raises:
        ConfigurationError: An argument is not allowed, or the model is of no engine that is supported.

    Example:
        >>> import logitkit as lk
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import vocabulary
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
