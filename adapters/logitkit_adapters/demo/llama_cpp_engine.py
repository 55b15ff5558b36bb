"""llama.cpp on the CPU, for the demo."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from itertools import islice
from time import thread_time
from typing import Any

from logitkit import Processor, Vocabulary
from logitkit.errors import ConfigurationError
from logitkit_adapters.demo import gguf_path
from logitkit_adapters.demo.engine import DemoGeneration

__all__ = ["LlamaCppDemo"]

_FLOAT32, _POSITIONS = 0, 2048


class LlamaCppDemo:
    r"""The demo model in `llama.generate`, one prompt after another.

    Example:
        >>> engine = LlamaCppDemo()
        >>> engine.load().split()[0]
        'llama-cpp-python'
        >>> engine.generate(["Question: Is Paris in France?\nAnswer:"], max_new_tokens=5).texts
        (' yes',)
    """

    name = "llama.cpp"
    has_beams = False

    def available(self) -> str | None:
        """Return None if llama-cpp-python can be imported, otherwise one line that says what to install."""
        try:
            importlib.import_module("logitkit_adapters.llama_cpp")
        except ImportError as error:
            return str(error)
        return None

    def load(self) -> str:
        """Load the demo model, in float32 throughout, and return the version of llama-cpp-python."""
        import llama_cpp

        self._llama: Any = llama_cpp.Llama(
            str(gguf_path()),
            n_ctx=_POSITIONS,
            n_threads=1,
            n_threads_batch=1,
            type_k=_FLOAT32,
            type_v=_FLOAT32,
            verbose=False,
        )
        return f"llama-cpp-python {llama_cpp.__version__}"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the demo model; call `load` first."""
        from logitkit_adapters.llama_cpp import vocabulary

        return vocabulary(self._llama)

    def generate(
        self,
        prompts: Sequence[str],
        processor: Processor[Any] | None = None,
        *,
        max_new_tokens: int,
        beams: int = 1,
        past_eos: bool = False,
    ) -> DemoGeneration:
        """Generate the most likely text after each prompt; see `Engine.generate`."""
        assert beams == 1
        clock = _Clock(processor)
        rows = [self._row(prompt, clock, max_new_tokens, past_eos) for prompt in prompts]
        return DemoGeneration(
            texts=tuple(self.vocabulary.decode(row).decode("utf-8", "replace") for row in rows),
            ids=tuple(map(tuple, rows)),
            steps=sum(map(len, rows)),
            step_seconds=tuple(clock.steps),
            hook_seconds=tuple(clock.hooks),
        )

    def _row(self, prompt: str, clock: _Clock, max_new_tokens: int, past_eos: bool) -> list[int]:
        row: list[int] = []
        tokens = self._llama.generate(self._ids(prompt, max_new_tokens), temp=0, logits_processor=clock.list_of_hooks())
        with closing(tokens):
            for token in islice(clock.timed(tokens), max_new_tokens):
                row.append(token)
                if token in self.vocabulary.eos_ids and not past_eos:
                    break
        return row

    def _ids(self, prompt: str, max_new_tokens: int) -> list[int]:
        try:
            text = prompt.encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"the prompt {prompt!r} is not valid UTF-8 at position {error.start}; give valid text"
            ) from error
        # Without any text to continue, the model starts from its BOS.
        ids: list[int] = self._llama.tokenize(text) or [self._llama.token_bos()]
        if len(ids) + max_new_tokens > _POSITIONS:
            raise ConfigurationError(
                f"a prompt of {len(ids)} tokens and {max_new_tokens} new ones are more than the demo model's "
                f"{_POSITIONS} positions; give a shorter prompt, or ask for fewer new tokens"
            )
        return ids


class _Clock:
    """Measures the time of steps and hooks.

    Args:
        processor: The processor that the hooks apply, or None.
    """

    def __init__(self, processor: Processor[Any] | None) -> None:
        self.steps: list[float] = []
        self.hooks: list[float] = []
        self._processor = processor

    def timed(self, tokens: Iterator[int]) -> Iterator[int]:
        """Yield tokens. The first one includes the time of the prompt, so it does not count if there are others."""
        start = thread_time()
        for count, token in enumerate(tokens):
            if count != 1:
                self.steps.append(thread_time() - start)
            else:
                self.steps[-1] = thread_time() - start
            start = thread_time()
            yield token

    def list_of_hooks(self) -> Any:
        """Return the list of hooks for the engine, or None."""
        if self._processor is None:
            return None
        import llama_cpp

        from logitkit_adapters.llama_cpp import logits_processor

        return llama_cpp.LogitsProcessorList([self._begin, *logits_processor(self._processor), self._end])

    def _begin(self, input_ids: Any, scores: Any) -> Any:
        self.hooks.append(-thread_time())
        return scores

    def _end(self, input_ids: Any, scores: Any) -> Any:
        self.hooks[-1] += thread_time()
        return scores
