"""Thinking budgets with their options in vLLM: requests that run together write what they would in transformers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.adapters_vllm import engine

# After the answer, the text goes on freely, up to the limit of tokens.
LIMIT = 40
NO_END = {"min_new_tokens": LIMIT}
BUDGETS: tuple[dict[str, Any], ...] = (
    {"max_tokens": 6, "end": ["</t>", "<end>"], "message": "\nNow.\n"},
    {"max_tokens": 6, "end": "</t>", "grace": 20, "message": "\nNow.\n"},
    {"max_tokens": 20, "end": [".", "</t>"], "min_tokens": 12},
    {"max_tokens": 3, "end": "</t>", "pause": [[" ", "a"]]},
    {"max_tokens": 4, "end": "</t>", "start": "e", "grace": 5, "grace_at": ["s", "t"], "min_tokens": 1},
)
SETTINGS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    requests: list[Any] = [
        (
            engine.prompt(number),
            {
                "temperature": 0.0,
                "max_tokens": LIMIT,
                "extra_args": {"logitkit": {**NO_END, "thinking_budget": budget}},
            },
        )
        for number, budget in enumerate(BUDGETS)
    ]
    out = tmp_path_factory.mktemp("budgets") / "out.json"
    answers: list[Any] = engine.run_apart([requests], out, plugin=True, settings={}, environment=SETTINGS)["batches"][0]
    return answers


@pytest.mark.parametrize("number", range(len(BUDGETS)))
def test_the_text_is_that_of_transformers(found: list[Any], number: int) -> None:
    from logitkit_adapters.transformers import logits_processor

    processor = lk.from_config({**NO_END, "thinking_budget": BUDGETS[number]}, vocabulary())
    prompt = torch.tensor([found[number]["prompt"]])
    hook = logits_processor(processor, max_new_tokens=LIMIT)
    ids = model().generate(prompt, max_new_tokens=LIMIT, do_sample=False, logits_processor=[hook])
    assert found[number]["tokens"] == ids[0, prompt.shape[1] :].tolist()
    if "message" in BUDGETS[number]:
        assert "\nNow.\n</t>" in tokenizer().decode(found[number]["tokens"])
