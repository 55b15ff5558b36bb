"""trace: explanations with the model's own probabilities, in transformers, mlx-lm and llama.cpp."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import trace
from logitkit_adapters.sessions.engines import vocabulary_of
from logitkit_adapters.transformers import logits_processor
from tests.sessions.engines import ENGINES, loaded, watched

PROMPT = "Name: Emma Brown\nAs JSON: "
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def processors(vocabulary: lk.Vocabulary) -> list[Any]:
    """A constraint of each kind, and a chain that truncates."""
    date = lk.Regex("(19|20)[0-9]{2}-(0[1-9]|1[0-2])", vocabulary)
    return [date, lk.JsonSchema(SCHEMA, vocabulary), lk.chain(date, lk.RepetitionPenalty(1.3), lk.TopK(3))]


@pytest.mark.parametrize("which", range(3))
def test_the_numbers_are_those_of_generate(which: int) -> None:
    """The oracle is `generate` of transformers, which returns its logits before and after processors."""
    model, tokenizer = loaded("transformers")
    processor = processors(vocabulary_of(model, tokenizer))[which]
    found = trace(model, tokenizer, PROMPT, processor, max_new_tokens=30)
    inputs = tokenizer(PROMPT, return_tensors="pt", return_token_type_ids=False)
    made = model.generate(
        **inputs,
        max_new_tokens=30,
        do_sample=False,
        logits_processor=[logits_processor(processor)],
        output_scores=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    written = made.sequences[0, inputs["input_ids"].shape[1] :].tolist()
    assert [step.token_id for step in found.steps] == written
    assert found.refusal is None
    for step, raw, processed in zip(found.steps, made.logits, made.scores, strict=True):
        chances = raw[0].double().softmax(0)
        banned = processed[0] == -torch.inf
        assert step.probability == pytest.approx(float(chances[step.token_id]), abs=1e-5)
        assert step.removed == pytest.approx(float(chances[banned].sum()), abs=1e-5)
        assert step.wanted == int(raw[0].argmax())
        assert step.legal == int((~banned).sum())
    assert any(step.wanted != step.token_id for step in found.steps), "the constraint changes something"
    assert {step.wanted for step in found.steps} <= {*found.token_bytes}


@pytest.mark.parametrize("which", range(3))
def test_all_engines_find_the_same(which: int) -> None:
    first: Any = None
    for name in ENGINES:
        model, tokenizer = loaded(name)
        found = trace(model, tokenizer, PROMPT, processors(vocabulary_of(model, tokenizer))[which], max_new_tokens=30)
        first = first or found
        assert len(found.steps) == len(first.steps)
        for step, other in zip(found.steps, first.steps, strict=True):
            assert (step.token_id, step.legal, step.wanted) == (other.token_id, other.legal, other.wanted)
            assert step.probability == pytest.approx(other.probability, abs=1e-3)
            assert step.removed == pytest.approx(other.removed, abs=1e-3)


@pytest.mark.parametrize("name", ENGINES)
def test_an_illegal_output_is_explained_without_generation(name: str) -> None:
    model, tokenizer = loaded(name)
    with watched(model) as fed:
        found = trace(model, tokenizer, "The meeting is on ", re.compile("[0-9]{4}-[0-9]{2}"), output="2024/11")
    assert found.refusal is not None
    assert (found.refusal.byte, found.refusal.cause) == (4, "language")
    assert all(step.probability is not None for step in found.steps)
    refused = next(step for step in found.steps if step.refusal is not None)
    assert refused.probability is not None
    assert refused.removed is not None
    assert refused.probability <= refused.removed
    assert sum(fed) == len(
        tokenizer.encode("The meeting is on ") if tokenizer else model.tokenize(b"The meeting is on ")
    ) + (len(found.steps) - 1)
    assert "removed" in str(found)


def test_long_outputs_are_fed_in_pieces_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = loaded("transformers")
    pattern = re.compile("[a-z ]{40,60}")
    whole = trace(model, tokenizer, PROMPT, pattern)
    monkeypatch.setattr("logitkit_adapters.sessions.text_model.CHUNK", 3)
    pieces = trace(model, tokenizer, PROMPT, pattern, output=[step.token_id for step in whole.steps])
    for step, other in zip(pieces.steps, whole.steps, strict=True):
        assert step.probability == pytest.approx(other.probability, abs=1e-5)
        assert step.removed == pytest.approx(other.removed, abs=1e-5)


def test_a_type_is_closed_within_the_limit() -> None:
    model, tokenizer = loaded("transformers")
    found = trace(model, tokenizer, PROMPT, list[str], max_new_tokens=12)
    assert found.complete
    assert len(found.steps) <= 12
    assert found.refusal is None


@pytest.mark.parametrize("name", ENGINES)
def test_wrong_arguments_are_refused(name: str) -> None:
    model, tokenizer = loaded(name)
    with pytest.raises(ConfigurationError, match="2 prompts are given"):
        trace(model, tokenizer, [PROMPT, PROMPT], list[int])
    with pytest.raises(ConfigurationError, match="processor is the text"):
        trace(model, tokenizer, PROMPT, "[0-9]+")
    with pytest.raises(ConfigurationError, match="positions"):
        trace(model, tokenizer, PROMPT, list[int], output=[5] * 5000)


def test_an_empty_output_has_no_steps() -> None:
    model, tokenizer = loaded("transformers")
    assert trace(model, tokenizer, PROMPT, list[int], output=[]).steps == ()
