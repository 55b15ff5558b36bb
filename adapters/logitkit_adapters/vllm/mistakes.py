"""Likely mistakes in a request: a configuration that vLLM or the plugin would ignore is refused, with what to send instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from logitkit.configuration import CHAIN, installed_kinds
from logitkit.errors import ConfigurationError
from logitkit_adapters.admission.asked import KEY
from logitkit_adapters.vllm.parameters import PROMPT_LENGTH

__all__ = ["check_body", "check_extra_args", "wrong_arguments"]

HOW = (
    'send "vllm_xargs": {"logitkit": "{\\"regex\\": \\"[0-9]+\\"}"}, with the configuration as a JSON string; offline, use '
    'SamplingParams(extra_args={"logitkit": {"regex": "[0-9]+"}})'
)

# From this similarity on, a name is taken for a misspelt one; "logit_bias" is at 0.71.
ALIKE = 0.8

# Unknown fields of a request are searched this deep.
DEPTH = 3

# In a field with one of these names, the kinds of processors are looked for too.
FIELD = "vllm_xargs"
ARGUMENTS = frozenset({"extra_args", "extra_body", FIELD, "vllm_extra_args", "xargs"})


def check_extra_args(extra_args: Mapping[str, Any], others_read: bool) -> None:
    """Refuse extra arguments that look like a configuration but are not one.

    Args:
        extra_args: The `extra_args` of a request; in a server, its `vllm_xargs`.
        others_read: Whether the engine has other plugins, which may read arguments with the names of processors.

    Raises:
        ConfigurationError: A key is misspelt, or a processor is not inside of `logitkit`.
    """
    for given, value in extra_args.items():
        key = str(given)
        if key in (KEY, PROMPT_LENGTH):
            continue
        if _looks_like_ours(key):
            raise ConfigurationError(
                f"the extra arguments have the key {key!r:.60}, which is ignored; the keys of logitkit are {KEY!r} and "
                f"{PROMPT_LENGTH!r}: {HOW}"
            )
        if not others_read and _is_kind(key):
            raise ConfigurationError(
                f"the extra arguments have the key {key!r}, which is ignored outside of a configuration; {HOW}"
            )
        if key in ARGUMENTS and not others_read:
            _refuse({key: value}, "the extra arguments have the key", "which is ignored")


def check_body(unknown: Mapping[str, Any] | None) -> None:
    """Refuse unknown fields of an HTTP request, which vLLM ignores, if they look like a configuration.

    Args:
        unknown: The fields that vLLM does not know.

    Raises:
        ConfigurationError: One of them looks like a configuration.
    """
    _refuse(unknown or {}, "the request has the field", "which vLLM ignores")


def wrong_arguments(errors: Iterable[Mapping[str, Any]]) -> str | None:
    """Return what to send in place of a configuration that vLLM itself refuses, because it is not a string.

    Args:
        errors: The errors of a body, as pydantic lists them.
    """
    for error in errors:
        place = [*error.get("loc", ())]
        if FIELD in place:
            if KEY in place[place.index(FIELD) :]:
                return f"{FIELD}.{KEY} is not a string; {HOW}"
            if error.get("type") == "dict_type":
                return f"{FIELD} is not an object; to use logitkit, {HOW}"
    return None


def _refuse(fields: Mapping[str, Any], who: str, why: str) -> None:
    for path, key, in_arguments in _keys(fields, "", DEPTH, False):
        if _looks_like_ours(key) or (in_arguments and _is_kind(key)):
            raise ConfigurationError(f"{who} {path!r:.90}, {why}; {HOW}")


def _keys(fields: Mapping[str, Any], path: str, depth: int, in_arguments: bool) -> Iterator[tuple[str, str, bool]]:
    for key, value in fields.items():
        name = str(key)
        yield f"{path}{name}", name, in_arguments
        if isinstance(value, Mapping) and depth > 1:
            yield from _keys(value, f"{path}{name}.", depth - 1, in_arguments or name in ARGUMENTS)


@lru_cache(maxsize=256)
def _looks_like_ours(key: str) -> bool:
    letters = re.sub("[^a-z]", "", key[:60].lower())
    return KEY in letters or SequenceMatcher(None, letters, KEY).ratio() >= ALIKE


def _is_kind(key: str) -> bool:
    return key == CHAIN or key in installed_kinds()
