"""A model with its tokenizer, as typed output, traces and probabilities use it; vLLM's is `logitkit_adapters.vllm.text_model`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from importlib import import_module
from typing import Any

from torch import Tensor

from logitkit.composition.chain import chain
from logitkit.composition.engine_vocabulary import check_tokens_agree
from logitkit.output_types import OutputType
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, check_is_processor
from logitkit.sessions.tokenizations import Row, contexts_of, log_probs_of
from logitkit.vocabulary.vocabulary import Vocabulary
from logitkit_adapters.loaded_class import is_instance
from logitkit_adapters.sessions.base_session import BaseSession
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.engines import batch_engine_of, engine_of, vocabulary_of
from logitkit_adapters.sessions.generated import GeneratedRow
from logitkit_adapters.sessions.initial_state import initial_state
from logitkit_adapters.sessions.media_prompt import cached_ids, has_media
from logitkit_adapters.sessions.prompts import Prompt
from logitkit_adapters.sessions.rows_together import rows_together
from logitkit_adapters.sessions.sequence import SequenceEngine
from logitkit_adapters.sessions.session import Session
from logitkit_adapters.sessions.session_call import SessionCall

__all__ = ["TextModel", "text_model"]

# How many tokens of an output are fed at once: their logits are in memory together.
CHUNK = 64


class TextModel:
    """A model of transformers, mlx-lm, mlx-vlm, llama.cpp or ONNX Runtime GenAI with its tokenizer.

    Args:
        model: The model.
        tokenizer: Its tokenizer; None for llama.cpp.

    Raises:
        ConfigurationError: The model does not belong to a supported engine.
        VocabularyError: The bytes of the tokens cannot be recovered.
    """

    # Whether sessions return log-probabilities.
    log_probs: bool = True

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.vocabulary: Vocabulary = self._vocabulary()

    def _vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.model, self.tokenizer)

    @cached_property
    def _engine(self) -> SequenceEngine:
        return engine_of(self.model, self.tokenizer)

    @cached_property
    def _batches(self) -> BatchEngine:
        return batch_engine_of(self.model, self.tokenizer, None)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock to hold while `logits` are read."""
        return self._engine.lock

    @property
    def longest(self) -> int | None:
        """The maximum number of tokens of a prompt and a text after it, or None if it is unlimited."""
        return self._engine.max_length

    @property
    def bound(self) -> str:
        """The condition for the number of tokens of a prompt and a text after it, in words."""
        return f"at most {self.longest}, the model's number of positions"

    def check_logits(self) -> None:
        """Check that `logits` can be known.

        Raises:
            ConfigurationError: The engine does not report them.
        """

    def session(self) -> BaseSession[Any]:
        """Return a new session."""
        return Session(self.model, self.tokenizer)

    def generated(self, session: BaseSession[Any], call: SessionCall, batch_size: int) -> Sequence[GeneratedRow]:
        """Return the rows of a call, which run together if the engine can do that.

        Args:
            session: The session that otherwise runs them one after another.
            call: The call, with the same limit for all prompts.
            batch_size: The maximum number of rows that run together.
        """
        if len(call.rows) == 1 or self._batches.row_by_row or has_media(call.prompts):
            return session.run(call).rows
        return rows_together(self._batches, call, batch_size)

    def constraint(self, kind: OutputType, closing: bool) -> Processor[Any]:
        """Return the constraint of an output type.

        Raises:
            LogitkitError: It cannot be compiled, or is a processor that was built for another tokenizer.
        """
        found = kind.constraint(self.vocabulary, closing=closing)
        check_tokens_agree(found, self.vocabulary)
        return found

    def request(
        self, kind: OutputType, constraint: Processor[Any], closing: bool, processor: Processor[Any] | None = None
    ) -> Any:
        """Return the processor for a call of a session: a constraint, and then another processor.

        Raises:
            ConfigurationError: Together, they allow no text.
            VocabularyError: The processor was built for another tokenizer.
        """
        if processor is None:
            return constraint
        # Before the chain compares vocabularies, since it does not say in which tokens they differ.
        check_is_processor(processor)
        refuse_guidance(processor, "a session")
        check_tokens_agree(processor, self.vocabulary)
        return chain(constraint, processor)

    def prompts(self, prompt: Prompt) -> list[list[int]]:
        """Return the tokens of prompts as a session reads them."""
        return self._engine.prompts(prompt)

    def rows(self, prompt: Prompt) -> Sequence[Sequence[int]]:
        """Return the tokens of prompts as `continuous` reads them, where an empty text is the beginning of one."""
        with self._batches.lock:
            return initial_state(self._batches, prompt).rows

    def logits(self, prompt: list[int], output: Sequence[int]) -> Iterator[Tensor]:
        """Yield the logits in the place of each token of an output, [V] on the CPU."""
        sequence = self._engine.new()
        yield sequence.feed(cached_ids(prompt)).cpu()
        for begin in range(0, len(output) - 1, CHUNK):
            fed = output[begin : min(begin + CHUNK, len(output) - 1)]
            yield from sequence.feed(fed, all_positions=True).cpu()

    def log_probs_of(self, prompt: Row, rows: Sequence[Row]) -> list[float]:
        """Return the log-probability of each of several rows of tokens after a prompt."""
        contexts = contexts_of(rows)
        with self._batches.lock:
            return log_probs_of(rows, contexts, self._batches.continuations(prompt, contexts))


def text_model(model: Any, tokenizer: Any) -> TextModel:
    """Return a model of any engine with its tokenizer; no other engine is imported.

    Raises:
        ConfigurationError: The model does not belong to a supported engine.
        VocabularyError: The bytes of the tokens cannot be recovered.
    """
    if is_instance(model, "vllm", "LLM"):
        found: TextModel = import_module("logitkit_adapters.vllm.text_model").VllmTextModel(model, tokenizer)
        return found
    return TextModel(model, tokenizer)
