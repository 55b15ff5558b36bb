"""`particles.sample` in the engines: the same tokens, the particles of a table of logits, and the truth by enumeration."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from importlib import import_module
from typing import Any, Literal

import pytest
import torch

import logitkit as lk
from benchmarks.bench_particles import RESULT, table
from benchmarks.enumerated_texts import EnumeratedTexts, total_variation
from logitkit.errors import ArgumentTypeError, ConfigurationError, NoParticleLeft, VocabularyError
from logitkit.particles import ParticleFilter, Particles
from logitkit_adapters.sessions import continuous, probabilities
from logitkit_adapters.sessions.particle_sampling import sample
from tests.adapters import demo
from tests.docs.pages import ROOT
from tests.sessions.engines import ENGINES, loaded, watched

PROMPT = "Question: When does the concert start?\nAnswer:"
TEXTS = [f" at {hour}:{minute}" for hour in (7, 8, 18, 20) for minute in ("00", "15", "30")]


@cache
def choice() -> lk.Choice:
    return lk.Choice(TEXTS, demo.vocabulary())


@cache
def language() -> EnumeratedTexts:
    return EnumeratedTexts(demo.model(), demo.tokenizer(), demo.vocabulary(), PROMPT, TEXTS)


def sampled(engine: str, processor: Any, **options: Any) -> Particles:
    return sample(*loaded(engine), PROMPT, processor, **{"max_new_tokens": 12, "seed": 3, **options})


def test_enumeration_agrees_with_the_probabilities_of_texts() -> None:
    known = probabilities(demo.model(), demo.tokenizer(), PROMPT, TEXTS, with_eos=True, normalized=False)
    assert math.isclose(sum(known.values()), language().probability, rel_tol=1e-3)
    assert total_variation({t: p / sum(known.values()) for t, p in known.items()}, language().truth) < 1e-3
    assert math.isclose(sum(language().masked.values()), 1, rel_tol=1e-4)
    assert total_variation(language().masked, language().truth) > 0.2


@pytest.mark.parametrize(
    "options", [{}, {"resample": 1.0, "resampling": "multinomial"}, {"twist": 0.5, "resample": 1.0}]
)
def test_they_are_the_particles_of_a_table_of_logits(options: dict[str, Any]) -> None:
    found = sampled("transformers", choice(), particles=24, **options)
    given = {"particles": 24, "seed": 3, **options}
    wanted = language().run(ParticleFilter(processor=choice(), eos_ids=[language().eos], **given), 12)
    assert wanted is not None
    assert found.token_ids == wanted.token_ids
    assert found.texts == wanted.texts
    assert found.resampled == wanted.resampled
    assert found.log_probability == pytest.approx(wanted.log_probability, abs=1e-3)


@pytest.mark.parametrize("engine", ENGINES)
def test_all_engines_sample_the_same_tokens(engine: str) -> None:
    options = {"particles": 12, "resample": 1.0}
    wanted = sampled("transformers", choice(), **options)
    found = sampled(engine, choice(), **options)
    assert wanted.resampled
    assert found.token_ids == wanted.token_ids
    assert found.texts == wanted.texts
    assert found.log_weights == pytest.approx(wanted.log_weights, abs=5e-3)
    assert {*found.texts} <= {*TEXTS}


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_the_packages_of_the_engines_have_it(engine: str) -> None:
    particles = import_module(f"logitkit_adapters.{engine.replace('-', '_')}.particles")
    assert particles.sample is sample
    assert particles.Particles is Particles


def test_the_prompt_is_fed_once_and_particles_run_in_one_batch() -> None:
    model, tokenizer = loaded("transformers")
    with watched(model) as fed:
        found = sample(model, tokenizer, PROMPT, choice(), 32, max_new_tokens=12, seed=1)
    longest = max(map(len, found.token_ids))
    assert fed == [len(tokenizer(PROMPT).input_ids), *[1] * (longest - 1)]


def test_many_particles_are_near_the_truth() -> None:
    found = sampled("transformers", choice(), particles=256)
    assert total_variation(found.distribution(), language().truth) < 0.12
    assert math.isclose(found.probability, language().probability, rel_tol=0.2)
    assert found.effective_sample_size > 128
    assert len(found.effective_sample_sizes) == max(map(len, found.token_ids))


def test_a_penalty_and_a_temperature_change_the_target() -> None:
    changed = EnumeratedTexts(
        demo.model(), demo.tokenizer(), demo.vocabulary(), PROMPT, TEXTS, lambda row, logits: logits / 2
    )
    assert total_variation(changed.truth, language().truth) > 0.05
    found = sampled("transformers", lk.chain(choice(), lk.Temperature(2.0)), particles=256)
    assert math.isclose(found.probability, changed.probability, rel_tol=0.3)
    assert total_variation(found.distribution(), changed.truth) < 0.15


def test_types_and_patterns_are_languages_too() -> None:
    found = sampled("transformers", re.compile(r" at \d\d:(00|30)"))
    assert all(re.fullmatch(r" at \d\d:(00|30)", text) for text in found.texts)
    assert {*sampled("transformers", Literal["yes", "no"], particles=4).texts} <= {'"yes"', '"no"'}


def test_without_a_seed_runs_differ_and_torch_decides() -> None:
    torch.manual_seed(5)
    first, second = (sampled("transformers", choice(), seed=None) for _ in range(2))
    torch.manual_seed(5)
    assert sampled("transformers", choice(), seed=None) == first
    assert first != second


def test_without_a_constraint_texts_end_by_themselves() -> None:
    found = sampled("transformers", None, particles=32)
    eos = demo.tokenizer().eos_token_id
    assert all(ids[-1] == eos for ids, weight in zip(found.token_ids, found.weights, strict=True) if weight)
    assert found.probability == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"prompt": [PROMPT, PROMPT]}, ConfigurationError, "2 prompts are given; give one prompt"),
        ({"max_new_tokens": 10**6}, ConfigurationError, "more than the model's"),
        ({"max_new_tokens": -1}, ConfigurationError, "max_new_tokens"),
        ({"top_p": 0.9}, ArgumentTypeError, r"put logitkit.TopP\(0.9\) into the processor"),
        ({"processor": lk.TopK(5)}, ConfigurationError, "TopK is a truncation"),
        ({"processor": lk.Regex("a", lk.Vocabulary([b"a", None], eos_ids=[1]))}, VocabularyError, "EOS|token"),
        ({"processor": "a+"}, ConfigurationError, "re.compile"),
        ({"max_new_tokens": 2}, NoParticleLeft, "at most 2 tokens"),
    ],
)
def test_mistakes_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"prompt": PROMPT, "processor": choice(), "max_new_tokens": 12, "seed": 1, **change}
    with pytest.raises(error, match=message):
        sample(*loaded("transformers"), **given)


def test_the_whole_context_of_the_model_is_the_default_limit() -> None:
    model, tokenizer = loaded("transformers")
    found = sample(model, tokenizer, PROMPT, choice(), 2, seed=1)
    assert found.texts[0] in TEXTS
    assert continuous(model, tokenizer)(PROMPT, max_new_tokens=1).rows  # the model is as it was


def test_the_page_has_the_tables_of_the_benchmark() -> None:
    page = (ROOT / "docs" / "particles.md").read_text("utf-8")
    for part in table(json.loads(RESULT.read_text("utf-8"))).split("\n\n"):
        assert part in page
