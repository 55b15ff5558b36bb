"""Options of the engines' own `generate`, refused with the processor or argument that takes their place."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from logitkit.errors import ArgumentTypeError

__all__ = ["refuse_sampling_options"]

# The processor for each option, with the option's value in place of {}.
PROCESSORS = {
    "temperature": "logitkit.Temperature({})",
    "top_k": "logitkit.TopK({})",
    "top_p": "logitkit.TopP({})",
    "min_p": "logitkit.MinP({})",
    "typical_p": "logitkit.TypicalP({})",
    "top_n_sigma": "logitkit.TopNSigma({})",
    "top_h": "logitkit.TopH({})",
    "epsilon_cutoff": "logitkit.EpsilonCutoff({})",
    "eta_cutoff": "logitkit.EtaCutoff({})",
    "repetition_penalty": "logitkit.RepetitionPenalty({})",
    "repeat_penalty": "logitkit.RepetitionPenalty({})",
    "frequency_penalty": "logitkit.FrequencyPenalty({})",
    "presence_penalty": "logitkit.PresencePenalty({})",
    "no_repeat_ngram_size": "logitkit.NoRepeatNGram({})",
    "logit_bias": "logitkit.LogitBias({})",
    "sequence_bias": "logitkit.SequenceBias({})",
    "stop": "logitkit.StopStrings({}, vocabulary)",
    "stop_strings": "logitkit.StopStrings({}, vocabulary)",
    "min_new_tokens": "logitkit.MinNewTokens({}, eos_ids)",
    "min_length": "logitkit.MinLength({}, eos_ids)",
    "begin_suppress_tokens": "logitkit.SuppressAtBegin({})",
    "exponential_decay_length_penalty": "logitkit.LengthDecay(*{}, eos_ids)",
    "encoder_repetition_penalty": "logitkit.EncoderRepetitionPenalty({})",
    "encoder_no_repeat_ngram_size": "logitkit.EncoderNoRepeatNGram({})",
    "min_tokens": "logitkit.MinNewTokens({}, eos_ids)",
}
# These change nothing unless tokens are sampled.
ONLY_SAMPLED = frozenset(
    {"temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "top_h", "epsilon_cutoff", "eta_cutoff"}
)
# The argument that takes the place of an option, in the order of preference.
ARGUMENTS = {
    "do_sample": ("do_sample", "seed"),
    "max_tokens": ("max_new_tokens",),
    "max_length": ("max_new_tokens",),
    "logits_processor": ("processor",),
    "logits_processors": ("processor",),
    "n": ("num_samples",),
    "num_return_sequences": ("num_samples",),
    "streamer": ("stream",),
}


def refuse_sampling_options(options: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Raise an error that says what to write instead, if an option is not allowed.

    Args:
        options: The options that the caller gave, by name.
        allowed: The names of the options that are allowed.

    Raises:
        ArgumentTypeError: An option is not allowed. It is a `ConfigurationError` and a `TypeError`, as for any unknown
            argument.

    Example:
        >>> refuse_sampling_options({"temperature": 0.7}, ["seed"])
        Traceback (most recent call last):
        ...
        logitkit.errors.ArgumentTypeError: temperature=0.7: put logitkit.Temperature(0.7) into the processor and give seed=
    """
    for name, value in options.items():
        if name not in allowed:
            raise ArgumentTypeError(_instead(name, reprlib.repr(value), allowed))


def _instead(name: str, value: str, allowed: Sequence[str]) -> str:
    if name in PROCESSORS:
        sampled = " and give seed=" if name in ONLY_SAMPLED else ""
        return f"{name}={value}: put {PROCESSORS[name].format(value)} into the processor{sampled}"
    for argument in ARGUMENTS.get(name, ()):
        if argument in allowed:
            return f"{name}={value}: give {argument}= instead"
    return f"{name}={value}: {name} is not an option here; allowed are {', '.join(allowed)}"
