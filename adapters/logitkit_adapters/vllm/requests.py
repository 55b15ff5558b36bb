"""The requests of vLLM in a batch: their processors, and their streams of random numbers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from logitkit.batching.entering import NewRequest
from logitkit.batching.steps import OwnStep, steps_of
from logitkit.errors import LogitkitError
from logitkit.protocol.processor import Processor
from logitkit.runtime.registry_user import RegistryUser
from logitkit.tokens.allow import AllowTokens
from logitkit_adapters.admission.configurations import Configurations
from logitkit_adapters.vllm.parameters import asked, prompt_length

__all__ = ["Requests"]

_logger = logging.getLogger(__name__)


class Requests:
    """Converts the requests of vLLM to those of a batch.

    Args:
        configurations: The engine's configurations.
        longest: The maximum length of a sequence of the engine.
        on_cpu: Whether states may read their own lengths, so that they can grow.
        drafts: The maximum number of draft tokens in a step.
    """

    def __init__(self, configurations: Configurations, longest: int, on_cpu: bool, drafts: int = 0) -> None:
        self._configurations = configurations
        self._drafts = drafts
        self._longest, self._on_cpu = longest, on_cpu
        self._drawn = 0

    def processor(self, params: Any, prompt_tokens: int | None) -> Processor[Any] | None:
        """Return the processor of a request, or None; if it cannot be made, one that ends the request.

        Args:
            params: The request's `SamplingParams`.
            prompt_tokens: The length of its prompt, or None for embeddings.
        """
        try:
            what = asked(params)
            prompt_length(params)
            if what is None:
                return None
            if what.tokens is not None and prompt_tokens is not None:
                # Offline, vLLM accepts a `max_tokens` that is more than the room that is left.
                what = what._replace(tokens=min(what.tokens, self._longest - prompt_tokens))
            processor = self._configurations.processor(what)
            for step in steps_of(processor).values():
                # A full registry raises here. A `LoopStop` without markers has no automaton.
                if isinstance(step, RegistryUser) and step.automaton is not None:
                    step.handle()
        except LogitkitError:
            # Rare, because admission checks requests. It is better to end one request than the engine.
            _logger.exception("the processor of a request cannot be made, and the request is ended")
            return AllowTokens(self._configurations.vocabulary.eos_ids)
        return processor

    def enter(
        self, processor: Processor[Any], params: Any, prompt: Sequence[int] | None, output: Sequence[int]
    ) -> NewRequest:
        """Return a request that enters the batch.

        Args:
            processor: Its processor.
            params: Its `SamplingParams`.
            prompt: The tokens of its prompt, or None for embeddings.
            output: The tokens that it has generated so far.
        """
        if prompt is None and any(isinstance(step, OwnStep) for step in steps_of(processor)):
            _logger.error("a request has a prompt of embeddings, which a registered processor cannot see, and is ended")
            processor = AllowTokens(self._configurations.vocabulary.eos_ids)
        given, begin, size = prompt or (), prompt_length(params), self._configurations.vocabulary.size
        # Ids that stand for images are not tokens.
        known = [token for token in given[:begin] if 0 <= token < size]
        said = output if begin is None else [*(token for token in given[begin:] if 0 <= token < size), *output]
        limit = min(self._longest, len(given) + (getattr(params, "max_tokens", None) or self._longest))
        room = None if self._on_cpu else limit + self._drafts + 1
        return NewRequest(processor, known, said, self._stream(known, params), room, limit)

    def _stream(self, prompt: Sequence[int], params: Any) -> int:
        """Return the stream of random numbers of a request: the same in every run, unless it samples without a seed.

        Several such requests may have the same prompt, as the samples of `n` do. They are numbered; every process of an engine
        counts the same requests.
        """
        seed, number = getattr(params, "seed", None), 0
        if seed is None and getattr(params, "temperature", 1.0) > 0:
            self._drawn += 1
            number = self._drawn
        content = np.array([seed or 0, number, *prompt], np.int64).tobytes()
        return int.from_bytes(blake2b(content, digest_size=7).digest())
