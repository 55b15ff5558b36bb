"""The demo model in an engine: generate text, with or without a processor, and measure the time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from time import thread_time
from typing import Any

from logitkit import Processor, Vocabulary
from logitkit.errors import ConfigurationError
from logitkit_adapters.demo.cases import DemoCase

__all__ = ["POSITIONS", "DemoGeneration", "Engine", "RowByRowEngine"]

# The maximum number of tokens of a prompt and its text, by the configuration of the demo model.
POSITIONS = 2048


@dataclass(frozen=True)
class DemoGeneration:
    """The output of one call of an engine, and its cost.

    Args:
        texts: The new text of each prompt, without special tokens.
        ids: The new token ids of each prompt, up to and including its first EOS.
        steps: The number of forward passes, each of which chose a token for every row.
        step_seconds: The duration of each step, from one forward pass to the next; that of the prompt is left out if there are
            others. CPU time if one thread does the work, so that other programs do not count.
        hook_seconds: The duration of each call of the processor's hook, measured in the same way.
    """

    texts: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]
    steps: int
    step_seconds: tuple[float, ...]
    hook_seconds: tuple[float, ...]


class Engine(ABC):
    """An engine with the demo model.

    Args:
        name: The name of the engine.
        package: Its package in `logitkit_adapters`.
        has_beams: Whether it supports beam search.
        clock: Measures the time of steps and hooks.
    """

    name: str
    package: str
    has_beams: bool
    clock: Callable[[], float] = staticmethod(thread_time)
    _model: Any
    _tokenizer: Any

    @property
    def adapter(self) -> Any:
        """The package of `logitkit_adapters` for the engine."""
        return import_module(f"logitkit_adapters.{self.package}")

    def available(self) -> str | None:
        """Return None if the engine can be used, otherwise one line that says what to install."""
        try:
            _ = self.adapter
        except ImportError as error:
            return str(error)
        return None

    @abstractmethod
    def load(self) -> str:
        """Load the demo model and its tokenizer, without network, and return the engine's name with its version."""

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the demo model; call `load` first."""
        vocabulary: Vocabulary = self.adapter.vocabulary(self._tokenizer, self._model)
        return vocabulary

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""
        return list(self._tokenizer.encode(text, verbose=False))

    @abstractmethod
    def generate(
        self, case: DemoCase, processor: Processor[Any] | None = None, steps: int | None = None
    ) -> DemoGeneration:
        """Generate the most likely text after each prompt of a case.

        Args:
            case: The prompts, the number of beams, which is above 1 only if the engine `has_beams`, and the number of tokens.
            processor: The processor for the logits, or None to use the engine alone.
            steps: Generate exactly this many tokens, even after EOS, so that two calls do the same amount of work.

        Raises:
            ConfigurationError: A prompt is not valid text, or is too long for the model.
        """

    def prompt_ids(self, prompt: str, limit: int) -> list[int]:
        """Return the ids of a prompt; without any text to continue, the model starts from its BOS.

        Args:
            prompt: The prompt.
            limit: The maximum number of tokens to generate after it.

        Raises:
            ConfigurationError: The prompt is not valid text, or is too long for the model.
        """
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"the prompt {prompt!r} is not valid UTF-8 at position {error.start}; give valid text"
            ) from error
        ids = self.encode(prompt) or [self.vocabulary.special["<s>"]]
        if len(ids) + limit > POSITIONS:
            raise ConfigurationError(
                f"a prompt of {len(ids)} tokens and {limit} new ones are more than the demo model's {POSITIONS} "
                "positions; give a shorter prompt, or ask for fewer new tokens"
            )
        return ids

    def generation(
        self, rows: Sequence[Sequence[int]], steps: int, step_seconds: Sequence[float], hook_seconds: Sequence[float]
    ) -> DemoGeneration:
        """Return the output of a call; the arguments are those of `DemoGeneration`, with the ids of each row as `rows`."""
        texts = tuple(self.vocabulary.decode(row).decode("utf-8", "replace") for row in rows)
        return DemoGeneration(texts, tuple(map(tuple, rows)), steps, tuple(step_seconds), tuple(hook_seconds))


class RowByRowEngine(Engine):
    """An engine that generates one prompt after another, by greedy search."""

    has_beams = False

    @abstractmethod
    def tokens(self, ids: list[int], hooks: Any, limit: int) -> Iterator[int]:
        """Yield at most `limit` tokens after a prompt."""

    def generate(
        self, case: DemoCase, processor: Processor[Any] | None = None, steps: int | None = None
    ) -> DemoGeneration:
        """Generate the most likely text after each prompt of a case; see `Engine.generate`."""
        assert case.beams == 1
        limit = steps or case.max_new_tokens
        hook_seconds: list[float] = []
        step_seconds: list[float] = []
        rows: list[list[int]] = []
        for prompt in case.prompts:
            hooks = [] if processor is None else self._timed_hooks(processor, hook_seconds)
            row, seconds = self._row(self.prompt_ids(prompt, limit), hooks, limit, past_eos=steps is not None)
            rows.append(row)
            # The first step includes the time of the prompt.
            step_seconds += seconds[1:] or seconds
        return self.generation(rows, sum(map(len, rows)), step_seconds, hook_seconds)

    def settle(self, *arrays: Any) -> None:
        """Finish computing arrays, so that this does not count as the hook's time."""
        return

    def _timed_hooks(self, processor: Processor[Any], seconds: list[float]) -> list[Any]:
        """Return the hook of a processor, between two others that append the duration of each call."""
        hook = self.adapter.logits_processor(processor)

        def begin(ids: Any, scores: Any) -> Any:
            self.settle(ids, scores)
            seconds.append(-self.clock())
            return scores

        def end(_: Any, scores: Any) -> Any:
            seconds[-1] += self.clock()
            return scores

        return [begin, *(hook if isinstance(hook, list) else [hook]), end]

    def _row(self, ids: list[int], hooks: list[Any], limit: int, past_eos: bool) -> tuple[list[int], list[float]]:
        """Return the tokens after a prompt, and the duration of each step."""
        row: list[int] = []
        seconds: list[float] = []
        tokens: Any = self.tokens(ids, hooks, limit)
        with closing(tokens):
            start = self.clock()
            for token in tokens:
                seconds.append(self.clock() - start)
                row.append(token)
                if token in self.vocabulary.eos_ids and not past_eos:
                    break
                start = self.clock()
        return row, seconds
