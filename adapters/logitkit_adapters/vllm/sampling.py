"""Sampling parameters of vLLM for an output type."""

from __future__ import annotations

from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.output_types import output_type_of
from logitkit_adapters.admission.asked import KEY

__all__ = ["sampling_params"]


def sampling_params(output_type: Any, **options: Any) -> Any:
    """Return vLLM's sampling parameters for requests with an output type.

    They carry its configuration, so no tokenizer is needed: the engine compiles it. A type, a schema or tools close their text
    within `max_tokens`, which is 16 if it is not given.

    Args:
        output_type: A Python type, such as a pydantic model, a JSON Schema as a dict, `re.compile(...)`, `logitkit.Tools`, or a
            processor with a configuration; see `logitkit.output_types.output_type_of`.
        options: The arguments of `vllm.SamplingParams`.

    Raises:
        ConfigurationError: `output_type` is not allowed or has no configuration, or `extra_args` has one already.

    Example:
        >>> parameters = sampling_params(list[int], max_tokens=50)
        >>> parameters.extra_args
        {'logitkit': {'json_schema': {'schema': {'items': {'type': 'integer'}, 'type': 'array'}, 'closing': True}}}
    """
    from vllm import SamplingParams

    extra = options.pop("extra_args", None) or {}
    if KEY in extra:
        raise ConfigurationError(
            f"extra_args has {KEY!r} already, {extra[KEY]!r:.80}; give that or an output type, not both"
        )
    config = output_type_of(output_type).config(closing=True)
    return SamplingParams(**options, extra_args={**extra, KEY: config})
