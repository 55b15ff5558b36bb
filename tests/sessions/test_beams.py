"""Beams are those of `generate` of transformers, in every engine, EOS or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import continuous
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.sessions.continuation import PROMPTS, check_weights
from tests.sessions.engines import ENGINES, loaded

# After some of them EOS comes soon, after others late or never.
TEXTS = ["Question: Is Paris in France?\nAnswer:", "Question: Is it?\nAnswer: no", "The price", *PROMPTS]


def by_transformers(texts: list[str], beams: int, count: int, processor: Any, penalty: float) -> tuple[Any, Any]:
    """Return the tokens that each beam has written, EOS included, and the scores."""
    inputs = tokenizer()(texts, return_tensors="pt", padding=True, padding_side="left")
    hooks = [] if processor is None else [logits_processor(processor, attention_mask=inputs["attention_mask"])]
    found = model().generate(
        **inputs, num_beams=beams, num_return_sequences=beams, max_new_tokens=count, length_penalty=penalty,
        logits_processor=hooks, output_scores=True, return_dict_in_generate=True, do_sample=False,
    )  # fmt: skip
    written = found.sequences[:, inputs["input_ids"].shape[1] :].tolist()
    eos = tokenizer().eos_token_id
    return [row[: row.index(eos) + 1] if eos in row else row for row in written], found.sequences_scores.tolist()


def written_by(state: Any) -> list[list[int]]:
    rows = zip(state.rows, state.prompt_lengths.tolist(), state.finished.tolist(), strict=True)
    return [[*row[prompt:], *[tokenizer().eos_token_id] * ended] for row, prompt, ended in rows]


PROCESSORS: dict[str, Any] = {
    "none": lambda: None,
    "chain": lambda: lk.chain(lk.RepetitionPenalty(1.2), lk.Regex(r" [A-Za-z ]{2,9}[.!]?", vocabulary())),
}


@pytest.mark.parametrize("penalty", [1.0, 0.0, 2.0, -1.0])
@pytest.mark.parametrize("beams", [2, 5])
@pytest.mark.parametrize("kind", PROCESSORS)
def test_sequences_and_scores_are_those_of_generate(kind: str, beams: int, penalty: float) -> None:
    processor = PROCESSORS[kind]()
    ended = set()
    for count in (1, 3, 12):
        rows, scores = by_transformers(TEXTS, beams, count, processor, penalty)
        found = continuous(model(), tokenizer(), processor, num_beams=beams, length_penalty=penalty)(TEXTS, count)
        written = written_by(found)
        assert written == rows
        reached = [w / len(row) ** penalty for w, row in zip(found.weights.reshape(-1).tolist(), written, strict=True)]
        assert reached == pytest.approx(scores, abs=1e-4)
        ended.update(found.finished.reshape(-1, beams).sum(1).tolist())
    assert len(ended) > 1  # some prompts have more complete texts than others


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_beams_in_every_engine_with_their_caches(engine: str) -> None:
    beams = continuous(*loaded(engine), num_beams=3)
    found = beams(TEXTS, 6)
    rows, _ = by_transformers(TEXTS, 3, 6, None, 1.0)
    assert written_by(found) == rows
    assert 0 < int(found.finished.sum()) < len(found)
    # The cache that they left matches their tokens: continuing it is like continuing without it.
    for going_on in (beams, continuous(*loaded(engine), num_samples=3, do_sample=False)):
        assert going_on(found, 4).rows == going_on(replace(found, kv_cache=None, cached=0), 4).rows
    if engine == "transformers":
        check_weights(model(), found, [int(n) for n in found.prompt_lengths])


def test_what_is_complete_stays_so_where_a_state_is_carried_on() -> None:
    beams = continuous(model(), tokenizer(), num_beams=3, carry_state=True)
    part = beams(TEXTS[0], 3)
    assert 0 < int(part.finished.sum()) < 3
    whole = beams(part, 6)
    best = max(zip(written_by(part), part.weights[0].tolist(), strict=True), key=lambda one: one[1] / len(one[0]))
    assert best[0] in written_by(whole)
    assert len(set(map(tuple, written_by(whole)))) == 3


def test_a_length_penalty_that_is_no_number_is_refused() -> None:
    for wrong in (True, "1", float("nan"), 9.0, None):
        with pytest.raises(ConfigurationError, match="length_penalty"):
            continuous(model(), tokenizer(), num_beams=2, length_penalty=wrong)  # type: ignore[arg-type]
