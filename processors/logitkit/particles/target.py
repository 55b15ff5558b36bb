"""The target of particles: a model's distribution, changed by penalties and temperatures, given a language.

A text x of the language has the probability p(x) / P, where p(x) is the product of the probabilities of its tokens and of EOS in
the logits after all processors but the constraints, and P is the sum of p over the language.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from logitkit.composition.chain import Chain, members
from logitkit.errors import ConfigurationError
from logitkit.protocol.declared import truncates
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, Role, check_is_processor, name_of, role_of

__all__ = ["Target"]


@dataclass(frozen=True)
class Target:
    """A processor in two parts.

    Args:
        model: The processors that change probabilities: biases, penalties and temperatures.
        language: The constraints.
    """

    model: Chain
    language: Chain

    @classmethod
    def of(cls, processor: Processor[Any] | None) -> Target:
        """Return the parts of a processor.

        Raises:
            ConfigurationError: It has a truncation, a watermark, a processor that declares no role, or one that reads the logits
                of a second pass.

        Example:
            >>> import logitkit as lk
            >>> target = Target.of(lk.chain(lk.BanTokens([1]), lk.Temperature(0.7)))
            >>> target.model.processors, target.language.processors
            ((Temperature(temperature=0.7),), (BanTokens(ids=(1,)),))
        """
        if processor is None:
            return cls(Chain(()), Chain(()))
        check_is_processor(processor)
        refuse_guidance(processor, "particle sampling")
        parts, ends = members(processor), processor.eos_ids if isinstance(processor, Chain) else ()
        for part in parts:
            _check(part)
        constraints = tuple(part for part in parts if role_of(part) is Role.CONSTRAINT)
        others = tuple(part for part in parts if role_of(part) is not Role.CONSTRAINT)
        return cls(Chain(others, ends), Chain(constraints, ends))


def _check(part: Processor[Any]) -> None:
    """Raise `ConfigurationError` if a processor has no place in the target."""
    role, name = role_of(part), name_of(part)
    if role is None:
        raise ConfigurationError(
            f"{name} declares no role, so it is unknown whether it changes the model's probabilities or defines the language; "
            "give its class role = logitkit.Role.PENALTY or logitkit.Role.CONSTRAINT"
        )
    if role is Role.WATERMARK:
        raise ConfigurationError(
            f"{name} is a watermark, which draws tokens by a key and not by the model's probabilities; leave it out of particles"
        )
    if truncates(part):
        raise ConfigurationError(
            f"{name} is a truncation: each step would keep other tokens, so that the particles' weights would have no stated "
            "target; leave it out. Biases, penalties, and a Temperature above 0 are allowed"
        )
