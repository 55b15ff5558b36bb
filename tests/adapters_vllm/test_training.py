"""The `processed_logprobs` of vLLM are those that replay finds from the logits of transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from tests.adapters.demo import model, tokenizer, vocabulary

STEPS = 16
PROMPTS = ("The invoice is dated ", "The boy", "The price of the old")


def chains() -> dict[str, lk.Processor[Any]]:
    v = vocabulary()
    words = lk.Regex(r"[a-z]+( [a-z]+)*\.", v)
    return {
        "constraint": words,
        "penalties": lk.chain(lk.LogitBias({40: 3.0}), lk.RepetitionPenalty(1.4), lk.FrequencyPenalty(0.6)),
        "all roles": lk.chain(lk.RepetitionPenalty(1.3), words, lk.Temperature(0.8), lk.TopK(12)),
    }


@pytest.mark.parametrize("name", sorted(chains()))
def test_processed_log_probs(llm: Any, name: str) -> None:
    from logitkit_adapters.vllm import sampling_params

    processor = chains()[name]
    # The options of the engine change nothing: temperature, truncation and penalties are in the chain.
    params = sampling_params(processor, max_tokens=STEPS, temperature=1.0, seed=5, logprobs=0)
    made = llm.generate(list(PROMPTS), [params] * len(PROMPTS))
    for output in made:
        prompt, tokens = list(output.prompt_token_ids), list(output.outputs[0].token_ids)
        expected = [step[token].logprob for step, token in zip(output.outputs[0].logprobs, tokens, strict=True)]
        with torch.no_grad():
            logits = model()(torch.tensor([[*prompt, *tokens]])).logits[:, len(prompt) - 1 : -1].float()
        found = lk.training.replay(processor, [prompt], [tokens], logits)
        assert found.log_probs[0].tolist() == pytest.approx(expected, abs=2e-3)


def test_kept_sets_from_the_best_log_probs(llm: Any) -> None:
    from logitkit_adapters.vllm import sampling_params

    best, columns = 12, model().config.vocab_size
    processor = lk.chain(lk.RepetitionPenalty(1.3), lk.Temperature(0.8), lk.TopK(best))
    params = sampling_params(processor, max_tokens=STEPS, temperature=1.0, seed=6, logprobs=best)
    (output,) = llm.generate([PROMPTS[1]], [params])
    prompt, tokens = list(output.prompt_token_ids), list(output.outputs[0].token_ids)
    after = torch.full((len(tokens), columns), -torch.inf)
    for line, step in zip(after, output.outputs[0].logprobs, strict=True):
        for token, found in step.items():
            line[token] = found.logprob if found.logprob > -1000 else -torch.inf
    kept = lk.training.kept(after, after)[None]
    with torch.no_grad():
        logits = model()(torch.tensor([[*prompt, *tokens]])).logits[:, len(prompt) - 1 : -1].float()
    found = lk.training.replay(processor, [prompt], [tokens], logits, kept=kept)
    expected = [step[token].logprob for step, token in zip(output.outputs[0].logprobs, tokens, strict=True)]
    assert found.log_probs[0].tolist() == pytest.approx(expected, abs=2e-3)


def test_tokens_are_those_of_the_same_vocabulary(llm: Any) -> None:
    from logitkit_adapters.vllm import sampling_params

    params = sampling_params(lk.Regex("[a-z]{3}", vocabulary()), max_tokens=STEPS, temperature=0.0)
    (output,) = llm.generate([PROMPTS[0]], [params])
    assert tokenizer().decode(list(output.outputs[0].token_ids), skip_special_tokens=True).strip().isalpha()
