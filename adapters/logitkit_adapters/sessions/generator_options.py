"""The options of a generator: their checks, and what they mean for a state."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch

from logitkit.composition.engine_vocabulary import check_ends, vocabulary_ends
from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer, checked_real
from logitkit.protocol.described import same_processor
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, check_is_processor, name_of
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.text_tokenizer import TextTokenizer
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.sampling_options import refuse_sampling_options
from logitkit_adapters.sessions.written_rows import Decoding

__all__ = ["OPTIONS", "GeneratorOptions", "tokens_to_add"]

MOST = 2**31 - 1
MOST_PENALTY = 8.0


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """The options of a generator; `continuous` documents them."""

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
            refuse_guidance(self.processor, "a session")
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

    def with_options(self, options: dict[str, Any]) -> Self:
        """Return the generator with some options replaced.

        Raises:
            ArgumentTypeError: An option is not allowed.
            ConfigurationError: A value is not allowed.
        """
        refuse_sampling_options(options, OPTIONS)
        return replace(self, **options) if options else self

    def steps(self, state: SequenceState) -> int:
        """Return the maximum number of tokens to add."""
        return tokens_to_add(self.engine, max(map(len, state.rows)), self.max_new_tokens)

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


# The options that a call may replace.
OPTIONS = tuple(one.name for one in fields(GeneratorOptions) if one.name not in ("engine", "processor"))


def tokens_to_add(engine: BatchEngine, longest: int, max_new_tokens: int | None) -> int:
    """Return the maximum number of tokens to add to rows; None asks for as many as the model has positions for.

    Args:
        engine: The engine, which knows the model's positions.
        longest: The number of tokens of the longest row.
        max_new_tokens: The number that was asked for.

    Raises:
        ConfigurationError: The model has fewer positions, or their number is unknown and no number was asked for.
    """
    most = engine.max_length
    if max_new_tokens is None:
        if most is None:
            raise ConfigurationError("the number of the model's positions is unknown; give max_new_tokens")
        return max(most - longest, 0)
    if most is not None and longest + max_new_tokens > most:
        raise ConfigurationError(
            f"a row of {longest} tokens and max_new_tokens={max_new_tokens} are more than the model's {most} positions; ask for "
            "fewer new tokens, give a shorter prompt, or slice the state"
        )
    return max_new_tokens
