"""The probability of each of several texts after a prompt, by the log-probabilities that vLLM reports for prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logitkit_adapters.sessions.prompts import Prompt, read_prompts
from logitkit_adapters.sessions.shared_model import shared_by
from logitkit_adapters.sessions.text_probabilities import ask_options
from logitkit_adapters.vllm.configurations import configurations_of

__all__ = ["probabilities"]

Row = tuple[int, ...]


def probabilities(
    llm: Any,
    tokenizer: Any,
    prompt: Prompt,
    options: Sequence[str],
    *,
    with_eos: bool | None = None,
    normalized: bool = True,
    max_tokenizations: int = 4096,
) -> dict[str, float]:
    r"""Return the probability of each option as the next text.

    See `logitkit_adapters.sessions.probabilities`. Each tokenization is a request: the prompt, its tokens, and EOS.

    Args:
        llm: vLLM's `LLM`.
        tokenizer: The tokenizer of the prompt; None: the engine's.
        prompt: One prompt.
        options: At least one text, all different.
        with_eos: Whether the text must end after the option; None: only if one option begins another.
        normalized: Whether to divide by the sum.
        max_tokenizations: The maximum number of tokenizations of all options.

    Returns:
        The probability of each option, in the given order.

    Raises:
        ConfigurationError: An argument is not allowed, an option has no tokens or too many tokenizations, or the prompt with an
            option exceeds `max_model_len`.

    Example:
        >>> probabilities(llm, None, "Question: Is Paris in France?\nAnswer:", [" yes", " no"])  # doctest: +SKIP
        {' yes': 0.9399, ' no': 0.0601}
    """
    own = llm.get_tokenizer() if tokenizer is None else tokenizer
    config = llm.llm_engine.vllm_config
    # vLLM generates at least one token.
    most = int(config.model_config.max_model_len) - 1
    vocabulary = configurations_of(config).vocabulary

    def log_probs(begin: Row, rows: Sequence[Row]) -> list[float]:
        from vllm import SamplingParams

        if not any(rows):
            return [0.0] * len(rows)
        params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        given = [{"prompt_token_ids": [*begin, *row]} for row in rows]
        with shared_by(llm).without_stream():
            outputs = llm.generate(given, params, use_tqdm=False)
        pairs = zip(rows, outputs, strict=True)
        return [_sum(row, output.prompt_logprobs[len(begin) :]) for row, output in pairs]

    prompts = read_prompts(prompt, None if own is None else own.encode, own)
    return ask_options(prompts, options, vocabulary, most, with_eos, normalized, max_tokenizations, log_probs)


def _sum(row: Row, found: Sequence[Any]) -> float:
    return sum(float(likely[token].logprob) for token, likely in zip(row, found, strict=True))
