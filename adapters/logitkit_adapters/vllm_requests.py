"""What requests of vLLM ask for, and the random numbers that they draw."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from logitkit.errors import LogitkitError
from logitkit.pipeline.entering import NewRequest
from logitkit.pipeline.steps import steps_of
from logitkit.processor import Processor
from logitkit.tokens.allow import AllowTokens
from logitkit_adapters.vllm_parameters import Configurations, asked, prompt_length

__all__ = ["Requests"]

_logger = logging.getLogger(__name__)


class Requests:
    """Makes the requests of a batch out of what vLLM tells of them.

    Args:
        configurations: Those of the engine.
        longest: Most tokens that a sequence of the engine has, or None where states may ask for their own lengths: on a CPU.
        drafts: Most tokens that a state may be ahead of its sequence.
    """

    def __init__(self, configurations: Configurations, longest: int | None, drafts: int = 0) -> None:
        self._configurations = configurations
        self._drafts = drafts
        self._longest = longest
        self._drawn = 0

    def processor(self, params: Any) -> Processor[Any] | None:
        """Return what a request asks for, or None; what cannot be done ends the request.

        Args:
            params: The request's `SamplingParams`.
        """
        try:
            config = asked(params)
            prompt_length(params)
            if config is None:
                return None
            processor = self._configurations.processor(config)
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
        given, begin, size = prompt or (), prompt_length(params), self._configurations.vocabulary.size
        # Ids that stand for images are no tokens.
        known = [token for token in given[:begin] if 0 <= token < size]
        said = output if begin is None else [*(token for token in given[begin:] if 0 <= token < size), *output]
        limit = self._longest
        if limit is not None:
            limit = min(limit, len(given) + (params.max_tokens or limit)) + self._drafts + 1
        return NewRequest(processor, known, said, self._stream(known, params), limit)

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
