"""Beam search over a real engine finds what transformers' finds, and ranks it as it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.adapters_vllm import engine

WORDS = ["yes", "no", "maybe", "never", "tea"]

# In how many ways the tokens of the model spell them.
SPELLINGS = 16

# How far apart two engines' sums of float32 log-probabilities are.
NEAR = 5e-3


def search(llm: Any, config: Any, width: int, prompt: str = engine.PROMPTS[5], **more: Any) -> Any:
    from logitkit_adapters.vllm import beam_search

    return beam_search(llm, [prompt], beam_width=width, max_tokens=more.pop("max_tokens", 24), config=config, **more)[0]


def logprob(prompt: str, tokens: tuple[int, ...], config: Any) -> float:
    """Return the sum of the log-probabilities of tokens in transformers, as the processor leaves them."""
    from tests.adapters.demo import model, tokenizer, vocabulary

    begin = tokenizer().encode(prompt)
    logits = model()(torch.tensor([[*begin, *tokens]])).logits[0, len(begin) - 1 : -1].float().detach()
    processor = lk.from_config(config, vocabulary())
    context = lk.Context.of([begin], logits.shape[1])
    state, total = processor.init_state(context), 0.0
    for row, token in zip(logits, tokens, strict=True):
        state, processed = processor.process_logits(state, row[None].clone(), context)
        total += float(processed[0].log_softmax(0)[token])
        state = processor.advance(state, torch.tensor([token]))
    return total


def test_all_of_a_small_language_is_found_and_ranked(llm: Any) -> None:
    config = {"choice": WORDS, "repetition_penalty": 1.3}
    ranked = []
    for power in (0.0, 1.0, 3.0, -1.0):
        beams = search(llm, config, 20, length_penalty=power)
        assert len({beam.token_ids for beam in beams}) == len(beams) == SPELLINGS
        assert {beam.text for beam in beams} == set(WORDS)
        assert all(beam.finished for beam in beams)
        for beam in beams[:6]:
            assert beam.logprob == pytest.approx(logprob(engine.PROMPTS[5], beam.token_ids, config), abs=NEAR)
        scores = [beam.logprob / len(beam.token_ids) ** power for beam in beams]
        assert scores == sorted(scores, reverse=True)
        ranked.append([len(beam.token_ids) for beam in beams])
    assert ranked[0] != ranked[1] != ranked[2]
    # The more it is, the earlier long ones come.
    places = [sum(place * length for place, length in enumerate(lengths)) for lengths in ranked]
    assert places[3] > places[0] > places[1] > places[2]


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize(
    "config",
    [
        {"regex": r"\d{4}-\d{2}-\d{2}", "presence_penalty": 1.2},
        {"regex": "[a-z]{3} [a-z]{3}", "no_repeat_ngram": 2},
        {"ban_tokens": [5, 6, 7], "frequency_penalty": 0.8, "min_new_tokens": 12},
    ],
    ids=["date", "words", "anything"],
)
def test_beams_are_those_of_transformers(llm: Any, config: Any, width: int) -> None:
    from logitkit_adapters.transformers import logits_processor
    from tests.adapters.demo import model, tokenizer, vocabulary

    for prompt in engine.PROMPTS[:3]:
        ids = torch.tensor([tokenizer().encode(prompt)])
        wanted = model().generate(
            ids,
            attention_mask=torch.ones_like(ids),
            logits_processor=[logits_processor(lk.from_config(config, vocabulary()))],
            num_beams=width,
            num_return_sequences=width,
            do_sample=False,
            renormalize_logits=True,
            length_penalty=0.0,
            early_stopping="never",
            max_new_tokens=12,
        )
        end = vocabulary().eos_ids[0]
        found = search(llm, config, width, prompt, max_tokens=12, length_penalty=0.0)
        tokens = [tuple(row[: row.index(end) + 1] if end in row else row) for row in wanted[:, ids.shape[1] :].tolist()]
        assert [beam.token_ids for beam in found] == tokens


def test_prompts_are_searched_together_as_alone(llm: Any) -> None:
    from logitkit_adapters.vllm import beam_search

    config = {"regex": "[a-z ]{4,20}"}
    ids = llm.get_tokenizer().encode(engine.PROMPTS[2])
    prompts = [*engine.PROMPTS[:2], ids]
    together = beam_search(llm, prompts, beam_width=3, max_tokens=10, config=config)
    assert [len(beams) for beams in together] == [3, 3, 3]
    for prompt, beams in zip(engine.PROMPTS[:3], together, strict=True):
        assert [beam.token_ids for beam in search(llm, config, 3, prompt, max_tokens=10)] == [
            b.token_ids for b in beams
        ]


def test_a_beam_that_is_cut_is_unfinished(llm: Any) -> None:
    beams = search(llm, {"regex": "[0-9]{30}"}, 2, max_tokens=5)
    assert [(len(beam.token_ids), beam.finished) for beam in beams] == [(5, False)] * 2


def test_a_language_of_one_text_has_one_beam_for_each_way_to_spell_it(llm: Any) -> None:
    beams = search(llm, '{"choice": ["no"]}', 8)
    assert {beam.text for beam in beams} == {"no"}
    assert len({beam.token_ids for beam in beams}) == len(beams)


def test_a_penalty_counts_what_a_beam_has_said_as_output(llm: Any) -> None:
    """To vLLM, which is asked for one token at a time, it is a prompt."""
    config = {"presence_penalty": 50.0, "min_new_tokens": 12}
    (beam,) = search(llm, config, 1, engine.PROMPTS[4], max_tokens=12)
    assert len(beam.token_ids) == len(set(beam.token_ids)) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beam_width": 0}, "beam_width is 0; allowed are integers from 1"),
        ({"max_tokens": 0}, "max_tokens is 0; allowed are integers from 1"),
        ({"length_penalty": float("nan")}, "length_penalty is nan"),
        (
            {"beam_width": 21},
            r"beam_width is 21, but the engine returns at most 40 logprobs per token; .*max_logprobs=42",
        ),
    ],
)
def test_arguments_out_of_range(llm: Any, arguments: dict[str, Any], message: str) -> None:
    from logitkit_adapters.vllm import beam_search

    with pytest.raises(ConfigurationError, match=message):
        beam_search(llm, ["a"], **{"beam_width": 2, "max_tokens": 3, **arguments})


def test_a_bad_configuration_is_refused(llm: Any) -> None:
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError, match="did you mean 'regex'"):
        search(llm, {"regx": "a"}, 2)
    assert search(llm, {"regex": "a"}, 1)[0].text == "a"


def test_an_engine_that_ranks_by_raw_logprobs_is_refused(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm.llm_engine.vllm_config.model_config, "logprobs_mode", "raw_logprobs")
    with pytest.raises(ConfigurationError, match=r'create it with LLM\(\.\.\., logprobs_mode="processed_logprobs"\)'):
        search(llm, {"regex": "a"}, 2)
