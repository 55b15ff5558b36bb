"""The argument of a transformers decoder that takes its cache.

Until transformers 5.23 most decoders call it `past_key_values`, and those of the Mamba family `cache_params`. From 5.24 on, both
are called `cache`; the old names still work there, with a warning. Code from a model hub may keep an old name. RWKV calls it
`state` in every version. The model's output holds the cache under the same name.

    LlamaForCausalLM, transformers 5.23     model(input_ids=ids, past_key_values=cache).past_key_values
    LlamaForCausalLM, transformers 5.24     model(input_ids=ids, cache=cache).cache

So the name is read from the signature of `forward`, never from the version of transformers.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from logitkit.errors import ConfigurationError

__all__ = ["arguments_of", "cache_argument", "makes_own_cache", "written_class"]

# The names of an argument that a cache made by anyone may be passed to, the newest first.
_ANY_CACHE = ("cache", "past_key_values")
# A decoder with one of these makes its cache itself.
_OWN_CACHE = ("cache_params", "state")


def written_class(model: Any) -> type:
    """Return the class of a decoder, compiled or not."""
    return type(getattr(model, "_orig_mod", model))


def arguments_of(model: Any) -> Mapping[str, inspect.Parameter]:
    """Return the arguments of a decoder, compiled or not, by name."""
    # From the class, because the method of an object may be wrapped.
    return inspect.signature(written_class(model).forward).parameters  # type: ignore[attr-defined]


def cache_argument(model: Any) -> str:
    """Return the name of a decoder's argument for its cache.

    Args:
        model: The decoder, compiled or not.

    Raises:
        ConfigurationError: The decoder takes no cache.
    """
    taken = arguments_of(model)
    names = (*_ANY_CACHE, *_OWN_CACHE)
    name = next((name for name in names if name in taken), None)
    if name is None:
        raise ConfigurationError(
            f"{written_class(model).__name__} takes no cache ({', '.join(names)}) that it could continue from; use its `generate`"
        )
    return name


def makes_own_cache(model: Any) -> bool:
    """Return whether a decoder makes its cache itself, of a class that only its family uses.

    Args:
        model: The decoder.

    Raises:
        ConfigurationError: The decoder takes no cache, or its own cache is not a state that replaces all tokens.
    """
    if cache_argument(model) in _OWN_CACHE:
        return True
    if getattr(model, "_supports_default_dynamic_cache", lambda: True)():
        return False
    # xLSTM has a state. MiniMax and others mix entries per token with something else.
    if getattr(model, "_is_stateful", False):
        return True
    raise ConfigurationError(
        f"{type(model).__name__} has a special kind of cache, from which sequences cannot continue; use its `generate`"
    )
