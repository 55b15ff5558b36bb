"""The likeliest token, as torch finds it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit_adapters.sessions import Session, likeliest, two_likeliest
from tests.sessions.alone import alone
from tests.sessions.engines import ENGINES, loaded


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(-1,), (1, -1)])
def test_it_is_the_first_of_the_largest(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    inf = float("inf")
    for values in ([1.0, 3.0, 2.0], [2.0, 5.0, 5.0, 1.0], [-inf, -inf, 0.0], [-inf, -inf], [0.0, inf, inf], [7.0, 7.0]):
        given = torch.tensor(values, dtype=dtype).reshape(shape)
        before = given.clone()
        assert likeliest(given) == int(given.argmax())
        place, first, second = two_likeliest(given)
        assert (place, [first, second]) == (int(given.argmax()), given.flatten().topk(2).values.tolist())
        assert torch.equal(given, before)


@pytest.mark.parametrize("name", ENGINES)
def test_a_processor_may_have_parameters_that_are_trained(name: str) -> None:
    weight = torch.nn.Parameter(torch.tensor(2.0))
    prompt = [280, 661, 509, 277]
    with Session(*loaded(name), max_length=64) as session:
        processor: Any = lk.Stateless(lambda logits, context: logits * weight)
        found = session.generate(prompt, processor=processor, max_new_tokens=5)
    assert found.token_ids == [alone(name, prompt, 5)]
