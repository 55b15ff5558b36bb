"""Models with recurrent layers write what they write without any cache, however a generation is cut and continued."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Session, continuous
from tests.adapters.demo import tokenizer
from tests.examples import of_all
from tests.sessions.continuation import PROMPTS
from tests.sessions.engines import watched
from tests.sessions.recurrent_models import BOTH, CONFIGS, SIZES, greedy, model

IDS = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086, 5, 6, 7, 8]
# Its states lie in its modules, so that no sequence has any of its own.
OF_THE_MODEL = "RecurrentGemma"


def check(kind: str, before: Any, after: Any, count: int) -> None:
    """Compare what was written after each row with a search without a cache."""
    for row, longer in zip(before.rows, after.rows, strict=True):
        assert list(longer) == [*row, *greedy(kind, row, count)]


@pytest.mark.parametrize("kind", of_all(CONFIGS, 2))
def test_generators_write_what_is_written_without_a_cache(kind: str) -> None:
    text = continuous(model(kind), tokenizer())
    prompts = [PROMPTS[1], "a"]
    begun = text(prompts, max_new_tokens=0)
    state = text(prompts, max_new_tokens=5)
    check(kind, begun, state, 5)
    assert state.rows == text(begun, max_new_tokens=5).rows
    for part in (state, state + " and so on", state[:, :-3], state + state, state[1, :]):
        check(kind, part, text(part, max_new_tokens=3), 3)
    # Branches of one state do not meet in its cache.
    assert text(state, max_new_tokens=4).rows == text(state, max_new_tokens=4).rows


@pytest.mark.parametrize("kind", CONFIGS)
def test_sessions_write_what_is_written_without_a_cache(kind: str) -> None:
    with Session(model(kind)) as session:
        prompt = IDS
        for change in (
            lambda held: [*held, 9, 9],
            lambda held: held[:12],
            lambda held: [*held[:5], 3, 3],
            lambda _: [7],
            lambda _: IDS,
            lambda held: [*held, *IDS, *IDS],
        ):
            row = session.generate(prompt, max_new_tokens=6).rows[0]
            assert [i for i in row.token_ids if i != 2] == greedy(kind, prompt, 6)
            prompt = change([*prompt, *row.token_ids])


@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind != OF_THE_MODEL])
def test_what_follows_a_cache_is_fed_one_token_at_a_time(kind: str) -> None:
    text = continuous(model(kind), tokenizer())
    state = text(PROMPTS[0], max_new_tokens=6)
    with watched(model(kind)) as fed:
        text(state, max_new_tokens=3)
        text(state + " and", max_new_tokens=1)
    assert set(fed) == {1}
    assert 4 <= len(fed) <= 6
    with watched(model(kind)) as fed:
        text(state + str(state), max_new_tokens=1)
    assert len(fed) == 1


def test_a_state_in_the_model_is_not_mixed_up() -> None:
    text = continuous(model(OF_THE_MODEL), tokenizer())
    state = text(PROMPTS, max_new_tokens=4)
    # A prompt of one token, after another sequence.
    check(OF_THE_MODEL, state.tokens[:, :1], text(state.tokens[:, :1], max_new_tokens=5), 5)
    two = text(PROMPTS[0], max_new_tokens=5, num_samples=2, do_sample=False)
    assert two.rows[0] == two.rows[1] == text(PROMPTS[0], max_new_tokens=5).rows[0]


@pytest.mark.parametrize("kind", ["Mamba", "Jamba", "RWKV", OF_THE_MODEL])
def test_beams_and_samples(kind: str) -> None:
    ids = torch.tensor([tokenizer()(PROMPTS[0]).input_ids])
    reference = model(kind).generate(
        ids, attention_mask=torch.ones_like(ids), use_cache=False, do_sample=False, num_beams=3, num_return_sequences=3,
        max_new_tokens=5,
    )  # fmt: skip
    found = continuous(model(kind), tokenizer(), num_beams=3)(PROMPTS[0], max_new_tokens=5)
    assert [list(row) for row in found.rows] == [[i for i in row if i != 2] for row in reference.tolist()]
    drawn = continuous(model(kind), tokenizer(), num_samples=2, seed=1)
    whole = drawn(PROMPTS, max_new_tokens=7)
    assert drawn(drawn(PROMPTS, max_new_tokens=3), max_new_tokens=4).rows == whole.rows
    assert whole.rows[0] != whole.rows[1]


def test_a_state_is_saved_without_the_cache(tmp_path: Any) -> None:
    text = continuous(model("Mamba"), tokenizer())
    state = text(PROMPTS, max_new_tokens=4)
    state.save(tmp_path)
    loaded = text.load(tmp_path)
    assert loaded.rows == state.rows
    assert text(loaded, max_new_tokens=3).rows == text(state, max_new_tokens=3).rows


def test_models_without_a_cache_of_their_sequences_are_refused() -> None:
    refused: list[Any] = [
        transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(vocab_size=64, n_embd=16, n_layer=1, n_head=2)),
        transformers.MiniMaxForCausalLM(
            transformers.MiniMaxConfig(**BOTH, head_dim=8, num_local_experts=2, num_experts_per_tok=1, block_size=8)
        ),
        transformers.T5ForConditionalGeneration(
            transformers.T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
        ),
    ]
    for one in refused:
        for make in (Session, lambda one: continuous(one, tokenizer())):
            with pytest.raises(
                ConfigurationError, match=rf"{type(one).__name__} (takes no cache|has a special kind|has an enc)"
            ):
                make(one)
    rwkv = transformers.RwkvForCausalLM(transformers.RwkvConfig(**SIZES, attention_hidden_size=32))
    with pytest.raises(ConfigurationError, match="make_cache is given, but RwkvForCausalLM"):
        Session(rwkv, make_cache=list)
    with pytest.raises(ConfigurationError, match="rolling=True is not possible: RwkvForCausalLM has recurrent layers"):
        Session(rwkv, rolling=True)
