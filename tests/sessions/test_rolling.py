"""Rolling reuse: the head is dropped, and positions are shifted."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

import mlx.core as mx
import pytest
import torch
import transformers
from mlx_lm.models import gpt2, llama

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions import Session, engine_of
from tests.sessions.engines import ENGINES, loaded, watched
from tests.sessions.learned_positions import learned_llama
from tests.sessions.one_layer import SIZES, random_llama

PROMPT = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086, 17, 23, 42, 99, 104, 250, 33, 7]


def fresh(model: Any, prompt: list[int], count: int = 8) -> list[int]:
    with Session(model) as session:
        return session.generate(prompt, max_new_tokens=count).token_ids[0]


@pytest.mark.parametrize("name", ENGINES)
def test_with_one_layer_it_is_exact(name: str) -> None:
    model = random_llama(name, 1)
    with Session(model, rolling=True) as session:
        (first,) = session.generate(PROMPT, max_new_tokens=6).rows
        held = [*PROMPT, *first.token_ids[:-1]]
        prompt = [*held[7:], 5, 6]
        with watched(model) as fed:
            (row,) = session.generate(prompt, max_new_tokens=8).rows
        assert row.reuse == lk.plan_reuse(held, prompt, rolling=True) == lk.Reuse(7, len(held) - 7, [5, 6])
        assert sum(fed) == row.positions_fed == 2 + len(row.token_ids) - 1
        assert not row.approximate
        # A shifted cache can be continued, and shifted again.
        then = [*prompt, *row.token_ids][3:]
        (last,) = session.generate(then, max_new_tokens=8).rows
        assert (last.reuse.start, last.approximate) == (3, False)
    assert row.token_ids == fresh(model, prompt)
    assert last.token_ids == fresh(model, then)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("layers", [1, 3])
def test_the_logits_differ_beyond_one_layer_only(name: str, layers: int) -> None:
    engine = engine_of(random_llama(name, layers))
    sequence = engine.new()
    sequence.feed(PROMPT)
    assert sequence.shift(6)
    shifted = sequence.feed([5])
    expected = engine.new().feed([*PROMPT[6:], 5])
    apart = float((shifted - expected).abs().max() / expected.abs().max())
    assert (apart < 1e-4) if layers == 1 else (1e-3 < apart < 1), apart
    # Positions that are left as they were differ with one layer too.
    unmoved = engine.new()
    unmoved.feed(PROMPT)
    assert float((unmoved.feed([5]) - expected).abs().max() / expected.abs().max()) > 1e-3


@pytest.mark.parametrize("name", ENGINES)
def test_beyond_one_layer_the_result_is_flagged_and_so_is_what_goes_on_from_it(name: str) -> None:
    with Session(random_llama(name, 3), rolling=True) as session:
        assert not session.generate(PROMPT, max_new_tokens=4).approximate
        rolled = session.generate([*PROMPT[5:], 3], max_new_tokens=4)
        assert rolled.approximate
        assert rolled.rows[0].reuse == lk.Reuse(5, 13, [3])
        further = [*PROMPT[5:], 3, *rolled.token_ids[0], 9]
        assert session.generate(further, max_new_tokens=4).approximate
        # Another prompt has nothing to do with it.
        (other,) = session.generate([600, 601, 602], max_new_tokens=4).rows
        assert (other.approximate, other.reuse.length) == (False, 0)
        assert other.token_ids == fresh(random_llama(name, 3), [600, 601, 602], 4)


@pytest.mark.parametrize("name", ENGINES)
def test_it_is_opt_in_and_the_prefix_is_preferred(name: str) -> None:
    with Session(random_llama(name, 3)) as session:
        session.generate(PROMPT, max_new_tokens=4)
        (row,) = session.generate([*PROMPT[5:], 3], max_new_tokens=4).rows
        assert (row.reuse.length, row.approximate) == (0, False)
    with Session(random_llama(name, 3), rolling=True) as session:
        session.generate([7, 8, 1, 7, 8], max_new_tokens=1)
        (row,) = session.generate([7, 8, 2], max_new_tokens=1).rows
        assert (row.reuse, row.approximate) == (lk.Reuse(0, 2, [2]), False)


@pytest.mark.parametrize("name", ENGINES)
def test_a_processor_sees_the_prompt_as_it_was_given(name: str) -> None:
    model, penalty = random_llama(name, 1), lk.RepetitionPenalty(1.5)
    with Session(model, rolling=True, processor=penalty) as session:
        session.generate(PROMPT, max_new_tokens=4)
        (row,) = session.generate([*PROMPT[5:], 3], max_new_tokens=8).rows
    with Session(model, processor=penalty) as session:
        assert session.generate([*PROMPT[5:], 3], max_new_tokens=8).token_ids == [row.token_ids]
    assert row.reuse.start == 5


def test_after_an_approximate_session_the_llama_recomputes() -> None:
    model = random_llama("llama.cpp", 3)
    prompt = [*PROMPT[5:], 3]
    with Session(model, rolling=True) as session:
        session.generate(PROMPT, max_new_tokens=4)
        assert session.generate(prompt, max_new_tokens=1).approximate
    with watched(model) as fed:
        next(model.generate(prompt, temp=0))
    assert fed == [len(prompt)]


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default", "rope_theta": 500.0},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        {
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
        {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32},
        {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 32, "mscale": 1.0},
    ],
    ids=["base", "linear", "llama3", "yarn", "yarn with another base"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["transformers", "mlx-lm"])
def test_scaled_rotations_are_turned_back(name: str, rope: dict[str, Any]) -> None:
    torch.manual_seed(0)
    mx.random.seed(0)
    if name == "transformers":
        model: Any = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**SIZES, num_hidden_layers=1, rope_parameters=rope)
        ).eval()
    else:
        arguments = {k: v for k, v in SIZES.items() if k in llama.ModelArgs.__annotations__}
        model = llama.Model(
            llama.ModelArgs(
                model_type="llama", num_hidden_layers=1, rms_norm_eps=1e-6, rope_theta=rope["rope_theta"],
                rope_scaling=None if rope["rope_type"] == "default" else rope, **arguments,
            )
        )  # fmt: skip
        model.update({"model": {"embed_tokens": {"weight": mx.random.normal((1280, 64))}}})
    assert_exact(model)


def assert_exact(model: Any) -> None:
    engine = engine_of(model)
    engine.check_shift()
    sequence = engine.new()
    sequence.feed(PROMPT)
    assert sequence.shift(6)
    expected = engine.new().feed([*PROMPT[6:], 5])
    assert float((sequence.feed([5]) - expected).abs().max() / expected.abs().max()) < 1e-4
    unmoved = engine.new()
    unmoved.feed(PROMPT)
    assert float((unmoved.feed([5]) - expected).abs().max() / expected.abs().max()) > 1e-4


@pytest.mark.parametrize("layers", [1, 3])
def test_models_of_sixteen_bits_are_not_refused(layers: int) -> None:
    model = copy.deepcopy(random_llama("transformers", layers)).to(torch.bfloat16)
    with Session(model, rolling=True) as session:
        session.generate(PROMPT, max_new_tokens=2)
        (row,) = session.generate([*PROMPT[5:], 3], max_new_tokens=2).rows
    assert (row.reuse.start, row.approximate) == (5, layers > 1)
    other = copy.deepcopy(random_llama("mlx-lm", layers))
    other.set_dtype(mx.bfloat16)
    engine_of(other).check_shift()


def part_of_a_head(share: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": share}


PART: dict[str, Any] = {**SIZES, "num_hidden_layers": 1, "pad_token_id": None}


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (transformers.GPTNeoXForCausalLM, transformers.GPTNeoXConfig(**PART, rope_parameters=part_of_a_head(0.25))),
        (transformers.StableLmForCausalLM, transformers.StableLmConfig(**PART, rope_parameters=part_of_a_head(0.5))),
        (transformers.CohereForCausalLM, transformers.CohereConfig(**PART)),
        (transformers.GlmForCausalLM, transformers.GlmConfig(**PART)),
        (transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**PART)),
        (
            transformers.GptOssForCausalLM,
            transformers.GptOssConfig(
                **PART, layer_types=["full_attention"], num_local_experts=2, num_experts_per_tok=1
            ),
        ),
    ],
    ids=["a quarter", "half", "by pairs", "half by pairs", "normed", "half as many turns"],
)
def test_other_ways_to_rotate_are_turned_back(kind: Any, config: Any) -> None:
    torch.manual_seed(0)
    assert_exact(kind(config).eval())


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2)), "no rotary"),
        (
            lambda: transformers.LlamaForCausalLM(
                transformers.LlamaConfig(
                    **SIZES,
                    num_hidden_layers=1,
                    rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
                )
            ),
            "type 'dynamic'",
        ),
        (
            lambda: transformers.SmolLM3ForCausalLM(
                transformers.SmolLM3Config(**SIZES, num_hidden_layers=2, no_rope_layers=[1, 0])
            ),
            "of some layers in an unsupported way",
        ),
        (
            lambda: gpt2.Model(
                gpt2.ModelArgs("gpt2", 64, 16, 2, 1, 64, 1e-5, 64),
            ),
            "no rotary",
        ),
    ],
    ids=["learned", "by length", "not in all layers", "learned, mlx-lm"],
)
def test_positions_that_are_learned_or_depend_on_the_length_are_refused(model: Any, why: str) -> None:
    made = model()
    with pytest.raises(ConfigurationError, match=f"rolling=True is not possible: .*{why}.*leave rolling=False"):
        Session(made, rolling=True)
    with Session(made) as session:
        session.generate([1, 2, 3], max_new_tokens=2)


def test_llama_cpp_refuses_learned_positions() -> None:
    model = learned_llama()
    with pytest.raises(ConfigurationError, match=r"no rotary .* a learned position cannot be taken out of a key"):
        Session(model, rolling=True)
    # Nothing else is refused: what is before the head stays where it was learned.
    with Session(model) as session:
        session.generate(PROMPT, max_new_tokens=4)
        (row,) = session.generate([*PROMPT, 5], max_new_tokens=4).rows
        assert row.reuse == lk.Reuse(0, len(PROMPT), [5])
        dropped = session.generate(PROMPT[5:], max_new_tokens=4)
    assert (dropped.rows[0].cached_tokens, dropped.approximate) == (0, False)
    for prompt, found in (([*PROMPT, 5], row.token_ids), (PROMPT[5:], dropped.token_ids[0])):
        model.reset()
        assert list(islice(model.generate(prompt, temp=0), 4)) == found


def test_llama_cpp_refuses_what_it_cannot_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    import llama_cpp

    monkeypatch.setattr(llama_cpp, "llama_memory_can_shift", lambda _: False)
    with pytest.raises(ConfigurationError, match="cannot shift the cache"):
        Session(loaded("llama.cpp")[0], rolling=True)
