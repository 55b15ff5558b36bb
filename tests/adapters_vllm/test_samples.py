"""Several samples of a prompt, of which a processor draws random numbers too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters_vllm import engine

# With a seed, vLLM on a CPU fails in prompts that it prefills in chunks: these fit into a step together.
# It takes the likeliest token that XTC has left, so that nothing else is drawn.
PARAMS = {"temperature": 1.0, "top_k": 1, "max_tokens": 24}
XTC = {"extra_args": {"logitkit": {"xtc": {"probability": 0.5, "threshold": 0.01}}}}


def samples(llm: Any, number: int = 0, **more: Any) -> list[list[int]]:
    from vllm import SamplingParams

    params = SamplingParams(**{**PARAMS, **XTC, **more})
    (output,) = llm.generate([engine.PROMPTS[number]], params, use_tqdm=False)
    return [list(one.token_ids) for one in output.outputs]


def test_without_the_processor_nothing_is_drawn(llm: Any) -> None:
    assert len({tuple(tokens) for tokens in samples(llm, n=4, seed=5, extra_args=None)}) == 1


def test_samples_of_one_seed_are_drawn_apart_and_drawn_again(llm: Any) -> None:
    first = samples(llm, n=4, seed=5)
    assert len({tuple(tokens) for tokens in first}) == 4
    assert samples(llm, n=4, seed=5) == first
    # vLLM numbers the seeds of samples on.
    assert [samples(llm, seed=5 + number)[0] for number in range(4)] == first
    assert samples(llm, n=4, seed=50) != first


def test_samples_without_a_seed_are_drawn_apart_each_time(llm: Any) -> None:
    first = samples(llm, n=4)
    assert len({tuple(tokens) for tokens in first}) == 4
    assert not {tuple(tokens) for tokens in samples(llm, n=4)} & {tuple(tokens) for tokens in first}


@pytest.mark.parametrize("seed", [5, None])
def test_samples_are_drawn_within_a_language(llm: Any, seed: int | None) -> None:
    from vllm import SamplingParams

    both = {"logitkit": {"choice": ["yes", "no", "perhaps"], **XTC["extra_args"]["logitkit"]}}
    params = SamplingParams(temperature=1.0, max_tokens=24, n=4, seed=seed, extra_args=both)
    (output,) = llm.generate([engine.PROMPTS[0]], params, use_tqdm=False)
    assert all(one.text in {"yes", "no", "perhaps"} for one in output.outputs)
