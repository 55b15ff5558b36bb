"""What requests of vLLM ask for, and the random numbers that they draw."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from logitkit.batching.entering import NewRequest
from logitkit.batching.steps import OwnStep, steps_of
from logitkit.errors import LogitkitError
from logitkit.protocol.processor import Processor
from logitkit.tokens.allow import AllowTokens
from logitkit_adapters.vllm.configurations import Configurations
from logitkit_adapters.vllm.parameters import asked, prompt_length

__all__ = ["Requests"]

_logger = logging.getLogger(__name__)


class Requests:
    """Makes the requests of a batch out of what vLLM tells of them.

    Args:
        configurations: Those of the engine.
        longest: Most tokens that a sequence of the engine has.
        on_cpu: Whether states may ask for their own lengths, so that they need no room for the longest.
        drafts: Most tokens that a state may be ahead of its sequence.
    """

    def __init__(self, configurations: Configurations, longest: int, on_cpu: bool, drafts: int = 0) -> None:
        self._configurations = configurations
        self._drafts = drafts
        self._longest, self._on_cpu = longest, on_cpu
        self._drawn = 0

    def processor(self, params: Any) -> Processor[Any] | None:
        """Return what a request asks for, or None; what cannot be done ends the request.

        Args:
            params: The request's `SamplingParams`.
        """
        try:
            what = asked(params)
            prompt_length(params)
            if what is None:
                return None
            processor = self._configurations.processor(what)
            for step in steps_of(processor).values():
                # A bank that is full shows here.
                lease: Callable[[], object] | None = getattr(step, "lease", None)
                if lease is not None:
                    lease()
        except LogitkitError:
            # Checked at admission, so hardly ever. One request that ends at once is better than an engine that does.
            _logger.exception("a request asks for what logitkit cannot do, and is ended")
            return AllowTokens(self._configurations.vocabulary.eos_ids)
        return processor

    def enter(
        self, processor: Processor[Any], params: Any, prompt: Sequence[int] | None, output: Sequence[int]
    ) -> NewRequest:
        """Return a request that enters the batch.

        Args:
            processor: What it asks for.
            params: The request's `SamplingParams`.
            prompt: Its prompt, if that is tokens.
            output: What it has generated already.
        """
        if prompt is None and any(isinstance(step, OwnStep) for step in steps_of(processor)):
            _logger.error(
                "a request has embeddings for its prompt, which a registered processor cannot see, and is ended"
            )
            processor = AllowTokens(self._configurations.vocabulary.eos_ids)
        given, begin, size = prompt or (), prompt_length(params), self._configurations.vocabulary.size
        # Ids that stand for images are no tokens.
        known = [token for token in given[:begin] if 0 <= token < size]
        said = output if begin is None else [*(token for token in given[begin:] if 0 <= token < size), *output]
        limit = min(self._longest, len(given) + (getattr(params, "max_tokens", None) or self._longest))
        room = None if self._on_cpu else limit + self._drafts + 1
        return NewRequest(processor, known, said, self._stream(known, params), room, limit)

    def _stream(self, prompt: Sequence[int], params: Any) -> int:
        """Return the stream of random numbers: the same whenever a request is run, but for one that draws tokens without a seed.

        Of such ones, many may have one prompt: the samples of `n`, which vLLM tells apart by their seeds only. Every process
        of an engine counts them alike.
        """
        seed, number = getattr(params, "seed", None), 0
        if seed is None and getattr(params, "temperature", 1.0) > 0:
            self._drawn += 1
            number = self._drawn
        content = np.array([seed or 0, number, *prompt], np.int64).tobytes()
        return int.from_bytes(blake2b(content, digest_size=7).digest())
