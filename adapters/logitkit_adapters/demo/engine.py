"""What the demo asks of an engine: generate text, bare or with a processor, and say how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from logitkit import Processor, Vocabulary

__all__ = ["Engine", "Generation"]


@dataclass(frozen=True)
class Generation:
    """What one call of an engine wrote, and what it cost.

    Args:
        texts: The new text of each prompt, without special tokens.
        ids: The new token ids of each prompt, up to its first EOS and with it.
        steps: Forward passes, each of which chose a token for every row.
        step_seconds: What each step took, from one forward pass to the next; the last is left out where there
            are others. Where one thread does the work, its CPU time, so that other programs do not count.
        hook_seconds: What each call of the processor's hook took, by the same clock.
    """

    texts: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    steps: int
    step_seconds: tuple[float, ...]
    hook_seconds: tuple[float, ...]


class Engine(Protocol):
    """One engine with the demo model in it.

    Args:
        name: Of the engine.
        has_beams: Whether it can search with more than one beam.
    """

    name: str
    has_beams: bool

    def available(self) -> str | None:
        """Return None if the engine can be used, or else one line that says what to install."""
        ...

    def load(self) -> str:
        """Load the demo model, and return the engine's name with its version."""
        ...

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of the demo model; `load` comes first."""
        ...

    def generate(
        self,
        prompts: Sequence[str],
        processor: Processor[Any] | None = None,
        *,
        max_new_tokens: int,
        beams: int = 1,
        past_eos: bool = False,
    ) -> Generation:
        """Write the likeliest text after each prompt, all prompts in one batch.

        Args:
            prompts: At least one.
            processor: What changes the logits, or None for the bare engine.
            max_new_tokens: Most tokens of each text.
            beams: Beams of each prompt; with 1, the search is greedy. More, only if the engine `has_beams`.
            past_eos: Write `max_new_tokens` tokens whatever they are, so as to do the work of another call.

        Raises:
            ConfigurationError: A prompt is no text, or too long for the model.
        """
        ...
