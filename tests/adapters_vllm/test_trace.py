"""trace in vLLM finds what it finds in transformers, or says what the engine lacks."""

from __future__ import annotations

from typing import Any

import pytest

from logitkit.errors import ConfigurationError
from tests.sessions.test_trace import PROMPT, SCHEMA


@pytest.fixture
def generous(llm: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The engine, as if it had been created with `max_logprobs=-1`, which only its front end checks."""
    monkeypatch.setattr(llm.llm_engine.vllm_config.model_config, "max_logprobs", -1)
    return llm


def test_the_numbers_are_those_of_transformers(generous: Any) -> None:
    from logitkit_adapters.sessions import trace as of_others
    from logitkit_adapters.vllm import trace
    from tests.adapters.demo import model, tokenizer

    found = trace(generous, None, PROMPT, SCHEMA, max_new_tokens=30)
    other = of_others(model(), tokenizer(), PROMPT, SCHEMA, max_new_tokens=30)
    assert found.complete
    for step, expected in zip(found.steps, other.steps, strict=True):
        assert (step.token_id, step.legal, step.wanted) == (expected.token_id, expected.legal, expected.wanted)
        assert step.probability == pytest.approx(expected.probability, abs=1e-3)
        assert step.removed == pytest.approx(expected.removed, abs=1e-3)


def test_an_illegal_output_is_explained(generous: Any) -> None:
    from logitkit_adapters.vllm import trace

    found = trace(generous, None, PROMPT, SCHEMA, output='{"age"')
    assert found.refusal is not None
    assert found.refusal.byte == 2
    assert all(step.probability is not None for step in found.steps)


def test_what_the_engine_lacks_is_named(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from logitkit_adapters.vllm import trace

    with pytest.raises(ConfigurationError, match=r"at most 40 log-probabilities.*all 1280 tokens.*max_logprobs=-1"):
        trace(llm, None, PROMPT, SCHEMA)
    monkeypatch.setattr(llm.llm_engine.vllm_config.model_config, "max_logprobs", -1)
    with pytest.raises(ConfigurationError, match="fewer than max_model_len, which is 256"):
        trace(llm, None, PROMPT, SCHEMA, output=[5] * 256)
