"""Misuse is named at once, in every engine and wherever a processor is taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import logitkit as lk
import logitkit_adapters.llama_cpp
import logitkit_adapters.mlx_lm
import logitkit_adapters.onnxruntime_genai
import logitkit_adapters.transformers
from logitkit.errors import ConfigurationError, VocabularyError
from tests.sessions.engines import loaded
from tests.sessions.misuse import WithoutAdvance, of_another_tokenizer

PROMPT = "The price of"
MODULES: dict[str, Any] = {
    "transformers": logitkit_adapters.transformers,
    "mlx-lm": logitkit_adapters.mlx_lm,
    "llama.cpp": logitkit_adapters.llama_cpp,
    "onnxruntime-genai": logitkit_adapters.onnxruntime_genai,
}


def calls(engine: str, given: Any) -> Iterator[Any]:
    """Yield each call of an engine that takes a processor."""
    module, (model, tokenizer) = MODULES[engine], loaded(engine)
    session = module.Session(model, tokenizer)
    if engine == "onnxruntime-genai":
        yield lambda: module.generate(model, tokenizer, PROMPT, given, max_new_tokens=2)
    else:
        yield lambda: module.logits_processor(given, model if tokenizer is None else tokenizer)
    yield lambda: module.generate_typed(model, tokenizer, PROMPT, given, max_new_tokens=2)
    yield lambda: module.generate_typed(model, tokenizer, PROMPT, int, max_new_tokens=2, processor=given)
    yield lambda: module.trace(model, tokenizer, PROMPT, given)
    yield lambda: module.trace(model, tokenizer, PROMPT, given, output="12")
    yield lambda: module.continuous(model, tokenizer, given)
    yield lambda: module.Session(model, tokenizer, given)
    yield lambda: session.generate(PROMPT, processor=given, max_new_tokens=2)
    yield lambda: session.stream(PROMPT, processor=given, max_new_tokens=2)


@pytest.mark.parametrize("engine", MODULES)
def test_a_class_in_place_of_an_instance(engine: str) -> None:
    for call in calls(engine, lk.Regex):
        with pytest.raises(ConfigurationError, match=r"is the class Regex; create an instance, Regex\(...\)"):
            call()


@pytest.mark.parametrize("engine", MODULES)
def test_a_processor_without_advance(engine: str) -> None:
    for call in calls(engine, WithoutAdvance()):
        with pytest.raises(
            ConfigurationError, match="is a WithoutAdvance without advance; a processor has init_state, adv"
        ):
            call()


@pytest.mark.parametrize("engine", MODULES)
def test_a_processor_for_another_tokenizer(engine: str) -> None:
    for given in (of_another_tokenizer(), of_another_tokenizer(lk.TopK(3))):
        for call in calls(engine, given):
            with pytest.raises(
                VocabularyError, match=r"Regex was built for other tokens .* token 3 is b.* in its vocabulary"
            ):
                call()


@pytest.mark.parametrize("engine", MODULES)
def test_a_processor_for_the_tokens_of_the_model_is_compared_once(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, (model, tokenizer) = MODULES[engine], loaded(engine)
    right = lk.Regex("[0-9]{3}", module.vocabulary(model if tokenizer is None else tokenizer))
    session = module.Session(model, tokenizer, right)
    monkeypatch.setattr("logitkit_adapters.sessions.session.check_tokens", None)
    for _ in range(2):
        assert session.generate(PROMPT, max_new_tokens=4).text.isdecimal()


def test_without_a_tokenizer_nothing_is_compared() -> None:
    model, _ = loaded("transformers")
    session = logitkit_adapters.transformers.Session(model, None, of_another_tokenizer())
    assert session.generate([5, 6], max_new_tokens=2).rows


def test_a_tokenizer_that_cannot_be_read_is_not_compared() -> None:
    model, _ = loaded("transformers")

    class Odd:
        eos_token_id = 2

        def encode(self, text: str) -> list[int]:
            return [5, 6]

        def decode(self, ids: list[int]) -> str:
            return "x" * len(ids)

    session = logitkit_adapters.transformers.Session(model, Odd(), of_another_tokenizer())
    assert session.generate([5, 6], max_new_tokens=2).rows


def test_a_token_that_a_model_of_mlx_lacks() -> None:
    """mlx reads memory after its table of embeddings, and may end the process."""
    module, (model, tokenizer) = MODULES["mlx-lm"], loaded("mlx-lm")
    session = module.Session(model, tokenizer)
    expected = session.generate(PROMPT, max_new_tokens=2).text
    with pytest.raises(ConfigurationError, match="the token id 9000000; allowed are ids below"):
        session.generate([5, 9_000_000], max_new_tokens=2)
    assert session.generate(PROMPT, max_new_tokens=2).text == expected
