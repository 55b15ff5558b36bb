"""The two processors of a manager of continuous batching, side by side, which have what one alone has not.

One is of transformers' own kind of processors per request: it carries a number per request to the device, but sees no token. The
other one is ordinary: it sees the token that the model has read last in each row, but not whose row it is. See `request_slots`.
"""

from __future__ import annotations

from typing import Any

import transformers
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.transformers.request_slots import RequestSlots

__all__ = ["register", "request_processors"]


def request_processors(slots: RequestSlots) -> transformers.LogitsProcessorList:
    """Return the processors of a manager, in the order in which they must be called."""
    return transformers.LogitsProcessorList([Numbers(slots), LastTokens(slots)])


def register() -> None:
    """Register `PerRequest` as the class that transformers makes of `Numbers`: it refuses classes that it does not know."""
    try:
        from transformers.generation.continuous_batching import cb_logits_processors as known

        known.CLASSIC_TO_CB_PROCESSORS_MAP[Numbers] = PerRequest  # type: ignore[assignment]
        known.ContinuousBatchingLogitsProcessor.register(PerRequest)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"transformers {transformers.__version__} has no processors per request, which constraints need in continuous "
            "batching; upgrade it, or use "
            'model.generate(cache_implementation="dynamic")'
        ) from error


class Numbers(transformers.LogitsProcessor):
    """Stands for the slots until a manager makes its own `PerRequest` from it."""

    def __init__(self, slots: RequestSlots) -> None:
        self.slots = slots

    @property
    def supports_continuous_batching(self) -> bool:  # type: ignore[override]
        """Raise: transformers asks this only if it has made no `PerRequest` from this, and would leave it out."""
        raise ConfigurationError(
            f"transformers {transformers.__version__} does not use the processor in continuous batching; "
            'use model.generate(cache_implementation="dynamic")'
        )


class PerRequest:
    """Carries a number per request to the device, and hands those of a step to the slots there."""

    supported_kwargs: dict[str, type] = {}  # noqa: RUF012 - transformers reads it like this
    ignored_kwargs: tuple[str, ...] = ()

    def __init__(self, numbers: Numbers) -> None:
        self._slots = numbers.slots

    def fill_defaults(self, int32_tensor: Tensor) -> None:
        """Write the number of places without a request."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> Tensor:
        """Return the numbers of the requests that the next logits belong to, in their order."""
        return self._slots.prepare(requests_with_new_token)

    def __call__(self, scores: Tensor, tensor_arg: Tensor) -> Tensor:
        """Return the scores as they are, [N, V]; `tensor_arg` has the numbers of their requests."""
        self._slots.take(tensor_arg)
        return scores


class LastTokens(transformers.LogitsProcessor):
    """Called right after `PerRequest`, with the token that the model has read last in each row."""

    supports_continuous_batching = True

    def __init__(self, slots: RequestSlots) -> None:
        self._slots = slots

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Process the scores, [N, V]; `input_ids`, [N], are these tokens."""
        return self._slots.process(input_ids, scores)
