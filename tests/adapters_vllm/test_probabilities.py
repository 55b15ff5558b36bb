"""The probabilities of texts in vLLM are those in transformers."""

from __future__ import annotations

from typing import Any

import pytest

from logitkit.errors import ConfigurationError
from tests.adapters_vllm import engine
from tests.sessions.test_probabilities import QUESTIONS


@pytest.mark.parametrize(("prompt", "options"), QUESTIONS)
@pytest.mark.parametrize("with_eos", [True, False])
def test_they_equal_those_of_transformers(llm: Any, prompt: str, options: list[str], with_eos: bool) -> None:
    from logitkit_adapters.sessions import probabilities as of_others
    from logitkit_adapters.vllm import probabilities
    from tests.adapters.demo import model, tokenizer

    for normalized in (True, False):
        more = {"with_eos": with_eos, "normalized": normalized}
        found = probabilities(llm, None, prompt, options, **more)
        assert list(found) == options
        assert found == pytest.approx(of_others(model(), tokenizer(), prompt, options, **more), rel=1e-3)


def test_other_requests_are_not_disturbed(llm: Any) -> None:
    from logitkit_adapters.vllm import probabilities

    (before,) = engine.generate(llm, [(engine.prompt(0), {"temperature": 0.0})])
    probabilities(llm, None, engine.prompt(0), [" Monday", " Friday"])
    (after,) = engine.generate(llm, [(engine.prompt(0), {"temperature": 0.0})])
    assert after.token_ids == before.token_ids


def test_a_prompt_that_is_too_long_is_refused_before_the_engine(llm: Any) -> None:
    from logitkit_adapters.vllm import probabilities

    with pytest.raises(ConfigurationError, match="more than the model's 255 positions"):
        probabilities(llm, None, [5] * 255, ["a", "b"])
