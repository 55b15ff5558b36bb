"""Explanations of an output with the probabilities of the model: what constraints removed, and what the model wanted instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.explaining.explain import explain
from logitkit.explaining.explanation import Explanation
from logitkit.explaining.token_texts import spelled
from logitkit.output_types import output_type_of
from logitkit_adapters.sessions.prompts import Prompt
from logitkit_adapters.sessions.text_model import text_model

__all__ = ["trace"]


def trace(
    model: Any,
    tokenizer: Any,
    prompt: Prompt,
    processor: Any,
    *,
    output: Sequence[int] | str | None = None,
    max_new_tokens: int = 64,
) -> Explanation:
    r"""Explain an output with the probabilities of the model.

    This is `logitkit.explain` with the logits of the model. Each step also has the probability that the model gave to the token,
    the probability of all tokens that the processors banned, and the token that the model found most likely, all of them before
    any processor.

    Args:
        model: A model of transformers, mlx-lm or mlx-vlm, a `llama_cpp.Llama`, an `onnxruntime_genai.Model`, or vLLM's `LLM`
            with `max_logprobs=-1`: by default, it reports at most 20 log-probabilities per token. There, the prompt with the
            output is one request.
        tokenizer: Its tokenizer; None for llama.cpp and vLLM, which have their own.
        prompt: A text, token ids or a chat, as for `Session`: one prompt.
        processor: A processor, or anything else that `logitkit.output_types.output_type_of` accepts, such as a Python type.
        output: The output to explain, as token ids, or as a text as in `logitkit.explain`; it may be illegal. None: the model
            writes one, greedily and with the processor.
        max_new_tokens: The maximum number of tokens that the model writes; not used if `output` is given.

    Returns:
        The explanation. If the model wrote the output, its `finished` says why the output ended, as in the row of a session.

    Raises:
        ConfigurationError: There are several prompts, the prompt and the output are too long for the model, or an argument is
            not allowed.
        VocabularyError: The bytes of the tokens cannot be recovered, or the processor was built for another tokenizer.
        LogitkitError: The type or schema cannot be compiled.

    Example:
        >>> import re
        >>> from logitkit_adapters.demo import model_dir
        >>> from logitkit_adapters.transformers import trace
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> model = AutoModelForCausalLM.from_pretrained(model_dir())
        >>> tokenizer = AutoTokenizer.from_pretrained(model_dir())
        >>> found = trace(model, tokenizer, "Question: Is Paris in France?\nAnswer:", re.compile(" (no|maybe)"))
        >>> found.token_bytes[found.steps[0].wanted], found.steps[0].removed > 0.5
        (b' yes', True)
    """
    text = text_model(model, tokenizer)
    text.check_logits()
    kind = output_type_of(processor, "processor")
    constraint = text.constraint(kind, closing=output is None)
    prompts = text.prompts(prompt)
    if len(prompts) != 1 or not prompts[0]:
        raise ConfigurationError(f"{len(prompts)} prompts are given; give one prompt, with at least one token")
    tokens, most, longest, finished = prompts[0], None, text.longest, None
    if output is None:
        with text.session() as session:
            request = text.request(kind, constraint, closing=True)
            row = session.generate(tokens, max_new_tokens=max_new_tokens, processor=request).rows[0]
        written, finished = row.token_ids, row.finished
        most = len(tokens) + max_new_tokens
    else:
        written = spelled(output, text.vocabulary)
    if longest is not None and len(tokens) + len(written) > longest:
        raise ConfigurationError(
            f"the prompt has {len(tokens)} tokens and the output {len(written)}; together they must be {text.bound}; give a "
            "shorter prompt or output"
        )
    with text.lock:
        found = explain(
            constraint, text.vocabulary, tokens, written, logits=text.logits(tokens, written), max_length=most
        )
    return replace(found, finished=finished)
