"""What a model of ONNX Runtime GenAI supports: the engine has no methods that say it, so a short generation finds it out."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from logitkit_adapters.loaded_class import needed_for

with needed_for("onnxruntime_genai", "onnxruntime-genai", "onnx"):
    import onnxruntime_genai as og

__all__ = ["ModelLimits", "limits_of"]

# Models that switch to other position embeddings at a length, where all positions must be computed again. ONNX Runtime GenAI does
# that in `generate_next_token` only.
SWITCHING = {"phi3": 4097, "phimoe": 4097, "phi3small": 8193}


@dataclass(frozen=True)
class ModelLimits:
    """What a model supports.

    Args:
        columns: The number of columns of its logits.
        eos_ids: The ids that end a text.
        pad_id: The id of padding, which the engine looks for at the end of the tokens that it is given.
        max_length: The maximum number of tokens of a generation.
        can_rewind: Whether a generator can go back to an earlier length.
        shows_all_logits: Whether a pass over several tokens shows the logits of all of them.
        switches_at: The length from which the model uses other position embeddings, if it does.
    """

    columns: int
    eos_ids: frozenset[int]
    pad_id: int
    max_length: int
    can_rewind: bool
    shows_all_logits: bool
    switches_at: int | None = None


_known: weakref.WeakKeyDictionary[Any, ModelLimits] = weakref.WeakKeyDictionary()


def limits_of(model: og.Model) -> ModelLimits:
    """Return what a model supports; the first call for a model runs two of its tokens."""
    found = _known.get(model)
    if found is None:
        found = _known[model] = _found_out(model)
    return found


def _found_out(model: Any) -> ModelLimits:
    tokenizer = og.Tokenizer(model)
    eos_ids = frozenset(map(int, tokenizer.eos_token_ids))
    pad_id = int(tokenizer.pad_token_id)
    parameters = og.GeneratorParams(model)
    longest = int(parameters.get_search_options()["max_length"])
    parameters.set_search_options(max_length=2, batch_size=1, num_beams=1, num_return_sequences=1)
    generator = og.Generator(model, parameters)
    # Ids that every vocabulary has, and that are not padding.
    generator.append_tokens(np.array([i for i in range(3) if i != pad_id][:2], np.int32))
    columns = generator.get_logits().shape[-1]
    try:
        shows_all = generator.get_output("logits").shape[1] == 2
    except RuntimeError:  # a dtype that numpy lacks, or another name
        shows_all = False
    try:
        generator.rewind_to(1)
        can_rewind = True
    except RuntimeError:
        can_rewind = False
    return ModelLimits(columns, eos_ids, pad_id, longest, can_rewind, shows_all, SWITCHING.get(model.type))
