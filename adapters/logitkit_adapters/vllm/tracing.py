"""Explanations of an output with the probabilities that vLLM reports for the tokens of a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.composition.engine_tokens import check_tokens_agree
from logitkit.errors import ConfigurationError
from logitkit.explaining.explain import explain
from logitkit.explaining.explanation import Explanation
from logitkit.explaining.spelled import spelled
from logitkit.output_types import output_type_of
from logitkit_adapters.sessions.prompts import Prompt
from logitkit_adapters.sessions.shared_model import shared_by
from logitkit_adapters.sessions.tracing import one_prompt
from logitkit_adapters.vllm.configurations import configurations_of
from logitkit_adapters.vllm.session import Session

__all__ = ["trace"]


def trace(
    llm: Any,
    tokenizer: Any,
    prompt: Prompt,
    processor: Any,
    *,
    output: Sequence[int] | str | None = None,
    max_new_tokens: int = 64,
) -> Explanation:
    """Explain an output with the probabilities of the model.

    See `logitkit_adapters.sessions.trace`. The prompt with the output is one request, in which vLLM reports all log-probabilities
    of each token.

    Args:
        llm: vLLM's `LLM`, created with `max_logprobs=-1`: by default, vLLM reports at most 20 log-probabilities per token.
        tokenizer: The tokenizer of the prompt; None: the engine's.
        prompt: One prompt.
        processor: A processor, or everything else that `logitkit.output_types.output_type_of` takes.
        output: The output to explain; None: the model writes one, greedily and with the processor.
        max_new_tokens: The maximum number of tokens that the model writes; not used if `output` is given.

    Raises:
        ConfigurationError: The engine does not report all log-probabilities, or an argument is not allowed.
        VocabularyError: The processor was built for another tokenizer.

    Example:
        >>> llm = LLM(model, max_logprobs=-1)  # doctest: +SKIP
        >>> print(trace(llm, None, prompt, list[int]))  # doctest: +SKIP
    """
    own = llm.get_tokenizer() if tokenizer is None else tokenizer
    config = llm.llm_engine.vllm_config
    vocabulary = configurations_of(config).vocabulary
    reported, longest = config.model_config.max_logprobs, int(config.model_config.max_model_len)
    if reported != -1 and reported < vocabulary.size:
        raise ConfigurationError(
            f"the engine reports at most {reported} log-probabilities per token, but trace needs those of all "
            f"{vocabulary.size} tokens; create it with LLM(..., max_logprobs=-1)"
        )
    kind = output_type_of(processor, "processor")
    constraint = kind.constraint(vocabulary, closing=output is None)
    check_tokens_agree(constraint, vocabulary)
    tokens = one_prompt(prompt, None if own is None else own.encode, own)
    most = None
    if output is None:
        with Session(llm, processor=kind.config(closing=True)) as session:
            output = session.generate(tokens, max_new_tokens=max_new_tokens).rows[0].token_ids
        most = len(tokens) + max_new_tokens
    written = spelled(output, vocabulary)
    if len(tokens) + len(written) >= longest:
        raise ConfigurationError(
            f"the prompt has {len(tokens)} tokens and the output {len(written)}; together they must be fewer than max_model_len, "
            f"which is {longest}; give a shorter prompt or output"
        )
    logits = _log_probs(llm, [*tokens, *written], len(tokens), vocabulary.size)
    return explain(constraint, vocabulary, tokens, written, logits=logits, max_length=most)


def _log_probs(llm: Any, tokens: Sequence[int], begin: int, size: int) -> Iterator[Tensor]:
    """Yield the log-probabilities of all tokens, [V], in each place of a text from `begin` on."""
    from vllm import SamplingParams

    params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=-1, detokenize=False)
    with shared_by(llm).without_stream():
        (answer,) = llm.generate([{"prompt_token_ids": tokens}], params, use_tqdm=False)
    for found in answer.prompt_logprobs[begin:]:
        yield _row(found, size)


def _row(found: Mapping[int, Any], size: int) -> Tensor:
    row = torch.full((size,), -torch.inf)
    row[[*found]] = torch.tensor([one.logprob for one in found.values()])
    return row
