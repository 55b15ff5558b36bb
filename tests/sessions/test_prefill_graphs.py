"""`prefill` and models traced by torch.compile: one graph for each number of columns, and the same results."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from logitkit_adapters.transformers import fixed_cache, prefill
from tests.sessions.prefill_models import SLOTS, assert_same, empty, expected, ids, model, tensors


def counted() -> tuple[Any, list[int]]:
    """Return `prefill` as it is compiled, and a list that has as many entries as there are graphs."""
    torch._dynamo.reset()
    graphs: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(1)
        return graph.forward

    return torch.compile(prefill, backend=backend, fullgraph=True, dynamic=False), graphs


@pytest.mark.parametrize("kind", ["demo-sdpa", "gqa-eager"])
def test_one_graph_for_each_length_of_chunk(kind: str) -> None:
    compiled, graphs = counted()
    counts = []
    held = empty(kind)
    for length in (3, 3, 1, 1, 1, 3):
        chunk = ids(length=SLOTS, seed=6)[:, held.length : held.length + length].contiguous()
        held = compiled(model(kind), chunk, held)
        counts.append(len(graphs))
    assert counts == [1, 1, 2, 2, 2, 2]
    # Rolled back, and in another cache of the same shape.
    held = compiled(model(kind), ids(length=3), held.rollback(1))
    whole = torch.cat([ids(length=SLOTS, seed=6)[:, :1], ids(length=3)], 1)
    torch.testing.assert_close(held.logits, expected(kind, whole), atol=1e-5, rtol=1e-5)
    other = compiled(model(kind), ids(length=3), empty(kind))
    torch.testing.assert_close(other.logits, expected(kind, ids(length=3)), atol=1e-5, rtol=1e-5)
    assert len(graphs) == 2
    torch._dynamo.reset()


def test_a_compiled_model_is_compiled_once_for_each_length_of_chunk() -> None:
    torch._dynamo.reset()
    graphs: list[int] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(1)
        return graph.forward

    compiled = torch.compile(model(), backend=backend, fullgraph=True, dynamic=False)
    held = fixed_cache(compiled, 2, SLOTS)
    for length in (3, 3, 1, 1):
        held = prefill(compiled, ids(length=8)[:, held.length : held.length + length], held)
    assert len(graphs) == 2
    torch.testing.assert_close(held.logits, expected("demo-sdpa", ids(length=8)), atol=1e-5, rtol=1e-5)
    held = prefill(compiled, ids()[:, :3], held, attention_mask=torch.ones(2, 3))  # logits of all columns: a graph more
    held = prefill(compiled, ids()[:, :1], held.rollback(8).rollback(3))
    assert len(graphs) == 3
    torch._dynamo.reset()


@pytest.mark.parametrize("mode", ["causal", "prefix"])
def test_masks_trace_too_and_an_overflow_in_a_graph_changes_nothing(mode: Any) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(prefill, backend="aot_eager", fullgraph=True, dynamic=False)
    options: dict[str, Any] = {"attention_mask": torch.tensor([[0, 1, 1], [1, 1, 1]]), "mask": torch.ones(3, 3).tril()}
    if mode == "prefix":
        options["prefix_lengths"] = torch.tensor([2, 3])
    small = model("gqa-sdpa")
    eager, traced = empty("gqa-sdpa"), empty("gqa-sdpa")
    for first in (0, 3, 6, 9):
        chunk = ids(length=SLOTS)[:, first : first + 3]
        eager = prefill(small, chunk, eager, mode=mode, **options)
        traced = compiled(small, chunk, traced, mode=mode, **options)
        assert_same(eager, traced)
    before = tensors(traced)
    with pytest.raises(RuntimeError, match="the tokens do not fit into the cache"):
        compiled(small, ids()[:, :3], traced, mode=mode, **options)
    assert all(torch.equal(a, b) for a, b in zip(tensors(traced), before, strict=True))
    assert int(traced.cache.get_seq_length()) == SLOTS
    torch._dynamo.reset()


def test_lengths_of_a_prefix_that_are_numbers_share_a_graph() -> None:
    compiled, graphs = counted()
    held = empty()
    for length in (2, 6, 0, 3, 1):
        found = compiled(model(), ids(), held, mode="prefix", prefix_lengths=length)
        assert_same(found, prefill(model(), ids(), empty(), mode="prefix", prefix_lengths=length))
        assert torch.equal(found.cuts, prefill(model(), ids(), empty(), mode="prefix", prefix_lengths=length).cuts)
    assert len(graphs) == 1
    # A tensor for each row, of another length of chunk, and on what is held already.
    compiled(model(), ids()[:, :3], held, mode="prefix", prefix_lengths=torch.tensor([1, 3]))
    before = len(graphs)
    for length in (3, 2, 1):
        compiled(model(), ids()[:, :3], held, mode="prefix", prefix_lengths=torch.tensor([length, 2]))
    assert len(graphs) == before == 2
    with pytest.raises(ValueError, match="prefix_lengths is 7; allowed are 0 to 6"):
        compiled(model(), ids(), held, mode="prefix", prefix_lengths=7)
    torch._dynamo.reset()
