"""The configuration that a request asks for, as JSON, before it is compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from logitkit.errors import ConfigurationError
from logitkit.parameters.documents import with_unique_keys
from logitkit.protocol.processor import is_processor
from logitkit_adapters.admission.bans import NO_BANS, EngineBans
from logitkit_adapters.hooks.recent import Recent

__all__ = ["DOCUMENTS", "KEY", "Asked", "check_is_json", "configuration", "may_depend_on_length", "not_an_object"]

# The name of a request's field with its configuration.
KEY = "logitkit"

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
        text: The JSON of the configuration, by which caches find it; None if the request has no JSON.
        tokens: The `max_tokens` of the request if the configuration may depend on it, or None.
        bans: The tokens that the engine's own parameters ban.
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
        """The size of what caches and queues keep of it: the characters of its text, and the ids that the engine bans."""
        return len(self.text or "") + self.bans.ids


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
            "JSON Schema, or, in vLLM, use logitkit_adapters.vllm.sampling_params(type)"
        ) from None


def may_depend_on_length(text: str) -> bool:
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
        raise not_an_object(config)
    if what.tokens is None:
        return config
    try:
        found: Mapping[str, Any] = _within(config, what.tokens)
    except RecursionError:
        return config  # `from_config` refuses it
    return found


def not_an_object(given: object) -> ConfigurationError:
    """Return the error for a configuration that is neither an object nor its JSON."""
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
