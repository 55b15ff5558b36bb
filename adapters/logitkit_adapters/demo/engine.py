"""The interface that the demo needs from an engine: generate text, with or without a processor, and measure the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from logitkit import Processor, Vocabulary

__all__ = ["DemoGeneration", "Engine"]


@dataclass(frozen=True)
class DemoGeneration:
    """The output of one call of an engine, and its cost.

    Args:
        texts: The new text of each prompt, without special tokens.
        ids: The new token ids of each prompt, up to and including its first EOS.
        steps: The number of forward passes, each of which chose a token for every row.
        step_seconds: The duration of each step, from one forward pass to the next; the last is left out if there are others.
            CPU time if one thread does the work, so that other programs do not count.
        hook_seconds: The duration of each call of the processor's hook, measured in the same way.
    """

    texts: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    steps: int
    step_seconds: tuple[float, ...]
    hook_seconds: tuple[float, ...]


class Engine(Protocol):
    """An engine with the demo model.

    Args:
        name: The name of the engine.
        has_beams: Whether it supports beam search.
    """

    name: str
    has_beams: bool

    def available(self) -> str | None:
        """Return None if the engine can be used, otherwise one line that says what to install."""
        ...

    def load(self) -> str:
        """Load the demo model, and return the engine's name with its version."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the demo model; call `load` first."""
        ...

    def generate(
        self,
        prompts: Sequence[str],
        processor: Processor[Any] | None = None,
        *,
        max_new_tokens: int,
        beams: int = 1,
        past_eos: bool = False,
    ) -> DemoGeneration:
        """Generate the most likely text after each prompt, all prompts in one batch.

        Args:
            prompts: At least one.
            processor: The processor for the logits, or None to use the engine alone.
            max_new_tokens: The maximum number of tokens of each text.
            beams: The number of beams per prompt; 1 is greedy search. More only if the engine `has_beams`.
            past_eos: Generate exactly `max_new_tokens` tokens, so that two calls do the same amount of work.

        Raises:
            ConfigurationError: A prompt is not valid text, or is too long for the model.
        """
        ...
