"""The configuration of a request, in vLLM's `extra_args`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from logitkit.errors import ConfigurationError
from logitkit.parameters.documents import with_unique_keys
from logitkit.parameters.scalars import as_integer
from logitkit.protocol.processor import is_processor
from logitkit_adapters.hooks.recent import Recent
from logitkit_adapters.vllm.bans import NO_BANS, EngineBans, engine_bans
from logitkit_adapters.vllm.settings import settings

__all__ = [
    "KEY",
    "PROMPT_LENGTH",
    "Asked",
    "asked",
    "check_is_json",
    "check_prompt_length",
    "configuration",
    "prompt_length",
    "tokens_of_prompt",
]

# Our keys of `extra_args` (online: `vllm_xargs`).
KEY = "logitkit"
PROMPT_LENGTH = "logitkit_prompt_length"

FORM = 'give a JSON object whose keys are kinds of processors, such as {"choice": ["yes", "no"]}'

# Only a text with one of these may depend on the `max_tokens` of its request; an escape may hide either name.
LENGTH_SIGNS = ("closing", "forced_eos", "\\u")

# Kinds with a parameter `closing`, each with the name of its main parameter: a document, or a text.
DOCUMENTS = {"grammar": "text", "json_schema": "schema", "structural_tag": "document", "tools": "tools"}

# A text of up to this many characters is searched each time, which takes some microseconds.
SHORT = 4096
_long_texts: Recent[str, bool] = Recent(limit=16 * 2**20)


class Asked(NamedTuple):
    """The configuration of a request, and everything else that its processor depends on.

    Args:
        given: JSON, as servers receive it, or a mapping.
        text: Its JSON, the key of caches, or None if it has none.
        tokens: The `max_tokens` of the request if the configuration may depend on it, or None.
        bans: The tokens that vLLM's own parameters ban.
    """

    given: str | Mapping[str, Any]
    text: str | None
    tokens: int | None
    bans: EngineBans = NO_BANS

    @property
    def key(self) -> tuple[str | None, int | None, EngineBans]:
        """The key of caches: all that the processor depends on. Only one with a text is complete."""
        return self.text, self.tokens, self.bans

    @property
    def length(self) -> int:
        """The size of what caches and queues keep of it: the characters of its text, and the ids that vLLM bans."""
        return len(self.text or "") + self.bans.ids


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
        if len(given) > set_by_operator.characters:
            raise ConfigurationError(
                f"{KEY} has {len(given)} characters; allowed are up to {set_by_operator.characters}"
            )
        text: str | None = given
    elif isinstance(given, Mapping):
        text = _text(given)
    else:
        raise _not_an_object(given)
    counted = text is None or _may_depend_on_length(text)
    return Asked(given, text, tokens if counted else None, engine_bans(sampling_params, vllm_config))


def _text(config: Mapping[str, Any]) -> str | None:
    try:
        return json.dumps(config)
    except (TypeError, ValueError, RecursionError):
        return None  # reading it may raise an error that names the place


def check_is_json(what: Asked) -> None:
    """Refuse a configuration that can be read, but not sent to the process of the engine: one with a Python type.

    Raises:
        ConfigurationError: It is not JSON.
    """
    if what.text is not None:
        return
    try:
        json.dumps(what.given)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{KEY} is not JSON, so it cannot be sent to the engine: {error}. Where a Python type stands for a schema, give the "
            "JSON Schema, or use logitkit_adapters.vllm.sampling_params(type)"
        ) from None


def _may_depend_on_length(text: str) -> bool:
    """Whether a JSON text may have a key whose meaning depends on `max_tokens`."""
    if len(text) <= SHORT:
        return any(sign in text for sign in LENGTH_SIGNS)
    found = _long_texts.get(text)
    if found is None:
        found = any(sign in text for sign in LENGTH_SIGNS)
        _long_texts.put(text, found, 4 * len(text))
    return found


def configuration(what: Asked) -> Mapping[str, Any]:
    """Read the configuration of a request, and fill in its `max_tokens` (for `"closing": true` and `forced_eos`).

    Raises:
        ConfigurationError: It is not JSON, or not an object.
    """
    config = _parsed(what.given) if isinstance(what.given, str) else what.given
    if not isinstance(config, Mapping):
        raise _not_an_object(config)
    if what.tokens is None:
        return config
    try:
        found: Mapping[str, Any] = _within(config, what.tokens)
    except RecursionError:
        return config  # `from_config` refuses it
    return found


def _not_an_object(given: object) -> ConfigurationError:
    if is_processor(given):
        return ConfigurationError(
            f"{KEY} is the processor {type(given).__name__} itself, which a request cannot carry; pass its configuration, "
            "logitkit.to_config(processor)"
        )
    return ConfigurationError(f"{KEY} is {_in_json(given)}; {FORM}")


def _in_json(given: object) -> str:
    """Name a value that is not an object in the terms of JSON."""
    if given is None:
        return "null"
    if isinstance(given, str):
        return "JSON that was encoded twice" if given.lstrip().startswith("{") else "a string"
    if isinstance(given, bool):
        return "a boolean"
    if isinstance(given, int | float):
        return "a number"
    return f"a {type(given).__name__}"


def _within(config: Any, tokens: int) -> Any:
    """Return a configuration with the `max_tokens` of its request filled in."""
    if isinstance(config, list):
        return [_within(part, tokens) for part in config]
    if not isinstance(config, Mapping):
        return config
    found = {}
    for name, given in config.items():
        if name in DOCUMENTS:  # a document may have members with these names
            bare = not isinstance(given, Mapping) or given.get("closing") is not True or DOCUMENTS[name] not in given
            found[name] = given if bare else {**given, "closing": tokens}
        elif name == "forced_eos":
            own = {"max_new_tokens": given} if given is None else given
            unlimited = isinstance(own, Mapping) and own.get("max_new_tokens") is None
            found[name] = {**own, "max_new_tokens": tokens} if unlimited else given
        else:
            found[name] = _within(given, tokens)
    return found


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


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=with_unique_keys)
    except ConfigurationError as error:
        raise ConfigurationError(f"{KEY} is JSON that cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"{KEY} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}; {FORM}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{KEY} is JSON that cannot be read: {error}") from None
