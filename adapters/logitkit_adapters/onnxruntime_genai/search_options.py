"""The search options of ONNX Runtime GenAI: those that work together with a processor, and what to use instead of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from logitkit.errors import ArgumentTypeError, ConfigurationError
from logitkit_adapters.loaded_class import needed_for
from logitkit_adapters.sessions.sampling_options import refuse_sampling_options

with needed_for("onnxruntime_genai", "onnxruntime-genai", "onnx"):
    import onnxruntime_genai as og

__all__ = ["MOST_ROWS", "generator_with", "search_parameters"]

# The largest batch of the engine.
MOST_ROWS = 32

ALLOWED = (
    *("do_sample", "temperature", "top_k", "top_p", "random_seed", "repetition_penalty"),
    *("chunk_size", "past_present_share_buffer"),
)

# The neutral value of options that `genai_config.json` may set, and what to use instead.
NEUTRAL: Mapping[str, tuple[float, str]] = {
    "num_beams": (
        1,
        "the engine does not show which beam a row continues; use Session.generate(num_beams=...) or continuous(num_beams=...)",
    ),
    "num_return_sequences": (1, "give the prompt several times, with do_sample"),
    "min_length": (0, "it would allow tokens that a processor bans; put logitkit.MinNewTokens into the processor"),
    "no_repeat_ngram_size": (
        0,
        "it would allow tokens that a processor bans; put logitkit.NoRepeatNGram into the processor",
    ),
}
# The options of `NEUTRAL` that only matter together with a processor.
ONLY_PROCESSED = ("min_length", "no_repeat_ngram_size")


def search_parameters(
    model: og.Model, options: Mapping[str, Any], rows: int, max_length: int, *, processed: bool
) -> og.GeneratorParams:
    """Return the checked parameters of a generator.

    Args:
        model: The model, whose `genai_config.json` has the defaults.
        options: The options that the caller gave.
        rows: The number of rows.
        max_length: The maximum number of tokens of a row, with its prompt and padding.
        processed: Whether a processor changes the logits.

    Raises:
        ConfigurationError: An option is unknown, or does not work with a processor; there are too many rows.
    """
    if rows > MOST_ROWS:
        raise ConfigurationError(
            f"{rows} prompts are given; ONNX Runtime GenAI runs at most {MOST_ROWS} at once: give them in several calls"
        )
    for name in options:
        if name in NEUTRAL and (processed or name not in ONLY_PROCESSED):
            raise ArgumentTypeError(f"{name}={options[name]!r}: {NEUTRAL[name][1]}")
    own = ALLOWED if processed else (*ALLOWED, *ONLY_PROCESSED)
    refuse_sampling_options({n: v for n, v in options.items() if n not in own}, ("max_new_tokens", *own))
    parameters: Any = og.GeneratorParams(model)
    try:
        parameters.set_search_options(**options)
    except (RuntimeError, TypeError) as error:
        raise ConfigurationError(f"{dict(options)} are not search options of ONNX Runtime GenAI: {error}") from error
    parameters.set_search_options(batch_size=rows, max_length=max_length)
    # A draft would be verified without its logits being shown.
    parameters.set_speculative_options(ngram_size=0)
    _check(parameters.get_search_options(), processed)
    return parameters


def generator_with(model: og.Model, parameters: og.GeneratorParams) -> og.Generator:
    """Return a generator.

    Raises:
        ConfigurationError: An option has a value that the engine does not allow, which it says only here.
    """
    try:
        return og.Generator(model, parameters)
    except RuntimeError as error:
        raise ConfigurationError(f"ONNX Runtime GenAI does not start with these search options: {error}") from error


def _check(found: Mapping[str, Any], processed: bool) -> None:
    for name, (neutral, instead) in NEUTRAL.items():
        if found[name] != neutral and (processed or name not in ONLY_PROCESSED):
            raise ConfigurationError(f"genai_config.json has {name}={found[name]:g}: {instead}")
    penalty = found["repetition_penalty"]
    if processed and not (math.isfinite(penalty) and penalty > 0):
        raise ConfigurationError(
            f"repetition_penalty is {penalty}, with which ONNX Runtime GenAI would bring back tokens that a processor banned; "
            "give a finite number above 0"
        )
