"""transformers' tokenizer of mistral-common, which lacks attributes that all others have, in the functions of the adapter."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from logitkit_adapters import transformers as adapter
from tests.adapters.tokenizer_zoo import LOSSLESS

DIGITS = re.compile("[0-9]{3}")


@cache
def tokenizer() -> Any:
    return LOSSLESS["mistral-common Tekken in transformers"]()


@cache
def model() -> Any:
    size: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }
    config = LlamaConfig(vocab_size=131_072, eos_token_id=2, pad_token_id=11, **size)
    return LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("prompt", ["The year: ", [{"role": "user", "content": "A year?"}]], ids=["text", "chat"])
def test_typed_output(prompt: Any) -> None:
    result = adapter.generate_typed(model(), tokenizer(), prompt, DIGITS)
    assert DIGITS.fullmatch(result.value)
    assert tokenizer().decode(result.token_ids, skip_special_tokens=True) == result.text
    assert "".join(adapter.generate_typed(model(), tokenizer(), prompt, DIGITS, stream=True)) == result.text


def test_a_hook() -> None:
    inputs = tokenizer()("The year: ", return_tensors="pt")
    hook = adapter.logits_processor(DIGITS, tokenizer(), model=model())
    ids = model().generate(**inputs, logits_processor=[hook], max_new_tokens=8)
    assert DIGITS.fullmatch(tokenizer().decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def test_probabilities_and_trace() -> None:
    found = adapter.probabilities(model(), tokenizer(), "A or b: ", ["a", "b"])
    assert found.keys() == {"a", "b"}
    assert sum(found.values()) == pytest.approx(1)
    assert adapter.trace(model(), tokenizer(), "The year: ", DIGITS).complete
