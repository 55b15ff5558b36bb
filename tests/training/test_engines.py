"""Replay gives the log-probabilities of the scores that each engine samples from, and its hooks record what they kept."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Session
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.conformance.engines import ENGINES, Engine
from tests.sessions.engines import ENGINES as IN_SESSIONS
from tests.sessions.engines import loaded

STEPS = 14
PROMPT = "The invoice is dated "


@cache
def chains() -> dict[str, lk.Processor[Any]]:
    v = vocabulary()
    words = lk.Regex(r"[a-z]+( [a-z]+)*\.", v)
    return {
        "constraint": words,
        "penalties": lk.chain(lk.LogitBias({40: 3.0}), lk.RepetitionPenalty(1.4), lk.FrequencyPenalty(0.6)),
        "all roles": lk.chain(lk.RepetitionPenalty(1.3), words, lk.NoRepeatNGram(3), lk.Temperature(0.8), lk.TopP(0.9)),
        "xtc": lk.chain(lk.Regex("[a-z ]*", v), lk.MinP(0.01), lk.Xtc(0.5, 0.1, seed=3)),
    }


def prompt_ids(text: str = PROMPT) -> list[int]:
    ids: list[int] = tokenizer()(text)["input_ids"]
    return ids


def of_tokens(processed: Tensor, tokens: Tensor) -> Tensor:
    return processed.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
@pytest.mark.parametrize("name", sorted(chains()))
def test_log_probs_are_those_of_the_scores_of_an_engine(engine: Engine, name: str) -> None:
    processor, prompt = chains()[name], prompt_ids()
    (tokens,) = engine.generate([prompt], processor, STEPS)
    scores, bare = (engine.forced(prompt, tokens, one) for one in (processor, lk.chain()))
    found = lk.training.replay(processor, [prompt], [tokens], bare[None])
    torch.testing.assert_close(found.log_probs[0], of_tokens(scores, torch.tensor(tokens)), atol=1e-5, rtol=1e-5)
    assert found.forced[0].tolist() == ((scores > -torch.inf).sum(1) == 1).tolist()


@pytest.mark.parametrize("name", sorted(chains()))
def test_a_trainer_in_transformers_finds_what_generate_sampled_from(name: str) -> None:
    texts = [PROMPT, "The boy", "The price of the old"]
    inputs = tokenizer()(texts, return_tensors="pt", padding=True, padding_side="left")
    ids, mask, pad = inputs["input_ids"], inputs["attention_mask"], tokenizer().pad_token_id
    width = ids.shape[1]
    hook = logits_processor(chains()[name], attention_mask=mask, record_kept=True)
    torch.manual_seed(0)
    made = model().generate(
        **inputs,
        max_new_tokens=STEPS,
        do_sample=True,
        top_k=0,
        logits_processor=[hook],
        output_scores=True,
        return_dict_in_generate=True,
    )
    outputs = made.sequences[:, width:]
    # As a trainer does it: one forward pass of the whole sequences.
    whole = torch.cat([mask, (outputs != pad).long()], 1)
    positions = (whole.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        logits = model()(made.sequences, attention_mask=whole, position_ids=positions).logits[:, width - 1 : -1]
    expected = of_tokens(torch.stack(made.scores, 1), outputs)
    kept = hook.kept_sets(ids, outputs, pad_id=pad)
    for sets in (None, kept):
        found = lk.training.replay(chains()[name], ids, outputs, logits.float(), kept=sets, pad_id=pad)
        real = torch.tensor([[token >= 0 for token in row] for row in lines_of(outputs, pad)])
        torch.testing.assert_close(found.log_probs[real], expected[real], atol=1e-4, rtol=1e-4)


def lines_of(outputs: Tensor, pad: int) -> list[list[int]]:
    return [[-1 if token == pad else token for token in row] for row in outputs.tolist()]


def test_a_hook_of_mlx_lm_records() -> None:
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    from logitkit_adapters.mlx_lm import logits_processor as hook_of
    from tests.adapters.demo_mlx_lm import model as mlx_model

    for name in ("all roles", "constraint"):
        hook, prompt = hook_of(chains()[name], record_kept=True), prompt_ids()
        tokens = [
            int(token)
            for token, _ in generate_step(mx.array(prompt), mlx_model(), max_tokens=STEPS, logits_processors=[hook])
        ]
        check_kept(name, prompt, until_end(tokens), hook)


def test_a_hook_of_mlx_vlm_records() -> None:
    from logitkit_adapters.mlx_vlm import logits_processor as hook_of
    from tests.adapters.demo_mlx_vlm import WHOLE, plain

    prompt = prompt_ids()
    for name, whole in (("all roles", True), ("constraint", True), ("all roles", False)):
        # By default, mlx-vlm shows a hook only the last token of the prompt.
        hook = hook_of(chains()[name], prompt=None if whole else prompt, record_kept=True)
        tokens = plain(prompt, [hook], max_tokens=STEPS, **(WHOLE if whole else {}))
        check_kept(name, prompt, until_end(tokens), hook)
    hook = hook_of(chains()["constraint"], record_kept=True)
    tokens = plain(prompt, [hook], max_tokens=STEPS)
    with pytest.raises(ConfigurationError, match=r"no kept set for row 0 at step 0.*with prompt=\.\.\. for an engine"):
        hook.kept_sets([prompt], [tokens])


def test_a_hook_of_llama_cpp_records() -> None:
    from logitkit_adapters.llama_cpp import logits_processor as hooks_of
    from tests.adapters.demo_llama_cpp import llama

    for name in ("all roles", "constraint"):
        hooks, prompt, tokens = hooks_of(chains()[name], record_kept=True), prompt_ids(), []
        for token in llama().generate(prompt, temp=0, logits_processor=hooks):
            tokens.append(token)
            if len(tokens) == STEPS:
                break
        check_kept(name, prompt, until_end(tokens), hooks[0])


def until_end(tokens: list[int]) -> list[int]:
    ends = [i for i, token in enumerate(tokens) if token in vocabulary().eos_ids]
    return tokens[: ends[0] + 1] if ends else tokens


def check_kept(name: str, prompt: list[int], tokens: list[int], hook: Any) -> None:
    """Compare recorded sets with those of the processed scores in transformers, along the same tokens."""
    found = hook.kept_sets([prompt], [tokens])
    scores = ENGINES[0].forced(prompt, tokens, chains()[name])
    assert torch.equal(found[0], lk.training.kept(scores, scores))
    assert len(tokens) > 5


@pytest.mark.parametrize("beams", [False, True])
def test_kept_sets_are_found_by_tokens_whatever_the_engine_does(beams: bool) -> None:
    chain, inputs = chains()["constraint"], tokenizer()(PROMPT, return_tensors="pt")
    hook = logits_processor(chain, record_kept=True)
    options: dict[str, Any] = {"num_beams": 3} if beams else {"prompt_lookup_num_tokens": 2}
    made = model().generate(**inputs, max_new_tokens=STEPS, do_sample=False, logits_processor=[hook], **options)
    prompt = inputs["input_ids"][0].tolist()
    check_kept("constraint", prompt, until_end(made[0, len(prompt) :].tolist()), hook)


def test_samples_of_one_prompt_have_sets_of_their_own() -> None:
    # All begin with the same tokens, and `Xtc` draws other numbers in each row.
    chain = lk.chain(lk.Regex("[a-z ]*", vocabulary()), lk.MinP(0.001), lk.Xtc(0.5, 0.02, seed=3))
    inputs = tokenizer()(["The boy"] * 6, return_tensors="pt")
    ids, pad = inputs["input_ids"], tokenizer().pad_token_id
    hook = logits_processor(chain, record_kept=True)
    torch.manual_seed(0)
    made = model().generate(
        **inputs,
        max_new_tokens=8,
        do_sample=True,
        top_k=0,
        logits_processor=[hook],
        output_scores=True,
        return_dict_in_generate=True,
    )
    outputs = made.sequences[:, ids.shape[1] :]
    kept = hook.kept_sets(ids, outputs, pad_id=pad)
    real = torch.tensor([[token >= 0 for token in row] for row in lines_of(outputs, pad)])
    for step, scores in enumerate(made.scores):
        assert torch.equal(kept[real[:, step], step], lk.training.kept(scores, scores)[real[:, step]])
    assert len(kept[:, 0].unique(dim=0)) > 1
    # Rows in another order say which they were.
    order = [5, 3, 0]
    some = hook.kept_sets(ids[order], outputs[order], pad_id=pad, stream_ids=order)
    assert torch.equal(some, kept[order])
    with pytest.raises(
        ConfigurationError, match=r"different sets for row 0 at step 0 in the rows \[0, 1, 2, 3, 4, 5\]"
    ):
        hook.kept_sets(ids[order], outputs[order], pad_id=pad, stream_ids=[9, 8, 7])


@pytest.mark.filterwarnings("ignore:.*padd")
def test_a_hook_that_does_not_know_the_padding_has_no_sets_for_prompts_without_it() -> None:
    inputs = tokenizer()(["The boy eats in the park", "It"], return_tensors="pt", padding=True, padding_side="left")
    ids, pad = inputs["input_ids"], tokenizer().pad_token_id
    for options, known in (({"attention_mask": inputs["attention_mask"]}, True), ({"pad_id": pad}, True), ({}, False)):
        hook = logits_processor(chains()["all roles"], record_kept=True, **options)
        for _ in range(2):  # a hook may serve several generations
            made = model().generate(**inputs, max_new_tokens=4, do_sample=True, top_k=0, logits_processor=[hook])
            outputs = made[:, ids.shape[1] :]
            if known:
                assert hook.kept_sets(ids, outputs, pad_id=pad).any(2)[:, 0].all()
                continue
            with pytest.raises(ConfigurationError, match=r"row 1 at step 0.*to the hook and here the same padding"):
                hook.kept_sets(ids, outputs, pad_id=pad)


def test_what_was_not_recorded_is_an_error() -> None:
    inputs = tokenizer()(PROMPT, return_tensors="pt")
    hook = logits_processor(chains()["constraint"], record_kept=True)
    made = model().generate(**inputs, max_new_tokens=3, do_sample=False, logits_processor=[hook])
    new = made[:, inputs["input_ids"].shape[1] :]
    assert hook.kept_sets(inputs["input_ids"], new).shape == (1, 3, -(-model().config.vocab_size // 32))
    with pytest.raises(ConfigurationError, match="no kept set for row 0 at step 0"):
        hook.kept_sets([[5]], new)
    with pytest.raises(ConfigurationError, match="no kept set for row 0 at step 2"):
        hook.kept_sets(inputs["input_ids"], [[int(new[0, 0]), 7, 7]])
    hook.new_generation()
    with pytest.raises(ConfigurationError, match="no kept set for row 0 at step 0"):
        hook.kept_sets(inputs["input_ids"], new)
    with pytest.raises(ConfigurationError, match="make it with logits_processor"):
        logits_processor(chains()["constraint"]).kept_sets([[5]], [[6]])


@pytest.mark.parametrize("engine", IN_SESSIONS)
@pytest.mark.parametrize("seed", [None, 4])
def test_a_session_records(engine: str, seed: int | None) -> None:
    """Forced tokens, which a session does not show the model, too."""
    processor = lk.chain(lk.Regex(r"on the (Monday|Friday) [a-z]+\.", vocabulary()), lk.Temperature(0.9), lk.TopP(0.8))
    session, prompt = Session(*loaded(engine)), prompt_ids()
    made = session.generate(
        prompt, max_new_tokens=STEPS, processor=processor, seed=seed, log_probs=True, record_kept=True
    )
    row = made.rows[0]
    assert row.kept is not None
    scores = ENGINES[0].forced(prompt, row.token_ids, processor)
    assert torch.equal(row.kept, lk.training.kept(scores, scores))
    bare = ENGINES[0].forced(prompt, row.token_ids, lk.chain())
    found = lk.training.replay(processor, [prompt], [row.token_ids], bare[None], kept=row.kept[None])
    assert found.log_probs[0].tolist() == pytest.approx(row.log_probs, abs=2e-3)
    assert found.forced.any()
    assert session.generate(prompt, max_new_tokens=2, processor=processor).rows[0].kept is None
    with pytest.raises(ConfigurationError, match="record_kept=True was given with num_beams=2"):
        session.generate(prompt, max_new_tokens=2, processor=processor, num_beams=2, record_kept=True)
