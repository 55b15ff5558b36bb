"""The processors of requests of vLLM, and the random numbers that they draw."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from logitkit.errors import LogitkitError
from logitkit.pipeline.steps import steps_of
from logitkit.processor import Processor
from logitkit.tokens.allow import AllowTokens
from logitkit_adapters.vllm_parameters import Configurations, asked

__all__ = ["processor_of", "stream_of"]

_logger = logging.getLogger(__name__)


def processor_of(configurations: Configurations, params: Any) -> Processor[Any] | None:
    """Return what a request asks for, or None; what cannot be done ends the request.

    Args:
        configurations: Those of the engine.
        params: The request's `SamplingParams`.
    """
    try:
        config = asked(params)
        if config is None:
            return None
        processor = configurations.processor(config)
        for step in steps_of(processor).values():
            # A bank that is full shows here.
            lease: Callable[[], object] | None = getattr(step, "lease", None)
            if lease is not None:
                lease()
    except LogitkitError:
        # Checked at admission, so hardly ever. One request that ends at once is better than an engine that does.
        _logger.exception("a request asks for what logitkit cannot do, and is ended")
        return AllowTokens(configurations.vocabulary.eos_ids)
    return processor


def stream_of(prompt: Sequence[int], params: Any) -> int:
    """Return the stream of random numbers of a request: the same whenever it is run, and another for each seed."""
    content = np.array([getattr(params, "seed", None) or 0, *prompt], np.int64).tobytes()
    return int.from_bytes(blake2b(content, digest_size=7).digest())
