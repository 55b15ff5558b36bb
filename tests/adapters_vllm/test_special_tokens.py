"""Special tokens by name, and every EOS that the engine's generation configuration lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters import special_demo as demo
from tests.adapters.special_demo import EOS, THINK, TURN
from tests.adapters_vllm import engine

# The model would end at once, at either EOS.
LIKELY = {"temperature": 0.0, "max_tokens": 24, "logit_bias": {TURN: 100.0, EOS: 100.0}}

ANSWER = {
    "then": {"first": None, "second": {"choice": ["yes", "no"]}, "marker": "</think>"},
    "thinking_budget": {"max_tokens": 4, "end": "</think>"},
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    asked: list[dict[str, Any]] = [
        ANSWER,
        {"min_new_tokens": 5},
        {"stop_strings": ["</think>"], "forced_tokens": [THINK]},
    ]
    requests = [(engine.prompt(n), {**LIKELY, "extra_args": {"logitkit": one}}) for n, one in enumerate(asked)]
    out = tmp_path_factory.mktemp("special") / "out.json"
    environment = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    settings = {"model": str(demo.folder())}
    batches = engine.run_apart([requests], out, plugin=True, settings=settings, environment=environment)["batches"]
    answers: list[Any] = batches[0]
    return answers


def test_an_answer_comes_after_the_marker(found: list[Any]) -> None:
    tokens = found[0]["tokens"]
    at = tokens.index(THINK)
    assert not {EOS, TURN} & {*tokens[:at]}
    assert demo.vocabulary("transformers").decode(tokens[at + 1 :]) in (b"yes", b"no")
    assert tokens[-1] in (EOS, TURN)


def test_no_end_of_the_engine_comes_too_soon(found: list[Any]) -> None:
    assert len(found[1]["tokens"]) == 6


def test_a_stop_by_name(found: list[Any]) -> None:
    assert found[2]["tokens"][0] == THINK
    assert found[2]["tokens"][1:] in ([EOS], [TURN])


def test_the_vocabulary_is_that_of_the_other_engines(tmp_path: Path) -> None:
    from vllm.config import ModelConfig

    from logitkit_adapters.vllm import vocabulary
    from logitkit_adapters.vllm.engine import engine_vocabulary

    config = ModelConfig(model=str(demo.folder()))

    class Config:
        model_config = config

    tokenizer = demo.loaded("transformers")[1]
    expected = demo.vocabulary("transformers")
    assert engine_vocabulary(Config()) == vocabulary(tokenizer, config) == expected
    assert expected.eos_ids == (EOS, TURN)
    assert vocabulary(tokenizer).eos_ids == (EOS,)
