"""Explanations of an output with the probabilities of the model: what constraints removed, and what the model wanted instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.explaining.explain import explain
from logitkit.explaining.explanation import Explanation
from logitkit.explaining.spelled import spelled
from logitkit.output_types import output_type_of
from logitkit_adapters.sessions.engines import check_tokens, engine_of, vocabulary_of
from logitkit_adapters.sessions.prompts import Prompt, read_prompts
from logitkit_adapters.sessions.sequence import SequenceEngine
from logitkit_adapters.sessions.session import Session

__all__ = ["one_prompt", "trace"]

# How many tokens of an output are fed at once: their logits are in memory together.
CHUNK = 64


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
        model: A causal language model of transformers or mlx-lm, or a `llama_cpp.Llama`; in `logitkit_adapters.vllm`, an `LLM`
            with `max_logprobs=-1`.
        tokenizer: Its tokenizer; None for llama.cpp and vLLM, which have their own.
        prompt: A text, token ids or a chat, as for `Session`: one prompt.
        processor: A processor, or anything else that `logitkit.output_types.output_type_of` accepts, such as a Python type.
        output: The output to explain, as token ids, or as a text as in `logitkit.explain`; it may be illegal. None: the model
            writes one, greedily and with the processor.
        max_new_tokens: The maximum number of tokens that the model writes; not used if `output` is given.

    Returns:
        The explanation.

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
    vocabulary = vocabulary_of(model, tokenizer)
    constraint = output_type_of(processor, "processor").constraint(vocabulary, closing=output is None)
    check_tokens(constraint, model, tokenizer)
    engine = engine_of(model, tokenizer)
    tokens = one_prompt(prompt, engine.encode, engine.tokenizer)
    most = None
    if output is None:
        with Session(model, tokenizer, constraint) as session:
            output = session.generate(tokens, max_new_tokens=max_new_tokens).rows[0].token_ids
        most = len(tokens) + max_new_tokens
    written = spelled(output, vocabulary)
    longest = engine.max_length
    if longest is not None and len(tokens) + len(written) > longest:
        raise ConfigurationError(
            f"the prompt has {len(tokens)} tokens and the output {len(written)}, together more than the model's {longest} "
            "positions; give a shorter prompt or output"
        )
    with engine.lock:
        return explain(
            constraint, vocabulary, tokens, written, logits=_logits(engine, tokens, written), max_length=most
        )


def one_prompt(prompt: Prompt, encode: Any, tokenizer: Any) -> list[int]:
    """Return the tokens of the only prompt.

    Args:
        prompt: The prompt.
        encode: Returns the tokens of a text.
        tokenizer: The tokenizer, for chats.

    Raises:
        ConfigurationError: There are several, or it has no tokens.
    """
    found = read_prompts(prompt, encode, tokenizer)
    if len(found) != 1 or not found[0]:
        raise ConfigurationError(f"{len(found)} prompts are given; give one prompt, with at least one token")
    return found[0]


def _logits(engine: SequenceEngine, prompt: Sequence[int], output: Sequence[int]) -> Iterator[Tensor]:
    """Yield the logits of the model in the place of each token of the output, [V] on the CPU."""
    sequence = engine.new()
    yield sequence.feed(prompt).cpu()
    for begin in range(0, len(output) - 1, CHUNK):
        fed = output[begin : min(begin + CHUNK, len(output) - 1)]
        yield from sequence.feed(fed, all_positions=True).cpu()
