"""The steps of llama.cpp after its hooks: penalties that could bring masked tokens back, and a grammar."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from logitkit.errors import ConfigurationError
from logitkit_adapters.llama_cpp.candidates import CANDIDATE

__all__ = ["check_grammar", "check_penalties", "grammar_of"]


def check_penalties(arguments: Mapping[str, Any]) -> None:
    """Refuse penalties that turn -inf into a number, infinity or NaN.

    Args:
        arguments: The given arguments of `Llama.generate` or `Llama.sample`.

    Raises:
        ConfigurationError: A penalty does.
    """
    for name in ("repeat_penalty", "frequency_penalty", "presence_penalty"):
        if name in arguments:
            penalty = ctypes.c_float(arguments[name]).value
            if not math.isfinite(penalty) or (name == "repeat_penalty" and penalty <= 0):
                above = " above 0" if name == "repeat_penalty" else ""
                raise ConfigurationError(
                    f"{name} is {arguments[name]!r}, with which llama.cpp would bring back tokens that logits_processor masked; "
                    f"give a finite number{above}"
                )


def grammar_of(sampler: Any) -> Any:
    """Return the grammar in a chain of samplers, a `LlamaSampler`, or None."""
    chain, hooks = sampler.sampler, {place for place, _ in sampler.custom_samplers}  # these have no names
    places = (place for place in range(llama_cpp.llama_sampler_chain_n(chain)) if place not in hooks)
    each = (llama_cpp.llama_sampler_chain_get(chain, place) for place in places)
    return next((one for one in each if llama_cpp.llama_sampler_name(one) == b"grammar"), None)


def check_grammar(grammar: Any, scores: NDArray[np.float32]) -> None:
    """Refuse scores if the grammar allows none of their tokens: llama.cpp would end the process.

    Args:
        grammar: The result of `grammar_of`; it is not changed.
        scores: [V]; they are not changed.

    Raises:
        ConfigurationError: The grammar masks every token that is not masked already.
    """
    ids = np.flatnonzero(scores > -np.inf)
    left = np.zeros(len(ids), CANDIDATE)
    left["id"], left["logit"] = ids, scores[ids]
    data = left.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
    if len(ids):
        candidates = llama_cpp.llama_token_data_array(data=data, size=len(ids), selected=-1, sorted=False)
        llama_cpp.llama_sampler_apply(grammar, ctypes.byref(candidates))
    if not (left["logit"] > -np.inf).any():
        raise ConfigurationError(
            "grammar and logits_processor have no allowed token in common here, so the text cannot continue; put both into "
            "one constraint, or pass only one of them"
        )
