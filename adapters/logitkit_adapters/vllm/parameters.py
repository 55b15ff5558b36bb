"""The configuration of a request, in vLLM's `extra_args`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import as_integer
from logitkit_adapters.admission.asked import KEY, Asked, may_depend_on_length, not_an_object
from logitkit_adapters.admission.bans import NO_BANS, EngineBans
from logitkit_adapters.vllm.settings import settings

__all__ = ["PROMPT_LENGTH", "asked", "check_prompt_length", "engine_bans", "prompt_length", "tokens_of_prompt"]

# Our other key of `extra_args` (online: `vllm_xargs`), beside that of the configuration.
PROMPT_LENGTH = "logitkit_prompt_length"


def asked(sampling_params: Any, vllm_config: Any | None = None) -> Asked | None:
    """Return the configuration of a request, or None; it is not read yet.

    Args:
        sampling_params: The request's `SamplingParams`.
        vllm_config: The `VllmConfig` of its engine, in the front end.

    Raises:
        ConfigurationError: It is not a mapping or a text, or it is too long, or the plugin is off.
    """
    given = (getattr(sampling_params, "extra_args", None) or {}).get(KEY)
    if given is None:
        return None
    set_by_operator = settings()
    set_by_operator.check_enabled()
    tokens = getattr(sampling_params, "max_tokens", None)
    if isinstance(given, str):
        # Checked before any code reads the text.
        if len(given) > set_by_operator.server.characters:
            raise ConfigurationError(
                f"{KEY} has {len(given)} characters; allowed are up to {set_by_operator.server.characters}"
            )
        text: str | None = given
    elif isinstance(given, Mapping):
        text = _text(given)
    else:
        raise not_an_object(given)
    counted = text is None or may_depend_on_length(text)
    return Asked(given, text, tokens if counted else None, engine_bans(sampling_params, vllm_config))


def _text(config: Mapping[str, Any]) -> str | None:
    try:
        return json.dumps(config)
    except (TypeError, ValueError, RecursionError):
        return None  # reading it may raise an error that names the place


def engine_bans(params: Any, vllm_config: Any | None) -> EngineBans:
    """Return the bans of a request that vLLM applies itself.

    Args:
        params: The request's `SamplingParams`.
        vllm_config: The engine's `VllmConfig`. In the front end, only its tokenizer knows the ids of bad words.
    """
    allowed = getattr(params, "allowed_token_ids", None)
    words = getattr(params, "bad_words_token_ids", None)
    if words is None and vllm_config is not None and getattr(params, "bad_words", None):
        from vllm.tokenizers import cached_tokenizer_from_config

        # A copy, because the parameters belong to the caller.
        own = params.clone()
        own.update_from_tokenizer(cached_tokenizer_from_config(vllm_config.model_config))
        words = own.bad_words_token_ids
    if not allowed and not words:
        return NO_BANS
    return EngineBans(
        tuple(sorted(set(allowed))) if allowed else None, tuple(sorted({tuple(word) for word in words or ()}))
    )


def prompt_length(sampling_params: Any) -> int | None:
    """Return how many tokens of a request's prompt are its true prompt, or None for all; those after them count as output.

    Args:
        sampling_params: The request's `SamplingParams`.

    Raises:
        ConfigurationError: The number is not an integer from 0.
    """
    given = (getattr(sampling_params, "extra_args", None) or {}).get(PROMPT_LENGTH)
    if given is None:
        return None
    found = as_integer(given)
    if found is None or found < 0:
        raise ConfigurationError(f"{PROMPT_LENGTH} is {given!r:.100}; allowed is a number of tokens, an integer from 0")
    return found


def check_prompt_length(sampling_params: Any, prompt: Any) -> None:
    """Refuse a true prompt that is longer than the prompt.

    Args:
        sampling_params: The request's `SamplingParams`.
        prompt: Its prompt, in any form of vLLM's; one whose tokens are not known yet is not checked.

    Raises:
        ConfigurationError: It is longer.
    """
    begin = prompt_length(sampling_params)
    tokens = None if begin is None else tokens_of_prompt(prompt)
    if begin is not None and tokens is not None and begin > len(tokens):
        raise ConfigurationError(
            f"{PROMPT_LENGTH} is {begin}, but the prompt has {len(tokens)} tokens; allowed are numbers from 0 to {len(tokens)}"
        )


def tokens_of_prompt(prompt: Any) -> list[int] | None:
    """Return the token ids of a prompt, or None if they are not known."""
    given = prompt.get("prompt_token_ids") if isinstance(prompt, Mapping) else getattr(prompt, "prompt_token_ids", None)
    return None if given is None else list(given)
