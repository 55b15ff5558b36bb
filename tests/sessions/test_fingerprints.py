"""A saved cache belongs to a model with exactly its weights: what tells models from others sees every value, in its place."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import llama_cpp
import mlx.core as mx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mlx.utils import tree_flatten, tree_unflatten

from logitkit_adapters.demo import gguf_path
from logitkit_adapters.sessions import continuous
from logitkit_adapters.sessions.shared_model import CHUNK, checksum
from tests.sessions.engines import loaded
from tests.sessions.one_layer import fresh_llama

WHERE = [("model.layers.0.self_attn.k_proj.weight", 5, 12), ("model.layers.0.input_layernorm.weight", 3, 4)]


def kind(engine: str, model: Any) -> str:
    found: str = continuous(model, loaded(engine)[1]).engine.kind
    return found


@pytest.mark.parametrize(("name", "one", "other"), WHERE)
def test_two_swapped_weights_make_another_model(name: str, one: int, other: int) -> None:
    model = fresh_llama("transformers", 3)
    with torch.no_grad():
        model.get_parameter("model.layers.0.input_layernorm.weight").uniform_()
    before = kind("transformers", model)
    assert before == kind("transformers", copy.deepcopy(model))
    values = model.get_parameter(name).detach().view(-1)
    assert values[one] != values[other]
    values[[one, other]] = values[[other, one]]
    assert kind("transformers", model) != before
    values[[one, other]] = values[[other, one]]
    assert kind("transformers", model) == before


def test_two_swapped_tensors_make_another_model() -> None:
    model, _ = loaded("transformers")
    model = copy.deepcopy(model)
    before = kind("transformers", model)
    one, other = (model.model.layers[i].self_attn.k_proj for i in (0, 1))
    one.weight, other.weight = other.weight, one.weight
    assert kind("transformers", model) != before


def test_a_buffer_that_is_saved_counts_and_one_that_is_computed_does_not() -> None:
    model = fresh_llama("transformers", 3)
    model.register_buffer("scales", torch.tensor([1.0, 2.0]))
    before = kind("transformers", model)
    model.register_buffer("computed", torch.tensor([1.0]), persistent=False)
    assert kind("transformers", model) == before
    model.scales[0] = 1.5
    assert kind("transformers", model) != before


def test_two_swapped_weights_of_mlx_lm_make_another_model() -> None:
    model = fresh_llama("mlx-lm", 3)
    before = kind("mlx-lm", model)
    parameters = dict(tree_flatten(model.parameters()))
    name, one, other = WHERE[0]
    flat = parameters[name].reshape(-1)
    flat[mx.array([one, other])] = flat[mx.array([other, one])]
    model.update(tree_unflatten([(name, flat.reshape(parameters[name].shape))]))
    assert kind("mlx-lm", model) != before


def test_two_swapped_bytes_of_a_file_make_another_model(tmp_path: Path) -> None:
    data = bytearray(gguf_path().read_bytes())
    assert len(data) > 2**20
    kinds = set()
    for place in (None, len(data) // 3, len(data) - 40):
        changed = bytearray(data)
        if place is not None:
            end = next(i for i in range(place + 1, len(data)) if data[i] != data[place])
            changed[place], changed[end] = data[end], data[place]
        # Of one name and one size: what is remembered of the first file must not stand for the others.
        path = tmp_path / "model.gguf"
        path.write_bytes(changed)
        kinds.add(kind("llama.cpp", llama_cpp.Llama(str(path), n_ctx=32, verbose=False)))
    assert len(kinds) == 3


@given(
    size=st.integers(1, 40),
    seed=st.integers(0, 99),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.uint8]),
    places=st.tuples(st.integers(0, 39), st.integers(0, 39)),
)
def test_a_checksum_sees_any_two_values_that_are_swapped(
    size: int, seed: int, dtype: torch.dtype, places: tuple[int, int]
) -> None:
    values = (100 * torch.rand(size, generator=torch.Generator().manual_seed(seed))).to(dtype)
    swapped = values.clone()
    one, other = (place % size for place in places)
    swapped[[one, other]] = values[[other, one]]
    assert (checksum(swapped) == checksum(values)) == torch.equal(swapped, values)


def test_a_checksum_is_that_of_the_values_however_they_lie_in_memory() -> None:
    values = torch.arange(2 * CHUNK + 5, dtype=torch.int32)
    wider = torch.cat([torch.zeros(3, dtype=torch.int32), values])[3:]
    apart = torch.stack([values, values], 1)[:, 0]
    assert checksum(values) == checksum(wider) == checksum(apart)
    for place in (0, CHUNK, 2 * CHUNK + 4):
        other = values.clone()
        other[place] ^= 1 << 30
        assert checksum(other) != checksum(values)
    assert checksum(torch.zeros(0)) == []
