"""The probability of each of several texts after a prompt, summed over all tokenizations of the text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from logitkit.errors import BrokenLogits, ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit.sessions.tokenizations import tokenizations
from logitkit_adapters.sessions.prompts import Prompt
from logitkit_adapters.sessions.text_model import text_model

__all__ = ["probabilities"]

MOST = 2**20


def probabilities(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    options: Sequence[str],
    *,
    with_eos: bool | None = None,
    normalized: bool = True,
    max_tokenizations: int = 4096,
) -> dict[str, float]:
    r"""Return the probability of each option as the next text.

    The probability of a text is the sum over all of its tokenizations that `Choice(options, vocabulary)` allows, not only over
    the tokenizer's own. The model's own probabilities count, without any processor.

    In transformers, the prompt is fed once and then all tokenizations in one batch; in other engines one after another,
    without repeating common prefixes. In vLLM, each is a request with `prompt_logprobs`.

    Args:
        model: A model of transformers, mlx-lm or mlx-vlm, a `llama_cpp.Llama`, an `onnxruntime_genai.Model` or a `vllm.LLM`.
        tokenizer: Its tokenizer; None for llama.cpp and vLLM, which have their own.
        prompt: A text, token ids or a chat, as for `continuous`: one prompt.
        options: At least one text, all different. After a prompt without a final space, most begin with a space.
        with_eos: Whether the text must end after the option: its probability is then multiplied by that of EOS. None: only if one
            option is the beginning of another, such as "a" and "ab"; the probability of "a" would otherwise include "ab".
        normalized: Whether to divide by the sum, so that the probabilities sum to 1. Otherwise, their sum says how likely any
            of the options is.
        max_tokenizations: The maximum number of tokenizations of all options, because their number grows exponentially
            with the length of an option: up to 2^(n - 1) for n bytes.

    Returns:
        The probability of each option, in the given order.

    Raises:
        BrokenLogits: The logits of the model have NaN or +inf.
        ConfigurationError: There are several prompts, no options, two equal ones, an option that the tokens cannot spell, or too
            many tokenizations; or the prompt with an option exceeds the model's positions.
        VocabularyError: The bytes of the tokens cannot be recovered.

    Example:
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import probabilities
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> found = probabilities(model, tokenizer, "Question: Is Paris in France?\nAnswer:", [" yes", " no"])
        >>> round(sum(found.values()), 6), max(found, key=found.get)
        (1.0, ' yes')
    """
    text = text_model(model, tokenizer)
    prompts = text.rows(prompt)
    if len(prompts) != 1 or not prompts[0]:
        raise ConfigurationError(f"{len(prompts)} prompts are given; give one prompt, with at least one token")
    texts = [] if isinstance(options, str) or not isinstance(options, Iterable) else [*options]
    if not texts or not all(isinstance(one, str) for one in texts) or len({*texts}) < len(texts):
        raise ConfigurationError(f"options is {options!r}; give a list of at least one text, all different")
    most = checked_integer("max_tokenizations", max_tokenizations, 1, MOST)
    if wrong := [one for one in texts if any("\ud800" <= c <= "\udfff" for c in one)]:
        raise ConfigurationError(f"options has {wrong[0]!r:.60}, with half of a surrogate pair; give whole characters")
    if with_eos is None:
        with_eos = any(a != b and b.startswith(a) for a in texts for b in texts)
    spelled = tokenizations(texts, text.vocabulary, most)
    ends = [(end,) for end in text.vocabulary.eos_ids] if with_eos else [()]
    rows = [[(*row, *end) for row in found for end in ends] for found in spelled]
    longest = len(prompts[0]) + max(len(row) for found in rows for row in found)
    if text.longest is not None and longest > text.longest:
        raise ConfigurationError(
            f"the prompt and the longest tokenization of an option are {longest} tokens, more than the model's {text.longest} "
            "positions; give a shorter prompt or shorter options"
        )
    values = iter(text.log_probs_of(tuple(prompts[0]), [row for found in rows for row in found]))
    sums = torch.stack(
        [torch.tensor([next(values) for _ in found], dtype=torch.float64).logsumexp(0) for found in rows]
    )
    if bool(sums.isnan().any()):
        raise BrokenLogits(f"the probability of {texts[int(sums.isnan().nonzero()[0])]!r:.60} is NaN")
    logs = sums.log_softmax(0) if normalized else sums
    return {one: math.exp(value) for one, value in zip(texts, logs.tolist(), strict=True)}
