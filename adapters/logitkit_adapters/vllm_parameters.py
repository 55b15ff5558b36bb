"""What a request asks for, in vLLM's `extra_args`."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache
from typing import Any

from logitkit.configuration.reading import from_config
from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer
from logitkit.pipeline.steps import steps_of
from logitkit.processor import Processor
from logitkit.vocabulary import Vocabulary

__all__ = ["KEY", "PROMPT_LENGTH", "Configurations", "any_vocabulary", "asked", "closing_within", "prompt_length"]

# The keys of `extra_args` (online: `vllm_xargs`) that are ours.
KEY = "logitkit"
PROMPT_LENGTH = "logitkit_prompt_length"

# Characters of a configuration as JSON.
LONGEST = 2**20

# Requests come with the same few configurations.
RECENT = 1024

# More than any tokenizer has.
MANY_IDS = 2**19


def asked(sampling_params: Any) -> Mapping[str, Any] | None:
    """Return the configuration in the parameters of a request, or None.

    Args:
        sampling_params: vLLM's `SamplingParams`.

    Raises:
        ConfigurationError: It is neither a mapping nor JSON of one.
    """
    given = (getattr(sampling_params, "extra_args", None) or {}).get(KEY)
    if given is None:
        return None
    if isinstance(given, str):
        given = _parsed(given)
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"{KEY} is a {type(given).__name__}; give an object whose keys are kinds of processors, or online a string that is "
            'its JSON, such as {"choice": ["yes", "no"]}'
        )
    return closing_within(given, getattr(sampling_params, "max_tokens", None))


def closing_within(config: Mapping[str, Any], tokens: int | None) -> Mapping[str, Any]:
    """Return a configuration in which outputs that shall be complete are so within a number of tokens.

    Args:
        config: A configuration, in which JSON Schemas may say `"closing": true`.
        tokens: Most new tokens of the request, or None if that is not known.
    """
    if tokens is None:
        return config
    try:
        found: Mapping[str, Any] = _closing(config, tokens)
    except RecursionError:
        return config  # which `from_config` refuses
    return found


def _closing(config: Any, tokens: int) -> Any:
    if isinstance(config, list):
        return [_closing(part, tokens) for part in config]
    if not isinstance(config, Mapping):
        return config
    found = {}
    for name, given in config.items():
        if name == "json_schema":  # within it are names of others
            bare = not isinstance(given, Mapping) or given.get("closing") is not True or "schema" not in given
            found[name] = given if bare else {**given, "closing": tokens}
        else:
            found[name] = _closing(given, tokens)
    return found


def prompt_length(sampling_params: Any) -> int | None:
    """Return how many tokens of the prompt are one, or None for all: those behind them count as output.

    Args:
        sampling_params: vLLM's `SamplingParams`.

    Raises:
        ConfigurationError: It is no integer from 0.
    """
    given = (getattr(sampling_params, "extra_args", None) or {}).get(PROMPT_LENGTH)
    if given is None:
        return None
    found = as_integer(given)
    if found is None or found < 0:
        raise ConfigurationError(f"{PROMPT_LENGTH} is {given!r}; allowed is a number of tokens, an integer from 0")
    return found


def _parsed(text: str) -> Any:
    if len(text) > LONGEST:
        raise ConfigurationError(f"{KEY} has {len(text)} characters; allowed are up to {LONGEST}")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{KEY} is no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{KEY} is JSON that cannot be read: {error}") from None


class Configurations:
    """The processors of the configurations that came lately.

    Args:
        vocabulary: The engine's.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._recent: OrderedDict[str, Processor[Any]] = OrderedDict()

    def processor(self, config: Mapping[str, Any]) -> Processor[Any]:
        """Return the processor that a configuration stands for.

        Raises:
            LogitkitError: It is not allowed, or not in the canonical order.
        """
        try:
            key = json.dumps(config)
        except (TypeError, ValueError, RecursionError):
            key = None  # what is wrong is said below, by its place
        found = None if key is None else self._recent.get(key)
        if found is None:
            found = from_config(config, self.vocabulary)
            steps_of(found)
        if key is not None:
            self._recent[key] = found
            self._recent.move_to_end(key)
            while len(self._recent) > RECENT:
                # Threads of a server may do this at once.
                self._recent.popitem(last=False)
        return found


@cache
def any_vocabulary() -> Vocabulary:
    """Return a vocabulary in which every text can be said: to look at configurations where no engine is known."""
    return Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256], size=MANY_IDS)
