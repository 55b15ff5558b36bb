"""How a hook computes the second pass of `Guidance`: the model, the negative prompts, and the checks of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from logitkit.composition.chain import Chain
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.tracking.padding import Padding
from logitkit_adapters.transformers.cache_argument import (
    written_class,
)

__all__ = ["NONE", "GuidancePass"]

# An id that no token has, in place of padding.
NONE = -1

# Models that keep the state of the sequence that they read last in their modules, so that each pass overwrites that of the other.
STATE_IN_MODULES = frozenset({"recurrent_gemma"})


@dataclass(frozen=True, eq=False)
class GuidancePass:
    """How a hook computes the second pass of `Guidance`: the output of each row after a negative prompt.

    Pass it as `logits_processor(processor, ..., guidance=...)`. The hook then runs the model once more at each step.

    Args:
        model: The decoder that generates, or another one with the same tokens, such as a smaller one.
        negative_prompt_ids: The negative prompts: [B, N] ids, or B lists of ids without padding. With B = 1, all rows have the
            same; otherwise, they are those of the prompts of the batch, and all beams and samples of a prompt have its own. None:
            the last token of each prompt, as in transformers.
        negative_prompt_attention_mask: [B, N] of 0 and 1, where leading zeros are padding. None: no padding. Only for a tensor of
            ids.
        use_cache: Whether to keep the keys and values of earlier tokens, which costs memory and saves most of the time.

    Raises:
        ConfigurationError: The model has an encoder, keeps its state in its modules (RecurrentGemma), or is not a model of
            transformers; or the ids are something else, a row of them is empty, the model has no such token, or the mask is not
            zeros followed by ones.
        BatchMismatch: The ids and the mask have different shapes.

    Example:
        >>> import logitkit as lk
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import GuidancePass, logits_processor
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> negative = tokenizer("The boy", return_tensors="pt").input_ids
        >>> hook = logits_processor(lk.Guidance(1.5), guidance=GuidancePass(model, negative))
        >>> inputs = tokenizer("The price of", return_tensors="pt")
        >>> ours = model.generate(**inputs, max_new_tokens=8, logits_processor=[hook])
        >>> theirs = model.generate(**inputs, max_new_tokens=8, guidance_scale=1.5, negative_prompt_ids=negative)
        >>> ours.equal(theirs)
        True

    Source: the second pass of transformers' UnbatchedClassifierFreeGuidanceLogitsProcessor.
    """

    model: Any
    negative_prompt_ids: Sequence[Sequence[int]] | Tensor | None = None
    negative_prompt_attention_mask: Tensor | None = None
    use_cache: bool = True
    # [B, N] int64, right-padded with -1.
    prompts: Tensor | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        config = getattr(self.model, "config", None)
        if config is None or not callable(self.model):
            raise ConfigurationError(f"model is of type {type(self.model).__name__}; give a decoder of transformers")
        if getattr(config, "is_encoder_decoder", False):
            raise ConfigurationError(
                f"{type(self.model).__name__} has an encoder, which a second pass would need too; give a decoder-only model"
            )
        if getattr(config, "model_type", None) in STATE_IN_MODULES:
            raise ConfigurationError(
                f"{written_class(self.model).__name__} keeps the state of the last sequence in its modules, where a second pass "
                "would overwrite that of the first; give another kind of model"
            )
        ids, mask = self.negative_prompt_ids, self.negative_prompt_attention_mask
        if ids is None:
            if mask is not None:
                raise ConfigurationError(
                    "negative_prompt_attention_mask is given without negative_prompt_ids; give both or neither"
                )
            return
        _check_form(ids, mask)
        try:
            prompts = Padding(Chain(()), mask).without(ids)
        except ConfigurationError as error:
            raise ConfigurationError(f"the negative prompts are malformed: {error}") from None
        if not prompts.shape[1] or bool((prompts[:, 0] == NONE).any()):
            raise ConfigurationError(
                "a negative prompt is empty; give at least one token, such as that of the beginning"
            )
        size = config.get_text_config(decoder=True).vocab_size
        if int(prompts.max()) >= size:
            raise ConfigurationError(
                f"a negative prompt has the token {int(prompts.max())}, but {written_class(self.model).__name__} has ids from 0 "
                f"to {size - 1}; give ids of the tokenizer of this model"
            )
        object.__setattr__(self, "prompts", prompts)


def _check_form(ids: Any, mask: Any) -> None:
    """Check what `Padding` does not: rows of ids, and a mask that belongs to them."""
    if isinstance(ids, Tensor):
        if isinstance(mask, Tensor) and mask.dim() == ids.dim() == 2 and mask.shape[1] != ids.shape[1]:
            raise BatchMismatch(
                f"negative_prompt_attention_mask is {list(mask.shape)}, but negative_prompt_ids are {list(ids.shape)}; give both "
                "as the tokenizer returns them"
            )
        return
    if isinstance(ids, Mapping) or not isinstance(ids, Sequence) or any(isinstance(row, int) for row in ids):
        what = "a list of ids" if isinstance(ids, list | tuple) else f"of type {type(ids).__name__}"
        hint = "['input_ids'] of it" if isinstance(ids, Mapping) else "ids [B, N], or B lists of ids"
        raise ConfigurationError(f"negative_prompt_ids is {what}; give {hint}")
    if mask is not None:
        raise ConfigurationError(
            "negative_prompt_attention_mask is given with lists of ids, which have no padding; give a tensor of ids, or no mask"
        )
